"""The panel: a uniform sample of pages that is visited every cycle, whatever their scores.

What is known of other pages depends on when the formula chose to visit them; what is known of the panel does not. Its
members are the pages with the smallest sample hashes, a part of the journal's sample. Its size follows the budget:
`share` of the pages of the cycle before, in steps of half or more, so that members stay long. Within a cycle, members
are added to each batch up to its share, smallest hash first: if visits fall short, the last members go without, and the
first are still visited every cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from streamsched.numerics.arrays import Ints
from streamsched.politeness.eligibility import are_eligible
from streamsched.ranking.full_scan import Query
from streamsched.ranking.host_slots import Candidates, HostSlots
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.schema import ShardArrays
from streamsched.records.visit_journal import find_sampled, sample_bar, sample_hashes

NO_PANEL: Final = -1  # a bar below every sample hash
_SLACK: Final = 1.5  # factor by which the size may be too small or too large
_ROUNDING: Final = 1e-9  # of a page: 0.1 * 30 is 3.0000000000000004 and means 3


class Panel:
    """The panel of one scheduler. ``bar``: the largest sample hash of its members, `NO_PANEL` if it has none."""

    def __init__(self, share: float, cycle_s: float) -> None:
        self.share = share
        self.bar = NO_PANEL
        self._cycle_s = cycle_s
        self._cycle: int | None = None  # of the newest batch
        self._handed = 0  # pages of its batches
        self._own = 0  # of these, the panel's
        self._rows = np.empty(0, np.int64)  # members, by ascending sample hash
        self._seats = HostSlots()
        self._searched = 0  # rows already searched for members

    def choose(self, shard: ShardArrays, query: Query) -> Ints:
        """Return the members that come first in the batch of `query`: int64[m]. O(panel + new pages).

        They may be visited, were not tried in this cycle, and are within their hosts' limits. O(pages) if the panel is
        resized, at most once a cycle.
        """
        if not self.share:
            return np.empty(0, np.int64)
        cycle = math.floor(query.now / self._cycle_s)
        if self._cycle is None or cycle > self._cycle:
            self._begin_cycle(shard, cycle)
        self._renew(shard)
        tried = np.floor(shard.pages.traces["last_attempt_s"][self._rows] / self._cycle_s) >= cycle
        due = self._rows[~tried]
        due = due[are_eligible(shard, due, query.now, query.limits)]
        k = min(query.k, int(shard.corpus["pages"][0]))
        if query.among is not None:
            due, k = due[np.isin(due, query.among.rows)], min(k, query.among.rows.size)
        allowed = math.ceil(self.share * (self._handed + k) - _ROUNDING) - self._own
        candidates = Candidates(due, np.full(due.size, np.inf), np.ones(due.size, np.bool_))
        kept = self._seats.fill(shard, query.slot_limits, candidates, min(max(allowed, 0), k))
        self._seats.clear(shard)
        return due[kept]

    def count(self, pages: int, own: int) -> None:
        """Count a batch of `pages` pages, `own` of them the panel's. O(1)."""
        if self.share:
            self._handed += pages
            self._own += own

    def holds(self, row: int) -> bool:
        """Return whether the page of `row` is a member. O(1)."""
        return int(sample_hashes(np.array([row]))[0]) <= self.bar

    def reasons(self, row: int) -> list[Reason]:
        """Return the reason of the page's membership if the page of `row` is a member, else nothing. O(1)."""
        return [Reason(ReasonCode.PANEL_MEMBER, {"share": self.share})] if self.holds(row) else []

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Do not count batches composed in this block, nor start a cycle."""
        before = self.bar, self._cycle, self._handed, self._own, self._rows, self._searched
        try:
            yield
        finally:
            self.bar, self._cycle, self._handed, self._own, self._rows, self._searched = before

    def state(self) -> dict[str, Any]:
        """Return the bar and the counts, as plain values for JSON; `restore` takes them."""
        return {"bar": self.bar, "cycle": self._cycle, "handed": self._handed, "own": self._own}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.bar, self._cycle = state["bar"], state["cycle"]
        self._handed, self._own = state["handed"], state["own"]

    def turn_back(self, latest_s: float, present_s: float) -> int:
        """Return to the cycle of `present_s` if the newest batch is later than `latest_s`; return 1 if so, else 0."""
        if self._cycle is None or self._cycle * self._cycle_s <= latest_s:
            return 0
        self._cycle = math.floor(present_s / self._cycle_s)
        return 1

    def _begin_cycle(self, shard: ShardArrays, cycle: int) -> None:
        """Start a cycle with a panel sized by the pages of the last one."""
        self._renew(shard)
        wanted = round(self.share * self._handed)
        size = self._rows.size
        if wanted and not wanted / _SLACK <= size <= wanted * _SLACK:
            self._resize(shard, wanted)
        self._cycle, self._handed, self._own = cycle, 0, 0

    def _resize(self, shard: ShardArrays, size: int) -> None:
        """Set the bar so that `size` pages of the sample are members, or all if it is smaller."""
        bar = sample_bar(shard.corpus)
        if self.bar < bar or size < self._rows.size:
            rows = find_sampled(0, int(shard.corpus["pages"][0]), bar)
            hashes = np.sort(sample_hashes(rows))
            self.bar = int(hashes[size - 1]) if size < hashes.size else bar
            self._rows, self._searched = np.empty(0, np.int64), 0
            self._renew(shard)

    def _renew(self, shard: ShardArrays) -> None:
        """Add new pages below the bar, and drop members that left the journal's sample."""
        pages = int(shard.corpus["pages"][0])
        bar = min(self.bar, sample_bar(shard.corpus))
        if (bar == self.bar and self._searched == pages) or bar < 0:
            return
        rows = np.concatenate([self._rows, find_sampled(self._searched, pages, bar)])
        hashes = sample_hashes(rows)
        order = np.argsort(hashes, kind="stable")
        self._rows = rows[order[hashes[order] <= np.uint64(bar)]]
        self._searched, self.bar = pages, bar
