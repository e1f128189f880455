"""Shares of a batch that do not go by score alone: pages never visited, and pages drawn by lot.

So many of a batch's pages at least are such as were never visited, where there are so many: of a page that nobody has
looked at a formula may think anything. Exploration gives some places to pages drawn by lot from all that may be handed
out, for formulas that can score a page 0 for ever. Both come in place of the worst of the batch, as far as hosts have
room; what was first in it stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.arrays import Bools, Floats, Ints
from streamsched.eligibility import are_eligible
from streamsched.jit import bare_kernel
from streamsched.order import select_top, tie_keys
from streamsched.ranking import Query, Ranked, seat_pages
from streamsched.selection import Seats
from streamsched.tables import VISITED, Tables

__all__ = ["Shares", "Ways"]

_ROUNDING: Final = 1e-9  # of a page: 0.1 * 30 is 3.0000000000000004 and means 3
_TRIES: Final = 8  # rows drawn for each page wanted: some are in the batch already or may not be handed out


class Ways(NamedTuple):
    """How to rank the pages never visited, and how to score pages by their rows."""

    rank_new: Callable[[Query], Ranked]
    score: Callable[[Ints], Floats]


class Shares:
    """The shares of one scheduler's batches. ``new``: of pages never visited; ``explore``: of pages drawn by lot."""

    def __init__(self, new: float, explore: float, seed: int) -> None:
        self.new = new
        self.explore = explore
        self._seed = seed
        self._handed = 0  # pages handed out, counted where some are drawn, and how many of them were
        self._drawn = 0
        self._first_new = 0  # the first row that may never have been visited
        self._seats = Seats()

    def adjust(self, tables: Tables, query: Query, ranked: Ranked, ways: Ways) -> Ranked:
        """Return the batch `ranked`, the answer to `query`, with its shares, in the order of scores. O(batch)."""
        size = ranked.rows.size
        if self.explore:
            self._handed += size
        rows = ranked.rows
        missing = math.floor(self.new * size + _ROUNDING) - int(np.count_nonzero(_are_new(tables, rows)))
        if missing > 0 and self._find_new(tables):
            keep = _drop_last(rows, np.isin(rows, query.first) | _are_new(tables, rows), missing)
            found = ways.rank_new(replace(query, k=size, first=rows[keep]))
            rows = self._fill_up(tables, query, found.rows, rows)
        drawn = math.floor(self.explore * self._handed + _ROUNDING) - self._drawn
        if drawn > 0:
            self._drawn += drawn
            lots = self._draw(tables, query, rows, drawn)
            stays = np.isin(rows, query.first) | (_are_new(tables, rows) if self.new else False)
            keep = _drop_last(rows, stays, lots.size)
            rows = self._fill_up(tables, query, np.concatenate([rows[keep], lots]), rows)
        return ranked if rows is ranked.rows else _put_in_order(tables, query, ranked, rows, ways)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Let batches composed in this block not count."""
        counts = self._handed, self._drawn
        try:
            yield
        finally:
            self._handed, self._drawn = counts

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs, as JSON can hold it."""
        return {"new": self.new, "explore": self.explore, "handed": self._handed, "drawn": self._drawn}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned once."""
        self._handed, self._drawn = state["handed"], state["drawn"]

    def _find_new(self, tables: Tables) -> bool:
        """Return whether some page was never visited. O(1) amortised."""
        self._first_new = _pass_visited(tables, self._first_new)
        return self._first_new < int(tables.corpus["pages"][0])

    def _fill_up(self, tables: Tables, query: Query, chosen: Ints, before: Ints) -> Ints:
        """Return the pages `chosen`, and of those `before` as many as there is room for besides."""
        others = Ranked(before, np.zeros(before.size))
        seated = seat_pages(self._seats, tables, replace(query, k=before.size, first=chosen), others)
        self._seats.clear(tables)
        return seated.rows

    def _draw(self, tables: Tables, query: Query, batch: Ints, count: int) -> Ints:
        """Return up to `count` pages drawn by lot that may be handed out and are not in the batch: int64[m]."""
        pages = int(tables.corpus["pages"][0])
        lots = np.random.default_rng([abs(self._seed), self._handed]).integers(pages, size=_TRIES * count)
        rows = lots[np.sort(np.unique(lots, return_index=True)[1])]
        rows = rows[~np.isin(rows, batch)]
        return rows[are_eligible(tables, rows, query.now, query.limits)][:count]


def _put_in_order(tables: Tables, query: Query, ranked: Ranked, rows: Ints, ways: Ways) -> Ranked:
    """Return ``rows``: int64[m] as a batch: the query's first pages, then the others from the best score down."""
    scores = ways.score(rows)
    _, known, place = np.intersect1d(rows, ranked.rows, return_indices=True)
    scores[known] = ranked.scores[place]  # inf for those that are overdue
    ahead = np.isin(rows, query.first)
    first, rest = np.flatnonzero(ahead), np.flatnonzero(~ahead)
    ties = tie_keys(tables.pages["url_hash"][rows[rest]], query.salt)
    order = np.concatenate([first, rest[select_top(scores[rest], ties, rest.size)]])
    return Ranked(rows[order], scores[order])


def _are_new(tables: Tables, rows: Ints) -> Bools:
    """Return whether each of ``rows``: int64[m] was never visited: bool[m]. O(m)."""
    new: Bools = (tables.pages["flags"][rows] & VISITED) == 0
    return new


def _drop_last(rows: Ints, stays: Bools, count: int) -> Bools:
    """Return which of ``rows``: int64[m] are left when the last `count` that need not stay are dropped: bool[m]."""
    keep = np.ones(rows.size, np.bool_)
    if count:
        keep[np.flatnonzero(~stays)[-count:]] = False
    return keep


@bare_kernel
def _pass_visited(tables: Tables, row: int) -> int:
    """Return the first row from `row` on that was never visited, or how many there are."""
    while row < tables.corpus[0].pages and tables.pages[row].flags & VISITED:
        row += 1
    return row
