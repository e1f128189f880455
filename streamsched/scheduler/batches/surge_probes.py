"""Surge probes: pages of a batch that are visited to detect a surge in their group.

A score says what a visit to that page finds. Finding a surge is worth more: all other pages of the group that the surge
has hit are then visited a cycle sooner. The expected number of pages hit unseen is, for pages not visited since the
window began, by the suspicion of a surge in it, and for all pages by the chance of a surge since. `PROBES_PER_GROUP`
pages distinguish a surge from changes of single pages, and share that expected number as their worth. A batch takes a
group's probes in place of its worst pages as long as a probe is worth at least the probability that the page it
replaces has changed. Pages of the group that are in the batch anyway count as probes, and so do leased ones among its
newest. Nothing is stored: the worth of a probe follows from what `surges` has learned, and ends with the outcomes of
the visits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.estimation.surges import MEAN_SHARE, surge_frequency, unseen_surge_value
from streamsched.formula.champion import CHANGED
from streamsched.formula.formula import Formula
from streamsched.numerics.jit import bare_kernel, mix
from streamsched.numerics.topk_order import sort_keys, tie_keys
from streamsched.numerics.vector_math import expm1
from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.priority import BY_SCORE
from streamsched.ranking.full_scan import FullScan, Query, Ranked
from streamsched.records.page_schema import LEASED, LONGEST_INTERVAL, URGENT
from streamsched.records.pattern_members import list_members
from streamsched.scheduler.batches.quotas import Places, put_in_order, swap_in

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints, Record
    from streamsched.records.schema import ShardArrays

__all__ = ["PROBES_PER_GROUP", "SurgeProbes"]

PROBES_PER_GROUP: Final = 5  # if a surge has hit half of a group, it hit one of 5 pages 31 times in 32
_LEAST_PAGES: Final = 16  # of a group, the number that a URL pattern needs; with fewer there is little to gain
_MOST: Final = 0.5  # share of a batch that may be surge probes
_MOST_ROWS: Final = 16  # newest pages of a group among which its probes are chosen; over all groups, ...
_ROWS_A_PAGE: Final = 2  # ... this many more for each page of the batch: half a batch of probes needs no more
_DAY_S: Final = 86_400.0
_GROUPS: Final = 1 << 14  # groups examined for a batch, ...
_GROUPS_A_PAGE: Final = 16  # ... and more for each page of it: all for large batches, else from a random start


class _Due(NamedTuple):
    """Groups that are worth surge probes, best first: their numbers, and the worth of each probe."""

    groups: Ints
    worth: Floats


class SurgeProbes:
    """Adds surge probes to batches. O(1) memory; for one call at a time."""

    def __init__(self) -> None:
        self._likely = FullScan(Formula.parse(CHANGED).compile(), 1)

    def adjust(
        self, shard: ShardArrays, query: Query, batch: Ranked, stays: Ints, score: Callable[[Ints], Floats]
    ) -> tuple[Ranked, Ints]:
        """Return the batch with its surge probes, in the order of scores, and the probes' rows: int64[s].

        `stays`: rows that must stay; `score`: scores pages by their rows. O(batch + groups examined + pages of those
        worth surge probes).
        """
        rows = batch.rows
        if shard.corpus["pages"][0] < _LEAST_PAGES:
            return batch, rows[:0]
        keep = np.isin(rows, stays) | ((shard.pages.records["flags"][rows] & URGENT) != 0) | (batch.tiers != BY_SCORE)
        most = min(int(_MOST * rows.size), int(np.count_nonzero(~keep)))
        if most == 0:
            return batch, rows[:0]
        bars = self._likely.score(shard, query.now, query.cycle_s, rows[~keep][::-1][:most])
        due = _find_due(shard, query, float(bars[0]), most)
        if due.groups.size == 0:
            return batch, rows[:0]
        probes, worth = _choose(shard, query, due, rows, score)
        beats = worth[:most] >= bars[: worth.size]
        count = beats.size if beats.all() else int(np.argmin(beats))
        if count == 0:
            return batch, rows[:0]
        mixed, added = swap_in(shard, query, Places(rows, keep), probes[:count], count)
        if not added:
            return batch, rows[:0]
        return put_in_order(shard, query, batch, mixed, score), mixed[mixed.size - added :]


def _find_due(shard: ShardArrays, query: Query, bar: float, most: int) -> _Due:
    """Return at most `most` groups whose probes are worth `bar` or more."""
    groups = int(shard.corpus["groups"][0])
    count = min(groups, _GROUPS + _GROUPS_A_PAGE * query.k)
    start = int(mix(np.uint64(int(query.now) & (2**63 - 1)))) % groups if count < groups else 0
    out, worth = np.empty(count, np.int64), np.empty(count)
    found = _list_due(shard, (start, count), query.now, bar, out, worth)
    order = np.lexsort((out[:found], -worth[:found]))[:most]
    rows = np.cumsum(np.minimum(shard.groups.records["pages"][out[order]].astype(np.int64), _MOST_ROWS))
    order = order[rows <= _MOST_ROWS + _ROWS_A_PAGE * query.k]
    return _Due(out[order], worth[order])


def _choose(
    shard: ShardArrays, query: Query, due: _Due, batch: Ints, score: Callable[[Ints], Floats]
) -> tuple[Ints, Floats]:
    """Return the probes of the groups that are due, and their worth: int64[s], float64[s], best first.

    They are the best of a group's newest pages that are neither in the batch nor leased, as many as are still missing.
    """
    rows, ends = _list_all(shard, due.groups)
    place = np.repeat(np.arange(due.groups.size), np.diff(ends, prepend=0))
    batch = np.sort(batch)
    in_batch = batch[np.minimum(np.searchsorted(batch, rows), batch.size - 1)] == rows
    leased = (shard.pages.records["flags"][rows] & LEASED) != 0
    missing = PROBES_PER_GROUP - np.bincount(place[leased & ~in_batch], minlength=due.groups.size)
    groups = np.sort(shard.pages.records["group"][batch])
    missing -= np.searchsorted(groups, due.groups, "right") - np.searchsorted(groups, due.groups)
    free = ~in_batch & ~leased & (missing[place] > 0)
    free[free] = are_eligible(shard, rows[free], query.now, query.limits)
    rows, place = rows[free], place[free]
    ties = tie_keys(shard.pages.records["url_hash"][rows], query.salt)
    order = np.lexsort((rows, ties, ~sort_keys(score(rows)), place))
    rows, place = rows[order], place[order]
    nth = np.arange(rows.size) - np.searchsorted(place, place)
    sent = nth < missing[place]
    return rows[sent], due.worth[place[sent]]


def _list_all(shard: ShardArrays, groups: Ints) -> tuple[Ints, Ints]:
    """Return the rows of all `groups`, group by group, and where each group's rows end: int64[m], int64[groups]."""
    sizes = np.minimum(shard.groups.records["pages"][groups].astype(np.int64), _MOST_ROWS)
    out, ends = np.empty(int(sizes.sum()), np.int64), np.cumsum(sizes)
    return out[: _list_rows(shard, groups, sizes, out)], ends


@bare_kernel
def _list_rows(shard: ShardArrays, groups: Ints, sizes: Ints, out: Ints) -> int:
    """Write up to `sizes` rows of each group's pages to `out`; return how many in all."""
    count = 0
    known = shard.corpus[0].pages
    for i in range(groups.size):
        room = count + sizes[i]
        count = min(list_members(shard.groups, shard.pages.records, groups[i], np.inf, known, out[:room], count), room)
    return count


@bare_kernel
def _list_due(shard: ShardArrays, span: tuple[int, int], now: float, bar: float, out: Ints, worth: Floats) -> int:
    """Write to `out` those of ``span[1]`` groups from number ``span[0]`` on whose probes are worth `bar` or more.

    `worth` gets the worth of one probe: the expected number of stale pages found a cycle sooner. Returns how many.
    O(groups).
    """
    groups = shard.corpus[0].groups
    count = 0
    for i in range(span[1]):
        number = (span[0] + i) % groups
        group: Record = shard.groups.records[number]
        if group.pages < _LEAST_PAGES or group.open_s == -np.inf:
            continue
        days = min(max((now - group.open_s) / _DAY_S, 0.0), LONGEST_INTERVAL)
        hazard, unseen = (
            surge_frequency(shard.corpus[0], group) * days,
            unseen_surge_value(group) * group.open_unvisited,
        )
        if MEAN_SHARE * (unseen + hazard * (group.pages - 1.0)) < bar * PROBES_PER_GROUP * (1.0 - 1e-9):
            continue  # since 1 - exp(-hazard) is below the hazard
        expected = MEAN_SHARE * (unseen + (0.0 - expm1(-hazard)) * (group.pages - 1.0))
        value = expected / PROBES_PER_GROUP
        if value > 0.0 and value >= bar:
            out[count] = number
            worth[count] = value
            count += 1
    return count
