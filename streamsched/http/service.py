"""What all endpoints share: the scheduler behind its thread, the clock, and counts."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import Final, TypeVar

from streamsched.api.values import LONGEST_WAIT_S
from streamsched.errors import SettingsError, SnapshotError
from streamsched.http.protocol.problems import HttpError
from streamsched.http.scheduler_thread import QueueFull, SchedulerThread
from streamsched.http.service_figures import RequestDurations, ServiceFigures
from streamsched.numerics.durations import parse_duration
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG

Result = TypeVar("Result")

_PAUSE_S: Final = 0.02  # between two looks of a waiter of a bell, so that one that never stops costs little


class ServiceState:
    """What any service has, whoever answers its requests. Used by the thread that answers them.

    - ``version``: of the package, "0" if it is not installed;
    - ``clock``: the present time, UTC epoch seconds; ``started_s``: when the service was made;
    - ``is_starting``, ``is_stopping``: whether requests are refused because of what must be compiled first, or because
      the service stops; monitors are answered;
    - ``statuses``: counts of answers since the start;
    - ``durations``: of requests.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.version = _find_version()
        self.clock = clock
        self.started_s = clock()
        self.is_starting = False
        self.is_stopping = False
        self.statuses: Counter[int] = Counter()
        self.durations = RequestDurations()

    @property
    def is_writable(self) -> bool:
        """Whether nothing is known to keep the state from being written."""
        return True

    @property
    def progress(self) -> tuple[int | None, float | None]:
        """How many messages the stream is behind, and the age of its outcomes, as of `Readiness`."""
        return None, None

    def stop_waiting(self) -> None:
        """Let requests that wait for something to happen be answered. For any thread."""

    def trouble(self) -> str | None:
        """Return what keeps the service from doing its work, None if nothing does."""
        if self.is_stopping:
            return "stopping"
        return "starting: what requests need is being compiled" if self.is_starting else None


class Service(ServiceState):
    """The scheduler of requests.

    - ``snapshots``: the directory for copies of the state, None for no copies;
    - ``directory``: the state directory;
    - ``figures``: what the service does;
    - ``found``, ``done``: rung when changes of pages can be read, and after a call that changes the state.
    """

    def __init__(
        self,
        scheduler: DurableScheduler,
        thread: SchedulerThread,
        clock: Callable[[], float],
        figures: ServiceFigures,
        snapshots: Path | None = None,
    ) -> None:
        super().__init__(clock)
        self.snapshots = snapshots
        self.scheduler = scheduler
        self.thread = thread
        self.figures = figures
        self.found, self.done = Bell(), Bell()
        if scheduler.feed is not None:
            scheduler.feed.listeners.append(self.found.ring)

    @property
    def directory(self) -> Path:
        """The state directory."""
        return self.scheduler.directory

    @property
    def is_writable(self) -> bool:
        """Whether nothing is known to keep the state from being written."""
        return self.scheduler.trouble is None

    @property
    def progress(self) -> tuple[int | None, float | None]:
        """How many messages the stream is behind, and the age of its outcomes, as of `Readiness`."""
        return self.figures.lag, self.figures.behind_s

    async def call(self, call: Callable[[DurableScheduler, float], Result]) -> Result:
        """Queue `call` for the scheduler thread; return its result once what it has changed is durable.

        `call` takes the scheduler and the time at which its turn comes. Raises HttpError, 503, if too many requests
        wait, and what `call` raises.
        """
        result = await self._submit(call, reads=False)
        self.done.ring()
        return result

    async def read(self, call: Callable[[DurableScheduler, float], Result]) -> Result:
        """Do as `call` does, for a `call` that changes nothing: it is answered also while nothing can be written."""
        return await self._submit(call, reads=True)

    async def _submit(self, call: Callable[[DurableScheduler, float], Result], *, reads: bool) -> Result:
        try:
            future = self.thread.submit(lambda: call(self.scheduler, self.clock()), reads=reads)
        except QueueFull:
            detail = "too many requests wait for the scheduler"
            raise HttpError(
                HTTPStatus.SERVICE_UNAVAILABLE, "queue_full", detail, headers={"retry-after": "1"}
            ) from None
        return await asyncio.wrap_future(future)

    def stop_waiting(self) -> None:
        """Let requests that wait for something to happen be answered. For any thread."""
        self.found.ring()
        self.done.ring()

    def trouble(self) -> str | None:
        """Return what keeps the service from doing its work, None if nothing does."""
        if (refusing := super().trouble()) is not None:
            return refusing
        if not self.thread.is_alive:
            return "the thread of the scheduler has ended"
        trouble = self.scheduler.trouble
        return self.figures.backlog if trouble is None else f"the state {trouble.reason}"


def read_wait(wait: str) -> float:
    """Return for how many seconds a request may wait. Raises SettingsError.

    >>> read_wait("1m")
    60.0
    """
    wait_s = parse_duration(wait, "wait", zero=True)
    if wait_s > LONGEST_WAIT_S:
        raise SettingsError("wait", wait, f"at most {LONGEST_WAIT_S:g}s")
    return wait_s


class RefusalLog:
    """Logs the first call that is refused because a file cannot be written, and that calls are accepted again.

    `audit`: the file of the audit log, without which administrators are refused alone.
    """

    def __init__(self, service: ServiceState, audit: Path) -> None:
        self._service = service
        self._audit = str(audit)
        self._paths: set[str] = set()  # of the files

    def refused(self, error: SnapshotError) -> None:
        """Note that a call was refused with `error`."""
        if error.path not in self._paths:
            self._paths.add(error.path)
            LOG.error("calls refused", reason=str(error))

    def accepted(self, *, audited: bool) -> None:
        """Note that a call that changes the state was done; `audited`: the audit log has it."""
        mended = {path for path in self._paths if audited or path != self._audit}
        if mended and self._service.is_writable:
            self._paths -= mended
            LOG.info("calls accepted again")


def _find_version() -> str:
    try:
        return metadata.version("streamsched")
    except metadata.PackageNotFoundError:
        return "0"


class Bell:
    """Wakes those who wait. A ring while nobody waits is lost, so `first` listens before it looks."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def ring(self) -> None:
        """Wake all who wait. O(waiting)."""
        for waiting in list(self._waiting):
            with suppress(RuntimeError):  # its loop is closed
                waiting.get_loop().call_soon_threadsafe(_finish, waiting)

    async def first(
        self,
        look: Callable[[], Awaitable[Result]],
        is_enough: Callable[[Result], bool],
        wait_s: float,
        *,
        at_least_every_s: float = 60.0,
    ) -> Result:
        """Return what `look` returns once it `is_enough`, or as it is after `wait_s` seconds.

        It looks at once, at each ring, and from time to time.
        """
        end_s = time.monotonic() + wait_s
        while True:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.add(waiting)
            try:
                found = await look()
                left_s = end_s - time.monotonic()
                if left_s <= 0.0 or is_enough(found):
                    return found
                await asyncio.wait([waiting], timeout=min(left_s, at_least_every_s))
            finally:
                self._waiting.discard(waiting)
                waiting.cancel()
            await asyncio.sleep(min(_PAUSE_S, max(end_s - time.monotonic(), 0.0)))


def _finish(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
