"""Calls of the service for a crawler whose own thread must not wait: an event loop in a thread of its own.

What the crawler's thread hands over returns at once; answers arrive there as calls of the functions that it gave.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from streamsched.api.views import Observed
from streamsched.client import AsyncClient, AsyncOutcomeSender, Outcome
from streamsched.connectors.crawlers.local_service import LocalService
from streamsched.errors import AccessDenied

Result = TypeVar("Result")
Deliver = Callable[[Callable[[], None]], None]
"""Calls a function soon, in the crawler's thread."""

_LOG: Final = logging.getLogger("streamsched.connectors.scrapy")
_PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0)  # between attempts to hand discoveries over; then always the last
_AT_ONCE_S: Final = 0.001  # outcomes have waited for others before
_LINKS_A_CALL: Final = 1_000
_MOST_LINKS: Final = 100_000  # that wait for a service which is away: 20 MB


OnAnswer = Callable[[int, Observed | None], None]
"""Hears what became of an outcome: its position in the call, and the answer, None if the service will give none."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Where the service is, or the directory of one of its own, and how outcomes are sent.

    ``serve``: options of the service of its own.
    """

    url: str | None
    state: str | None
    token: str | None = None
    serve: Sequence[str] = ()


class ServiceLink:
    """A connection that stays, to be started by `start` and ended by `finish`."""

    def __init__(self, settings: LinkSettings, deliver: Deliver) -> None:
        self._settings = settings
        self._deliver = deliver
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="streamsched link", daemon=True)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: asyncio.Task[None] | None = None
        self._local: LocalService | None = None
        self._client: AsyncClient | None = None
        self._sender: AsyncOutcomeSender | None = None
        self._reports: deque[tuple[Outcome, OnAnswer]] = deque()  # of the crawler's thread, until it sends them
        self._sent: deque[OnAnswer] = deque()  # those of the outcomes in the sender, in its order
        self._links: deque[str] = deque()
        self._linking: asyncio.Task[None] | None = None
        self.links_dropped = 0

    def start(self) -> None:
        """Start the thread, and in it a service if it is one of the crawler's own."""
        self._thread.start()
        self._loop.call_soon_threadsafe(self._begin)

    def perform(
        self, work: Callable[[AsyncClient], Coroutine[Any, Any, Result]], then: Callable[[Result | Exception], None]
    ) -> None:
        """Do `work` with the client; call `then` with its result or error."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits for an answer any more
            self._loop.call_soon_threadsafe(self._perform, work, then)

    def report(self, outcome: Outcome, on_answer: OnAnswer) -> int:
        """Keep an outcome until `send`; return how many are kept. O(1)."""
        self._reports.append((outcome, on_answer))
        return len(self._reports)

    def send(self) -> None:
        """Send the outcomes that were reported. Each call costs a change of threads and a request."""
        if self._reports:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._take_reports)

    def discover(self, urls: Sequence[str]) -> None:
        """Send URLs, soon; of those that wait for a service which is away, the oldest 100,000 are kept."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._take_links, urls)

    def finish(self, unvisited: Sequence[str], within_s: float, then: Callable[[int | Exception], None]) -> None:
        """Send what waits, give the pages `unvisited` back, and end the thread and the service of its own.

        `then` gets the number of pages that were given back, or the error for which some outcome or page was not.
        """

        async def work() -> None:
            result: int | Exception
            try:
                async with asyncio.timeout(within_s):
                    result = await self._end(unvisited)
            except Exception as error:  # noqa: BLE001  `then` gets it
                result = error
            await self._close()
            self._hand(lambda: then(result))
            self._loop.stop()

        self._loop.call_soon_threadsafe(self._start_task, work())

    def join(self, within_s: float) -> None:
        """Wait until the thread has ended, for `within_s` seconds at most."""
        self._thread.join(within_s)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _hand(self, call: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the crawler's loop has ended
            self._deliver(call)

    def _begin(self) -> None:
        self._opening = self._start_task(self._open())

    def _start_task(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _open(self) -> None:
        settings, url = self._settings, self._settings.url
        if settings.state is not None:
            self._local = await asyncio.to_thread(LocalService.open, settings.state, settings.serve)
            url = self._local.url
        assert url is not None
        self._client = AsyncClient(url, token=settings.token)
        self._sender = AsyncOutcomeSender(
            self._client,
            every_s=_AT_ONCE_S,
            on_answer=self._note_answer,
            positions=True,
        )
        await self._sender.__aenter__()
        self._take_reports()
        self._send_links()

    async def _opened(self) -> AsyncClient:
        """Return the client once there is one. Raises the error of the start."""
        assert self._opening is not None
        await asyncio.shield(self._opening)
        assert self._client is not None
        return self._client

    def _perform(self, work: Callable[[AsyncClient], Coroutine[Any, Any, Any]], then: Callable[[Any], None]) -> None:
        async def run() -> None:
            result: Any
            try:
                result = await work(await self._opened())
            except Exception as error:  # noqa: BLE001  `then` gets it
                result = error
            self._hand(lambda: then(result))

        self._start_task(run())

    def _take_reports(self) -> None:
        if self._sender is None:  # `_open` will take them
            return
        wakes = False
        while self._reports:
            outcome, on_answer = self._reports.popleft()
            self._sent.append(on_answer)
            try:
                added = self._sender.add_now(outcome)
            except Exception as error:  # noqa: BLE001  the sender has stopped: the service refuses
                added = None
                _LOG.debug("outcome of %s not sent: %s", outcome.url, error)
            if added is None:
                self._sent.pop()
                self._answer([on_answer], None)
            wakes = wakes or bool(added)
        if wakes:
            self._start_task(self._sender.wake())

    def _note_answer(self, sent: Sequence[Outcome], answer: Observed) -> None:
        self._answer([self._sent.popleft() for _ in sent], answer)

    def _answer(self, waiting: Sequence[OnAnswer], answer: Observed | None) -> None:
        def tell() -> None:
            for position, on_answer in enumerate(waiting):
                on_answer(position, answer)

        self._hand(tell)

    def _take_links(self, urls: Sequence[str]) -> None:
        room = max(0, _MOST_LINKS - len(self._links))
        self._links.extend(urls[:room])
        self.links_dropped += len(urls[room:])
        self._send_links()

    def _send_links(self) -> None:
        if self._client is not None and self._links and (self._linking is None or self._linking.done()):
            self._linking = self._start_task(self._discover(self._client))

    async def _discover(self, client: AsyncClient) -> None:
        """Send all links that wait; try again until the service takes or refuses them."""
        failures = 0
        while self._links:
            part = list(self._links)[:_LINKS_A_CALL]
            try:
                await client.discover(part)
            except Exception as error:  # noqa: BLE001  any failure must leave the links that follow
                if getattr(error, "retriable", False):
                    await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
                    failures += 1
                    continue
                _LOG.warning("%d links not discovered: %s", len(part), error)
                self.links_dropped += len(part)
            failures = 0
            for _ in part:
                self._links.popleft()

    async def _end(self, unvisited: Sequence[str]) -> int:
        """Send what waits, in order: links, outcomes, pages given back."""
        client = await self._opened()
        if self._linking is not None:
            await self._linking
        assert self._sender is not None
        self._take_reports()
        error: Exception | None = None
        try:
            await self._sender.__aexit__(None, None, None)
        except Exception as failure:  # noqa: BLE001  pages are given back all the same
            error = failure
        given = 0
        for start in range(0, len(unvisited), _LINKS_A_CALL):
            given += (await client.release(unvisited[start : start + _LINKS_A_CALL])).known
        if error is not None:
            raise error
        return given

    async def _close(self) -> None:
        """Leave no task, connection or process."""
        if self._local is None and self._settings.state is not None:
            LocalService.abandon(self._settings.state)
        current = asyncio.current_task()
        left = [task for task in self._tasks if task is not current]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        if self._local is not None:
            self._local.close()  # this thread has nothing else to do


def is_final(error: Exception) -> bool:
    """Return whether another attempt is in vain, such as one with a token that is not valid."""
    return isinstance(error, AccessDenied) or not getattr(error, "retriable", False)
