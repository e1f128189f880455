"""The service as an ASGI application: each request through its checks to its endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from streamsched.errors import StreamschedError, shorten
from streamsched.http.protocol.media_types import JSON, PROBLEM, choose_type, encode_body
from streamsched.http.protocol.problems import HttpError, problem_of, validation_problem
from streamsched.http.protocol.requests import Answer, BodyBounds, ClientGone, Receive, Request, Scope, Send
from streamsched.http.protocol.routes import Call, Route, Router, read_query
from streamsched.service.event_log import LOG

if TYPE_CHECKING:
    from streamsched.http.access.audit import AuditLog
    from streamsched.http.access.gate import Gate
    from streamsched.http.service import Service

__all__ = ["HttpApp"]

_INTERNAL: Final = "the service has failed; its log says why"


class HttpApp:
    """An ASGI application of `service`. ``under_way``: the number of requests that are not answered yet.

    ``quiet_since_s``: when the last one was answered, by the monotonic clock.
    """

    def __init__(self, service: Service, router: Router, gate: Gate, audit: AuditLog, bounds: BodyBounds) -> None:
        self.under_way = 0
        self.quiet_since_s = time.monotonic()
        self.service = service
        self._router = router
        self._gate = gate
        self._audit = audit
        self._bounds = bounds

    def refuse_requests(self) -> None:
        """Refuse requests from now on, but for those of monitors."""
        self.service.is_stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        self.under_way += 1
        try:
            request = Request(scope, receive)
            answer = await self._guard(request, self._admit(request))
            self.service.statuses[answer.status.value] += 1
            await answer.send(send, closes=self.service.is_stopping)
        except ClientGone:
            pass
        finally:
            self.under_way -= 1
            self.quiet_since_s = time.monotonic()

    async def _guard(self, request: Request, answering: Awaitable[Answer]) -> Answer:
        """Return the answer, or that to the error it raises."""
        try:
            return await answering
        except HttpError as error:
            return _refuse(error)
        except ClientGone:
            raise
        except StreamschedError as error:
            return _refuse(problem_of(error))
        except Exception as error:  # noqa: BLE001  no request may end the service
            LOG.error("request failed", method=request.method, path=request.path, exc_info=error)
            return _refuse(HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", _INTERNAL))

    async def _admit(self, request: Request) -> Answer:
        """Find the route and check the caller, then answer."""
        route, values = self._router.find(request.method, request.path)
        if self.service.is_stopping and not route.while_stopping:
            headers = {"retry-after": "5"}
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "stopping", "the service stops", headers=headers)
        if route.permission is None:
            self._gate.check_anonymous(request)
            return await self._respond(request, route, Call("", values, None, None), b"")
        caller, scopes = self._gate.identify(request)
        call = Call(caller, values, None, None)
        if route.permission == "admin":
            return await self._respond_to_admin(request, route, call, scopes)
        self._gate.check_scope(scopes, route.permission)
        return await self._respond(request, route, call, await self._read(request, route))

    async def _respond_to_admin(
        self, request: Request, route: Route, call: Call, scopes: frozenset[str] | None
    ) -> Answer:
        """Answer an administrator; the audit log has the call before it is done, and its status afterwards."""
        refusal, body = None, b""
        try:
            self._gate.check_scope(scopes, "admin")
            body = await self._read(request, route)
        except HttpError as error:
            refusal = _refuse(error)
        caller, address = call.caller, request.client
        name = await asyncio.to_thread(self._audit.begin, caller, address, request.method, request.path, body)
        answer = refusal or await self._guard(request, self._respond(request, route, call, body))
        await asyncio.to_thread(self._audit.end, name, answer.status.value)
        return answer

    async def _read(self, request: Request, route: Route) -> bytes:
        """Return the body, empty if the route has none. Raises HttpError if its type is not accepted."""
        if route.body is None:
            return b""
        if request.media_type not in route.body.media_types:
            expected = ", ".join(route.body.media_types)
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                "media_type",
                f"expected a body of one of these types: {expected}",
                fields={"field": "content-type", "found": shorten(request.media_type), "expected": expected},
            )
        return await request.read_body(self._bounds)

    async def _respond(self, request: Request, route: Route, call: Call, body: bytes) -> Answer:
        """Decode the query and the body, call the handler, and encode what it returns."""
        media_type = choose_type(request.headers.get("accept", ""))
        if media_type is None and route.answer is not None:
            found = shorten(request.headers["accept"])
            expected = "application/json or application/msgpack"
            raise HttpError(
                HTTPStatus.NOT_ACCEPTABLE,
                "not_acceptable",
                f"the Accept header allows neither of {expected}",
                fields={"field": "accept", "found": found, "expected": expected},
            )
        try:
            query = read_query(request.query, route.query)
        except msgspec.ValidationError as error:
            raise validation_problem(error, request.query) from None
        content = None if route.body is None else route.body.read(body, request.media_type)
        with self.service.durations.measure(route.operation):
            result = await route.handler(replace(call, query=query, body=content))
        if isinstance(result, Answer):
            return result
        return Answer(HTTPStatus.OK, encode_body(result, media_type or JSON), media_type or JSON)


def _refuse(error: HttpError) -> Answer:
    status = HTTPStatus(error.problem.status)
    return Answer(status, msgspec.json.encode(error.problem), PROBLEM, error.headers)
