"""What is handed out: batches of the best pages with the panel's and the shares' among them, and why a page is in one.

All that a batch keeps to comes together here: who ranks (`roster`), what is out and who rests (`courtesy`), which pages
have places whatever they score (`panel`, `shares`).
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
from streamsched.persistence.call_codec import HandOut
from streamsched.politeness.eligibility import HASTY
from streamsched.politeness.policy import Courtesy
from streamsched.ranking.formula_switch import Roster
from streamsched.ranking.full_scan import Query, Ranked
from streamsched.records.schema import VISITED
from streamsched.records.url_index import url_texts
from streamsched.records.url_patterns import host_names
from streamsched.scheduler.explanation import Explanation, RankedBy, explain_page
from streamsched.scheduler.panel import Panel
from streamsched.scheduler.quotas import Shares, Ways
from streamsched.scheduler.results import Batch
from streamsched.scheduler.selection_reasons import Chosen, say_membership
from streamsched.scheduler.surge_probes import Scouts
from streamsched.state.page_table import PageTable

__all__ = ["Dispatch"]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What batches of one scheduler are made of. For one call at a time, under its owner's lock."""

    pages: PageTable
    courtesy: Courtesy
    roster: Roster
    panel: Panel
    shares: Shares
    seed: int
    scouts: Scouts | None = None  # where the formula reads `surge`

    def look(self, k: int, now: float, *, scouts: bool = False) -> Batch:
        """Return the best `k` pages that may be handed out at `now`, shares and panel aside; nothing changes.

        `scouts`: have these among them.
        """
        with self._as_of(now):
            query = self.query(k, now, math.inf)
            ranked = self.roster.peek(query)
            if scouts:
                ranked, _ = self._send_scouts(query, ranked, ranked)
            return self.name_pages(ranked, now)

    def hand_out(self, k: int, now: float, lease_s: float) -> Batch:
        """Return a batch of `k` pages at `now`, leased for `lease_s`, the panel's first."""
        tables = self.pages.tables
        self.roster.keep_up(self.courtesy.leases.expire(tables, now))
        query = self.query(k, now, lease_s)
        composed = self._compose(query, self.roster.rank, self.roster.rank_new)
        ranked, panel = composed.batch, composed.panel
        self.courtesy.forget(now)
        self.courtesy.grant(tables, ranked.rows, now, now + lease_s, panel)
        self.roster.settle()
        self.panel.count(ranked.rows.size, panel)
        return self.name_pages(ranked, now, now + lease_s, panel)

    def hand_out_again(self, handed: HandOut) -> None:
        """Lease the pages that were handed out once, as they were. O(pages handed out)."""
        tables = self.pages.tables
        self.roster.keep_up(self.courtesy.leases.expire(tables, handed.now))
        self.courtesy.forget(handed.now)
        self.courtesy.grant(tables, handed.rows, handed.now, handed.until_s, handed.panel)
        self.roster.settle()
        self.panel.restore(handed.panel_state)
        self.shares.restore(handed.shares_state)

    def explain(self, row: int, champion: Champion, query: Query) -> Explanation:
        """Return what is known of the page of `row`, and why the batch `query` asks for has it or not. O(pages)."""
        tables = self.pages.tables
        told = explain_page(tables, RankedBy(champion, self.roster.current.scan, query.limits), query, row)
        with self._as_of(query.now), self.shares.unchanged(), self.panel.unchanged():
            chosen = self._compose(query, self.roster.peek, self.roster.peek_new)
            membership = say_membership(tables, chosen, row, score=told.score, eligible=told.eligible)
        reasons = (*membership, *told.reasons, *self.panel.reasons(tables, row))
        return replace(told, in_batch=bool(np.isin(row, chosen.batch.rows)), reasons=reasons)

    def query(self, k: int, now: float, lease_s: float) -> Query:
        """Return what is asked of rankings for a batch of `k` pages at `now`."""
        return Query(k, now, self.pages.cycle_s, self.salt(now), self.courtesy.limits, lease_s)

    def salt(self, now: float) -> int:
        """Return what salts the ties in the cycle of `now`: drawn anew each cycle, so that no page always loses."""
        digits = f"{self.seed} {math.floor(now / self.pages.cycle_s)}".encode()
        return int.from_bytes(hashlib.blake2b(digits, digest_size=8).digest(), "little")

    def name_pages(self, ranked: Ranked, now: float, until: float | None = None, panel: int = 0) -> Batch:
        """Return the pages `ranked` as callers get them."""
        tables = self.pages.tables
        urls = url_texts(tables, ranked.rows)
        scores = np.where(ranked.scores >= HASTY, np.inf, ranked.scores)
        return Batch(urls, scores, ranked.rows, cache(lambda: host_names(tables, ranked.rows)), now, until, panel)

    def _compose(self, query: Query, rank: Callable[[Query], Ranked], rank_new: Callable[[Query], Ranked]) -> Chosen:
        """Return a batch: the panel's pages with the best, what shares make of them, and then scouts."""
        tables, scan = self.pages.tables, self.roster.current.scan
        first = self.panel.choose(tables, query.k, query.now, query.limits, query.lease_s)
        query = replace(query, first=first)
        ways = Ways(rank_new, lambda rows: scan.score(tables, query.now, query.cycle_s, rows))
        best = rank(query)
        shared = self.shares.adjust(tables, query, best, ways)
        batch, scouts = self._send_scouts(query, best, shared)
        return Chosen(query, best, batch, first.size, self.shares.new, scouts)

    def _send_scouts(self, query: Query, best: Ranked, batch: Ranked) -> tuple[Ranked, Ints]:
        """Return the batch with its scouts, and who these are. The panel's pages and those of shares stay."""
        tables, rows = self.pages.tables, batch.rows
        if self.scouts is None or "surge" not in self.roster.formula.terminals:
            return batch, rows[:0]
        stays = np.isin(rows, query.first) | ~np.isin(rows, best.rows)
        if self.shares.new:
            stays |= (tables.pages["flags"][rows] & VISITED) == 0
        scan = self.roster.current.scan
        return self.scouts.adjust(
            tables, query, batch, rows[stays], lambda rows: scan.score(tables, query.now, query.cycle_s, rows)
        )

    @contextmanager
    def _as_of(self, now: float) -> Iterator[None]:
        """Let leases that run out by `now` count as ended, in this block only: `now` may be later than the present."""
        leases, tables = self.courtesy.leases, self.pages.tables
        ended = leases.expire(tables, now)
        self.roster.keep_up(ended)
        try:
            yield
        finally:
            leases.restore(tables, ended)
            self.roster.keep_up(ended)
