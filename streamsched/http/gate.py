"""Who calls, and whether they may: the Host header, the token and its scopes, the rate; and the audit log."""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from http import HTTPStatus
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from streamsched.api.operations import Scope
from streamsched.http.protocol.problems import HttpError, shorten_text
from streamsched.http.tokens import Token, TokenFile
from streamsched.persistence.files import append_whole, as_snapshot_errors, open_regular

_LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_CHALLENGE: Final = 'Bearer realm="streamsched"'


def address_of(request: Request) -> str:
    """Return the address of the client, empty if it has none."""
    return request.client.host if request.client else ""


_scopes: ContextVar[frozenset[str] | None] = ContextVar("_scopes", default=None)  # of the caller, None for all


def may(scope: Scope) -> bool:
    """Return whether the caller of the request that is being answered has `scope`."""
    scopes = _scopes.get()
    return scopes is None or scope in scopes


class Gate:
    """Checks callers. `tokens`: None lets every client of this machine do everything.

    Without tokens the Host header must name this machine, so that no web page in a browser here can call the service
    under a name of its own (DNS rebinding).
    """

    def __init__(self, tokens: TokenFile | None, rate: RateLimit, host: str) -> None:
        self._tokens = tokens
        self._rate = rate
        self._local_names = _LOCAL_NAMES | {host}

    def identify(self, request: Request) -> tuple[str, frozenset[str] | None]:
        """Return the caller's name and scopes, None for all; `may` tells of them. Raises HttpError: 401, 421 or 429."""
        _scopes.set(None)
        if self._tokens is None:
            self._check_host(request)
            self._check_rate(address_of(request))
            return address_of(request), None
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        token: Token | None = None
        if scheme.lower() == "bearer":
            token = self._tokens.find(presented.strip())
        if token is None:
            self._check_rate(f"address {address_of(request)}")  # names of tokens have no spaces
            raise HttpError(
                HTTPStatus.UNAUTHORIZED,
                "no_token",
                "expected a valid token: Authorization: Bearer TOKEN",
                fields={"field": "authorization"},
                headers={"www-authenticate": _CHALLENGE},
            )
        self._check_rate(token.name)
        _scopes.set(token.scopes)
        return token.name, token.scopes

    def check_scope(self, scopes: frozenset[str] | None, scope: Scope) -> None:
        """Raise HttpError, 403, unless `scopes` have `scope`."""
        if scopes is not None and scope not in scopes:
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                "no_scope",
                f"the token lacks the scope {scope}",
                fields={"field": "authorization", "found": ", ".join(sorted(scopes)), "expected": scope},
                headers={"www-authenticate": f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'},
            )

    def check_anonymous(self, request: Request) -> None:
        """Raise HttpError if a client without a token may not call what everyone may. 421 or 429."""
        if self._tokens is None:
            self._check_host(request)
        self._check_rate(f"address {address_of(request)}")

    def _check_host(self, request: Request) -> None:
        try:
            name = urlsplit(f"//{request.headers.get('host', '')}").hostname
        except ValueError:
            name = None
        if name not in self._local_names:
            found = shorten_text(request.headers.get("host", ""))
            raise HttpError(
                HTTPStatus.MISDIRECTED_REQUEST,
                "foreign_host",
                "without tokens only this machine is served, by its own names",
                fields={"field": "host", "found": found, "expected": "localhost, 127.0.0.1 or [::1]"},
            )

    def _check_rate(self, caller: str) -> None:
        wait_s = self._rate.wait_s(caller)
        if wait_s:
            raise HttpError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too_many_requests",
                "this caller has sent more requests than it may",
                headers={"retry-after": str(math.ceil(wait_s))},
            )


_MOST_CALLERS: Final = 10_000  # remembered; of more, the one that has called least recently is forgotten


class RateLimit:
    """Lets each caller make `rate` requests a second, and as many at once. O(1) a request.

    `clock`: seconds of a clock that is never set.

    >>> times = iter([0.0, 0.0, 0.0, 0.5])
    >>> limit = RateLimit(2, times.__next__)
    >>> [limit.wait_s("a") for _ in range(4)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when

    def wait_s(self, caller: str) -> float:
        """Count a request of `caller`; return 0 if it may be made, else the seconds after which one may."""
        with self._lock:
            now_s = self._clock()
            left, at_s = self._buckets.get(caller, (self._rate, now_s))
            left = min(self._rate, left + (now_s - at_s) * self._rate)
            allowed = left >= 1.0
            self._buckets[caller] = (left - 1.0 if allowed else left, now_s)
            self._buckets.move_to_end(caller)
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / self._rate


AUDIT_NAME: Final = "audit.jsonl"
_MOST_BODY: Final = 4_096  # bytes of a request's body in a line
_FAILED: Final = "cannot be written"


class AuditLog:
    """Appends to the file at `path`; a context manager. `clock`: UTC epoch seconds. For several threads.

    A line is on disk when `begin` or `end` returns. Raises SnapshotError if it cannot be written whole.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._calls = count(1)
        self._process = os.getpid()
        with as_snapshot_errors(path, _FAILED):
            self._handle = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def begin(self, caller: str, address: str, method: str, path: str, body: bytes) -> str:
        """Note a call that is about to be checked and done; return its name, for `end`."""
        name = f"{self._process}-{next(self._calls)}"
        text = body[:_MOST_BODY].decode(errors="backslashreplace")
        cut = {"cut_bytes": len(body) - _MOST_BODY} if len(body) > _MOST_BODY else {}
        fields = {"caller": caller, "address": address, "method": method, "path": path, "body": text, **cut}
        self._write({"event": "call", "call": name} | fields)
        return name

    def end(self, name: str, status: int) -> None:
        """Note the status that the call was answered with."""
        self._write({"event": "answer", "call": name, "status": status})

    def _write(self, fields: dict[str, Any]) -> None:
        line = msgspec.json.encode({"time_s": self._clock()} | fields) + b"\n"
        with self._lock, as_snapshot_errors(self.path, _FAILED):
            append_whole(self._handle, line, os.fstat(self._handle).st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)
