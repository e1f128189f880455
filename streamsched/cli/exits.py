"""How a command ends: exit codes, for scripts, and what SIGINT and SIGTERM do.

``streamsched --help`` lists the codes. SIGTERM ends a command gracefully, and a command that reads a stream saves
before it stops.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeVar

from streamsched.errors import (
    CatchingUp,
    ChangesGone,
    DocumentError,
    FetchError,
    FormulaError,
    InvalidRecord,
    KeyReusedError,
    ReplayError,
    ServiceError,
    SettingsError,
    SnapshotError,
    SourceError,
    StreamschedError,
    UnknownPage,
)

DONE: Final = 0
NOTHING: Final = 1
USAGE: Final = 2  # as click has it
UNREADABLE: Final = 3
_STATE: Final = 4
_UNKNOWN: Final = 5
_SERVICE: Final = 6
DEFECT: Final = 70  # EX_SOFTWARE of sysexits.h; Python's own 1 means that there is nothing to print
NO_MEMORY: Final = 71  # EX_OSERR of sysexits.h

_CODES: Final[tuple[tuple[type[StreamschedError], int], ...]] = (
    (SourceError, UNREADABLE),
    (InvalidRecord, UNREADABLE),
    (DocumentError, UNREADABLE),
    (FetchError, UNREADABLE),
    (SnapshotError, _STATE),
    (UnknownPage, _UNKNOWN),
    (ServiceError, _SERVICE),
    (CatchingUp, _SERVICE),
    (ChangesGone, USAGE),
    (FormulaError, USAGE),
    (KeyReusedError, USAGE),
    (ReplayError, USAGE),
    (SettingsError, USAGE),
)

EXIT_HELP: Final = """\
Exit codes:
    0  done
    1  there is nothing to print: no page to visit now, no record of an evolution
    2  an argument, formula, policy or setting cannot work
    3  an input cannot be read, or an output cannot be written
    4  the saved state is missing, damaged, in use by another process or cannot be written
    5  the page is not known
    6  the service cannot be reached, or refuses
   70  a defect of streamsched: please report the traceback
   71  the system refused memory
  130  interrupted by Ctrl-C (SIGINT); `run` saves first, unless Ctrl-C comes twice
  143  terminated (SIGTERM); `run` saves first and exits with 0, unless SIGTERM comes twice
"""


def exit_code(error: StreamschedError) -> int:
    """Return the exit code for the class of `error`.

    >>> exit_code(UnknownPage("https://a.example/"))
    5
    """
    return next((code for kind, code in _CODES if isinstance(error, kind)), DEFECT)


def after_signal(number: int) -> int:
    """Return the exit code of a command that a signal ended, by the convention of shells.

    >>> after_signal(signal.SIGTERM)
    143
    """
    return 128 + number


def after_drain(number: int) -> int:
    """Return the exit code of a command that saved its work after a signal: SIGTERM is the usual way to stop a service.

    >>> after_drain(signal.SIGTERM), after_drain(signal.SIGINT)
    (0, 130)
    """
    return DONE if number == signal.SIGTERM else after_signal(number)


INTERRUPTED: Final = after_signal(signal.SIGINT)


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


def end_with_reader() -> None:
    """From now on end the process once the reader of standard output is gone, as `head` is, also between two lines."""
    with suppress(io.UnsupportedOperation):  # captured by a caller, not a file
        output = select.poll()
        output.register(sys.stdout.fileno(), 0)  # 0: errors only, such as that the reader is gone
        Thread(target=_end_after, args=(output,), daemon=True).start()


def _end_after(output: select.poll) -> None:
    output.poll()
    os._exit(DONE)


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

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let a signal end this block, by raising Cancelled: for long work that a later run does again."""
        self._waiting = True
        try:
            if self.number is not None:
                raise Cancelled
            yield
        finally:
            self._waiting = False

    def _next(self, items: Iterator[Item]) -> Item | None:
        try:
            try:
                self._waiting = self._waits  # from here on a signal raises; an earlier one has set `number`
                return next(items, None) if self.number is None else None
            finally:
                self._waiting = False
        except Cancelled:
            return None

    def _take(self, number: int, _frame: FrameType | None) -> None:
        again, self.number = self.number is not None, number
        if again:
            raise SystemExit(after_signal(number))
        if self._waiting:
            raise Cancelled


class Cancelled(BaseException):
    """Interrupts a wait or long work. It is no Exception: no reader below may handle it as an error of the input."""
