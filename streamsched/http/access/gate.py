"""Who calls, and whether they may: the Host header, the token and its scopes, the rate."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from streamsched.http.protocol.problems import HttpError, shorten_text

if TYPE_CHECKING:
    from streamsched.http.access.rates import RateLimit
    from streamsched.http.access.tokens import Token, TokenFile
    from streamsched.http.protocol.requests import Request
    from streamsched.http.protocol.routes import Permission

__all__ = ["Gate"]

_LOCAL_NAMES: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_CHALLENGE: Final = 'Bearer realm="streamsched"'


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
        """Return the caller's name and scopes, None for all. Raises HttpError: 401, 421 or 429."""
        if self._tokens is None:
            self._check_host(request)
            self._check_rate(request.client)
            return request.client, None
        scheme, _, presented = request.headers.get("authorization", "").partition(" ")
        token: Token | None = None
        if scheme.lower() == "bearer":
            token = self._tokens.find(presented.strip())
        if token is None:
            self._check_rate(f"address {request.client}")  # names of tokens have no spaces
            raise HttpError(
                HTTPStatus.UNAUTHORIZED,
                "no_token",
                "expected a valid token: Authorization: Bearer TOKEN",
                fields={"field": "authorization"},
                headers={"www-authenticate": _CHALLENGE},
            )
        self._check_rate(token.name)
        return token.name, token.scopes

    def check_scope(self, scopes: frozenset[str] | None, permission: Permission) -> None:
        """Raise HttpError, 403, unless `scopes` have `permission`."""
        if scopes is not None and permission not in scopes:
            raise HttpError(
                HTTPStatus.FORBIDDEN,
                "no_scope",
                f"the token lacks the scope {permission}",
                fields={"field": "authorization", "found": ", ".join(sorted(scopes)), "expected": permission},
                headers={"www-authenticate": f'{_CHALLENGE}, error="insufficient_scope", scope="{permission}"'},
            )

    def check_anonymous(self, request: Request) -> None:
        """Raise HttpError if a client without a token may not call what everyone may. 421 or 429."""
        if self._tokens is None:
            self._check_host(request)
        self._check_rate(f"address {request.client}")

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
