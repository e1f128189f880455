"""Signals: SIGTERM ends a command in good order, and a command that reads a stream saves before it stops."""

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
    """In this block SIGTERM unwinds the stack as Ctrl-C does: worker processes end, temporary files are removed."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(after_signal(number))

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interruption:
    """Context in which the first SIGINT or SIGTERM ends the items of `until`, and a second one exits at once.

    `waits`: the wait for the next item may be long, as with a pipe, so a signal interrupts it. If False, as with a
    file, the next item is still read. ``number`` is the number of the signal, None before one has come.
    """

    def __init__(self, *, waits: bool) -> None:
        self.number: int | None = None
        self._waits = waits
        self._waiting = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # shells ignore SIGINT for background processes
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
                self._waiting = self._waits  # from here on a signal raises; an earlier one has set `number`
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
    """Interrupts a wait. It is no Exception, so that no reader below handles it as an error of the input."""
