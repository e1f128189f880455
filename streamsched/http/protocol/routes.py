"""Routes: which function answers which operation, and how the parameters of its request are read."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.operations import OPERATIONS, Operation
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.http.protocol.bodies import BodyReader
from streamsched.http.protocol.problems import HttpError, shorten_text, validation_problem

Handler: TypeAlias = Callable[..., Awaitable["msgspec.Struct | Response"]]
"""Takes what the operation asks, if anything, and the values in the path by their names."""
_RECORDS: Final = {"outcomes": OUTCOMES, "signals": SIGNALS, None: None}


@dataclass(frozen=True, slots=True)
class Route:
    """An operation and the function that answers it. ``body``: reads its body, None if it has none."""

    operation: Operation[Any]
    handler: Handler
    body: BodyReader | None

    @classmethod
    def of(cls, operation: Operation[Any], handler: Handler) -> Route:
        """Return the route of `operation`."""
        asked = None if operation.method == "GET" else operation.asked
        return cls(operation, handler, None if asked is None else BodyReader(asked, _RECORDS[operation.records]))

    @property
    def query(self) -> type[msgspec.Struct] | None:
        """The type of the parameters, None if there are none."""
        return self.operation.asked if self.body is None else self.operation.options

    @property
    def summary(self) -> str:
        """What the operation does: the first line of the handler's docstring."""
        return (inspect.getdoc(self.handler) or "").partition("\n")[0]


def find_routes(endpoints: Iterable[object]) -> Iterator[Route]:
    """Yield a route for each of `OPERATIONS`: the method of one of `endpoints` that has its name answers it."""
    endpoints = list(endpoints)
    for operation in OPERATIONS:
        (handler,) = (getattr(one, operation.name) for one in endpoints if hasattr(one, operation.name))
        yield Route.of(operation, handler)


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
