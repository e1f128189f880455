"""Quotas of a batch: a share for never-visited pages, and a share for random exploration.

At least `new_share` of a batch are never-visited pages, if that many exist: a formula's score of a page without visits
is a guess. Exploration gives a share to pages drawn uniformly at random from all that may be visited, for planners that
learn from these visits. Both replace the worst pages of the batch, within the hosts' limits; the panel's pages stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.topk_order import tie_keys
from streamsched.politeness.domain_shares import NO_DOMAIN_LIMITS, keep_within
from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.limits import host_capacity
from streamsched.politeness.priority import BY_SCORE, read_overdue, select_best
from streamsched.ranking.full_scan import Query, Ranked, fill_slots
from streamsched.ranking.host_slots import HostSlots, SlotLimits
from streamsched.records.page_schema import URGENT, VISITED
from streamsched.records.schema import ShardArrays

_ROUNDING: Final = 1e-9  # of a page: 0.1 * 30 is 3.0000000000000004 and means 3
_DIGITS: Final = 9  # to which fractions of pages are rounded
_TRIES: Final = 8  # rows drawn for each page wanted: some are in the batch already or may not be visited
_FEW: Final = 8  # pages: for fewer, as many rows are drawn
_KEPT_DRAWS: Final = 8  # draws owed beyond the last batch that later batches make up for


class RankedSources(NamedTuple):
    """Functions that rank the never-visited pages, and score pages by their rows."""

    rank_new: Callable[[Query], Ranked]
    score: Callable[[Ints], Floats]


class BatchQuotas:
    """The quotas of one scheduler.

    ``new``: the share of never-visited pages; ``explore``: that of random pages, which may be set.
    """

    def __init__(self, new: float, seed: int) -> None:
        self.new = new
        self.explore = 0.0
        self._seed = seed
        self._handed = 0  # pages of all batches with exploration
        self._drawn = 0.0  # of them drawn at random, or given up because there was long no page to draw
        self._owed = 0.0  # fraction of a never-visited page, below 1, that earlier batches were too small for
        self._first_new = 0  # all rows before it were visited
        self._seats = HostSlots()

    def adjust(self, shard: ShardArrays, query: Query, ranked: Ranked, sources: RankedSources) -> Ranked:
        """Return the batch `ranked`, the result of `query`, with quotas applied, in the order of scores. O(batch)."""
        rows = ranked.rows
        if self.new and self._find_new(shard):
            rows = self._add_new(shard, query, ranked, sources)
        if self.explore:
            rows = self._add_random(shard, query, rows)
        return ranked if rows is ranked.rows else put_in_order(shard, query, _with_scores(ranked, rows, sources.score))

    def count(self, pages: int) -> None:
        """Count pages that were leased by name, as a batch that met its shares. O(1)."""
        if self.explore:
            self._handed += pages
            self._drawn = round(self._drawn + self.explore * pages, _DIGITS)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Do not count batches composed in this block."""
        counts = self._handed, self._drawn, self._owed
        try:
            yield
        finally:
            self._handed, self._drawn, self._owed = counts

    def state(self) -> dict[str, Any]:
        """Return the counts, as plain values for JSON; `restore` takes them."""
        return {"handed": self._handed, "drawn": self._drawn, "owed": self._owed}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the counts that `state` returned."""
        self._handed, self._drawn = state["handed"], state["drawn"]
        self._owed = state["owed"]

    def _find_new(self, shard: ShardArrays) -> bool:
        """Return whether some page was never visited. O(1) amortised."""
        self._first_new = _pass_visited(shard, self._first_new)
        return self._first_new < int(shard.corpus["pages"][0])

    def _add_new(self, shard: ShardArrays, query: Query, ranked: Ranked, sources: RankedSources) -> Ints:
        """Return the rows of a batch of m pages with the never-visited pages that are due, if they exist. O(m).

        Fractions of a page are carried over to later batches, so that small batches reach the share too.
        """
        rows = ranked.rows
        due = self.new * rows.size + self._owed
        wanted = math.floor(due + _ROUNDING)
        new = _are_new(shard, rows)
        missing = wanted - int(np.count_nonzero(new))
        if missing > 0:
            keep = _drop_last(rows, np.isin(rows, query.first) | new, missing)
            found = sources.rank_new(replace(query, k=rows.size, first=rows[keep]))
            rows = self._fill_up(shard, query, found.rows, ranked)
        had = int(np.count_nonzero(_are_new(shard, rows)))
        self._owed = max(round(due - max(wanted, had), _DIGITS), 0.0)
        return rows

    def _add_random(self, shard: ShardArrays, query: Query, rows: Ints) -> Ints:
        """Return the batch ``rows``: int64[m] with the random pages that are due, within hosts' limits. O(m)."""
        self._handed += rows.size
        due = self.explore * self._handed
        wanted = math.floor(due - self._drawn + _ROUNDING)
        if wanted > 0:
            stays = np.isin(rows, query.first) | ((shard.pages.records["flags"][rows] & URGENT) != 0)
            stays |= _are_new(shard, rows) if self.new else False
            drawn = self._draw(shard, query, rows, wanted)
            keep, added = swap_in(shard, query, Places(rows, stays), drawn, wanted)
            # Draws owed after a long time without pages to draw must not fill whole batches later.
            self._drawn = max(self._drawn + added.size, round(due - self.explore * rows.size - _KEPT_DRAWS, _DIGITS))
            rows = np.concatenate([rows[keep], drawn[added]]) if added.size else rows
        return rows

    def _fill_up(self, shard: ShardArrays, query: Query, chosen: Ints, before: Ranked) -> Ints:
        """Return the pages `chosen`, and those of `before` that still have room."""
        others = Ranked(before.rows, np.zeros(before.rows.size), before.tiers)
        seated = fill_slots(self._seats, shard, replace(query, k=before.rows.size, first=chosen), others)
        self._seats.clear(shard)
        return seated.rows

    def _draw(self, shard: ShardArrays, query: Query, batch: Ints, count: int) -> Ints:
        """Return random pages that may be visited and are not in the batch, enough for `count`: int64[m]."""
        pages = int(shard.corpus["pages"][0]) if query.among is None else query.among.rows.size
        size = _TRIES * max(count, _FEW) if pages else 0
        drawn = np.random.default_rng([abs(self._seed), self._handed]).integers(max(pages, 1), size=size)
        rows = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        rows = rows if query.among is None else query.among.rows[rows]
        rows = rows[~np.isin(rows, batch)]
        return rows[are_eligible(shard, rows, query.now, query.limits)]


class Places(NamedTuple):
    """A batch, best first, and which of its pages must stay: int64[m], bool[m]."""

    rows: Ints
    stays: Bools


class Swapped(NamedTuple):
    """Which pages keep their places in a batch: bool[m], and the indices of the added ones: int64[n]."""

    keep: Bools
    added: Ints


class _Hosts(NamedTuple):
    """The hosts of a batch's pages and of the added ones, and working memory of a swap."""

    groups: Ints  # int64[m + n]
    order: Rows  # sorts them
    numbers: Ints  # the same hosts as numbers from 0
    used: Ints  # by number: pages in the batch
    last: Ints  # by number: the last place that may be given up, -1 for none
    before: Ints  # by place: the one before that may be given up and is of the same host, -1 for none


def swap_in(shard: ShardArrays, query: Query, places: Places, added: Ints, count: int) -> Swapped:
    """Swap up to `count` of ``added``: int64[n] into a batch. O((m + n) log(m + n)).

    Each replaces the worst page of all, or the worst of its own host if that host is at its limit. Pages whose domain
    is at its limit are left out.
    """
    within = np.flatnonzero(keep_within(shard, query.domains, places.rows, added))
    if within.size < added.size:
        swapped = swap_in(shard, replace(query, domains=NO_DOMAIN_LIMITS), places, added[within], count)
        return Swapped(swapped.keep, within[swapped.added])
    groups = _hosts(shard, np.concatenate([places.rows, added]))
    work = (np.empty(groups.size, np.int64), np.zeros(groups.size, np.int64), np.full(groups.size, -1))
    hosts = _Hosts(groups, np.argsort(groups), *work, np.empty(places.rows.size, np.int64))
    swapped = Swapped(np.ones(places.rows.size, np.bool_), np.empty(min(count, added.size), np.int64))
    size = _swap(shard, query.slot_limits, places.stays, hosts, swapped)
    return Swapped(swapped.keep, swapped.added[:size])


@bare_kernel
def _swap(shard: ShardArrays, slot_limits: SlotLimits, stays: Bools, hosts: _Hosts, swapped: Swapped) -> int:
    """Swap pages as `swap_in` does; return how many are added. O(m + n)."""
    limits, now, lease_s, _ = slot_limits
    _find_places(stays, hosts)
    worst, count = stays.size - 1, 0
    for i in range(hosts.groups.size - stays.size):
        if count == swapped.added.size:
            break
        host = hosts.numbers[stays.size + i]
        if hosts.used[host] < host_capacity(shard.groups.records[hosts.groups[stays.size + i]], limits, now, lease_s):
            while worst >= 0 and (stays[worst] or not swapped.keep[worst]):
                worst -= 1
            place = worst
        else:
            while hosts.last[host] >= 0 and not swapped.keep[hosts.last[host]]:
                hosts.last[host] = hosts.before[hosts.last[host]]
            place = hosts.last[host]
        if place >= 0:
            swapped.keep[place] = False
            hosts.used[hosts.numbers[place]] -= 1
            hosts.used[host] += 1
            swapped.added[count] = i
            count += 1
    return count


@inlined_kernel
def _find_places(stays: Bools, hosts: _Hosts) -> None:
    """Number the hosts, count their places, and link those that may be given up. O(m + n)."""
    number = -1
    for i in range(hosts.order.size):
        if i == 0 or hosts.groups[hosts.order[i]] != hosts.groups[hosts.order[i - 1]]:
            number += 1
        hosts.numbers[hosts.order[i]] = number
    for place in range(stays.size):
        host = hosts.numbers[place]
        hosts.used[host] += 1
        if not stays[place]:
            hosts.before[place], hosts.last[host] = hosts.last[host], place


def _hosts(shard: ShardArrays, rows: Ints) -> Ints:
    """Return the host numbers of ``rows``: int64[m] as int64[m]. O(m)."""
    hosts: Ints = shard.groups.records["host"][shard.pages.records["group"][rows]].astype(np.int64)
    return hosts


def put_in_order(shard: ShardArrays, query: Query, batch: Ranked) -> Ranked:
    """Return `batch` in order: the query's `first` pages, then the others, best score first. O(m log m)."""
    first = int(np.count_nonzero(np.isin(batch.rows, query.first)))  # these are in front
    rows, tiers = batch.rows[first:], batch.tiers[first:]
    overdue_s, ahead = np.full(rows.size, np.inf), np.flatnonzero(tiers != BY_SCORE)
    overdue_s[ahead] = read_overdue(shard, rows[ahead], query.limits, query.now)
    ties = tie_keys(shard.pages.records["url_hash"][rows], query.salt)
    best = select_best(batch.scores[first:], overdue_s, ties, rows.size, rows)
    order = np.concatenate([np.arange(first), first + best])
    return Ranked(batch.rows[order], batch.scores[order], batch.tiers[order])


def _with_scores(ranked: Ranked, rows: Ints, score: Callable[[Ints], Floats]) -> Ranked:
    """Return ``rows``: int64[m] with their scores and tiers, which are known of the pages of `ranked`."""
    by_row = np.argsort(ranked.rows)
    place = by_row[np.minimum(np.searchsorted(ranked.rows, rows, sorter=by_row), max(by_row.size - 1, 0))]
    known = ranked.rows[place] == rows
    scores, tiers = ranked.scores[place], np.where(known, ranked.tiers[place], BY_SCORE).astype(np.uint8)
    scores[~known] = score(rows[~known])
    return Ranked(rows, scores, tiers)


def _are_new(shard: ShardArrays, rows: Ints) -> Bools:
    """Return whether each of ``rows``: int64[m] was never visited: bool[m]. O(m)."""
    new: Bools = (shard.pages.records["flags"][rows] & VISITED) == 0
    return new


def _drop_last(rows: Ints, stays: Bools, count: int) -> Bools:
    """Return which of ``rows``: int64[m] stay if the last `count` that may go are dropped: bool[m]."""
    keep = np.ones(rows.size, np.bool_)
    if count:
        keep[np.flatnonzero(~stays)[-count:]] = False
    return keep


@bare_kernel
def _pass_visited(shard: ShardArrays, row: int) -> int:
    """Return the first row from `row` on that was never visited, or the number of pages."""
    while row < shard.corpus[0].pages and shard.pages.records[row].flags & VISITED:
        row += 1
    return row
