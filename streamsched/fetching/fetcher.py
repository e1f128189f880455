"""The loop of `streamsched signals fetch`: visits run side by side, and what they find is delivered before it is noted.

What is done is noted in this order, so that a kill at any point loses no signal: 1. signals are delivered, 2. the
scheduler gets the outcomes, 3. now and then the memory of entries and the book of documents are saved. After a kill the
memory may be older than the scheduler: the documents since then are fetched whole, and announced again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from streamsched.connectors.signals.document_memory import DocumentMemory
from streamsched.errors import StreamschedError
from streamsched.fetching.document_book import Document
from streamsched.fetching.document_schedule import DocumentSchedule
from streamsched.fetching.host_gate import HostGate
from streamsched.fetching.visits import Visit, Visitor
from streamsched.numerics.compilation.helper import compile_aside
from streamsched.service.event_log import LOG
from streamsched.signals import SignalBatch
from streamsched.web.reach import PUBLIC, Reach
from streamsched.web.safe_fetch import AGENT, Resolve, SafeClient

if TYPE_CHECKING:
    from streamsched.fetching.hubs import Serve, Subscriber

Deliver: TypeAlias = Callable[[SignalBatch], None]
"""Hands signals over; returns once they are safe. Raises StreamschedError, with ``retriable`` if that may pass."""

_ENTRIES: Final = "entries.msgpack"
_KERNELS: Final = ("observe", "serve", "keep on disk", "observe columns")  # of `warm`, which hold those of a schedule
_TICK_S: Final = 0.2  # between two looks for documents that have fallen due
_LEASED_PER_JOB: Final = 4  # documents that are chosen together: to choose costs milliseconds and a write
_COMMIT_S: Final = 1.0  # the longest that what is found waits for its delivery
_COMMIT_VISITS: Final = 256
_MOST_PENDING: Final = 4 * _COMMIT_VISITS  # visits that wait for a delivery: then none begins
_PAUSE_S: Final = 10.0  # after a delivery that failed
_SAVE_S: Final = 30.0  # between two saves, at least
_PUSHES: Final = 4  # of hubs that are read side by side; one at a time is parsed
_SAVE_SHARE: Final = 20.0  # seconds without a save after one that took a second
_FATES: Final = ("entries", "invalid", "other_host", "untimed", "future", "repeated")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How documents are fetched.

    - ``every_s``: mean time between two visits of a document; the scheduler decides which ones come sooner;
    - ``delay_s``: between two requests to a host; ``jobs``: visits at a time;
    - ``reach``: the addresses that may be connected to; ``agent``: the User-Agent header;
    - ``resolve``: what looks names up, by default the machine;
    - ``callback``: the URL below which hubs reach this process, and ``serve``, what serves there; without them it
      subscribes to nothing.
    """

    every_s: float = 3_600.0
    delay_s: float = 1.0
    jobs: int = 32
    reach: Reach = PUBLIC
    agent: str = AGENT
    resolve: Resolve | None = None
    callback: str = ""
    serve: Serve | None = None


class Fetcher:
    """Fetches the documents of a state directory and passes their signals to `deliver`; a context manager.

    `clock` reads UTC epoch seconds, `monotonic` seconds of a clock that is never set. ``schedule``: the documents;
    ``counts``: visits, signals and entries by their fates; ``on_progress``: called with them after each visit.
    """

    def __init__(
        self,
        directory: Path,
        deliver: Deliver,
        settings: FetchSettings,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.counts: Counter[str] = Counter(documents=0, visits=0, not_modified=0, signals=0)
        self.on_progress: Callable[[Counter[str]], None] = lambda _counts: None
        self.schedule = DocumentSchedule(directory, settings.every_s, settings.delay_s, clock)
        self.memory = DocumentMemory()
        self._entries = directory / _ENTRIES
        self._deliver = deliver
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._leased: deque[tuple[Document, float | None]] = deque()  # what is visited next
        self._done: list[Visit] = []  # visits that are not delivered and noted
        self._choose_at = 0.0
        self._hubs: Subscriber | None = None
        self._is_exhausted = False  # the last choice found nothing, and nothing was noted since
        self._commit_at = self._save_at = 0.0

    def __enter__(self) -> Self:
        """Open the state. Raises SnapshotError if it is in use or damaged."""
        compile_aside(_KERNELS)
        self.schedule.__enter__()
        try:
            with suppress(FileNotFoundError):
                self.memory = DocumentMemory.load(self._entries)
        except BaseException:
            self.schedule.__exit__()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.schedule.__exit__(kind, error, trace)

    async def run(self, stop: asyncio.Event, *, once: bool = False) -> None:
        """Visit documents until `stop` is set; with `once` until none is due. What was found is then saved.

        Raises the error of a delivery that cannot succeed, with `once` of any, and SnapshotError if the state cannot
        be written.
        """
        settings = self._settings
        gate = HostGate(settings.delay_s, self._monotonic)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                SafeClient(settings.reach, agent=settings.agent, connections=settings.jobs, resolve=settings.resolve)
            )
            visitor = Visitor(client, gate, self.schedule.book, self.memory, self._clock)
            visitor.on_robots = self.schedule.take_robots
            await self._subscribe(stack, visitor, client)
            tasks: set[asyncio.Task[Visit]] = set()
            stopping = asyncio.create_task(stop.wait())
            try:
                self.schedule.refill()
                while not stop.is_set():
                    if not once:
                        self.schedule.refill()
                    begun = self._begin(visitor, tasks)
                    if once and not (begun or tasks or self._done or self._is_due()):
                        break
                    self._begin_pushed(visitor, tasks)
                    await asyncio.wait({stopping, *tasks}, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED)
                    self._collect(tasks)
                    await self._commit(visitor, tasks, once=once)
            finally:
                stopping.cancel()
                await self._end(visitor, tasks)

    async def _subscribe(self, stack: AsyncExitStack, visitor: Visitor, client: SafeClient) -> None:
        """Serve the callbacks of hubs until `stack` ends, if hubs can reach this process."""
        if self._settings.serve is None:
            return
        from streamsched.fetching.hubs import Subscriber  # noqa: PLC0415  starlette is an extra

        subscriptions = self.schedule.book.subscriptions
        subscriptions.open(self._settings.callback, self._clock())
        keep = self.schedule.keep_subscription
        self._hubs = Subscriber(subscriptions, client, visitor.passing, self._clock, self.counts, keep)
        stack.push_async_callback(self._hubs.close)
        await stack.enter_async_context(self._settings.serve(self._hubs.app))

    def _begin_pushed(self, visitor: Visitor, tasks: set[asyncio.Task[Visit]]) -> None:
        """Ask the hubs that are due, and begin to read what hubs have sent."""
        if self._hubs is None:
            return
        self._hubs.ask_hubs()
        room = _PUSHES - sum(not task.get_name() for task in tasks)
        while self._hubs.inbox and room > 0 and len(self._done) < _MOST_PENDING:
            push = self._hubs.inbox.popleft()
            document = self.schedule.book.find(push.url)
            if document is None or document.gone:
                self._hubs.release(push)
                continue
            last_visit_s = self.schedule.last_visit_s(document)
            reading = visitor.read_pushed(document, push.body, push.at, last_visit_s)
            task = asyncio.create_task(reading, name="")
            task.add_done_callback(partial(self._hubs.release, push))
            tasks.add(task)
            room -= 1

    def _is_due(self) -> bool:
        """Return whether there may be documents to choose now, or soon."""
        return not self._is_exhausted or self.schedule.is_awaited()

    def _begin(self, visitor: Visitor, tasks: set[asyncio.Task[Visit]]) -> int:
        """Begin visits in the free slots; return how many."""
        if len(self._done) >= _MOST_PENDING:
            return 0
        if not self._leased and (now_s := self._monotonic()) >= self._choose_at:
            self._leased.extend(self.schedule.choose(_LEASED_PER_JOB * self._settings.jobs))
            self._is_exhausted = not self._leased
            self._choose_at = now_s + _TICK_S
        room = min(self._settings.jobs - len(tasks), len(self._leased))
        for _ in range(room):
            document, last_visit_s = self._leased.popleft()
            tasks.add(asyncio.create_task(visitor.visit(document, last_visit_s), name=document.url))
        return room

    def _collect(self, tasks: set[asyncio.Task[Visit]]) -> None:
        """Take the visits that have ended."""
        for task in [task for task in tasks if task.done()]:
            tasks.remove(task)
            self._count(task.result())
            self._done.append(task.result())

    def _count(self, visit: Visit) -> None:
        counts, reading = self.counts, visit.reading
        counts["documents"] = len(self.schedule)
        counts["visits"] += not visit.is_pushed
        counts["bytes"] += visit.size
        if self._hubs is not None:
            self._hubs.take(visit)
        if visit.kind:
            counts[f"failed_{visit.kind}"] += 1
            LOG.warning("document not read", url=visit.document.url, reason=visit.failure)
        elif visit.status == 304:
            counts["not_modified"] += 1
        if reading is not None:
            for fate in _FATES:
                counts[fate] += getattr(reading, fate)
        self.on_progress(counts)

    async def _commit(self, visitor: Visitor, tasks: set[asyncio.Task[Visit]], *, once: bool) -> None:
        """Deliver and note what was found, and save, if it is time."""
        now_s = self._monotonic()
        is_due = now_s >= self._commit_at or len(self._done) >= _COMMIT_VISITS or (once and not tasks)
        try:
            if self._done and is_due:
                self._commit_at = now_s + _COMMIT_S
                await self._deliver_all()
            if now_s >= self._save_at:
                await self._save(visitor, tasks)
        except StreamschedError as error:
            if once or not error.retriable:
                raise
            self._commit_at = self._save_at = now_s + _PAUSE_S
            LOG.warning("signals not delivered", reason=str(error), again_in_s=_PAUSE_S)

    async def _deliver_all(self) -> None:
        """1. Deliver the signals. 2. Note the outcomes."""
        done = self._done[:]
        signals = [visit.reading.signals for visit in done if visit.reading is not None and len(visit.reading.signals)]
        if signals:
            await asyncio.to_thread(self._deliver, SignalBatch.concatenate(signals))
            self.counts["signals"] += sum(map(len, signals))
        await asyncio.to_thread(self.schedule.note, done)
        self._is_exhausted = False
        self.counts["documents"] = len(self.schedule)
        del self._done[: len(done)]

    async def _save(self, visitor: Visitor, tasks: set[asyncio.Task[Visit]]) -> None:
        """3. Save memory and book, while nothing is read and once all that was read is delivered."""
        async with visitor.quiet():
            self._collect(tasks)
            if self._done:
                await self._deliver_all()
            start_s = self._monotonic()
            await asyncio.to_thread(self._write)
            end_s = self._monotonic()
        self._save_at = end_s + max(_SAVE_S, _SAVE_SHARE * (end_s - start_s))

    def _write(self) -> None:
        self.memory.save(self._entries)
        self.schedule.save()

    async def _end(self, visitor: Visitor, tasks: set[asyncio.Task[Visit]]) -> None:
        """Give unfinished visits back, deliver what was found, and save."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cancelled = {task for task in tasks if task.cancelled()}
        names = [task.get_name() for task in cancelled if task.get_name()]
        self.schedule.give_back(names + [one.url for one, _ in self._leased])
        self._leased.clear()
        tasks -= cancelled
        await self._save(visitor, tasks)
