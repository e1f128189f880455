"""BatchQuotas of a batch that do not go by score alone: pages never visited, and pages drawn by lot.

So many of a batch's pages at least are such as were never visited, where there are so many: of a page that nobody has
looked at a formula may think anything. Exploration gives some places to pages drawn by lot from all that may be handed
out, for formulas that can score a page 0 for ever. Both come in place of the worst of the batch, as far as hosts have
room; what was first in it stays.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.topk_order import select_top, tie_keys
from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.limits import host_capacity
from streamsched.ranking.full_scan import Query, Ranked, fill_slots
from streamsched.ranking.host_slots import HostSlots
from streamsched.records.schema import URGENT, VISITED, ShardArrays

__all__ = ["BatchQuotas", "Places", "RankedSources", "put_in_order", "swap_in"]

_ROUNDING: Final = 1e-9  # of a page: 0.1 * 30 is 3.0000000000000004 and means 3
_DIGITS: Final = 9  # that fractions of pages are kept to
_TRIES: Final = 8  # rows drawn for each page wanted: some are in the batch already or may not be handed out
_FEW: Final = 8  # pages: for fewer, as many rows are drawn
_KEPT_LOTS: Final = 8  # that are made up for later, beside those of the last batch


class RankedSources(NamedTuple):
    """How to rank the pages never visited, and how to score pages by their rows."""

    rank_new: Callable[[Query], Ranked]
    score: Callable[[Ints], Floats]


class BatchQuotas:
    """The shares of one scheduler's batches. ``new``: of pages never visited; ``explore``: of pages drawn by lot."""

    def __init__(self, new: float, explore: float, seed: int) -> None:
        self.new = new
        self.explore = explore
        self._seed = seed
        self._handed = 0  # pages handed out, counted where some are drawn, and how many of them were
        self._drawn = 0.0  # or given up, where there was no page to draw for too long
        self._owed = 0.0  # of a page never visited, below 1: what batches so far had too little room for
        self._first_new = 0  # the first row that may never have been visited
        self._seats = HostSlots()

    def adjust(self, shard: ShardArrays, query: Query, ranked: Ranked, ways: RankedSources) -> Ranked:
        """Return the batch `ranked`, the answer to `query`, with its shares, in the order of scores. O(batch)."""
        rows = ranked.rows
        if self.new and self._find_new(shard):
            rows = self._add_new(shard, query, rows, ways)
        if self.explore:
            rows = self._add_lots(shard, query, rows)
        return ranked if rows is ranked.rows else put_in_order(shard, query, ranked, rows, ways.score)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Let batches composed in this block not count."""
        counts = self._handed, self._drawn, self._owed
        try:
            yield
        finally:
            self._handed, self._drawn, self._owed = counts

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs, as JSON can hold it."""
        counts = {"handed": self._handed, "drawn": self._drawn, "owed": self._owed}
        return {"new": self.new, "explore": self.explore, **counts}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned once."""
        self._handed, self._drawn = state["handed"], state["drawn"]
        self._owed = state.get("owed", 0.0)  # states of before it was kept have none

    def _find_new(self, shard: ShardArrays) -> bool:
        """Return whether some page was never visited. O(1) amortised."""
        self._first_new = _pass_visited(shard, self._first_new)
        return self._first_new < int(shard.corpus["pages"][0])

    def _add_new(self, shard: ShardArrays, query: Query, rows: Ints, ways: RankedSources) -> Ints:
        """Return the batch ``rows``: int64[m] with as many pages never visited as are due, if there are. O(m).

        What is due beyond whole pages is left to later batches, so that small ones reach the share, too.
        """
        due = self.new * rows.size + self._owed
        wanted = math.floor(due + _ROUNDING)
        new = _are_new(shard, rows)
        missing = wanted - int(np.count_nonzero(new))
        if missing > 0:
            keep = _drop_last(rows, np.isin(rows, query.first) | new, missing)
            found = ways.rank_new(replace(query, k=rows.size, first=rows[keep]))
            rows = self._fill_up(shard, query, found.rows, rows)
        had = int(np.count_nonzero(_are_new(shard, rows)))
        self._owed = max(round(due - max(wanted, had), _DIGITS), 0.0)
        return rows

    def _add_lots(self, shard: ShardArrays, query: Query, rows: Ints) -> Ints:
        """Return the batch ``rows``: int64[m] with as many pages drawn by lot as are due, if they have room. O(m)."""
        self._handed += rows.size
        due = self.explore * self._handed
        wanted = math.floor(due - self._drawn + _ROUNDING)
        if wanted > 0:
            stays = np.isin(rows, query.first) | ((shard.pages.records["flags"][rows] & URGENT) != 0)
            stays |= _are_new(shard, rows) if self.new else False
            lots = self._draw(shard, query, rows, wanted)
            rows, seated = swap_in(shard, query, Places(rows, stays), lots, wanted)
            # Where for long there is nothing to draw, that must not make whole batches of lots one day.
            self._drawn = max(self._drawn + seated, round(due - self.explore * rows.size - _KEPT_LOTS, _DIGITS))
        return rows

    def _fill_up(self, shard: ShardArrays, query: Query, chosen: Ints, before: Ints) -> Ints:
        """Return the pages `chosen`, and of those `before` as many as there is room for besides."""
        others = Ranked(before, np.zeros(before.size))
        seated = fill_slots(self._seats, shard, replace(query, k=before.size, first=chosen), others)
        self._seats.clear(shard)
        return seated.rows

    def _draw(self, shard: ShardArrays, query: Query, batch: Ints, count: int) -> Ints:
        """Return pages drawn by lot that may be handed out and are not in the batch, enough for `count`: int64[m]."""
        pages = int(shard.corpus["pages"][0])
        size = _TRIES * max(count, _FEW)
        lots = np.random.default_rng([abs(self._seed), self._handed]).integers(pages, size=size)
        rows = lots[np.sort(np.unique(lots, return_index=True)[1])]
        rows = rows[~np.isin(rows, batch)]
        return rows[are_eligible(shard, rows, query.now, query.limits)]


class Places(NamedTuple):
    """A batch, best first, and which of its pages keep their places: int64[m], bool[m]."""

    rows: Ints
    stays: Bools


def swap_in(shard: ShardArrays, query: Query, places: Places, lots: Ints, count: int) -> tuple[Ints, int]:
    """Return the batch with up to `count` of ``lots``: int64[n] in it, and how many these are. O(m + n).

    A lot takes the place of the worst page of all, or of the worst of its own host where that has no more room.
    """
    hosts = _hosts(shard, places.rows)
    used = Counter(hosts)
    worst = np.flatnonzero(~places.stays).tolist()
    own: dict[int, list[int]] = {}
    for place in worst:
        own.setdefault(hosts[place], []).append(place)
    keep = np.ones(places.rows.size, np.bool_)
    seated: list[int] = []
    for lot, host in zip(lots.tolist(), _hosts(shard, lots), strict=True):
        if len(seated) == count:
            break
        full = used[host] >= host_capacity(shard.groups.records[host], query.limits, query.now, query.lease_s)
        places_left = own.get(host, []) if full else worst
        while places_left and not keep[places_left[-1]]:
            places_left.pop()
        if places_left:
            place = places_left.pop()
            keep[place] = False
            used[hosts[place]] -= 1
            used[host] += 1
            seated.append(lot)
    return (np.concatenate([places.rows[keep], np.array(seated, np.int64)]) if seated else places.rows), len(seated)


def _hosts(shard: ShardArrays, rows: Ints) -> list[int]:
    """Return the hosts' numbers of ``rows``: int64[m]. O(m)."""
    hosts: list[int] = shard.groups.records["host"][shard.pages.records["group"][rows]].tolist()
    return hosts


def put_in_order(
    shard: ShardArrays, query: Query, ranked: Ranked, rows: Ints, score: Callable[[Ints], Floats]
) -> Ranked:
    """Return ``rows``: int64[m] as a batch: the query's first pages, then the others from the best score down.

    `ranked`: pages whose scores are known; `score`: scores pages by their rows.
    """
    scores = score(rows)
    _, known, place = np.intersect1d(rows, ranked.rows, return_indices=True)
    scores[known] = ranked.scores[place]  # more than they score for those that are overdue
    ahead = np.isin(rows, query.first)
    first, rest = np.flatnonzero(ahead), np.flatnonzero(~ahead)
    ties = tie_keys(shard.pages.records["url_hash"][rows[rest]], query.salt)
    order = np.concatenate([first, rest[select_top(scores[rest], ties, rest.size)]])
    return Ranked(rows[order], scores[order])


def _are_new(shard: ShardArrays, rows: Ints) -> Bools:
    """Return whether each of ``rows``: int64[m] was never visited: bool[m]. O(m)."""
    new: Bools = (shard.pages.records["flags"][rows] & VISITED) == 0
    return new


def _drop_last(rows: Ints, stays: Bools, count: int) -> Bools:
    """Return which of ``rows``: int64[m] are left when the last `count` that need not stay are dropped: bool[m]."""
    keep = np.ones(rows.size, np.bool_)
    if count:
        keep[np.flatnonzero(~stays)[-count:]] = False
    return keep


@bare_kernel
def _pass_visited(shard: ShardArrays, row: int) -> int:
    """Return the first row from `row` on that was never visited, or how many there are."""
    while row < shard.corpus[0].pages and shard.pages.records[row].flags & VISITED:
        row += 1
    return row
