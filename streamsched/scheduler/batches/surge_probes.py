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
from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.surges import MEAN_SHARE, surge_frequency, unseen_surge_value
from streamsched.formula.terminals import change_probabilities
from streamsched.numerics.arrays import Bools, Bytes, Floats, Ints, Record
from streamsched.numerics.compilation.machine_operations import prefetch, prefetch_field
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.topk_order import sort_key
from streamsched.numerics.vector_math import expm1
from streamsched.politeness.limits import host_capacity, ready_at
from streamsched.politeness.priority import BY_SCORE
from streamsched.ranking.full_scan import Query, Ranked
from streamsched.ranking.host_slots import SlotLimits
from streamsched.records.group_schema import SURGES_AT
from streamsched.records.page_schema import LEASED, LONGEST_INTERVAL, URGENT
from streamsched.records.schema import ShardArrays
from streamsched.scheduler.batches.quotas import Places, put_in_order, swap_in

PROBES_PER_GROUP: Final = 5  # if a surge has hit half of a group, it hit one of 5 pages 31 times in 32
_LEAST_PAGES: Final = 16  # of a group, the number that a URL pattern needs; with fewer there is little to gain
_NEWEST: Final = 16  # pages of a group among which its probes are chosen, no more than it has
_MOST: Final = 0.5  # share of a batch that may be surge probes
_ROWS_A_PAGE: Final = 2  # pages among which probes are chosen, for each page of a batch: half a batch needs no more
_DAY_S: Final = 86_400.0
_GROUPS: Final = 1 << 14  # groups examined for a batch, ...
_GROUPS_A_PAGE: Final = 16  # ... and more for each page of it: all for large batches, else from a random start
_PREFETCH_AHEAD: Final = 8  # groups


class _Batch(NamedTuple):
    """The rows of a batch, and the probability that each page which probes may replace has changed, worst first."""

    rows: Ints
    bars: Floats


class _Due(NamedTuple):
    """Groups that are worth surge probes, and the worth of each probe."""

    groups: Ints
    worth: Floats


class _InBatch(NamedTuple):
    """The pages of a batch, group by group, and where those of each group that is due begin and end."""

    rows: Ints
    begins: Ints
    ends: Ints


class _Candidates(NamedTuple):
    """Pages that may be surge probes, group by group; where those of each group begin; how many it is to have."""

    rows: Ints
    begins: Ints
    missing: Ints


class _Chosen(NamedTuple):
    """Surge probes, best first: their rows and scores."""

    rows: Ints
    scores: Floats


class SurgeProbes:
    """Adds surge probes to batches. O(1) memory; for one call at a time."""

    def adjust(
        self, shard: ShardArrays, query: Query, batch: Ranked, stays: Bools, score: Callable[[Ints], Floats]
    ) -> tuple[Ranked, Ints]:
        """Return the batch with its surge probes, in the order of scores, and the probes' rows: int64[s].

        ``stays``: bool[m], whether each page of the batch must stay. O(batch + groups examined).
        """
        rows = batch.rows
        if shard.corpus["pages"][0] < _LEAST_PAGES:
            return batch, rows[:0]
        keep = stays | ((shard.pages.records["flags"][rows] & URGENT) != 0) | (batch.tiers != BY_SCORE)
        replaceable = np.flatnonzero(~keep)[::-1][: int(_MOST * rows.size)]
        if replaceable.size == 0:
            return batch, rows[:0]
        bars = change_probabilities(shard, query.now, query.cycle_s, rows[replaceable])  # the worst page first
        due = _find_due(shard, query, float(bars[0]), bars.size)
        if due.groups.size == 0:
            return batch, rows[:0]
        probes = _choose(shard, query, due, _Batch(rows, bars), score)
        swapped = swap_in(shard, query, Places(rows, keep), probes.rows, probes.rows.size)
        if not swapped.added.size:
            return batch, rows[:0]
        added = probes.rows[swapped.added]
        mixed = Ranked(
            np.concatenate([rows[swapped.keep], added]),
            np.concatenate([batch.scores[swapped.keep], probes.scores[swapped.added]]),
            np.concatenate([batch.tiers[swapped.keep], np.full(added.size, BY_SCORE, np.uint8)]),
        )
        return put_in_order(shard, query, mixed), added


def _find_due(shard: ShardArrays, query: Query, bar: float, most: int) -> _Due:
    """Return at most `most` groups whose probes are worth `bar` or more, best first. O(groups examined)."""
    groups = int(shard.corpus["groups"][0])
    wanted = np.empty(0, np.uint8)
    count = min(groups, _GROUPS + _GROUPS_A_PAGE * query.k)
    if query.among is not None:
        wanted, count = np.zeros(groups, np.uint8), groups
        wanted[query.among.hosts] = 1
    start = int(mix(np.uint64(int(query.now) & (2**63 - 1)))) % groups if count < groups else 0
    size = min(most, 1 + _ROWS_A_PAGE * query.k // _NEWEST, groups)
    best = _Due(np.full(size, groups), np.full(size, -np.inf))
    _list_due(shard, (start, count), query.now, bar, wanted, best)
    order = np.lexsort((best.groups, -best.worth))[: np.count_nonzero(best.worth > 0.0)]
    return _Due(best.groups[order], best.worth[order])


def _choose(shard: ShardArrays, query: Query, due: _Due, batch: _Batch, score: Callable[[Ints], Floats]) -> _Chosen:
    """Return the probes of the groups that are due, as long as they are worth more than the pages they replace.

    They are the best of a group's newest pages that are neither in the batch nor leased, up to the number missing.
    """
    groups = shard.pages.records["group"][batch.rows].astype(np.int64)
    order = np.argsort(groups)
    groups = groups[order]
    in_batch = _InBatch(
        batch.rows[order], np.searchsorted(groups, due.groups), np.searchsorted(groups, due.groups, "right")
    )
    size = due.groups.size
    found = _Candidates(np.empty(size * _NEWEST, np.int64), np.empty(size + 1, np.int64), np.empty(size, np.int64))
    rows = found.rows[: _list_candidates(shard, due, in_batch, batch.bars, query.slot_limits, found)]
    chosen = _Chosen(rows, score(rows))
    count = _choose_best(shard, found, chosen, due.worth, batch.bars, np.uint64(query.salt))
    return _Chosen(chosen.rows[:count], chosen.scores[:count])


@bare_kernel
def _list_candidates(
    shard: ShardArrays, due: _Due, in_batch: _InBatch, bars: Floats, slot_limits: SlotLimits, found: _Candidates
) -> int:
    """Write the candidates of the groups that get a probe to `found`; return how many in all. O(groups)."""
    newest, members, records = found.rows, shard.groups.member_links, shard.pages.records
    for i in range(due.groups.size):
        newest[i * _NEWEST] = np.int64(shard.groups.first_members[due.groups[i]]) - 1
    for nth in range(1, _NEWEST):  # one of each group at a time, since a list's next page is known only after this one
        for i in range(due.groups.size):
            row = newest[i * _NEWEST + nth - 1]
            prefetch(records, row)
            link: Record = members[row]
            newest[i * _NEWEST + nth] = np.int64(link.after) - 1
    count = probes = 0
    for i in range(due.groups.size):
        found.begins[i], found.missing[i] = count, 0
        if probes >= bars.size or not due.worth[i] >= bars[probes]:
            continue  # nor do the other groups get any
        group: Record = shard.groups.records[due.groups[i]]
        limits, now, lease_s, _ = slot_limits
        is_open = host_capacity(shard.groups.records[group.host], limits, now, lease_s) > 0
        begin, end = in_batch.begins[i], in_batch.ends[i]
        missing = PROBES_PER_GROUP - (end - begin)
        for at in range(i * _NEWEST, (i + 1) * _NEWEST):
            row = newest[at]
            if _holds(in_batch.rows, begin, end, row):
                continue
            page: Record = records[row]
            if page.flags & LEASED:
                missing -= 1
            elif is_open and ready_at(shard.pages, row, limits) <= now:
                newest[count] = row
                count += 1
        if missing <= 0:
            count = found.begins[i]
            continue
        found.missing[i] = missing
        probes += min(missing, count - found.begins[i])
    found.begins[due.groups.size] = count
    return count


@inlined_kernel
def _holds(rows: Ints, begin: int, end: int, row: int) -> bool:
    """Return whether `row` is one of ``rows[begin:end]``. O(end - begin)."""
    for i in range(begin, end):
        if rows[i] == row:
            return True
    return False


@bare_kernel
def _choose_best(
    shard: ShardArrays, found: _Candidates, chosen: _Chosen, worth: Floats, bars: Floats, salt: int
) -> int:
    """Move the probes to the front of `chosen`, the candidates with their scores; return how many. O(candidates)."""
    count = 0
    for i in range(worth.size):
        end = found.begins[i + 1]
        for first in range(found.begins[i], min(found.begins[i] + found.missing[i], end)):
            if count == bars.size or not worth[i] >= bars[count]:
                return count
            best = first
            for other in range(first + 1, end):
                if _precedes(shard, chosen, other, best, salt):
                    best = other
            row, score = chosen.rows[best], chosen.scores[best]
            chosen.rows[best], chosen.scores[best] = chosen.rows[first], chosen.scores[first]
            chosen.rows[count], chosen.scores[count] = row, score
            count += 1
    return count


@inlined_kernel
def _precedes(shard: ShardArrays, pages: _Chosen, i: int, j: int, salt: int) -> bool:
    """Return whether page `i` comes before page `j`: by score, then tie, then row. O(1)."""
    key, other = sort_key(pages.scores[i]), sort_key(pages.scores[j])
    if key != other:
        return bool(key > other)
    row, other_row = pages.rows[i], pages.rows[j]
    page: Record = shard.pages.records[row]
    other_page: Record = shard.pages.records[other_row]
    tie, other_tie = mix(page.url_hash ^ salt), mix(other_page.url_hash ^ salt)
    return bool(tie < other_tie or (tie == other_tie and row < other_row))


@bare_kernel
def _list_due(shard: ShardArrays, span: tuple[int, int], now: float, bar: float, wanted: Bytes, best: _Due) -> None:
    """Write to `best`, a heap, those of ``span[1]`` groups from number ``span[0]`` on whose probes are worth most.

    And `bar` or more. ``wanted``: uint8[groups], the hosts whose groups count, empty for all. The worth of one probe is
    the expected number of stale pages found a cycle sooner. O(groups).
    """
    groups, records = np.int64(shard.corpus[0].groups), shard.groups.records
    number = span[0] - 1
    for _ in range(span[1]):
        number = number + 1 if number + 1 < groups else 0
        prefetch(records, number + _PREFETCH_AHEAD)
        prefetch_field(records, number + _PREFETCH_AHEAD, SURGES_AT)
        group: Record = records[number]
        if group.pages < _LEAST_PAGES or group.open_s == -np.inf:
            continue
        if wanted.size and not wanted[np.int64(group.host)]:
            continue
        days = min(max((now - group.open_s) / _DAY_S, 0.0), LONGEST_INTERVAL)
        hazard = surge_frequency(shard.corpus[0], group) * days
        unseen = unseen_surge_value(group) * group.open_unvisited
        least = max(bar, best.worth[0]) * PROBES_PER_GROUP * (1.0 - 1e-9)
        if MEAN_SHARE * (unseen + hazard * (group.pages - 1.0)) < least:
            continue  # since 1 - exp(-hazard) is below the hazard
        expected = MEAN_SHARE * (unseen + (0.0 - expm1(-hazard)) * (group.pages - 1.0))
        worth = expected / PROBES_PER_GROUP
        if worth > 0.0 and worth >= bar and _is_worse(best, 0, number, worth):
            _replace_worst(best, number, worth)


@inlined_kernel
def _is_worse(due: _Due, place: int, number: int, worth: float) -> bool:
    """Return whether the group in a place comes after the group `number` of that worth. O(1)."""
    return bool(due.worth[place] < worth or (due.worth[place] == worth and due.groups[place] > number))


@inlined_kernel
def _replace_worst(heap: _Due, number: int, worth: float) -> None:
    """Replace the worst group, the first of a heap in which each is worse than the two below it. O(log groups)."""
    place, below = 0, 1
    while below < heap.groups.size:
        other = below + 1
        if other < heap.groups.size and _is_worse(heap, other, heap.groups[below], heap.worth[below]):
            below = other
        if not _is_worse(heap, below, number, worth):
            break
        heap.groups[place], heap.worth[place] = heap.groups[below], heap.worth[below]
        place, below = below, 2 * below + 1
    heap.groups[place], heap.worth[place] = number, worth
