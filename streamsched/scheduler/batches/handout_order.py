"""The order in which a batch is handed out: by the probability of a change, whatever chose its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsched.formula.formula import Formula
from streamsched.formula.objectives import CHANGED
from streamsched.politeness.priority import BY_SCORE
from streamsched.ranking.full_scan import FullScan, Ranked

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Rows
    from streamsched.ranking.full_scan import Query
    from streamsched.records.schema import ShardArrays

__all__ = ["HandoutOrder"]


class HandoutOrder:
    """Orders pages by the probability that they have changed since their last visit. For one call at a time."""

    def __init__(self) -> None:
        self._changed = FullScan(Formula.parse(CHANGED).compile(), 1)

    def probabilities(self, shard: ShardArrays, now: float, cycle_s: float, rows: Rows) -> Floats:
        """Return the probabilities that the pages of ``rows``: intp[m] have changed: float64[m]. O(m)."""
        return self._changed.score(shard, now, cycle_s, rows)

    def arrange(self, shard: ShardArrays, query: Query, batch: Ranked) -> Ranked:
        """Return the batch with the pages that have no priority likeliest first. O(m log m).

        The query's first pages and those of higher tiers stay ahead, in their order, as do equally likely pages.
        """
        rows = batch.rows
        places = np.flatnonzero(_are_by_score(query, batch))
        order = np.arange(rows.size)
        likely = self.probabilities(shard, query.now, query.cycle_s, rows[places])
        order[places] = places[np.argsort(-likely, kind="stable")]
        return Ranked(rows[order], batch.scores[order], batch.tiers[order])


def _are_by_score(query: Query, batch: Ranked) -> Bools:
    """Return which pages of the batch have their place by score or a quota: bool[m]."""
    by_score: Bools = batch.tiers == BY_SCORE
    return by_score & ~np.isin(batch.rows, query.first) if query.first.size else by_score
