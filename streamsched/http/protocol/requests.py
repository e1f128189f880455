"""Requests and answers over ASGI: heads, and bodies within bounds of size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

from streamsched.http.protocol.problems import HttpError, shorten_text

__all__ = ["Answer", "BodyBounds", "ClientGone", "Receive", "Request", "Scope", "Send"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MOST_PARAMETERS: Final = 100
_SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class ClientGone(Exception):
    """The client has closed the connection before its request was whole."""


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The most bytes of a body, and the longest time in which it must arrive, in seconds."""

    most: int
    timeout_s: float


class Request:
    """The head of a request, and its body once it is read. Headers by lower-case name, the last one of a name."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = _raw_path(scope)
        self.headers: dict[str, str] = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.client: str = scope["client"][0] if scope.get("client") else ""
        self._query: bytes = scope["query_string"]
        self._receive = receive

    @cached_property
    def query(self) -> dict[str, str]:
        """The parameters of the query. Raises HttpError if one is there twice or is not UTF-8."""
        try:
            pairs = parse_qsl(
                self._query.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=bool(self._query),
                errors="strict",
                max_num_fields=_MOST_PARAMETERS,
            )
        except ValueError:
            detail = "the query cannot be read: expected NAME=VALUE pairs joined by &, percent-encoded UTF-8"
            raise HttpError(HTTPStatus.BAD_REQUEST, "malformed_query", detail, fields={"field": "query"}) from None
        for number, (name, _) in enumerate(pairs):
            if any(name == other for other, _ in pairs[:number]):
                shown = shorten_text(name)
                raise HttpError(
                    HTTPStatus.BAD_REQUEST, "malformed_query", f"{shown} is given twice", fields={"field": shown}
                )
        return dict(pairs)

    @property
    def media_type(self) -> str:
        """The media type of the body, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def read_body(self, bounds: BodyBounds) -> bytes:
        """Return the body. Raises HttpError if it is too large or too slow, ClientGone if it ends early."""
        encoding = self.headers.get("content-encoding", "identity")
        if encoding.strip().lower() != "identity":
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "encoded_body",
                "compressed bodies are not accepted",
                fields={"field": "content-encoding", "found": shorten_text(encoding), "expected": "identity"},
                headers={"accept-encoding": "identity"},
            )
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > bounds.most:
            raise _too_large(bounds)
        try:
            async with asyncio.timeout(bounds.timeout_s):
                return await self._read(bounds)
        except TimeoutError:
            detail = f"the body did not arrive within {bounds.timeout_s:g} s"
            raise HttpError(HTTPStatus.REQUEST_TIMEOUT, "slow_body", detail, headers={"connection": "close"}) from None

    async def _read(self, bounds: BodyBounds) -> bytes:
        parts, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            size += len(part)
            if size > bounds.most:
                raise _too_large(bounds)
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its status, body and headers; `send` adds the headers of security."""

    status: HTTPStatus
    body: bytes
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)

    async def send(self, send: Send, *, closes: bool = False) -> None:
        """Send the whole answer. `closes`: whether the connection ends with it."""
        headers = {
            **({"connection": "close"} if closes else {}),
            **_SECURITY_HEADERS,
            "content-type": self.media_type,
            "content-length": str(len(self.body)),
        }
        pairs = [
            (name.encode("latin-1"), value.encode("latin-1")) for name, value in {**headers, **self.headers}.items()
        ]
        await send({"type": "http.response.start", "status": self.status.value, "headers": pairs})
        await send({"type": "http.response.body", "body": self.body})


def _raw_path(scope: Scope) -> str:
    """Return the path as it was sent, percent-encoded: what a segment holds may have slashes."""
    raw = scope.get("raw_path")
    return (raw.decode("latin-1") if raw is not None else str(scope["path"])).partition("?")[0]


def _too_large(bounds: BodyBounds) -> HttpError:
    return HttpError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_large",
        f"expected a body of at most {bounds.most:,} bytes",
        fields={"field": "body", "expected": f"at most {bounds.most:,} bytes"},
        headers={"connection": "close"},
    )
