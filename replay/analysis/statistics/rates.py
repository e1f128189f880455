"""Change rates: the simple and the modified estimate of each page's mean interval, and their distributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.published_estimators import modified_interval, naive_interval

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats
    from streamsched.replay.analysis.statistics.observation import Observation

__all__ = ["THRESHOLDS_S", "Rates", "estimate_rates", "share_within"]

THRESHOLDS_S: Final = {
    "1 h": 3_600.0,
    "4 h": 14_400.0,
    "12 h": 43_200.0,
    "1 d": 86_400.0,
    "2 d": 172_800.0,
    "1 wk": 604_800.0,
    "30 d": 2_592_000.0,
    "90 d": 7_776_000.0,
    "1 yr": 31_536_000.0,
    "3 yr": 94_608_000.0,
}
"""Mean intervals in the tables of rates."""


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Mean intervals between changes of n watched pages, in seconds, ascending, infinite for pages without a change.

    ``simple_s``: float64[n], T/X; ``modified_s``: float64[n], eq. 1, both from what visits saw. ``counted_s``:
    float64[n], T/X of all changes, None if only the changes seen by visits are known.
    """

    simple_s: Floats
    modified_s: Floats
    counted_s: Floats | None

    def lines(self) -> dict[str, Floats]:
        """Return the intervals of each estimator by name."""
        lines = {"simple": self.simple_s, "modified": self.modified_s}
        return lines if self.counted_s is None else {**lines, "counted": self.counted_s}


def estimate_rates(seen: Observation, counted: Observation | None) -> Rates:
    """Return the estimates for all visited pages. O(n log n)."""
    simple_s = naive_interval(seen.watched_s, seen.changes)
    modified_s = modified_interval(seen.visits, seen.changes) * seen.step_s
    all_s = None if counted is None else naive_interval(counted.watched_s, counted.changes)[counted.visits > 0]
    watched = seen.visits > 0
    return Rates(np.sort(simple_s[watched]), np.sort(modified_s[watched]), None if all_s is None else np.sort(all_s))


def share_within(intervals_s: Floats, limits_s: Floats) -> Floats:
    """Return the share of ascending ``intervals_s``: float64[n] up to each limit: float64[k]. O(k log n).

    >>> share_within(np.array([1.0, 2.0, np.inf]), np.array([1.5, 3.0])).round(3).tolist()
    [0.333, 0.667]
    """
    return np.asarray(np.searchsorted(intervals_s, limits_s, "right") / max(1, intervals_s.size))
