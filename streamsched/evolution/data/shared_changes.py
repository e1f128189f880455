"""Shared changes of a history: in which cycles bulk edits and releases hit how much of each group, as visits saw it.

Pages of a group that a surge hits change together. A page's own rate cannot say so: a history drawn from rates alone
spreads the changes of a release over all the days between two visits of each page. Here a surge has a cycle and a share
of the group's pages; each cycle of a group has one with the same small probability, which is learned over all groups.
Both are drawn given all visits of the group: surges are added one at a time where the visits suggest one, then each
cycle is drawn again given the others (Gibbs sampling). So the draws of several seeds differ as far as visits leave open
when it was. Kernels draw from a state of one uint64, identically on every machine. Where no page of a group was visited
after a cycle, only the learned probability decides.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints
from streamsched.numerics.compilation.machine_operations import fold_multiply
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix

_INCREMENT: Final = np.uint64(0xA0761D6478BD642F)  # wyrand's constants: odd, half of their bits set
_XOR_MASK: Final = np.uint64(0xE7037ED1A0B428DB)
MIN_GROUP_PAGES: Final = 16  # in a group: with fewer a single page's change would appear as one of many
SHARES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)  # that a surge may hit, a priori alike: midpoints of equal intervals
_HAZARDS: Final[Floats] = -np.log1p(-np.array(SHARES))
_FIRST_SURGES: Final = 1.0  # what is assumed before any group is known: one surge ...
_FIRST_CYCLES: Final = 100.0  # ... in this many cycles
_SWEEPS: Final = 2  # of drawing each cycle again
_LEAST_EXPECTED: Final = 1e-6  # own changes of an interval, so that no single page proves a surge
_SALT: Final = 0x5EED_5A1E  # arbitrary: groups have other random streams than pages


@inlined_kernel
def seed_state(state: Hashes, seed: int, page_hash: int) -> None:
    """Set `state`: uint64[1] to the start of a page's stream under a seed, both uint64. O(1)."""
    state[0] = mix(page_hash ^ mix(seed ^ _XOR_MASK))


@bare_kernel
def draw_uniform(state: Hashes) -> float:
    """Return the next uniform number in (0, 1), both ends excluded. O(1). Source: wyrand, of wyhash 4.2.

    >>> state = np.zeros(1, np.uint64)
    >>> seed_state(state, np.uint64(1), np.uint64(2))
    >>> 0.0 < draw_uniform(state) < 1.0
    True
    """
    state[0] += _INCREMENT
    word = fold_multiply(state[0], state[0] ^ _XOR_MASK)
    return (np.float64(word >> np.uint64(12)) + 0.5) * 2.0**-52


@bare_kernel
def draw_gamma(state: Hashes, shape: float) -> float:
    """Return a draw from the Gamma distribution with that shape > 0 and scale 1. O(1) expected.

    Rejection sampling from a cubed normal; below shape 1, a draw of shape + 1 times a power of a uniform (Marsaglia and
    Tsang 2000, "A simple method for generating gamma variables").
    """
    scale = 1.0
    if shape < 1.0:
        scale = draw_uniform(state) ** (1.0 / shape)
        shape += 1.0
    mode = shape - 1.0 / 3.0
    while True:
        normal = math.sqrt(-2.0 * math.log(draw_uniform(state))) * math.cos(2.0 * math.pi * draw_uniform(state))
        cube = (1.0 + normal / math.sqrt(9.0 * mode)) ** 3
        if cube > 0.0:
            bound = 0.5 * normal * normal + mode * (1.0 - cube + math.log(cube))
            if math.log(draw_uniform(state)) < bound:
                return scale * mode * cube


class SharedChanges(NamedTuple):
    """Surges of k groups: ``hazard``: float64[k, cycles], -ln of the share of the group not hit; 0 in row 0.

    ``group``: int64[n], each page's row.
    """

    hazard: Floats
    group: Ints


class GroupVisits(NamedTuple):
    """The visits of n pages as in `imputation.PageVisits`, the pages' own rates per cycle, and their groups."""

    offsets: Ints  # int64[n + 1]
    times: Floats  # float64[v]
    changed: Bools  # bool[v]
    rates: Floats  # float64[n]
    groups: Ints  # int64[n]


class Intervals(NamedTuple):
    """Intervals between visits to pages of groups, by group: those of group g from ``offsets[g]`` to the next offset.

    They are those with a change; ``quiet``: float64[k, cycles], how many pages of the group were seen not to change in
    each cycle, in parts where a visit divides it.
    """

    offsets: Ints  # int64[k + 1]
    starts: Floats
    ends: Floats
    expected: Floats  # changes by the page's own rate
    quiet: Floats


def number_large_groups(groups: Ints) -> Ints:
    """Return ``groups``: int64[n] renumbered from 1, with 0 for small groups: int64[n]. O(n log n).

    >>> number_large_groups(np.array([7] * 16 + [4] * 3 + [9] * 20))[[0, 16, 38]].tolist()
    [1, 0, 2]
    """
    _, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    large = sizes >= MIN_GROUP_PAGES
    return np.asarray(np.where(large, np.cumsum(large), 0)[place], np.int64)


def draw_shared_changes(visits: GroupVisits, cycles: int, seed: int) -> SharedChanges:
    """Return a draw of the surges of each large group in `cycles` cycles, given its visits; `seed` determines it.

    O(visits + surges · intervals with a change · cycles).
    """
    numbers = number_large_groups(visits.groups)
    count = int(numbers.max(initial=0)) + 1
    hazard = np.zeros((count, cycles))
    if count > 1 and cycles:
        intervals = gather_intervals(visits, numbers, cycles)
        logs = np.empty((cycles, _HAZARDS.size))
        draw = _Draw(intervals, intervals.expected.copy(), logs, hazard, np.zeros(1, np.uint64))
        _draw_surges(draw, np.uint64((seed ^ _SALT) % (1 << 64)))
    return SharedChanges(hazard, numbers)


def gather_intervals(visits: GroupVisits, numbers: Ints, cycles: int) -> Intervals:
    """Return the intervals between visits to pages with a number above 0, in `cycles` cycles. O(v + cycles seen)."""
    offsets, times, changed, rates, _ = visits
    pages = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    later = np.ones(times.size, np.bool_)
    later[offsets[:-1][np.diff(offsets) > 0]] = False
    place = np.flatnonzero(later & (numbers[pages] > 0) & (times > 0.0))
    starts, ends, group = times[place - 1], np.minimum(times[place], cycles), numbers[pages[place]]
    saw = changed[place] & (times[place] > starts) & (starts < cycles)
    quiet = np.zeros((int(numbers.max(initial=0)) + 1, cycles))
    _add_quiet(group[~saw], np.maximum(starts[~saw], 0.0), ends[~saw], quiet)
    order = np.flatnonzero(saw)[np.argsort(group[saw], kind="stable")]
    expected = np.maximum(rates[pages[place]] * (times[place] - starts), _LEAST_EXPECTED)
    bounds = np.searchsorted(group[order], np.arange(quiet.shape[0] + 1))
    return Intervals(bounds, np.maximum(starts[order], 0.0), ends[order], expected[order], quiet)


@bare_kernel
def _add_quiet(groups: Ints, starts: Floats, ends: Floats, quiet: Floats) -> None:
    for i in range(groups.size):
        for cycle in range(math.floor(starts[i]), math.ceil(ends[i])):
            quiet[groups[i], cycle] += _overlap(starts[i], ends[i], cycle)


@bare_kernel
def _overlap(start: float, end: float, cycle: int) -> float:
    """Return how much of `cycle` lies between `start` and `end`."""
    return max(min(end, cycle + 1.0) - max(start, float(cycle)), 0.0)


class _Draw(NamedTuple):
    """The surges drawn so far, and memory to weigh others."""

    intervals: Intervals
    totals: Floats  # float64[intervals]: changes expected in each, by rates and surges
    logs: Floats  # float64[cycles, shares]: log odds of a surge against none
    hazard: Floats  # float64[k, cycles]
    state: Hashes  # uint64[1], of the random stream


@bare_kernel
def _draw_surges(draw: _Draw, seed: int) -> None:
    """Draw the surges of all groups; each uses how common those of the groups before it are."""
    cycles = draw.hazard.shape[1]
    surges, windows = _FIRST_SURGES, _FIRST_CYCLES
    for group in range(1, draw.hazard.shape[0]):
        seed_state(draw.state, seed, np.uint64(group))
        odds = math.log(surges / (windows - surges) / _HAZARDS.size)
        for _ in range(cycles):
            if not _add_surge(draw, group, odds):
                break
        for _ in range(_SWEEPS):
            for cycle in range(cycles):
                _draw_cycle(draw, group, cycle, odds)
        windows += cycles
        for cycle in range(cycles):
            surges += 1.0 if draw.hazard[group, cycle] > 0.0 else 0.0


@bare_kernel
def _add_surge(draw: _Draw, group: int, odds: float) -> bool:
    """Draw whether one more surge has hit the group, its cycle and its share; return whether there is one."""
    cycles, logs = draw.hazard.shape[1], draw.logs
    most = 0.0
    for cycle in range(cycles):
        if draw.hazard[group, cycle] > 0.0:
            logs[cycle, :] = -np.inf
        else:
            most = max(most, _weigh(draw, group, cycle, odds))
    total = math.exp(-most)
    for cycle in range(cycles):
        for i in range(_HAZARDS.size):
            total += math.exp(logs[cycle, i] - most)
    left = draw_uniform(draw.state) * total - math.exp(-most)
    for cycle in range(cycles):
        for i in range(_HAZARDS.size):
            if left >= 0.0:
                left -= math.exp(logs[cycle, i] - most)
                if left < 0.0:
                    _set_hazard(draw, group, cycle, _HAZARDS[i])
                    return True
    return False


@bare_kernel
def _draw_cycle(draw: _Draw, group: int, cycle: int, odds: float) -> None:
    """Draw the surge of one cycle again, given those of all others."""
    _set_hazard(draw, group, cycle, 0.0)
    most = max(_weigh(draw, group, cycle, odds), 0.0)
    total = math.exp(-most)
    for i in range(_HAZARDS.size):
        total += math.exp(draw.logs[cycle, i] - most)
    left = draw_uniform(draw.state) * total - math.exp(-most)
    for i in range(_HAZARDS.size):
        if left >= 0.0:
            left -= math.exp(draw.logs[cycle, i] - most)
            if left < 0.0:
                _set_hazard(draw, group, cycle, _HAZARDS[i])


@bare_kernel
def _weigh(draw: _Draw, group: int, cycle: int, odds: float) -> float:
    """Write the log odds of a surge of each share in `cycle`, against none, to ``logs[cycle]``; return the most."""
    intervals, logs = draw.intervals, draw.logs
    for i in range(_HAZARDS.size):
        logs[cycle, i] = odds - _HAZARDS[i] * intervals.quiet[group, cycle]
    for j in range(intervals.offsets[group], intervals.offsets[group + 1]):
        part = _overlap(intervals.starts[j], intervals.ends[j], cycle)
        if part > 0.0:
            without = math.log(-math.expm1(-draw.totals[j]))
            for i in range(_HAZARDS.size):
                logs[cycle, i] += math.log(-math.expm1(-(draw.totals[j] + part * _HAZARDS[i]))) - without
    most = logs[cycle, 0]
    for i in range(1, _HAZARDS.size):
        most = max(most, logs[cycle, i])
    return float(most)


@bare_kernel
def _set_hazard(draw: _Draw, group: int, cycle: int, value: float) -> None:
    """Set the hazard of a group's cycle to `value`, in what its intervals expect too."""
    intervals, change = draw.intervals, value - draw.hazard[group, cycle]
    draw.hazard[group, cycle] = value
    if change != 0.0:
        for j in range(intervals.offsets[group], intervals.offsets[group + 1]):
            part = _overlap(intervals.starts[j], intervals.ends[j], cycle)
            draw.totals[j] = max(draw.totals[j] + part * change, _LEAST_EXPECTED)
