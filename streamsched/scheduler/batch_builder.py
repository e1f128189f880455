"""What is handed out: batches of the best pages with the panel's and the shares' among them, and why a page is in one.

All that a batch keeps to comes together here: who ranks (`formula_switch`), what is out and who rests
(`politeness_policy`), which pages have places whatever they score (`panel`, `shares`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from streamsched.formula.champion import Champion
from streamsched.numerics.arrays import Ints
from streamsched.persistence.call_codec import GrantedLeases
from streamsched.politeness.eligibility import OVERDUE_SCORE
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.ranking.formula_switch import FormulaSwitch
from streamsched.ranking.full_scan import Query, Ranked
from streamsched.records.schema import VISITED
from streamsched.records.url_index import url_texts
from streamsched.records.url_patterns import host_names
from streamsched.scheduler.explanation import Explanation, RankedBy, explain_page
from streamsched.scheduler.panel import Panel
from streamsched.scheduler.quotas import BatchQuotas, RankedSources
from streamsched.scheduler.results import Batch
from streamsched.scheduler.selection_reasons import ComposedBatch, batch_reasons, membership_reasons
from streamsched.scheduler.surge_probes import SurgeProbes
from streamsched.state.page_table import PageTable

__all__ = ["BatchBuilder"]


@dataclass(frozen=True, slots=True)
class BatchBuilder:
    """What batches of one scheduler are made of. For one call at a time, under its owner's lock."""

    pages: PageTable
    politeness_policy: PolitenessPolicy
    formula_switch: FormulaSwitch
    panel: Panel
    shares: BatchQuotas
    seed: int
    surge_probes: SurgeProbes | None = None  # where the formula reads `surge`

    def look(self, k: int, now: float, *, surge_probes: bool = False) -> Batch:
        """Return the best `k` pages that may be handed out at `now`, shares and panel aside; nothing changes.

        `surge_probes`: have these among them.
        """
        with self._as_of(now):
            query = self.query(k, now, math.inf)
            best = self.formula_switch.peek(query)
            composed = ComposedBatch(query, best, best)
            if surge_probes:
                batch, probes = self._send_scouts(query, best, best)
                composed = ComposedBatch(query, best, batch, surge_probes=probes)
            return self.name_pages(composed)

    def hand_out(self, k: int, now: float, lease_s: float) -> Batch:
        """Return a batch of `k` pages at `now`, leased for `lease_s`, the panel's first."""
        shard = self.pages.arrays
        self.formula_switch.keep_up(self.politeness_policy.leases.expire(shard, now))
        query = self.query(k, now, lease_s)
        composed = self._compose(query, self.formula_switch.rank, self.formula_switch.rank_new)
        ranked, panel = composed.batch, composed.panel
        self.politeness_policy.forget(now)
        self.politeness_policy.grant(shard, ranked.rows, now, now + lease_s, panel)
        self.formula_switch.settle()
        self.panel.count(ranked.rows.size, panel)
        return self.name_pages(composed, now + lease_s)

    def restore_leases(self, handed: GrantedLeases) -> None:
        """Lease the pages that were handed out once, as they were. O(pages handed out)."""
        shard = self.pages.arrays
        self.formula_switch.keep_up(self.politeness_policy.leases.expire(shard, handed.now))
        self.politeness_policy.forget(handed.now)
        self.politeness_policy.grant(shard, handed.rows, handed.now, handed.until_s, handed.panel)
        self.formula_switch.settle()
        self.panel.restore(handed.panel_state)
        self.shares.restore(handed.shares_state)

    def explain(self, row: int, champion: Champion, query: Query) -> Explanation:
        """Return what is known of the page of `row`, and why the batch `query` asks for has it or not. O(pages)."""
        shard = self.pages.arrays
        told = explain_page(shard, RankedBy(champion, self.formula_switch.current.scan, query.limits), query, row)
        with self._as_of(query.now), self.shares.unchanged(), self.panel.unchanged():
            chosen = self._compose(query, self.formula_switch.peek, self.formula_switch.peek_new)
            membership = membership_reasons(shard, chosen, row, score=told.score, eligible=told.eligible)
        reasons = (*membership, *told.reasons, *self.panel.reasons(shard, row))
        return replace(told, in_batch=bool(np.isin(row, chosen.batch.rows)), reasons=reasons)

    def query(self, k: int, now: float, lease_s: float) -> Query:
        """Return what is asked of rankings for a batch of `k` pages at `now`."""
        return Query(k, now, self.pages.cycle_s, self.salt(now), self.politeness_policy.limits, lease_s)

    def salt(self, now: float) -> int:
        """Return what salts the ties in the cycle of `now`: drawn anew each cycle, so that no page always loses."""
        digits = f"{self.seed} {math.floor(now / self.pages.cycle_s)}".encode()
        return int.from_bytes(hashlib.blake2b(digits, digest_size=8).digest(), "little")

    def name_pages(self, composed: ComposedBatch, until: float | None = None) -> Batch:
        """Return the batch `composed` as callers get it, leased until `until` unless that is None."""
        shard, ranked, now = self.pages.arrays, composed.batch, composed.query.now
        urls = url_texts(shard, ranked.rows)
        scores = np.where(ranked.scores >= OVERDUE_SCORE, np.inf, ranked.scores)
        names, reasons = cache(lambda: host_names(shard, ranked.rows)), batch_reasons(shard, composed)
        return Batch(urls, scores, ranked.rows, names, reasons, now, until, composed.panel)

    def _compose(
        self, query: Query, rank: Callable[[Query], Ranked], rank_new: Callable[[Query], Ranked]
    ) -> ComposedBatch:
        """Return a batch: the panel's pages with the best, what shares make of them, and then surge_probes."""
        shard, scan = self.pages.arrays, self.formula_switch.current.scan
        first = self.panel.choose(shard, query.k, query.now, query.limits, query.lease_s)
        query = replace(query, first=first)
        ways = RankedSources(rank_new, lambda rows: scan.score(shard, query.now, query.cycle_s, rows))
        best = rank(query)
        shared = self.shares.adjust(shard, query, best, ways)
        batch, surge_probes = self._send_scouts(query, best, shared)
        return ComposedBatch(query, best, batch, first.size, self.shares.new, surge_probes)

    def _send_scouts(self, query: Query, best: Ranked, batch: Ranked) -> tuple[Ranked, Ints]:
        """Return the batch with its surge_probes, and who these are. The panel's pages and those of shares stay."""
        shard, rows = self.pages.arrays, batch.rows
        if self.surge_probes is None or "surge" not in self.formula_switch.formula.terminals:
            return batch, rows[:0]
        stays = np.isin(rows, query.first) | ~np.isin(rows, best.rows)
        if self.shares.new:
            stays |= (shard.pages.records["flags"][rows] & VISITED) == 0
        scan = self.formula_switch.current.scan
        return self.surge_probes.adjust(
            shard, query, batch, rows[stays], lambda rows: scan.score(shard, query.now, query.cycle_s, rows)
        )

    @contextmanager
    def _as_of(self, now: float) -> Iterator[None]:
        """Let leases that run out by `now` count as ended, in this block only: `now` may be later than the present."""
        leases, shard = self.politeness_policy.leases, self.pages.arrays
        ended = leases.expire(shard, now)
        self.formula_switch.keep_up(ended)
        try:
            yield
        finally:
            leases.restore(shard, ended)
            self.formula_switch.keep_up(ended)
