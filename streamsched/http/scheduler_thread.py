"""Calls of the scheduler for requests, one at a time and in turn, behind a bounded queue.

What waits is written to disk together: a group of calls costs one wait for the disk, and no caller gets its result
before the whole group is on disk. While one group waits for the disk the calls of the next are done.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from streamsched.scheduler.durable import DurableScheduler

Result = TypeVar("Result")

_GROUP_S: Final = 0.005  # of calls before a wait for the disk, which takes about as long
_THREADS: Final = 2  # one does calls, the other waits for the disk
_LONGEST_PAUSE_S: Final = 0.1  # that a stream makes for requests


class QueueFull(Exception):
    """Too many requests wait for the scheduler."""


class _Waiting(NamedTuple):
    call: Callable[[], Any]
    future: Future[Any]
    reads: bool


class _Done(NamedTuple):
    waiting: _Waiting
    result: Any
    error: Exception | None


class SchedulerThread:
    """Does calls of `scheduler` in the order in which they were submitted; a context manager.

    `most`: calls that may wait; `clock`: seconds, for the length of a group. An error of a call is that of its future
    alone; if the group cannot be written to disk, that error is the result of each of its calls that change anything.
    """

    def __init__(
        self, scheduler: DurableScheduler, most: int, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._scheduler = scheduler
        self._most = most
        self._clock = clock
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._turn = threading.Lock()  # held while calls are done, not while they are written
        self._closing = False
        self._busy = 0  # threads
        names = [f"streamsched requests {number}" for number in range(1, _THREADS + 1)]
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]

    def submit(self, call: Callable[[], Result], *, reads: bool = False) -> Future[Result]:
        """Queue a call; return its result to be. Raises QueueFull, also once the thread is closing.

        `reads`: whether it changes nothing, so that its result is right whether or not its group can be written.
        """
        future: Future[Result] = Future()
        with self._changed:
            if self._closing or len(self._waiting) >= self._most:
                raise QueueFull
            self._waiting.append(_Waiting(call, future, reads))
            self._changed.notify_all()
        return future

    @property
    def length(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)

    @property
    def is_alive(self) -> bool:
        """Whether calls are being done."""
        return all(thread.is_alive() for thread in self._threads)

    def let_pass(self) -> None:
        """Return once no call waits, after a tenth of a second at most. A stream calls it between parts of a delivery.

        The scheduler's lock goes to whoever is awake when it is free, which is mostly the thread that freed it.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._busy, _LONGEST_PAUSE_S)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do what waits, then end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                self._busy += 1
            self._do_group()
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _do_group(self) -> None:
        """Do what waits until the group is long enough; hand out the results once they are on disk."""
        done: list[_Done] = []
        failure: Exception | None = None
        try:
            with self._scheduler.together(), self._turn:
                end_s = self._clock() + _GROUP_S
                while (waiting := self._next()) is not None:
                    done.append(_do(waiting))
                    if self._clock() >= end_s:
                        break
        except Exception as error:  # noqa: BLE001  what was not written must not be acknowledged
            failure = error
        for one in done:
            reason = one.error or (None if one.waiting.reads else failure)
            if reason is None:
                one.waiting.future.set_result(one.result)
            else:
                one.waiting.future.set_exception(reason)

    def _next(self) -> _Waiting | None:
        """Return the next call whose caller still waits for it, None if there is none. In turn."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if waiting.future.set_running_or_notify_cancel():
                return waiting
        return None


def _do(waiting: _Waiting) -> _Done:
    try:
        return _Done(waiting, waiting.call(), None)
    except Exception as error:  # noqa: BLE001  it belongs to the request
        return _Done(waiting, None, error)
