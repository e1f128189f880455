"""Intervals between changes, and the change rates they give: Grimes & O'Brien (2008), equation 1, Figures 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsched.estimation.published_estimators import modified_interval, naive_interval
from streamsched.numerics.arrays import Floats, Ints
from streamsched.replay.analysis.observation import Observation

_BINS_PER_DECADE: Final = 24  # each a tenth wider than the one before, which separates 24 h from 22 h and 26 h
_WITHIN: Final = 1.2  # factor above or below the mean asked for
_BINS_PER_MEAN: Final = 24  # of the histogram: hours for a mean of a day
_MEANS: Final = 3  # range of the histogram
_MIN_STEPS_PER_MEAN: Final = 6  # steps to the mean at least; with fewer a histogram shows the steps, not the intervals


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """Intervals of pages with two changes or more, by page and length: Figure 1.

    ``edges_s``: float64[b + 1], of both axes; ``counts``: int64[b, b], intervals between edges j and j + 1 of
    pages with a mean between edges i and i + 1; ``pages``: int64[b], pages with that mean.
    """

    edges_s: Floats
    counts: Ints
    pages: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Intervals of pages whose mean is within a sixth of ``near_s``, compared with exponential ones: Figure 2.

    ``edges_s``: float64[b + 1]; ``observed``: int64[b], intervals between them; ``expected``: float64[b], the same for
    exponential intervals with each page's own mean. ``longer``: intervals beyond the last edge, observed and expected.
    ``pages`` and ``intervals``: totals; ``band_s``: range of the means. ``peak``: the share within ``within_s``, a bin,
    of ``near_s``, observed and expected.
    """

    near_s: float
    edges_s: Floats
    observed: Ints
    expected: Floats
    longer: tuple[int, float]
    peak: tuple[float, float]
    within_s: float
    pages: int
    intervals: int
    band_s: tuple[float, float]


def make_edges(step_s: float, longest_s: float) -> Floats:
    """Return edges from half a step to beyond `longest_s`, midway between multiples of the step: float64[b + 1].

    Each bin is a step wide, or a tenth of its position if that is more. O(b).

    >>> make_edges(1.0, 4.0).tolist()
    [0.5, 1.5, 2.5, 3.5, 4.5]
    """
    reach = max(1.0, longest_s / step_s)
    count = int(np.ceil(_BINS_PER_DECADE * np.log10(reach))) + 2
    whole = np.unique(np.rint(10 ** (np.arange(count) / _BINS_PER_DECADE)))
    edges = np.append(0.5, whole + 0.5)
    return np.asarray(step_s * edges[: 1 + int(np.searchsorted(edges, reach, "right"))])


def count_intervals(seen: Observation, step_s: float) -> HeatMap:
    """Return the counts of intervals by the page's mean interval T/X, in bins from `step_s`. O(k log b)."""
    intervals_s = seen.intervals_s()
    several = np.diff(seen.offsets) > 0
    mean_s = np.divide(seen.watched_s, seen.changes, out=np.zeros(several.size), where=several)
    longest_s = max(float(intervals_s.max(initial=step_s)), float(mean_s.max(initial=step_s)))
    edges_s = make_edges(step_s, longest_s)
    bins = edges_s.size - 1
    column = _find_bins(edges_s, mean_s)
    row = _find_bins(edges_s, intervals_s)
    counts = np.bincount(column[seen.interval_pages()] * bins + row, minlength=bins * bins).reshape(bins, bins)
    return HeatMap(edges_s, counts, np.bincount(column[several], minlength=bins))


def resolves(step_s: float, near_s: float) -> bool:
    """Return whether visits `step_s` apart resolve intervals near `near_s`."""
    return near_s >= _MIN_STEPS_PER_MEAN * step_s


def count_near(seen: Observation, step_s: float, near_s: float) -> Histogram | None:
    """Return the histogram for pages with a mean interval near `near_s`; None if the steps are too long.

    O(k + b · pages near). The exponential distribution of a page has the mean of its intervals, seen at whole steps.
    """
    if not resolves(step_s, near_s):
        return None
    band_s = (near_s / _WITHIN, near_s * _WITHIN)
    several = np.diff(seen.offsets) > 0
    mean_s = np.divide(seen.watched_s, seen.changes, out=np.zeros(several.size), where=several)
    chosen = np.asarray(several & (mean_s >= band_s[0]) & (mean_s <= band_s[1]))
    owner = seen.interval_pages()
    kept = chosen[owner]
    intervals_s = seen.intervals_s()[kept]
    width_s, edges_s = _make_bins(step_s, near_s)
    observed = np.histogram(intervals_s, edges_s)[0]
    of_page = np.bincount(owner[kept], minlength=chosen.size)[chosen]
    sums_s = np.asarray(np.bincount(owner[kept], intervals_s, minlength=chosen.size)[chosen], np.float64)
    tails = _expected_beyond(of_page, sums_s, seen.step_s[chosen], edges_s)
    peak = (near_s - 1.5 * width_s, near_s + 1.5 * width_s)
    within = float(np.count_nonzero((intervals_s > peak[0]) & (intervals_s <= peak[1])))
    expected = _expected_beyond(of_page, sums_s, seen.step_s[chosen], np.array(peak))
    total = max(1, intervals_s.size)
    return Histogram(
        near_s=near_s,
        edges_s=edges_s,
        observed=observed,
        expected=-np.diff(tails),
        longer=(intervals_s.size - int(observed.sum()), float(tails[-1])),
        peak=(within / total, float(expected[0] - expected[1]) / total),
        within_s=width_s,
        pages=int(np.count_nonzero(chosen)),
        intervals=intervals_s.size,
        band_s=band_s,
    )


def _make_bins(step_s: float, near_s: float) -> tuple[float, Floats]:
    """Return the width of the histogram's bins and their edges, between multiples of the step: float64[b + 1].

    A width is an odd number of steps, so that its multiples are the centres of bins; the first bin holds intervals
    shorter than half a bin, if steps are that short.
    """
    width_s = step_s * (2 * max(0, round((near_s / _BINS_PER_MEAN / step_s - 1) / 2)) + 1)
    edges = [(place + 0.5) * width_s for place in range(round(_MEANS * near_s / width_s) + 1)]
    return width_s, np.array([step_s / 2, *edges] if width_s > step_s else edges)


def _expected_beyond(count: Ints, sum_s: Floats, step_s: Floats, limits_s: Floats) -> Floats:
    """Return the expected number of exponential intervals longer than each limit: float64[b].

    ``count``: int64[p], ``sum_s`` and ``step_s``: float64[p]. Seen at whole steps they are geometric: P(> j steps) is
    (1 - count/steps)^j.
    """
    with np.errstate(divide="ignore"):
        stay = np.log1p(-np.minimum(1.0, count * step_s / np.maximum(sum_s, step_s)))
    beyond = np.empty(limits_s.size)
    for place, limit_s in enumerate(limits_s.tolist()):
        whole = np.floor(limit_s / step_s + 1e-9)
        with np.errstate(invalid="ignore"):
            beyond[place] = np.sum(count * np.where(whole > 0, np.exp(stay * whole), 1.0))
    return beyond


def _find_bins(edges_s: Floats, values_s: Floats) -> Ints:
    """Return the bin of each value, the nearest bin for values outside: int64[k]."""
    return np.clip(np.searchsorted(edges_s, values_s, "right") - 1, 0, edges_s.size - 2)


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
