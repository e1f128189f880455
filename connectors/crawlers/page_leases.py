"""A `Frontier` in an event loop: pages that tasks wait for, and ends that they wait for."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Final

from streamsched.client.async_client import AsyncClient
from streamsched.connectors.crawlers.frontier import Frontier, LeaseSettings
from streamsched.connectors.crawlers.leased_page import LeasedPage
from streamsched.connectors.crawlers.service_link import ServiceLink, within
from streamsched.connectors.crawlers.visits import ContentRules
from streamsched.errors import SettingsError
from streamsched.numerics.durations import parse_duration
from streamsched.outcomes import Outcome

logger = logging.getLogger("streamsched.crawlers")

_ANSWER_S: Final = 3.0  # in which a request for pages is answered, beyond the time that it lets the service wait
_CLOSE_S: Final = 10.0  # for the last outcomes; a service that is away must not keep a crawler from ending


class PageLeases:
    """The pages that a crawler has leased: idle, or in its hands. The surroundings of its `Frontier`.

    ``client``: which calls the service; closing it closes this; ``rules``: how bodies are read; ``clock``: seconds of
    a clock that is never set. Visits have the time of the service, from its answers. ``reported``: how many pages
    have an outcome; ``counts``: figures, as Scrapy's stats have; ``failure``: the error of a service that refuses.
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
        self.counts: Counter[str] = Counter()
        self.reported = 0
        self.failure: Exception | None = None
        self._link = ServiceLink(lambda: nullcontext(client))
        self.frontier = Frontier(self._link, self.settings, self, clock=clock)
        self._changed = asyncio.Event()  # set whenever a page may be had, or none will be
        self._closing = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None  # while it is open

    @property
    def leased(self) -> int:
        """How many pages were leased."""
        return self.frontier.leased

    @property
    def given_back(self) -> int:
        """How many pages were given back."""
        return self.counts["released"]

    @property
    def idle(self) -> int:
        """How many pages are leased and not handed out."""
        return self.frontier.waiting

    @property
    def in_hand(self) -> int:
        """How many pages are handed out and have no outcome."""
        return self.frontier.in_hand

    @property
    def has_ended(self) -> bool:
        """Whether no page will be handed out any more: the service refuses, or has none and ``follow`` is False."""
        return self.failure is not None or (self.frontier.is_done and not self.idle)

    @property
    def unsent(self) -> list[Outcome]:
        """The outcomes that the service has not yet confirmed to be on disk."""
        return [outcome for outcome in self._link.unsent if outcome.status != "not_attempted"]

    async def start(self) -> None:
        """Begin to ask for pages. Nothing happens if it has begun."""
        async with self._closing:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
                self.client.before_close(self.close)
                self.frontier.start()
            elif self.frontier.is_stopping:
                self.failure = None
                self.frontier.resume()

    def take_now(self) -> LeasedPage | None:
        """Return a page if one is idle and may be handed out. O(1). Raises the service's error if it refuses."""
        visit = self.frontier.next_visit()
        if visit is not None and visit.page is not None:
            return LeasedPage(visit.page, self, visit.number)
        if self.failure is not None:
            raise self.failure
        return None

    async def take(self) -> LeasedPage | None:
        """Return a page once there is one, None if there will be none."""
        await asyncio.sleep(0)  # a program that awaits nothing else must not keep the tasks from their work
        while (page := self.take_now()) is None and not (self.has_ended or self.frontier.is_stopping):
            self._changed.clear()
            await self._changed.wait()
        return page

    def report(self, serial: int, outcomes: tuple[Outcome, ...]) -> None:
        """Send the outcomes of the page with this number. Raises the sender's error if the service refuses them."""
        visit = self.frontier.find(serial)
        if self._loop is None or visit is None:
            raise SettingsError("page", outcomes[0].url, "an outcome before the page is given back")
        if self._link.failure is not None:
            raise self._link.failure
        self.frontier.report(visit, outcomes)
        self.reported += 1
        self._changed.set()

    def give_back(self, serial: int) -> None:
        """Give the page with this number back, in any thread. Nothing happens if it is not in hand."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._give_back, serial)

    def now(self) -> float:
        """Return the service's time."""
        return self.frontier.now()

    async def flush(self) -> None:
        """Return once all outcomes that were reported are on the service's disk. Raises the error if they cannot be."""
        if self._loop is not None:
            await within(_CLOSE_S, self._link.flush())

    async def discover(self) -> None:
        """Return once the service has taken or refused the links of `Frontier.add_link`."""
        self.frontier.send_links()
        await self._link.discovered()

    async def stop(self) -> None:
        """Ask for no more pages and give back those that are idle. Pages in hand may still be reported."""
        async with self._closing:
            await self._stop()

    async def close(self) -> None:
        """Give back all pages without an outcome, and send the outcomes. Within 25 seconds, also without a service.

        Raises the service's error if outcomes could not be sent; ``unsent`` has them.
        """
        async with self._closing:
            if self._loop is None:
                return
            await self._stop()
            ended: asyncio.Future[Exception | None] = self._loop.create_future()
            self.client.before_close(self.close, remove=True)
            self.frontier.finish(_CLOSE_S, ended.set_result)
            error = await asyncio.shield(ended)
            self._loop = None
            if error is not None and self.unsent:
                raise error
            if error is not None:
                logger.warning("pages wait for the end of their leases: %s", error)

    # What a frontier uses of its crawler

    def count(self, name: str, number: int = 1, /) -> None:
        """Add to a figure."""
        self.counts[name] += number

    def wake(self) -> None:
        """Let tasks look for pages."""
        self._changed.set()

    def later(self, seconds: float, call: Callable[[], None], /) -> None:
        """Call a function after some seconds."""
        asyncio.get_running_loop().call_later(seconds, call)

    def fail(self, error: Exception, /) -> None:
        """Keep the error for the tasks that wait."""
        self.failure = error
        self._changed.set()

    def _give_back(self, serial: int) -> None:
        if (visit := self.frontier.find(serial)) is not None:
            self.frontier.give_back([visit])
            self._changed.set()

    async def _stop(self) -> None:
        if self._loop is not None:
            stopped = asyncio.Event()
            wait_s = parse_duration(self.settings.wait, "wait", zero=True)
            self.frontier.stop(wait_s + _ANSWER_S, stopped.set)
            self._changed.set()
            await stopped.wait()
