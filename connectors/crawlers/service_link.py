"""Calls of the service for a `Frontier`, whose thread must not wait.

An event loop makes them: that of the crawler, or one in a thread that all crawlers without a loop share. What the
crawler hands over returns at once; answers arrive in its thread as calls of the functions that it gave.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from streamsched.api.views import Observed
from streamsched.client import AsyncClient, AsyncOutcomeSender, Outcome
from streamsched.connectors.crawlers.local_service import LocalService
from streamsched.errors import ServiceUnavailable

Result = TypeVar("Result")
Then = Callable[[bool | None], None]
"""Hears whether a page has changed, None if it is not known."""

_LOG: Final = logging.getLogger("streamsched.crawlers")
_PAUSES_S: Final = (0.5, 1.0, 2.0, 5.0)  # between attempts to hand discoveries over; then always the last
_AT_ONCE_S: Final = 0.001  # outcomes have waited for others before
_LINKS_A_CALL: Final = 1_000
_MOST_LINKS: Final = 100_000  # that wait for a service which is away: 20 MB


class Report(NamedTuple):
    """An outcome, and who hears its verdict."""

    outcome: Outcome
    then: Then | None = None


@cache
def shared_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of the thread for all crawlers of this process that have no loop of their own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="streamsched links", daemon=True).start()
    return loop


@asynccontextmanager
async def connection(
    url: str | None, state: str | None, token: str | None, serve: Sequence[str] = ()
) -> AsyncIterator[AsyncClient]:
    """Connect to the service at `url`, or to one that is started on the directory `state` with the options `serve`."""
    local: LocalService | None = None
    if state is not None:
        try:
            local = await _open_local(state, serve)
        except asyncio.CancelledError:
            LocalService.abandon(state)
            raise
        url = local.url
    assert url is not None
    try:
        async with AsyncClient(url, token=token) as client:
            yield client
    finally:
        if local is not None:
            try:
                await asyncio.to_thread(local.close)
            except RuntimeError:  # the interpreter ends, and starts no thread
                local.close()


async def _open_local(state: str, serve: Sequence[str]) -> LocalService:
    """Open the service in a daemon thread: the end of the program would wait for one of `asyncio.to_thread`."""
    opened: Future[LocalService] = Future()
    opened.set_running_or_notify_cancel()

    def call() -> None:
        try:
            opened.set_result(LocalService.open(state, serve))
        except BaseException as error:  # noqa: BLE001  raised where it is awaited
            opened.set_exception(error)

    threading.Thread(target=call, name="streamsched service", daemon=True).start()
    return await asyncio.wrap_future(opened)


class ServiceLink:
    """A connection that stays, to be opened by `start` and ended by `finish`.

    ``to_loop``: calls a function in the thread of the event loop; ``to_crawler``: in that of the crawler. Without
    them these are one, and the methods are for it. ``positions``: whether verdicts are asked for; ``failure``: the
    error of a service that takes no outcomes; ``links_dropped``: links that were not discovered.
    """

    def __init__(
        self,
        connected: Callable[[], AbstractAsyncContextManager[AsyncClient]],
        *,
        to_loop: Callable[..., Any] | None = None,
        to_crawler: Callable[..., Any] | None = None,
        positions: bool = False,
    ) -> None:
        self._connected = connected
        self._to_loop = to_loop or _call
        self._to_crawler = to_crawler or _call
        self._positions = positions
        self._connection: AbstractAsyncContextManager[AsyncClient] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: asyncio.Task[None] | None = None
        self._client: AsyncClient | None = None
        self._sender: AsyncOutcomeSender | None = None
        self._reports: deque[Report] = deque()  # of the crawler's thread, until it sends them
        self._sent: deque[Report] = deque()  # those in the sender, in its order
        self._lost: list[Outcome] = []
        self._links: deque[str] = deque()
        self._linking: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        self.has_ended = threading.Event()
        self.links_dropped = 0

    @property
    def has_links(self) -> bool:
        """Whether some links are not discovered yet."""
        return bool(self._links)

    @property
    def unsent(self) -> list[Outcome]:
        """The outcomes that the service has not yet confirmed to be on disk."""
        return [*self._lost, *(report.outcome for report in (*self._sent, *self._reports))]

    def start(
        self, on_answer: Callable[[Sequence[Report], Observed | None], None], on_discovered: Callable[[], None]
    ) -> None:
        """Open the connection; `on_answer` hears what became of outcomes, `on_discovered` that no link waits."""
        self._on_answer, self._on_discovered = on_answer, on_discovered
        self.failure, self._lost = None, []
        self._to_loop(self._begin)

    def perform(
        self, work: Callable[[AsyncClient], Coroutine[Any, Any, Result]], then: Callable[[Result | Exception], None]
    ) -> None:
        """Do `work` with the client; call `then` with its result or error."""

        async def run() -> None:
            result: Any
            try:
                result = await work(await self._opened())
            except Exception as error:  # noqa: BLE001  `then` gets it
                result = error
            self._hand(then, result)

        self._to_loop(self._start_task, run)

    def report(self, report: Report) -> int:
        """Keep an outcome until `send`; return how many are kept. O(1)."""
        self._reports.append(report)
        return len(self._reports)

    def send(self) -> None:
        """Send the outcomes that were reported. Each call costs a change of threads and a request."""
        if self._reports:
            self._to_loop(self._take_reports)

    def discover(self, urls: Sequence[str]) -> None:
        """Send URLs, soon; of those that wait for a service which is away, the oldest 100,000 are kept."""
        self._to_loop(self._take_links, urls)

    def finish(self, within_s: float, then: Callable[[Exception | None], None]) -> None:
        """Send what waits, and close the connection; `then` gets the error for which something was not sent."""

        async def work() -> None:
            result: Exception | None = None
            steps: tuple[Callable[[], Coroutine[Any, Any, None]], ...] = (
                lambda: within(within_s, self._end()),
                self._close,
            )
            for step in steps:
                try:
                    await step()
                except Exception as error:  # noqa: BLE001  `then` gets the first one
                    result = result or error
            self._hand(then, result)
            self.has_ended.set()

        self._to_loop(self._start_task, work)

    async def flush(self) -> None:
        """Return once all outcomes that were reported are on the service's disk. Raises the error if they cannot be."""
        await self._opened()
        self._take_reports()
        if self._sender is not None:
            await self._sender.flush()

    async def discovered(self) -> None:
        """Return once the service has taken or refused all links."""
        await self._opened()
        if self._linking is not None:
            await asyncio.shield(self._linking)

    def _hand(self, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the crawler's loop has ended
            self._to_crawler(call, *arguments)

    def _begin(self) -> None:
        self._opening = self._start_task(self._open)

    def _start_task(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _open(self) -> None:
        self._connection = self._connected()
        self._client = await self._connection.__aenter__()
        self._sender = AsyncOutcomeSender(
            self._client,
            every_s=_AT_ONCE_S,
            capacity=sys.maxsize,  # the frontier bounds them
            on_answer=self._note_answer,
            positions=self._positions,
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

    def _take_reports(self) -> None:
        if self._sender is None:  # `_open` will take them
            return
        wakes = False
        while self._reports:
            report = self._reports.popleft()
            try:
                wakes |= bool(self._sender.add_now(report.outcome))
                self._sent.append(report)
            except Exception as error:  # noqa: BLE001  the sender has stopped: the service refuses
                self.failure = error
                self._lost.append(report.outcome)
                self._hand(self._on_answer, [report], None)
        if wakes:
            self._start_task(self._sender.wake)

    def _note_answer(self, sent: Sequence[Outcome], answer: Observed) -> None:
        if answer.rejections:
            _LOG.warning("the service rejects %d outcomes, such as %s", answer.rejected, answer.rejections[0])
        self._hand(self._on_answer, [self._sent.popleft() for _ in sent], answer)

    def _take_links(self, urls: Sequence[str]) -> None:
        room = max(0, _MOST_LINKS - len(self._links))
        self._links.extend(urls[:room])
        self.links_dropped += len(urls[room:])
        self._send_links()

    def _send_links(self) -> None:
        if self._client is not None and self._links and (self._linking is None or self._linking.done()):
            client = self._client
            self._linking = self._start_task(lambda: self._discover(client))

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
        self._hand(self._on_discovered)

    async def _end(self) -> None:
        """Send what waits, in order: links, outcomes."""
        await self.discovered()
        assert self._sender is not None
        self._take_reports()
        await self._sender.__aexit__(None, None, None)

    async def _close(self) -> None:
        """Leave no task, connection or process."""
        current = asyncio.current_task()
        left = [task for task in self._tasks if task is not current]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._sender is not None:
            await self._sender.cancel()
        if self._sent:
            self._lost += [report.outcome for report in self._sent]
            self._hand(self._on_answer, list(self._sent), None)
            self._sent.clear()
        if self._links:
            _LOG.warning("%d links not discovered: the crawl ends", len(self._links))
            self.links_dropped += len(self._links)
            self._links.clear()
        self._client = self._sender = self._linking = None
        if self._connection is not None:
            await self._connection.__aexit__(None, None, None)


def _call(function: Callable[..., Any], *arguments: Any) -> None:
    function(*arguments)


async def within(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Await `work`. Raises ServiceUnavailable if it takes too long to wait for at the end of a program."""
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        raise ServiceUnavailable("POST /v1/outcomes", f"outcomes are not sent after {seconds:.0f} s") from None
