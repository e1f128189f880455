"""The service as an ASGI application: Starlette's router, then the gate, then the handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar

import msgspec
from starlette import routing
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from streamsched.errors import SnapshotError, StreamschedError, shorten
from streamsched.http.gate import AuditLog, Gate, address_of
from streamsched.http.protocol.bodies import (
    JSON,
    NDJSON,
    PROBLEM,
    answer_types,
    choose_type,
    encode_body,
    encode_lines,
    malformed,
)
from streamsched.http.protocol.problems import HttpError, problem_of, shorten_text
from streamsched.http.protocol.routes import Route, read_path, read_query
from streamsched.http.service import RefusalLog, ServiceState
from streamsched.service.event_log import LOG

_INTERNAL: Final = "the service has failed; its log says why"
_LARGE: Final = 1 << 18  # bytes of a body that takes longer to decode than other requests should wait
_ANONYMOUS_BODIES: Final = 16  # that arrive at a time
_ANONYMOUS_BYTES: Final = 2 << 20  # of each: 10,000 URLs of 200 bytes
_SECURITY_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


Served = TypeVar("Served", bound=ServiceState)


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The most bytes of a body, and the longest time in which it must arrive, in seconds."""

    most: int
    timeout_s: float


class HttpApp(Generic[Served]):
    """An ASGI application of `service`. ``under_way``: the number of requests that are not answered yet.

    ``quiet_since_s``: when the last one was answered, by the monotonic clock; `decoder`: decodes large bodies, so that
    other requests need not wait. ``gate``, ``audit``: also of calls that do not come over HTTP.
    """

    def __init__(
        self,
        service: Served,
        routes: Sequence[Route],
        gate: Gate,
        audit: AuditLog,
        bounds: BodyBounds,
        decoder: Executor,
    ) -> None:
        self.under_way = 0
        self._anonymous = 0  # bodies of callers without tokens that arrive
        self.quiet_since_s = time.monotonic()
        self.service = service
        self.gate = gate
        self.audit = audit
        self._bounds = bounds
        self._decoder = decoder
        self._refusals = RefusalLog(service, audit.path)
        self._by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._by_path.setdefault(route.operation.path, {})[route.operation.method] = route
        answered = [
            routing.Route(path, self._make_endpoint(by_method), methods=list(by_method))
            for path, by_method in self._by_path.items()
        ]
        self._router = routing.Router(answered, redirect_slashes=False)

    def refuse_requests(self) -> None:
        """Refuse requests from now on, but for those of monitors."""
        self.service.is_stopping = True
        self.service.stop_waiting()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.service.statuses[message["status"]] += 1
                named = {name for name, _ in message["headers"]}
                message["headers"] += [header for header in _SECURITY_HEADERS if header[0] not in named]
                if self.service.is_stopping:
                    MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        self.under_way += 1
        try:
            # The path stays percent-encoded: what a segment holds may have slashes.
            raw = scope["raw_path"].decode("latin-1").partition("?")[0] if scope.get("raw_path") else scope["path"]
            await self._router({**scope, "app": self, "path": raw}, receive, send_counted)
        except HTTPException as error:
            await _refuse_path(error)(scope, receive, send_counted)
        finally:
            self.under_way -= 1
            self.quiet_since_s = time.monotonic()

    def _make_endpoint(self, by_method: dict[str, Route]) -> Any:
        async def endpoint(request: Request) -> Response:
            route = by_method["GET" if request.method == "HEAD" else request.method]
            return await self._guard(request, self._admit(request, route))

        return endpoint

    async def _guard(self, request: Request, answering: Awaitable[Response]) -> Response:
        """Return the answer, or that to the error it raises."""
        try:
            return await answering
        except HttpError as error:
            return refuse(error)
        except StreamschedError as error:
            if isinstance(error, SnapshotError):
                self._refusals.refused(error)
            return refuse(problem_of(error))
        except Exception as error:  # noqa: BLE001  no request may end the service
            LOG.error("request failed", method=request.method, path=request.scope["path"], exc_info=error)
            return refuse(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", _INTERNAL))

    async def _admit(self, request: Request, route: Route) -> Response:
        """Check the caller, then answer."""
        path, scope = read_path(request), route.operation.scope
        if not route.operation.for_monitors:
            self._check_open()
        if scope is None:
            self.gate.check_anonymous(request)
            return await self._respond(request, route, path, await self._read_anonymous(request, route))
        caller, scopes = self.gate.identify(request)
        if scope == "admin":
            return await self._respond_to_admin(request, route, path, caller, scopes)
        self.gate.check_scope(scopes, scope)
        return await self._respond(request, route, path, await self._read(request, route))

    def _check_open(self) -> None:
        """Raise HttpError if the service is not open to requests yet, or no longer."""
        unavailable, headers = HTTPStatus.SERVICE_UNAVAILABLE, {"retry-after": "5"}
        if self.service.is_stopping:
            raise HttpError(unavailable, "stopping", "the service stops", headers=headers)
        if self.service.is_starting:
            raise HttpError(unavailable, "starting", "the service compiles what requests need", headers=headers)

    async def _respond_to_admin(
        self, request: Request, route: Route, path: dict[str, str], caller: str, scopes: frozenset[str] | None
    ) -> Response:
        """Answer an administrator; the audit log has the call before it is done, and its status afterwards."""
        refusal, body = None, b""
        try:
            self.gate.check_scope(scopes, "admin")
            body = await self._read(request, route)
        except HttpError as error:
            refusal = refuse(error)
        address, called = address_of(request), request.scope["path"]
        name = await asyncio.to_thread(self.audit.begin, caller, address, request.method, called, body)
        answer = refusal or await self._guard(request, self._respond(request, route, path, body))
        await asyncio.to_thread(self.audit.end, name, answer.status_code)
        if answer.status_code < HTTPStatus.BAD_REQUEST:
            self._refusals.accepted(audited=True)
        return answer

    async def _read(self, request: Request, route: Route, most: int | None = None) -> bytes:
        """Return the body, empty if the route has none. Raises HttpError if its type is not accepted.

        `most`: its bytes, by default those of the setting.
        """
        if route.body is None:
            return b""
        media_type = _media_type(request)
        if media_type not in route.body.media_types:
            expected = ", ".join(route.body.media_types)
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "media_type",
                f"expected a body of one of these types: {expected}",
                fields={"field": "content-type", "found": shorten(media_type), "expected": expected},
            )
        return await _read_body(request, BodyBounds(most or self._bounds.most, self._bounds.timeout_s))

    async def _read_anonymous(self, request: Request, route: Route) -> bytes:
        """Return the body of a caller without a token, who could hold as much memory as there are connections."""
        if route.body is None:
            return b""
        if self._anonymous >= _ANONYMOUS_BODIES:
            detail = "too many bodies of callers without tokens arrive"
            headers = {"retry-after": "5", "connection": "close"}
            raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, "too_many_bodies", detail, headers=headers)
        self._anonymous += 1
        try:
            return await self._read(request, route, min(self._bounds.most, _ANONYMOUS_BYTES))
        finally:
            self._anonymous -= 1

    async def _respond(self, request: Request, route: Route, path: dict[str, str], body: bytes) -> Response:
        """Decode the query and the body, call the handler, and encode what it returns."""
        accept, operation = request.headers.get("accept", ""), route.operation
        offered = answer_types(operation.lines)
        media_type = choose_type(accept, offered)
        if media_type is None and operation.answer is not None:
            expected = " or ".join(offered)
            raise HttpError(
                HTTPStatus.NOT_ACCEPTABLE,
                "not_acceptable",
                f"the Accept header allows none of {expected}",
                fields={"field": "accept", "found": shorten(accept), "expected": expected},
            )
        asked = options = read_query(request, route.query)
        if route.body is not None and len(body) < _LARGE:
            asked = route.body.read(body, _media_type(request))
        elif route.body is not None:
            loop = asyncio.get_running_loop()
            asked = await loop.run_in_executor(self._decoder, route.body.read, body, _media_type(request))
        arguments = () if operation.asked is None else (asked,)
        if operation.options is not None:
            arguments += (options,)
        with self.service.durations.measure(operation.name):
            result = await route.handler(*arguments, **path)
        if operation.scope == "crawl":
            self._refusals.accepted(audited=False)
        if isinstance(result, Response):
            return result
        if media_type == NDJSON and operation.lines is not None:
            return Response(encode_lines(result, operation.lines), media_type=NDJSON)
        return Response(encode_body(result, media_type or JSON), media_type=media_type or JSON)


async def _read_body(request: Request, bounds: BodyBounds) -> bytes:
    """Return the body. Raises HttpError if it is too large, too slow or not whole."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise HttpError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "encoded_body",
            "compressed bodies are not accepted",
            fields={"field": "content-encoding", "found": shorten_text(encoding), "expected": "identity"},
            headers={"accept-encoding": "identity"},
        )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > bounds.most:
        raise _too_large(bounds)
    parts, size = [], 0
    try:
        async with asyncio.timeout(bounds.timeout_s):
            async for part in request.stream():
                size += len(part)
                if size > bounds.most:
                    raise _too_large(bounds)
                parts.append(part)
    except TimeoutError:
        detail = f"the body did not arrive within {bounds.timeout_s:g} s"
        raise HttpError(HTTPStatus.REQUEST_TIMEOUT, "slow_body", detail, headers={"connection": "close"}) from None
    except ClientDisconnect:
        raise malformed("it is not whole") from None
    return b"".join(parts)


def _too_large(bounds: BodyBounds) -> HttpError:
    expected = f"at most {bounds.most:,} bytes"
    return HttpError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_large",
        f"expected a body of {expected}",
        fields={"field": "body", "expected": expected},
    )


def _media_type(request: Request) -> str:
    """Return the media type of the body, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def refuse(error: HttpError) -> Response:
    """Return the answer to a request that is refused with `error`."""
    return Response(msgspec.json.encode(error.problem), error.problem.status, error.headers, PROBLEM)


def _refuse_path(error: HTTPException) -> Response:
    """Return the answer to a path or a method that no route has."""
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return refuse(unknown_path())
    allowed = ", ".join(sorted((error.headers or {})["Allow"].split(", ")))
    detail = f"this path is called by {allowed}"
    return refuse(HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "method_not_allowed", detail, headers={"allow": allowed}))


def unknown_path() -> HttpError:
    """Return the answer to a path that no route has."""
    return HttpError(HTTPStatus.NOT_FOUND, "unknown_path", "there is nothing at this path; see /openapi.json")
