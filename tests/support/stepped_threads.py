"""Threads that a test advances step by step: background work, one step at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from streamsched.ranking import formula_switch

PATIENCE_S = 60.0  # in which every step ends, or something hangs


class Stepper:
    """The threads that were started, each up to its next pause."""

    def __init__(self) -> None:
        self.waiting: list[SteppedThread] = []
        self.free = False  # whether threads started from now on run without pauses

    def begin(self) -> None:
        """Let threads that were started run up to their first pause."""
        for thread in self.waiting:
            thread.arrive()
        self._forget()

    def step(self) -> None:
        """Let each thread run up to its next pause."""
        for thread in self.waiting:
            thread.go.release()
            thread.arrived = False
            thread.arrive()
        self._forget()

    def finish(self) -> None:
        """Let all threads run to their ends."""
        self.begin()
        while self.waiting:
            self.step()

    def pause(self, _seconds: float) -> None:
        """Stand in for `time.sleep`."""
        thread = threading.current_thread()
        assert isinstance(thread, SteppedThread)
        thread.pause()

    def make(self, target: Callable[..., object], args: tuple[Any, ...] = (), daemon: bool = True) -> SteppedThread:
        """Stand in for `threading.Thread`."""
        thread = SteppedThread(target=target, args=args, daemon=daemon)
        thread.free = self.free
        if not self.free:
            self.waiting.append(thread)
        return thread

    def _forget(self) -> None:
        self.waiting = [thread for thread in self.waiting if thread.is_alive()]


class SteppedThread(threading.Thread):
    """A thread that signals when it pauses or ends."""

    free = False
    arrived = False  # at a pause, or at its end

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.go = threading.Semaphore(0)
        self.there = threading.Semaphore(0)

    def run(self) -> None:
        try:
            super().run()
        finally:
            self.ended = True
            self.there.release()

    ended = False

    def pause(self) -> None:
        if not self.free:
            self.there.release()
            assert self.go.acquire(timeout=PATIENCE_S)

    def arrive(self) -> None:
        """Wait until it pauses or ends."""
        if not self.arrived:
            assert self.there.acquire(timeout=PATIENCE_S)
            self.arrived = True
        if self.ended:
            self.join(PATIENCE_S)


@contextmanager
def stepped() -> Iterator[Stepper]:
    """Prepare rankings step by step in this block."""
    stepper = Stepper()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formula_switch, "time", SimpleNamespace(sleep=stepper.pause))
        patch.setattr(formula_switch, "threading", SimpleNamespace(Thread=stepper.make))
        yield stepper
        stepper.finish()
