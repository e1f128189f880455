"""What users hear while kernels are compiled: who calls and has not asked for more gets one warning in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

FIRST_WORDS: Final = (
    "compiling kernels for this machine, each once: 10 to 30 s for a first program, minutes on a busy machine;"
    " later runs load them (`streamsched warm` compiles them ahead)"
)

_LOG: Final = logging.getLogger("streamsched.compile")


@dataclass(frozen=True, slots=True)
class Compilation:
    """How far the compilation of this process is: a kernel begins, or is ``done``."""

    kernel: str
    done: bool
    count: int  # kernels compiled so far, with those they call
    seconds: float  # spent on them


class _Progress:
    """What this process has compiled, and whom it tells: the latest of `reports`, or the log if there is none."""

    def __init__(self) -> None:
        self.reports: list[Callable[[Compilation], None]] = []
        self.count = 0
        self.seconds = 0.0
        self.has_warned = False

    def report(self, kernel: str, done: bool) -> None:
        """Tell that a kernel begins or is done."""
        compilation = Compilation(kernel, done, self.count, self.seconds)
        if self.reports:
            self.reports[-1](compilation)
        elif done:
            _LOG.info("compiled %d kernels in %.1f s; the last is %s", self.count, self.seconds, kernel)
        elif not self.has_warned:
            self.has_warned = True
            _LOG.warning("streamsched: %s", FIRST_WORDS)


_PROGRESS: Final = _Progress()  # of the process: kernels are compiled one at a time, under Numba's lock


def announce(kernel: str) -> None:
    """Report that a kernel is compiled now, in whichever process."""
    _PROGRESS.report(kernel, done=False)


@contextmanager
def announced(kernel: str) -> Iterator[None]:
    """Report that a kernel that Python calls is compiled in this block."""
    announce(kernel)
    began = time.perf_counter()
    yield
    _PROGRESS.count += 1
    _PROGRESS.seconds += time.perf_counter() - began
    _PROGRESS.report(kernel, done=True)


@contextmanager
def on_compile(report: Callable[[Compilation], None]) -> Iterator[None]:
    """Call `report` in this block when the compilation of a kernel begins and ends, in place of the log.

    Kernels loaded from the cache are not reported.
    """
    _PROGRESS.reports.append(report)
    try:
        yield
    finally:
        _PROGRESS.reports.remove(report)
