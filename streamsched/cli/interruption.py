"""SIGTERM as an orderly exit, and how a command that reads a stream stops at a signal without losing what it read."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

from streamsched.cli.exits import after_signal

__all__ = ["Interruption", "orderly_exit"]

Item = TypeVar("Item")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def orderly_exit() -> Iterator[None]:
    """In this block SIGTERM unwinds the stack: worker processes end, drafts are removed, as with Ctrl-C."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(after_signal(number))

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interruption:
    """In its block the first signal ends what `until` yields; a second one exits at once.

    `waits`: the items may be long in coming (a pipe's), so that the signal must break off the wait for the next one; of
    a file the item at hand is finished instead. ``number`` is the signal's once there was one.
    """

    def __init__(self, *, waits: bool) -> None:
        self.number: int | None = None
        self._waits = waits
        self._waiting = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as shells have SIGINT for what runs in the background
                self._handlers[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def until(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield `items` until they end or a signal comes."""
        iterator = iter(items)
        while (item := self._next(iterator)) is not None:
            yield item

    def _next(self, items: Iterator[Item]) -> Item | None:
        try:
            try:
                self._waiting = self._waits  # from here on a signal raises; one that came before is seen now
                return next(items, None) if self.number is None else None
            finally:
                self._waiting = False
        except _Stop:
            return None

    def _take(self, number: int, _frame: FrameType | None) -> None:
        again, self.number = self.number is not None, number
        if again:
            raise SystemExit(after_signal(number))
        if self._waiting:
            raise _Stop


class _Stop(BaseException):
    """Breaks off a wait; no Exception, so that nobody below takes it for an error of the input."""
