"""What all endpoints share: the scheduler behind its thread, the clock, and counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from streamsched.api.values import LONGEST_WAIT_S
from streamsched.errors import SettingsError, SnapshotError
from streamsched.http.bell import Bell
from streamsched.http.protocol.problems import HttpError
from streamsched.http.scheduler_thread import QueueFull, SchedulerThread
from streamsched.http.service_figures import RequestDurations, ServiceFigures
from streamsched.numerics.durations import parse_duration
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG

Result = TypeVar("Result")


class Service:
    """The scheduler of requests. Used by the thread that answers them.

    - ``snapshots``: the directory for copies of the state, None for no copies;
    - ``version``: of the package, "0" if it is not installed;
    - ``directory``: the state directory;
    - ``clock``: the present time, UTC epoch seconds;
    - ``is_starting``, ``is_stopping``: whether requests are refused because of what must be compiled first, or because
      the service stops; monitors are answered;
    - ``statuses``: counts of answers since the start;
    - ``durations``: of requests;
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
        self.snapshots = snapshots
        self.version = _find_version()
        self.scheduler = scheduler
        self.thread = thread
        self.clock = clock
        self.started_s = clock()
        self.is_starting = False
        self.is_stopping = False
        self.statuses: Counter[int] = Counter()
        self.durations = RequestDurations()
        self.figures = figures
        self.found, self.done = Bell(), Bell()
        if scheduler.feed is not None:
            scheduler.feed.listeners.append(self.found.ring)

    @property
    def directory(self) -> Path:
        """The state directory."""
        return self.scheduler.directory

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
        if self.is_stopping:
            return "stopping"
        if self.is_starting:
            return "starting: what requests need is being compiled"
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

    def __init__(self, scheduler: DurableScheduler, audit: Path) -> None:
        self._scheduler = scheduler
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
        if mended and self._scheduler.trouble is None:
            self._paths -= mended
            LOG.info("calls accepted again")


def _find_version() -> str:
    try:
        return metadata.version("streamsched")
    except metadata.PackageNotFoundError:
        return "0"
