"""Learns how often pages change from their histories of visits or of signals, which may differ in length.

Maximum likelihood for Poisson changes, smoothed by imagined observations so that rates stay finite. Kolobov et al.
(2019), "Staying up to date with online content changes using reinforcement learning for scheduling", equations 10, 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.jit import inlined_kernel, kernel
from streamsched.numerics.vector_math import expm1
from streamsched.optimal.array_checks import check_flags, check_length, check_offsets, check_values

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints

__all__ = ["HIGHEST_RATE", "LOWEST_RATE", "learn_complete_rates", "learn_rates", "smoothed_rate"]

LOWEST_RATE: Final = 0.0005  # changes per cycle; the bounds are the authors'
HIGHEST_RATE: Final = 7.0
_IMAGINED: Final = 0.5  # cycles: length of an imagined interval with a change, and of one without
_TOLERANCE: Final = 1e-14  # of a rate
_MOST_STEPS: Final = 100  # of Newton's method, which takes about five


def learn_rates(times: npt.ArrayLike, changed: npt.ArrayLike, offsets: npt.ArrayLike | None = None) -> Floats:
    """Return the change rates, float64[n], of pages whose changes only visits can see. O(visits).

    - ``times``: float64[v], of visits, ascending for each page, in cycles since the page was known to be fresh;
    - ``changed``: bool[v], whether the visit found the page changed since the one before it;
    - ``offsets``: int64[n + 1]; the visits of page i are those from ``offsets[i]`` to ``offsets[i + 1]``. Default: all
      visits are of one page.

    A rate is the root of sum over changed intervals of w/(e^(rate w) - 1) = sum over the others of w, with an imagined
    interval of half a cycle of either kind, from `LOWEST_RATE` to `HIGHEST_RATE`. Raises SettingsError for times that
    are negative, not finite or descending, and for unequal lengths.

    >>> learn_rates([1, 2, 4], [True, False, True]).round(6).tolist()
    [1.068025]
    >>> learn_rates([1, 2, 4, 9], [True, False, True, False], offsets=[0, 3, 3, 4]).round(6).tolist()
    [1.068025, 1.386294, 0.102587]
    """
    moments, bounds = _check_histories(times, offsets)
    flags = check_flags("changed", changed, may_be_empty=True)
    check_length("changed", flags, moments.size, "visit")
    rates = np.empty(bounds.size - 1)
    _learn(moments, flags, bounds, rates)
    return rates


def learn_complete_rates(times: npt.ArrayLike, offsets: npt.ArrayLike | None = None, *, until: npt.ArrayLike) -> Floats:
    """Return the change rates, float64[n], of pages whose changes are all announced. O(changes).

    A rate is (changes + 0.5)/(time + 0.5). Arguments are those of `learn_rates`, with the times of changes; ``until``:
    float or float64[n], the end of the time in which changes were announced. Raises SettingsError likewise, and for a
    change after `until`.

    >>> learn_complete_rates([1, 2.5], until=4).round(6).tolist()
    [0.555556]
    """
    moments, bounds = _check_histories(times, offsets)
    ends = _check_ends(until, bounds.size - 1)
    last = np.diff(bounds, prepend=0)[1:] > 0
    late = np.flatnonzero(last)[moments[bounds[1:][last] - 1] > ends[last]]
    if late.size:
        index = int(bounds[late[0] + 1]) - 1
        raise SettingsError(f"times[{index}]", float(moments[index]), f"at most until = {ends[late[0]]:g}")
    return smoothed_rate(np.diff(bounds), ends)


def smoothed_rate(changes: Ints, time: Floats | float) -> Floats:
    """Return the change rates of pages with `changes` in `time` cycles, and half a change in half a cycle more."""
    return np.asarray((changes + _IMAGINED) / (time + _IMAGINED), np.float64)


def _check_histories(times: npt.ArrayLike, offsets: npt.ArrayLike | None) -> tuple[Floats, Ints]:
    moments = check_values("times", times, may_be_empty=offsets is not None)
    bounds = check_offsets([0, moments.size] if offsets is None else offsets, moments.size)
    first = np.zeros(moments.size, np.bool_)
    first[bounds[:-1][bounds[:-1] < moments.size]] = True
    falls = np.flatnonzero((np.diff(moments) < 0.0) & ~first[1:])
    if falls.size:
        index = int(falls[0]) + 1
        expected = f"{moments[index - 1]:g} or more, the page's time before it"
        raise SettingsError(f"times[{index}]", float(moments[index]), expected)
    return moments, bounds


def _check_ends(until: npt.ArrayLike, pages: int) -> Floats:
    if isinstance(until, int | float | np.integer | np.floating):
        return np.repeat(check_values("until", [float(until)]), pages)
    ends = check_values("until", until)
    check_length("until", ends, pages, "page")
    return ends


@kernel
def _learn(times: Floats, changed: Bools, offsets: Ints, rates: Floats) -> None:
    for page in range(rates.size):
        rates[page] = _most_likely_rate(times, changed, offsets[page], offsets[page + 1])


@inlined_kernel
def _most_likely_rate(times: Floats, changed: Bools, begin: int, end: int) -> float:
    """Return the root of `_slope`, which falls and is convex: Newton's method from below never passes it."""
    changes, changed_time, same_time = 1.0, _IMAGINED, _IMAGINED
    before = 0.0
    for i in range(begin, end):
        interval = times[i] - before
        before = times[i]
        if changed[i]:
            changes += 1.0
            changed_time += interval
        else:
            same_time += interval
    rate = max(LOWEST_RATE, changes / (0.5 * changed_time + same_time))  # below the root: 1/(e^y - 1) >= 1/y - 1/2
    for _ in range(_MOST_STEPS):
        if rate >= HIGHEST_RATE:
            return HIGHEST_RATE
        value, fall = _slope(times, changed, begin, end, rate)
        step = (value - same_time) / fall
        if step <= _TOLERANCE * rate:
            return rate
        rate += step
    return rate


@inlined_kernel
def _slope(times: Floats, changed: Bools, begin: int, end: int, rate: float) -> tuple[float, float]:
    """Return the sum of w/(e^(rate w) - 1) over intervals w with a change, and how fast it falls with the rate."""
    term = _IMAGINED / expm1(rate * _IMAGINED)
    value, fall = term, term * (term + _IMAGINED)
    before = 0.0
    for i in range(begin, end):
        interval = times[i] - before
        before = times[i]
        if changed[i]:
            growth = expm1(rate * interval)
            term = interval / growth if growth > 0.0 else 1.0 / rate
            value += term
            fall += term * (term + interval)
    return value, fall
