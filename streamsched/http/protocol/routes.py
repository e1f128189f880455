"""Routes: which function answers which method and path, with all that OpenAPI says about it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from streamsched.http.protocol.problems import HttpError

if TYPE_CHECKING:
    from streamsched.http.protocol.bodies import BodyReader
    from streamsched.http.protocol.requests import Answer

__all__ = ["Call", "Handler", "Permission", "Route", "Router", "read_query"]

Permission: TypeAlias = Literal["crawl", "read", "admin"]
"""A scope of a token."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose caller may make it, decoded.

    ``caller``: the name of the token, or the client's address without tokens; ``path``: the values in the path;
    ``query``: a ``Route.query``; ``body``: what ``Route.body`` reads.
    """

    caller: str
    path: Mapping[str, str]
    query: Any
    body: Any


Handler: TypeAlias = Callable[[Call], Awaitable["msgspec.Struct | Answer"]]


@dataclass(frozen=True, slots=True)
class Route:
    """An operation of the service.

    ``path``: with names in braces for segments; ``permission``: the scope that a token needs, None if everyone may
    call it; ``answer``: the type of the message that the handler returns, None if it returns an `Answer` of
    ``media_type``; ``errors``: further statuses, beside those that any such route may answer with; ``links``: of
    OpenAPI, from this answer to other operations; ``while_stopping``: whether it is answered while the service stops;
    ``described``: whether OpenAPI has it.
    """

    method: Literal["GET", "POST", "PUT"]
    path: str
    handler: Handler
    permission: Permission | None
    answer: type[msgspec.Struct] | None = None
    _: KW_ONLY
    media_type: str = ""
    query: type[msgspec.Struct] | None = None
    body: BodyReader | None = None
    errors: Mapping[HTTPStatus, str] = field(default_factory=dict)
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    while_stopping: bool = False
    described: bool = True

    @property
    def operation(self) -> str:
        """The name of the operation, which no other route has."""
        name: str = self.handler.__name__
        return name

    @property
    def summary(self) -> str:
        """What the operation does: the first line of the handler's docstring."""
        return (inspect.getdoc(self.handler) or "").partition("\n")[0]

    @property
    def segments(self) -> list[str]:
        """The parts of the path."""
        return self.path.strip("/").split("/") if self.path != "/" else [""]


class Router:
    """Finds the route of a request."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """Return the route, and the values in its path, percent-decoded. O(routes).

        Raises HttpError: 404 for an unknown path, 405 for another method.
        """
        segments = path.removeprefix("/").split("/")
        allowed: list[str] = []
        for route in self.routes:
            values = _match(route.segments, segments)
            if values is None:
                continue
            if route.method == method:
                return route, values
            allowed.append(route.method)
        if allowed:
            detail = f"this path is called by {' or '.join(sorted(allowed))}"
            headers = {"allow": ", ".join(sorted(allowed))}
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", detail, headers=headers)
        raise HttpError(HTTPStatus.NOT_FOUND, "unknown_path", "there is nothing at this path; see /openapi.json")


def read_query(parameters: Mapping[str, str], kind: type[msgspec.Struct] | None) -> Any:
    """Return the parameters of a query as a `kind`; None without one. Raises msgspec.ValidationError."""
    if kind is None:
        kind = _Nothing
    return msgspec.convert(dict(parameters), kind, strict=False)


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A query without parameters."""


def _match(pattern: Sequence[str], segments: Sequence[str]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    values: dict[str, str] = {}
    for expected, found in zip(pattern, segments, strict=True):
        if expected.startswith("{"):
            if not found:
                return None
            values[expected.strip("{}")] = _decode(found)
        elif expected != found:
            return None
    return values


def _decode(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        detail = "the path cannot be read: expected percent-encoded UTF-8"
        raise HttpError(HTTPStatus.BAD_REQUEST, "malformed_path", detail, fields={"field": "path"}) from None
