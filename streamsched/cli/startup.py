"""Ctrl-C while Python imports: what is half imported can only print a traceback, so the process ends at once.

It imports next to nothing, since its own import cannot be guarded.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["ignore_interrupts", "leave_at_once"]

_INTERRUPTED: Final = 128 + signal.SIGINT  # as `cli.exits` has it


@contextmanager
def leave_at_once() -> Iterator[None]:
    """In this block, which must not write anything, SIGINT ends the process with exit code 130.

    A process that ignores SIGINT, as shells let background processes do, or that handles it, is left alone.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def ignore_interrupts() -> None:
    """Ignore SIGINT from now on: the interpreter would print a traceback if it came while it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
