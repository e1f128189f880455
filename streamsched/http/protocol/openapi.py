"""The description of the service in OpenAPI 3.1, made from its routes and the types of its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.routing import compile_path

from streamsched.http.protocol.bodies import FRAMES, JSON, MSGPACK, NDJSON, PROBLEM
from streamsched.http.protocol.problems import Problem
from streamsched.http.protocol.routes import Route

_REF: Final = "#/components/schemas/{name}"
_SECURITY: Final = "token"
_RETRY_AFTER: Final = {
    "description": "seconds after which the same request may succeed",
    "schema": {"type": "integer", "minimum": 0},
}
_HEADERS: Final[Mapping[HTTPStatus, Mapping[str, Any]]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": _RETRY_AFTER},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": _RETRY_AFTER},
}
_ALWAYS: Final = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.NOT_ACCEPTABLE: "The Accept header names no media type of the answers.",
    HTTPStatus.MISDIRECTED_REQUEST: "Without tokens: the Host header does not name this machine.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A parameter or a field has an invalid value.",
    HTTPStatus.TOO_MANY_REQUESTS: "The caller has sent too many requests.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The service has failed; its log says why.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Too many requests wait, the service stops, or its state cannot be written.",
}
_WITH_TOKEN: Final = {
    HTTPStatus.UNAUTHORIZED: "There is no valid token.",
    HTTPStatus.FORBIDDEN: "The token lacks the scope of this operation.",
}
_WITH_BODY: Final = {
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body has a media type or an encoding that is not accepted.",
}


def describe_routes(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """Return the OpenAPI document of `routes` as plain values for JSON. O(routes)."""
    routes = [route for route in routes if route.operation.is_described]
    asked = _describe_types([Problem, *(route.body.kind for route in routes if route.body is not None)])
    answers = [route.operation.answer for route in routes if route.operation.answer is not None]
    answered = _describe_types(answers)
    partial = {answer.__name__ for answer in answers if answer.__struct_config__.omit_defaults}
    for name, schema in answered.items():
        if name not in partial:  # others have all of their fields
            schema["required"] = list(schema["properties"])
        for described in schema["properties"].values():
            described.pop("default", None)
    schemas = asked | answered
    for schema in schemas.values():
        schema["additionalProperties"] = False  # answers too have no others, though decoders of them ignore these
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.operation.path, {})[route.operation.method.lower()] = _describe_route(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "streamsched",
            "version": version,
            "description": "Decides which web pages to crawl next, from the stream of crawl outcomes.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {_SECURITY: {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_types(kinds: Iterable[type[msgspec.Struct]]) -> dict[str, dict[str, Any]]:
    """Return the schemas of `kinds`, and of the types in them, by name."""
    return msgspec.json.schema_components(list(dict.fromkeys(kinds)), ref_template=_REF)[1]


def _describe_route(route: Route) -> dict[str, Any]:
    operation = route.operation
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": route.summary,
        "tags": [operation.scope or "open"],
        "parameters": [*_path_parameters(route), *_query_parameters(route)],
        "security": [] if operation.scope is None else [{_SECURITY: [operation.scope]}],
        "responses": _describe_answers(route),
    }
    if route.body is not None:
        content = {media_type: {"schema": _schema_of(route.body.kind)} for media_type in (JSON, MSGPACK)}
        if FRAMES in route.body.media_types:
            content[FRAMES] = {"schema": {"type": "string", "format": "binary"}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in compile_path(route.operation.path)[2]:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query_parameters(route: Route) -> Iterator[dict[str, Any]]:
    if route.query is None:
        return
    described = _describe_types([route.query])[route.query.__name__]
    required = described.get("required", [])
    for name, inner in described["properties"].items():
        yield {"name": name, "in": "query", "required": name in required, "schema": inner}


def _describe_answers(route: Route) -> dict[str, Any]:
    operation = route.operation
    if operation.answer is None:
        content: dict[str, Any] = {operation.media_type: {"schema": {}}}
    else:
        content = {media_type: {"schema": _schema_of(operation.answer)} for media_type in (JSON, MSGPACK)}
        if operation.lines is not None:
            content[NDJSON] = {"schema": {"type": "string"}}
    success: dict[str, Any] = {"description": "Done.", "content": content}
    if operation.links:
        success["links"] = {name: dict(link) for name, link in operation.links.items()}
    statuses = _ALWAYS | (_WITH_TOKEN if operation.scope else {}) | (_WITH_BODY if route.body else {})
    statuses |= operation.errors
    answers = {str(status.value): _describe_problem(status, text) for status, text in statuses.items()}
    return {"200": success} | dict(sorted(answers.items()))


def _describe_problem(status: HTTPStatus, text: str) -> dict[str, Any]:
    described: dict[str, Any] = {"description": text, "content": {PROBLEM: {"schema": _schema_of(Problem)}}}
    if status in _HEADERS:
        described["headers"] = _HEADERS[status]
    return described


def _schema_of(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}
