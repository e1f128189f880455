"""Leases pages in batches ahead of a crawler, sends their outcomes in groups, and gives back what has none.

A task asks for pages while half of a batch is left, the sender of the client has the outcomes, and a second task gives
pages back. A request for pages is never abandoned: the service would lease pages that nobody visits. So it has one key
until it is answered, and closing waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import uniform
from typing import Any, Final

from streamsched.api.answers import LeasedBatch
from streamsched.api.answers import LeasedPage as Lease
from streamsched.api.views import Observed
from streamsched.client.async_client import AsyncClient
from streamsched.client.sender import AsyncOutcomeSender
from streamsched.connectors.crawlers.leased_page import LeasedPage
from streamsched.connectors.crawlers.visits import ContentRules
from streamsched.errors import ServiceUnavailable, SettingsError, StreamschedError
from streamsched.numerics.durations import parse_duration, parse_lease
from streamsched.outcomes import Outcome

logger = logging.getLogger("streamsched.crawlers")

_FRAME: Final = 200  # outcomes of a request, half a second's work of a fast crawler
_EVERY_S: Final = 0.5  # a page waits for its outcome no longer than this
_LONGEST_PAUSE_S: Final = 30.0  # between two requests to a service that does not answer
_EMPTY_PAUSE_S: Final = 0.5  # after an empty answer that came at once
_MOST_UNSENT: Final = 50_000  # outcomes; then no page is handed out until the service takes some
_ANSWER_S: Final = 3.0  # in which a request for pages is answered, beyond the time that it lets the service wait
_CLOSE_S: Final = 10.0  # for the last outcomes; a service that is away must not keep a crawler from ending
_LEAST_LEFT: Final = 0.25  # of a lease: a page with less is given back in place of being handed out
_MARGIN_S: Final = 1.0  # before a lease ends: another crawler's lease must not be given back
_GATHER_S: Final = 0.05  # for which pages to give back are gathered


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """What a crawler asks for.

    ``size``: pages that are leased ahead, 1 to 10,000; ``lease``: for how long; ``wait``: for how long the service
    waits for a page to lease in one request, which closing may have to wait for; ``hosts``, ``per_host``: as for
    `next_batch`; ``in_hand``: the most pages without an outcome in the program's hands; ``limit``: the most pages in
    all; ``follow``: False to end once no page is due.
    """

    size: int = 100
    lease: str | float = "10m"
    wait: str | float = "5s"
    hosts: tuple[str, ...] | None = None
    per_host: int | None = None
    in_hand: int = 1_000
    limit: int | None = None
    follow: bool = True

    def __post_init__(self) -> None:
        for name, most in (("size", 10_000), ("in_hand", None), ("limit", None)):
            value = getattr(self, name)
            if value is None and name == "limit":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1 or (most and value > most):
                raise SettingsError(name, value, f"1 to {most:,} pages" if most else "1 or more pages")
        parse_duration(self.wait, "wait", zero=True)
        parse_lease(self.lease)


@dataclass(frozen=True, slots=True)
class _Batch:
    """When the pages of a batch were leased, on two clocks.

    ``ends_s``: the end of the leases on the crawler's clock; ``ahead_s``: by how much the service's is ahead of it.
    """

    ends_s: float
    lasts_s: float
    ahead_s: float


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for pages until it is answered. ``since_s``: when it was first sent."""

    k: int
    key: str
    since_s: float


class PageLeases:
    """The pages that a crawler has leased: idle, or in its hands.

    ``client``: which calls the service; closing it closes this; ``rules``: how bodies are read; ``clock``: seconds of
    a clock that is never set. Visits have the time of the service, from its answers. ``leased``, ``reported``,
    ``given_back``: how many pages were; ``failure``: the error of a service that refuses.
    """

    def __init__(
        self,
        client: AsyncClient,
        settings: LeaseSettings | None = None,
        rules: ContentRules | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.client = client
        self.settings = LeaseSettings() if settings is None else settings
        self.rules = ContentRules() if rules is None else rules
        self.leased = self.reported = self.given_back = 0
        self.failure: Exception | None = None
        self._clock = clock
        self._idle: deque[tuple[Lease, _Batch]] = deque()
        self._out: dict[int, tuple[str, _Batch]] = {}  # pages in hand by number
        self._back: deque[tuple[str, _Batch]] = deque()  # pages to be given back
        self._unsent = 0  # outcomes that the sender has
        self._dropped: deque[int] = deque()  # numbers of pages to be given back, from any thread
        self._serial = 0
        self._request: _Request | None = None
        self._is_asking = False  # whether a request is under way
        self._has_ended = self._is_stopping = False
        self._changed = asyncio.Event()  # set whenever a page may be had, or there is room for one
        self._asked_for = asyncio.Event()  # set when pages may be wanted
        self._is_back = asyncio.Event()  # set when pages are to be given back
        self._closing = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sender: AsyncOutcomeSender | None = None
        self._lost: list[Outcome] = []  # outcomes that could not be sent before the end
        self._asker: asyncio.Task[None] | None = None
        self._giver: asyncio.Task[None] | None = None
        self._wakers: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> int:
        """How many pages are leased and not handed out."""
        return len(self._idle)

    @property
    def in_hand(self) -> int:
        """How many pages are handed out and have no outcome."""
        return len(self._out)

    @property
    def has_page(self) -> bool:
        """Whether a page waits that may be handed out."""
        return bool(self._idle) and len(self._out) < self.settings.in_hand and self._unsent < _MOST_UNSENT

    @property
    def has_ended(self) -> bool:
        """Whether no page will be handed out any more: the service refuses, or has none and ``follow`` is False."""
        return self.failure is not None or (self._has_ended and not self._idle)

    @property
    def unsent(self) -> list[Outcome]:
        """The outcomes that the service has not yet confirmed to be on disk."""
        return self._lost if self._sender is None else self._sender.unsent

    async def start(self) -> None:
        """Begin to ask for pages. Nothing happens if it has begun."""
        async with self._closing:
            if self._sender is None:
                self._unsent = 0
                self._sender = await AsyncOutcomeSender(
                    self.client,
                    frame=_FRAME,
                    every_s=_EVERY_S,
                    capacity=_MOST_UNSENT + 2 * self.settings.in_hand,  # a visit has two outcomes at most
                    on_answer=self._note_answer,
                    clock=self._clock,
                ).__aenter__()
                self._loop = asyncio.get_running_loop()
                self._giver = asyncio.create_task(self._give_back())
                self.client.before_close(self.close)
            if self._asker is None:
                self._is_stopping, self._has_ended, self.failure = False, False, None
                self._asked_for.set()
                self._asker = asyncio.create_task(self._ask())

    async def resume(self) -> None:
        """Ask again after the service had no page, with ``follow`` False: there may be one now."""
        async with self._closing:
            is_over = self.settings.limit is not None and self.leased >= self.settings.limit
            if self._has_ended and not (self._is_stopping or is_over) and self.failure is None:
                self._has_ended = False
                self._asker = asyncio.create_task(self._ask())

    def take_now(self) -> LeasedPage | None:
        """Return a page if one is idle and may be handed out. O(1). Raises the service's error if it refuses."""
        while self.has_page:
            lease, batch = self._idle.popleft()
            self._wake_asker()
            if batch.ends_s - self._clock() < _LEAST_LEFT * batch.lasts_s:
                self._queue_back([(lease.url, batch)])
                continue
            self._serial += 1
            self._out[self._serial] = (lease.url, batch)
            return LeasedPage(lease, self, self._serial, batch.ahead_s)
        if self.failure is not None:
            raise self.failure
        return None

    async def take(self) -> LeasedPage | None:
        """Return a page once there is one, None if there will be none."""
        await asyncio.sleep(0)  # a program that awaits nothing else must not keep the tasks from their work
        while (page := self.take_now()) is None and not self.has_ended:
            if self._is_stopping:
                return None
            self._changed.clear()
            await self._changed.wait()
        return page

    def report(self, serial: int, outcomes: tuple[Outcome, ...]) -> None:
        """Send the outcomes of the page with this number. Raises the sender's error if the service refuses them."""
        if self._sender is None or serial not in self._out:
            raise SettingsError("page", outcomes[0].url, "an outcome before the page is given back")
        wakes = False
        for outcome in outcomes:
            wakes |= bool(self._sender.add_now(outcome))
        self._unsent += len(outcomes)
        del self._out[serial]
        self.reported += 1
        self._changed.set()
        if wakes:
            task = asyncio.get_running_loop().create_task(self._sender.wake())
            self._wakers.add(task)
            task.add_done_callback(self._wakers.discard)

    def give_back(self, serial: int) -> None:
        """Give the page with this number back, in any thread. Nothing happens if it is not in hand."""
        self._dropped.append(serial)
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._is_back.set)

    def read_clock(self) -> float:
        """Return the seconds of the crawler's clock."""
        return self._clock()

    async def flush(self) -> None:
        """Return once all outcomes that were reported are on the service's disk. Raises the error if they cannot be."""
        if self._sender is not None:
            await _within_close(self._sender.flush())

    async def stop(self) -> None:
        """Ask for no more pages and give back those that are idle. Pages in hand may still be reported."""
        async with self._closing:
            await self._stop_asking()

    async def close(self) -> None:
        """Give back all pages without an outcome, and send the outcomes. Within 25 seconds, also without a service.

        Raises the service's error if outcomes could not be sent; ``unsent`` has them.
        """
        async with self._closing:
            if self._sender is None:
                return
            await self._stop_asking()
            self._queue_back(self._out.values())
            self._out.clear()
            if self._giver is not None:
                self._giver.cancel()
                self._giver = None
            await self._release()
            sender = self._sender
            self.client.before_close(self.close, remove=True)
            try:
                await _within_close(sender.__aexit__(None, None, None))
            finally:
                self._sender, self._lost = None, sender.unsent

    async def _stop_asking(self) -> None:
        """End the task that asks, after the answer to its request, and give back the pages that are idle."""
        self._is_stopping = True
        self._changed.set()
        if self._asker is not None:
            if not self._is_asking:
                self._asker.cancel()
            longest_s = parse_duration(self.settings.wait, "wait", zero=True)
            _, pending = await asyncio.wait([self._asker], timeout=longest_s + _ANSWER_S)
            for task in pending:
                logger.warning("a request for pages has no answer: pages that it may have leased wait for their expiry")
                task.cancel()
            self._asker = None
        self._queue_back((lease.url, batch) for lease, batch in self._idle)
        self._idle.clear()

    def _wake_asker(self) -> None:
        if len(self._idle) <= self.settings.size // 2:
            self._asked_for.set()

    def _wanted(self) -> int:
        """Return for how many pages to ask now."""
        settings = self.settings
        if len(self._idle) > settings.size // 2:
            return 0
        wanted = settings.size - len(self._idle)
        return wanted if settings.limit is None else min(wanted, settings.limit - self.leased)

    async def _ask(self) -> None:
        """Keep up to a batch idle until told to stop, or until there is nothing to wait for."""
        pause_s = 1.0
        while not self._is_stopping and not self._has_ended:
            if self._request is None:
                if (wanted := self._wanted()) > 0:
                    self._request = _Request(wanted, secrets.token_urlsafe(18), self._clock())
                elif self.settings.limit is not None and self.leased >= self.settings.limit:
                    break
                else:
                    self._asked_for.clear()
                    await self._asked_for.wait()
                    continue
            sent_s = self._clock()
            try:
                found = await self._lease(self._request)
            except Exception as error:  # noqa: BLE001  who takes a page gets it
                if not getattr(error, "retriable", False):
                    self.failure = error
                    break
                logger.warning("the service leases no pages, next attempt within %.0f s: %s", pause_s, error)
                await asyncio.sleep(uniform(0.5, 1.0) * pause_s)
                pause_s = min(2.0 * pause_s, _LONGEST_PAUSE_S)
                continue
            pause_s = 1.0
            self._keep(found)
            if not found.pages:
                self._has_ended = not self.settings.follow
                if not self._has_ended and self._clock() - sent_s < _EMPTY_PAUSE_S:
                    await asyncio.sleep(_EMPTY_PAUSE_S)
        self._has_ended = True
        self._changed.set()

    async def _lease(self, request: _Request) -> LeasedBatch:
        self._is_asking = True
        try:
            return await self.client.next_batch(
                request.k,
                lease=self.settings.lease,
                hosts=self.settings.hosts,
                per_host=self.settings.per_host,
                key=request.key,
                wait=self.settings.wait,
            )
        finally:
            self._is_asking = False

    def _keep(self, found: LeasedBatch) -> None:
        """Add the pages of an answer to those that are idle."""
        assert self._request is not None
        now_s = self._clock()
        leased_s = self._request.since_s if found.repeated else now_s  # at the latest
        self._request = None
        self.leased += len(found.pages)
        for lease in found.pages:
            lasts_s = lease.lease_until - found.now
            self._idle.append((lease, _Batch(leased_s + lasts_s, lasts_s, found.now - leased_s)))
        self._changed.set()

    def _note_answer(self, sent: Sequence[Outcome], answer: Observed) -> None:
        self._unsent -= len(sent)
        self._changed.set()
        if answer.rejections:
            logger.warning("the service rejects %d outcomes, such as %s", answer.rejected, answer.rejections[0])

    def _queue_back(self, pages: Iterable[tuple[str, _Batch]]) -> None:
        self._back.extend(pages)
        self._is_back.set()

    async def _give_back(self) -> None:
        """Give pages back as they are queued."""
        while True:
            await self._is_back.wait()
            await asyncio.sleep(_GATHER_S)
            self._is_back.clear()
            await self._release()

    async def _release(self) -> None:
        """Give the queued pages back whose leases last; the others are free already. Errors are logged only."""
        while self._dropped:
            if (page := self._out.pop(self._dropped.popleft(), None)) is not None:
                self._back.append(page)
        self._changed.set()
        while self._back:
            some = [self._back.popleft() for _ in range(min(len(self._back), 10_000))]
            now_s = self._clock()
            held = [(url, batch.ends_s - now_s) for url, batch in some if batch.ends_s - now_s > _MARGIN_S]
            if not held:
                continue
            try:
                await self.client.release(
                    [url for url, _ in held], timeout_s=min(_CLOSE_S / 2, *(left_s for _, left_s in held))
                )
                self.given_back += len(held)
            except StreamschedError as error:
                logger.warning("%d pages wait for the end of their leases: %s", len(held), error)


async def _within_close(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`. Raises ServiceUnavailable if it takes too long to wait for at the end of a program."""
    try:
        async with asyncio.timeout(_CLOSE_S):
            await work
    except TimeoutError:
        raise ServiceUnavailable("POST /v1/outcomes", f"outcomes are not sent after {_CLOSE_S:.0f} s") from None
