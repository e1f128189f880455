"""95 % confidence intervals of a replay's figures, over seeds or over cycles.

With several seeds: a t-interval over the seeds' figures, which covers chance in breaking ties. With one seed: batch
means. Consecutive cycles are not independent (a page visited today is not visited tomorrow, and the web has weekdays),
so each batch of 7 cycles gives one figure, and the t-interval is over the batches. The first does not cover other
times, the second does not cover other tie-breaks, and neither covers other logs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints

__all__ = ["BATCH_CYCLES", "Estimate", "over_cycles", "over_detections", "over_seeds"]

BATCH_CYCLES: Final = 7  # a week of daily cycles, so that each batch holds every weekday once
_UPPER_TAIL: Final = 0.975


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval; None if there was nothing to measure, or too little for an interval."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half the width of the interval; None if there is no interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def over_seeds(figures: Sequence[float | None]) -> Estimate:
    """Return the mean of one figure per seed and its t-interval. O(seeds).

    Seeds without a figure (None) are left out; fewer than two figures have no interval.

    >>> over_seeds([0.25, 0.27, 0.26])
    Estimate(value=0.26, low=0.235..., high=0.284...)
    """
    known = np.array([figure for figure in figures if figure is not None])
    return _around(float(known.mean()) if known.size else None, known)


def over_cycles(series: Floats, counted: Bools) -> Estimate:
    """Return the mean of the counted cycles of ``series``: float64[cycles] and its interval by batch means. O(cycles).

    Batches are runs of 7 cycles; the interval ignores batches without a counted cycle and a shorter last batch.

    >>> over_cycles(np.tile([0.1, 0.3], 14), np.ones(28, bool))
    Estimate(value=0.199..., low=0.173..., high=0.226...)
    """
    value = float(series[counted].mean()) if counted.any() else None
    edges = range(0, series.size - BATCH_CYCLES + 1, BATCH_CYCLES)
    parts = [series[at : at + BATCH_CYCLES][counted[at : at + BATCH_CYCLES]] for at in edges]
    return _around(value, np.array([part.mean() for part in parts if part.size]))


def over_detections(delays: Floats, cycles: Ints, total_cycles: int, figure: Callable[[Floats], float]) -> Estimate:
    """Return ``figure(delays)``, e.g. a mean or percentile, and its interval by batches. O(detections log detections).

    ``delays``: float64[detections]; ``cycles``: int64[detections], the cycle of each detection, of `total_cycles`. The
    interval is over the figures of batches of 7 cycles, as in `over_cycles`.

    >>> over_detections(np.array([1.0, 2.0, 3.0]), np.array([0, 8, 9]), 14, lambda delays: float(delays.mean())).value
    2.0
    """
    if not delays.size:
        return Estimate(None)
    batches = cycles // BATCH_CYCLES
    parts = [delays[batches == batch] for batch in range(total_cycles // BATCH_CYCLES)]
    return _around(figure(delays), np.array([figure(part) for part in parts if part.size]))


def _around(value: float | None, figures: Floats) -> Estimate:
    """Return `value` with the t-interval from the standard error of `figures`: float64[batches]."""
    if value is None or figures.size < 2:
        return Estimate(value)
    error = figures.std(ddof=1) / np.sqrt(figures.size)
    half_width = float(stdtrit(figures.size - 1, _UPPER_TAIL) * error)
    return Estimate(value, value - half_width, value + half_width)
