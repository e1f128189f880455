"""How long requests took, counted by operation."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

__all__ = ["BOUNDS_S", "Durations", "RequestDurations"]

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds, upper bounds of what is counted together; longer requests are counted after them."""


@dataclass(slots=True)
class Durations:
    """Durations of one operation. ``counts``: by the bounds of `BOUNDS_S`, the last for longer ones; ``total_s``."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    total_s: float = 0.0


class RequestDurations:
    """Counts durations, ``by_operation``. For one thread. `clock`: seconds.

    >>> clock = iter([10.0, 10.004])
    >>> durations = RequestDurations(clock.__next__)
    >>> with durations.measure("rank"):
    ...     pass
    >>> durations.by_operation["rank"].counts[:4]
    [0, 0, 1, 0]
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.by_operation: dict[str, Durations] = {}
        self._clock = clock

    @contextmanager
    def measure(self, operation: str) -> Iterator[None]:
        """Count how long the block takes, whether or not it raises. O(1)."""
        begun_s = self._clock()
        try:
            yield
        finally:
            seconds = self._clock() - begun_s
            durations = self.by_operation.setdefault(operation, Durations())
            durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
            durations.total_s += seconds
