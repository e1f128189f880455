"""Routes: which function answers which method and path, with all that OpenAPI says about it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streamsched.http.protocol.bodies import BodyReader
from streamsched.http.protocol.problems import HttpError, shorten_text, validation_problem

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


Handler: TypeAlias = Callable[[Call], Awaitable["msgspec.Struct | Response"]]


@dataclass(frozen=True, slots=True)
class Route:
    """An operation of the service.

    ``path``: with names in braces for segments; ``permission``: the scope that a token needs, None if everyone may
    call it; ``answer``: the type of the message that the handler returns, None if it returns a Response of
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


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """A query without parameters."""


def read_path(request: Request) -> dict[str, str]:
    """Return the values in the path, percent-decoded. Raises HttpError if one is no UTF-8."""
    try:
        return {name: unquote(value, errors="strict") for name, value in request.path_params.items()}
    except UnicodeDecodeError:
        detail = "the path cannot be read: expected percent-encoded UTF-8"
        raise HttpError(HTTPStatus.BAD_REQUEST, "malformed_path", detail, fields={"field": "path"}) from None


def read_query(request: Request, kind: type[msgspec.Struct] | None) -> Any:
    """Return the parameters of the query as a `kind`, None for no parameters.

    Raises HttpError if one is there twice or invalid. Starlette's own reader would take a text that is not UTF-8.
    """
    query = request.url.query
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        detail = "the query cannot be read: expected NAME=VALUE pairs joined by &, percent-encoded UTF-8"
        raise HttpError(HTTPStatus.BAD_REQUEST, "malformed_query", detail, fields={"field": "query"}) from None
    parameters: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            shown = shorten_text(name)
            detail = f"{shown} is given twice"
            raise HttpError(HTTPStatus.BAD_REQUEST, "malformed_query", detail, fields={"field": shown})
        parameters[name] = value
    try:
        return msgspec.convert(parameters, kind or _Nothing, strict=False)
    except msgspec.ValidationError as error:
        raise validation_problem(error, parameters) from None
