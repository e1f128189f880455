"""The calls of the API: who may make them, and what answers them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from starlette.requests import Request

from streamsched.api.operations import BLOCK, FORGET, HOSTS, NEXT_BATCH, OBSERVE, PAGE, SET_RULES, STATS, Scope
from streamsched.errors import SnapshotError, StreamschedError
from streamsched.frontier.connections import Call, Code, GrpcError
from streamsched.frontier.handout import Wanted, encode_pages
from streamsched.frontier.intake import LAST_DATE_S, Items, Part, name_of
from streamsched.frontier.messages import FRONTIER, HEALTH, METHODS, SERVICES, message
from streamsched.frontier.queues import Queues
from streamsched.http.app import HttpApp
from streamsched.http.protocol.problems import HttpError, problem_of
from streamsched.http.scheduler_thread import QueueFull
from streamsched.http.service import Service
from streamsched.service.event_log import LOG

_CODES: Final = {
    HTTPStatus.UNAUTHORIZED: Code.UNAUTHENTICATED,
    HTTPStatus.FORBIDDEN: Code.PERMISSION_DENIED,
    HTTPStatus.MISDIRECTED_REQUEST: Code.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: Code.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY: Code.INVALID_ARGUMENT,
    HTTPStatus.TOO_MANY_REQUESTS: Code.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: Code.UNAVAILABLE,
}
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
_LOOK_S: Final = 1.0  # between two looks at whether the service is ready
_FULL_S: Final = 0.05  # before a stream tries again to hand on its items
_ANONYMOUS_BYTES: Final = 4096  # of a message of a caller without a token: it names a service at most
_SENT_AT_ONCE: Final = 500  # URLs of a batch: those after them are given back if the client goes


class Served(NamedTuple):
    """A method that is answered: the scope that a token needs, None for none; and what answers it."""

    scope: Scope | None
    answer: Callable[[Call], Awaitable[None]]


class FrontierCalls:
    """Answers calls by the `services` of crawls, by crawl ID, with the gate and the audit log of `app`."""

    def __init__(self, app: HttpApp[Service], services: Mapping[str, Service], *, keeps_dates: bool) -> None:
        self._app = app
        self._service = app.service
        self._services = services
        self._keeps_dates = keeps_dates
        self._queues = {name: Queues(service, name) for name, service in services.items()}
        self._turn = deque(services)  # crawls in the order in which calls for any of them try them
        self._is_active = True
        self._warned: set[str] = set()
        one, of_crawl = self._one, self._of_crawl
        served = {
            "GetURLs": Served(NEXT_BATCH.scope, self._get_urls),
            "PutURLs": Served(OBSERVE.scope, self._put_urls),
            "GetStats": Served(STATS.scope, one(of_crawl(Queues.stats))),
            "ListQueues": Served(HOSTS.scope, one(of_crawl(Queues.list_queues))),
            "ListCrawls": Served(STATS.scope, one(self._list_crawls)),
            "CountURLs": Served(PAGE.scope, one(of_crawl(Queues.count_urls))),
            "GetURLStatus": Served(PAGE.scope, one(of_crawl(Queues.url_status))),
            "ListURLs": Served(PAGE.scope, self._list_urls),
            "BlockQueueUntil": Served(BLOCK.scope, one(of_crawl(Queues.block))),
            "SetDelay": Served(SET_RULES.scope, one(of_crawl(Queues.set_delay))),
            "DeleteQueue": Served(FORGET.scope, one(of_crawl(Queues.delete_queue))),
            "DeleteCrawl": Served(FORGET.scope, one(of_crawl(Queues.delete_crawl))),
            "SetActive": Served(BLOCK.scope, one(self._set_active)),
            "GetActive": Served(STATS.scope, one(self._get_active)),
        }
        self._served = {f"/{FRONTIER}/{name}": one for name, one in served.items()}
        self._served |= {
            f"/{HEALTH}/Check": Served(None, one(self._check_health)),
            f"/{HEALTH}/Watch": Served(None, self._watch_health),
        }

    async def handle(self, call: Call) -> None:
        """Answer a call. Raises GrpcError."""
        if call.method != "POST" or not call.media_type.startswith("application/grpc"):
            raise GrpcError(Code.UNKNOWN, "expected a gRPC request")
        served = self._served.get(call.path)
        if served is None:
            raise GrpcError(Code.UNIMPLEMENTED, f"{call.path} is not served")
        try:
            await self._admit(call, served)
        except HttpError as error:
            raise _as_grpc(error) from None
        except StreamschedError as error:
            raise _as_grpc(problem_of(error)) from None
        except DecodeError:
            raise GrpcError(Code.INVALID_ARGUMENT, "the message cannot be decoded") from None

    async def _admit(self, call: Call, served: Served) -> None:
        """Check the caller, then answer; the audit log has the call of an administrator before it is done."""
        request = _as_request(call)
        caller = call.connection.peer_name
        if served.scope is None:
            call.most = _ANONYMOUS_BYTES
            if caller is None:
                self._app.gate.check_anonymous(request)
            await served.answer(call)
            return
        if self._service.is_stopping:
            raise GrpcError(Code.UNAVAILABLE, "the service stops")
        if caller is None:
            caller, scopes = self._app.gate.identify(request)
            self._app.gate.check_scope(scopes, served.scope)
        if served.scope != "admin":
            await served.answer(call)
            return
        audit = self._app.audit
        name = await asyncio.to_thread(audit.begin, caller, call.connection.address, "GRPC", call.path, b"")
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        try:
            await served.answer(call)
            status = HTTPStatus.OK
        finally:
            await asyncio.to_thread(audit.end, name, status)

    def _one(self, answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Call], Awaitable[None]]:
        """Return what answers one message by one."""

        async def answer_call(call: Call) -> None:
            asked = METHODS[call.path].asked.FromString(await call.receive_one())
            await call.send([(await answer(asked)).SerializeToString()])

        return answer_call

    async def _put_urls(self, call: Call) -> None:
        while messages := await call.receive():
            items = Items(self._services.keys(), self._service.clock(), keeps_dates=self._keeps_dates)
            for raw in messages:
                items.add(raw)
            self._warn(items)
            for name, part in items.parts.items():
                if not await self._apply(part, self._services[name]):
                    part.fail()
            await call.send(items.acknowledge())

    async def _apply(self, part: Part, service: Service) -> bool:
        """Apply the items of a crawl once there is room for them; return whether they are on disk."""
        while True:
            try:
                await service.call(part.apply)
                return True
            except HttpError:  # too many calls wait: the client does too, as nothing more is read of its stream
                if self._service.is_stopping:
                    return False
                await asyncio.sleep(_FULL_S)
            except SnapshotError:
                return False

    def _warn(self, items: Items) -> None:
        """Say once what the operator should change."""
        if items.unproven and "unproven" not in self._warned:
            self._warned.add("unproven")
            LOG.warning("known URLs without fetch.statusCode and signature show no change: see docs/url-frontier.md")
        if items.foreign and "foreign" not in self._warned:
            self._warned.add("foreign")
            LOG.warning("URLs of another crawl ID are not taken", served=" ".join(self._services))
        if items.misdated and "misdated" not in self._warned:
            self._warned.add("misdated")
            LOG.warning("refetchable_from_date is not in seconds and not obeyed", most=LAST_DATE_S)

    async def _get_urls(self, call: Call) -> None:
        asked = METHODS[call.path].asked.FromString(await call.receive_one())
        wanted = Wanted.of(asked)
        names = list(self._turn)
        if asked.WhichOneof("item") == "crawlID":
            names = [self._named(asked.crawlID)]
        else:
            self._turn.rotate(-1)
        for name in names:
            if not self._is_active or await self._hand_out(call, name, wanted):
                return

    async def _hand_out(self, call: Call, name: str, wanted: Wanted) -> bool:
        """Lease and send pages of a crawl; return whether it has any."""
        service = self._services[name]
        batch = await service.call(wanted.lease)
        messages = encode_pages(batch, name)
        sent = 0
        try:
            for start in range(0, len(messages), _SENT_AT_ONCE):
                await call.send(messages[start : start + _SENT_AT_ONCE])
                sent = start + _SENT_AT_ONCE
        finally:
            if sent < len(messages):  # the client has gone
                with suppress(QueueFull):  # then their leases expire
                    service.thread.submit(lambda: service.scheduler.release(batch.urls[sent:]))
        return bool(messages)

    async def _list_urls(self, call: Call) -> None:
        asked = METHODS[call.path].asked.FromString(await call.receive_one())
        async for items in self._queues[self._named(asked.crawlID)].list_urls(asked):
            await call.send([item.SerializeToString() for item in items])

    async def _list_crawls(self, asked: Any) -> Any:  # noqa: ARG002  it asks nothing
        return message("urlfrontier.StringList")(values=self._services)

    def _of_crawl(self, answer: Callable[[Queues, Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """Return what answers a message by the queues of the crawl that it names."""

        async def answer_for(asked: Any) -> Any:
            given = asked.value if asked.DESCRIPTOR.name == "DeleteCrawlMessage" else asked.crawlID
            return await answer(self._queues[self._named(given)], asked)

        return answer_for

    def _named(self, given: str) -> str:
        """Return the crawl that a crawl ID names. Raises GrpcError if it is not served."""
        name = name_of(given)
        if name not in self._services:
            raise GrpcError(Code.NOT_FOUND, f"expected one of the crawls {', '.join(self._services)}")
        return name

    async def _set_active(self, asked: Any) -> Any:
        self._is_active = asked.state
        return message("urlfrontier.Empty")()

    async def _get_active(self, asked: Any) -> Any:  # noqa: ARG002  it asks nothing
        return message("urlfrontier.Boolean")(state=self._is_active)

    def _health(self, asked: Any) -> int:
        if asked.service not in ("", *SERVICES):
            return _SERVICE_UNKNOWN
        return _NOT_SERVING if any(service.trouble() for service in self._services.values()) else _SERVING

    async def _check_health(self, asked: Any) -> Any:
        status = self._health(asked)
        if status == _SERVICE_UNKNOWN:
            raise GrpcError(Code.NOT_FOUND, "there is no such service")
        return message("grpc.health.v1.HealthCheckResponse")(status=status)

    async def _watch_health(self, call: Call) -> None:
        asked = METHODS[call.path].asked.FromString(await call.receive_one())
        told = None
        while not call.is_stopped:
            status = self._health(asked)
            if status != told:
                await call.send([METHODS[call.path].answer(status=status).SerializeToString()])
                told = status
            await asyncio.sleep(_LOOK_S)


def _as_request(call: Call) -> Request:
    """Return the headers of a call as the gate of HTTP reads them."""
    headers = [(name.encode(), value.encode()) for name, value in call.headers if not name.startswith(":")]
    headers += [(b"host", value.encode()) for name, value in call.headers if name == ":authority"]
    return Request({"type": "http", "headers": headers, "client": (call.connection.address, 0)})


def _as_grpc(error: HttpError) -> GrpcError:
    status = HTTPStatus(error.problem.status)
    return GrpcError(_CODES.get(status, Code.INTERNAL), error.problem.detail)
