"""The subscriber of WebSub: it asks hubs for subscriptions, answers them at its callbacks, and takes what they send.

What comes from outside is bounded before it is read: only a body at a callback in use is read at all, one a
subscription at a time, and all that are held together have few bytes. Bodies wait for the fetcher, which reads them as
it reads the documents.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from streamsched.errors import FetchError, SnapshotError
from streamsched.fetching.subscriptions import LEASE_S, Subscription, Subscriptions
from streamsched.fetching.visits import Visit, read_retry_after
from streamsched.service.event_log import LOG
from streamsched.web.safe_fetch import FetchLimits, Permit, SafeClient

Serve: TypeAlias = Callable[[ASGIApp], AbstractAsyncContextManager[object]]
"""Serves an application over HTTP while it is entered."""

MOST_BODY_BYTES: Final = 8 << 20
MOST_HELD_BYTES: Final = 64 << 20  # of bodies that arrive or wait
MOST_WAITING: Final = 1_024
_BODY_S: Final = 30.0  # in which a body must arrive
_REQUESTS: Final = 8  # to hubs at a time
_LIMITS: Final = FetchLimits(seconds=30.0, body_bytes=64 << 10, cut=True)
_FORM: Final = {"content-type": "application/x-www-form-urlencoded"}
_CHALLENGE: Final = re.compile(r"[\x21-\x7e]{1,1024}")
_LEASE: Final = re.compile(r"[0-9]{1,12}")
_SAFE_HEADERS: Final = {"x-content-type-options": "nosniff", "content-security-policy": "default-src 'none'"}
_LATER: Final = {"retry-after": "60"}


class Push(NamedTuple):
    """A body that a hub sent for the document at ``url``; ``at``: when, UTC epoch seconds."""

    url: str
    body: bytes
    at: float


class Subscriber:
    """Keeps `subscriptions` by requests of `client`, each within `permit`, and what hubs send in ``inbox``.

    ``app``: the callbacks, an ASGI application; `keep` writes a subscription to disk: before its hub is asked, and
    before the hub learns that it is verified; `counts` gets figures whose names begin with websub. `clock`: UTC epoch
    seconds. For the thread of one event loop.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        client: SafeClient,
        permit: Permit,
        clock: Callable[[], float],
        counts: Counter[str],
        keep: Callable[[Subscription], None],
    ) -> None:
        self.inbox: deque[Push] = deque()
        self.app: ASGIApp = Starlette(routes=[Route("/{path:path}", self._answer, methods=["GET", "POST"])])
        self._subscriptions = subscriptions
        self._client = client
        self._permit = permit
        self._clock = clock
        self._counts = counts
        self._keep = keep
        self._held = 0  # bytes
        self._receiving: set[str] = set()  # tokens of bodies that arrive
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, visit: Visit) -> None:
        """Note the hub that a document names. One that is fetched by https takes hubs at https only."""
        document, head = visit.document, visit.head
        if visit.status == 410:
            self._subscriptions.end(document.url)
        if head is None:
            return
        is_safe = document.url.lower().startswith("https:")
        hubs = [hub for hub in head.hubs if not is_safe or hub.lower().startswith("https:")]
        hub = hubs[0] if hubs and head.topic else ""
        self._subscriptions.advertise(document.url, hub, head.topic, self._clock())

    def ask_hubs(self) -> None:
        """Begin the requests to hubs that are due, a few at a time."""
        for one in self._subscriptions.due(self._clock(), _REQUESTS - len(self._tasks)):
            task = asyncio.create_task(self._ask(one))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End the requests to hubs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def release(self, push: Push, _task: object = None) -> None:
        """Note that `push` was read, or will not be."""
        self._held -= len(push.body)

    async def _ask(self, one: Subscription) -> None:
        callback = self._subscriptions.ask(one, self._clock())
        form = {
            "hub.callback": callback.base + callback.token,
            "hub.mode": "subscribe",
            "hub.topic": one.topic,
            "hub.lease_seconds": f"{LEASE_S:.0f}",
            "hub.secret": callback.secret,
        }
        body, wait_s = urlencode(form).encode(), 0.0
        self._counts["websub_requests"] += 1
        try:
            await asyncio.to_thread(self._keep, one)
            async with self._client.fetch(
                one.hub, method="POST", headers=_FORM, body=body, limits=_LIMITS, permit=self._permit
            ) as answer:
                if 200 <= answer.status < 300:
                    return  # verified by now, or within an hour
                reason = f"{answer.url}: answers with status {answer.status}"
                wait_s = read_retry_after(answer.headers.get("retry-after", ""), self._clock()) or 0.0
        except (FetchError, SnapshotError) as error:
            reason = str(error)
        self._counts["websub_failed"] += 1
        self._subscriptions.fail(one, callback, self._clock(), wait_s)
        LOG.warning("hub not asked", url=one.url, hub=one.hub, reason=reason)

    async def _answer(self, request: Request) -> Response:
        token = request.path_params["path"].rpartition("/")[2]
        return await (self._receive if request.method == "POST" else self._confirm)(request, token)

    async def _confirm(self, request: Request, token: str) -> Response:
        """Answer a hub that verifies an intent or denies a subscription: 404 unless it is about what was asked."""
        query = request.query_params
        if any(len(query.getlist(name)) > 1 for name in query):
            return _answer(HTTPStatus.NOT_FOUND)
        mode, topic, challenge = (query.get(f"hub.{name}", "") for name in ("mode", "topic", "challenge"))
        now, lease = self._clock(), query.get("hub.lease_seconds", "")
        if mode == "denied" and self._subscriptions.deny(token, topic, now):
            self._counts["websub_denied"] += 1
            LOG.warning("subscription denied", topic=topic, reason=query.get("hub.reason", "")[:200])
            return _answer(HTTPStatus.OK)
        is_asked = mode == "subscribe" and _CHALLENGE.fullmatch(challenge) and _LEASE.fullmatch(lease) and int(lease)
        if is_asked and self._subscriptions.verify(token, topic, float(lease), now):
            if (found := self._subscriptions.find(token, now)) is not None:
                try:
                    await asyncio.to_thread(self._keep, found[0])
                except SnapshotError as error:
                    LOG.warning("subscription not kept", topic=topic, reason=str(error))
                    return _answer(HTTPStatus.SERVICE_UNAVAILABLE, _LATER)
            self._counts["websub_verified"] += 1
            return Response(challenge, media_type="application/octet-stream", headers=_SAFE_HEADERS)
        self._counts["websub_unknown"] += 1
        return _answer(HTTPStatus.NOT_FOUND)

    async def _receive(self, request: Request, token: str) -> Response:
        """Take a body with the right signature. Others are answered alike, so that nobody learns what is right."""
        if self._subscriptions.find(token, self._clock()) is None:
            self._counts["websub_unknown"] += 1
            return _answer(HTTPStatus.GONE)  # which ends the subscription of a hub
        if token in self._receiving or len(self.inbox) >= MOST_WAITING:
            return self._refuse_now()
        self._receiving.add(token)
        body = bytearray()
        try:
            return await self._read(request, body) or self._judge(request, token, bytes(body))
        finally:
            self._receiving.discard(token)
            self._held -= len(body)

    async def _read(self, request: Request, body: bytearray) -> Response | None:
        """Add the body of a request to `body`; return a refusal if it is too large, too slow or not whole."""
        try:
            async with asyncio.timeout(_BODY_S):
                async for part in request.stream():
                    if len(body) + len(part) > MOST_BODY_BYTES:
                        self._counts["websub_too_large"] += 1
                        return _answer(HTTPStatus.ACCEPTED)  # it would not be smaller when it comes again
                    if self._held + len(part) > MOST_HELD_BYTES:
                        return self._refuse_now()
                    body += part
                    self._held += len(part)
        except TimeoutError:
            return _answer(HTTPStatus.REQUEST_TIMEOUT)
        except ClientDisconnect:
            return _answer(HTTPStatus.BAD_REQUEST)
        return None

    def _judge(self, request: Request, token: str, body: bytes) -> Response:
        now = self._clock()
        found = self._subscriptions.find(token, now)
        if found is None:  # its lease has ended meanwhile
            return _answer(HTTPStatus.GONE)
        subscription, callback = found
        fate = callback.judge(body, request.headers.get("x-hub-signature", ""))
        self._counts[f"websub_{fate}"] += 1
        if fate == "accepted":
            self.inbox.append(Push(subscription.url, body, now))
            self._held += len(body)
        return _answer(HTTPStatus.ACCEPTED)

    def _refuse_now(self) -> Response:
        self._counts["websub_busy"] += 1
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, _LATER)


def _answer(status: HTTPStatus, headers: dict[str, str] | None = None) -> Response:
    return Response(status_code=status.value, headers=headers)
