"""Builds batches: the best pages by score, the panel's, those of the quotas, and surge probes; explains them.

It combines the ranking (`formula_switch`), leases and politeness (`politeness_policy`), and the pages that a batch
includes whatever they score (`panel`, `quotas`, `surge_probes`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from msgspec import structs

from streamsched.api.views import Explanation
from streamsched.formula.champion import Champion
from streamsched.formula.terminals import change_probabilities
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.politeness.domain_shares import NO_DOMAIN_LIMITS, count_visits, find_full, limit_domains
from streamsched.politeness.policy import PolitenessPolicy
from streamsched.politeness.priority import BY_SCORE, read_overdue, tiers_of
from streamsched.politeness.rule_targets import find_pages_of_hosts
from streamsched.ranking.formula_switch import FormulaSwitch
from streamsched.ranking.full_scan import HostPages, Query, Ranked
from streamsched.reasons import ReasonCode
from streamsched.records.page_schema import VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import host_names
from streamsched.records.url_store import url_texts
from streamsched.records.validators import read_validators
from streamsched.scheduler.batches.batch_requests import (
    BatchKeys,
    BatchRequest,
    GrantRequest,
    KeptBatch,
    choose_granted,
    number_codes,
    why_refused,
)
from streamsched.scheduler.batches.formula_trial import FormulaTrial
from streamsched.scheduler.batches.panel import Panel
from streamsched.scheduler.batches.quotas import BatchQuotas, RankedSources, put_in_order
from streamsched.scheduler.batches.surge_probes import SurgeProbes
from streamsched.scheduler.explanation import RankedBy, explain_page
from streamsched.scheduler.reason_text import describe_reasons
from streamsched.scheduler.results import Batch, Granted
from streamsched.scheduler.selection_reasons import NO_ROWS, ComposedBatch, batch_reasons, membership_reasons
from streamsched.state.crawl_plan import CrawlPlan
from streamsched.state.page_table import PageTable


def _arrange(shard: ShardArrays, query: Query, batch: Ranked) -> tuple[Ranked, Floats]:
    """Return the batch with the pages that have no priority likeliest first, and its probabilities. O(m log m).

    The query's first pages and those of higher tiers stay ahead, in their order, as do equally likely pages.
    """
    rows = batch.rows
    places = np.flatnonzero(_are_by_score(query, batch))
    order = np.arange(rows.size)
    likely = change_probabilities(shard, query.now, query.cycle_s, rows)
    order[places] = places[np.argsort(-likely[places], kind="stable")]
    return Ranked(rows[order], batch.scores[order], batch.tiers[order]), likely[order]


def _are_by_score(query: Query, batch: Ranked) -> Bools:
    """Return which pages of the batch have their place by score or a quota: bool[m]."""
    by_score: Bools = batch.tiers == BY_SCORE
    return by_score & ~np.isin(batch.rows, query.first) if query.first.size else by_score


@dataclass(frozen=True, slots=True)
class GrantedLeases:
    """The leases of a batch granted at `now` until `until_s`, and the state of the panel and the quotas after it.

    ``rows``: int64[m]; the first ``panel`` are the panel's.
    """

    rows: Ints
    now: float
    until_s: float
    panel: int
    panel_state: dict[str, Any]
    quotas_state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchBuilder:
    """Builds the batches of one scheduler. For one call at a time, under the scheduler's lock."""

    pages: PageTable
    politeness_policy: PolitenessPolicy
    formula_switch: FormulaSwitch
    panel: Panel
    quotas: BatchQuotas
    seed: int
    host_share: float | None
    trial: FormulaTrial
    surge_probes: SurgeProbes  # used if the formula reads `surge` or `gain`
    keys: BatchKeys = field(default_factory=BatchKeys)

    def preview(self, k: int, now: float, *, surge_probes: bool = False) -> Batch:
        """Return the best `k` pages that may be visited at `now`, without quotas and panel. Nothing changes.

        `surge_probes`: include surge probes.
        """
        with self.leases_as_of(now):
            query = self.query(k, now, math.inf)
            best = self.formula_switch.peek(query)
            composed = ComposedBatch(query, best, best)
            if surge_probes:
                batch, probes = self._add_surge_probes(query, best, best)
                composed = ComposedBatch(query, best, batch, surge_probes=probes)
            return self.name_pages(composed)

    def lease_batch(self, request: BatchRequest) -> Batch:
        """Return a batch as requested, the panel's pages first, and lease its pages; or that of the same key.

        Raises KeyReusedError.
        """
        kept = self.keys.find(request.key, request.arguments, request.now)
        if kept is not None:
            return self._name_kept(kept, repeated=True)
        shard, now, lease_s = self.pages.arrays, request.now, request.lease_s
        self.formula_switch.keep_up(self.politeness_policy.leases.expire(shard, now))
        composed = self._compose(self._query_of(request), self.formula_switch.rank, self.formula_switch.rank_new)
        self._lease(composed.batch.rows, now, now + lease_s, composed.panel)
        batch = self.name_pages(composed, now + lease_s)
        if request.key is not None:
            self.keys.keep(request.key, KeptBatch.of(batch, request.arguments))
        return batch

    def offer(self, request: BatchRequest) -> Batch:
        """Return the batch that `lease_batch` would lease. Nothing changes."""
        with self.leases_as_of(request.now), self.quotas.unchanged(), self.panel.unchanged():
            query = self._query_of(request)
            return self.name_pages(self._compose(query, self.formula_switch.peek, self.formula_switch.peek_new))

    def grant(self, request: GrantRequest) -> Granted:
        """Lease the pages of a request that may be leased now, or return what was done for the same key. O(pages).

        Raises KeyReusedError.
        """
        kept = self.keys.find(request.key, request.arguments, request.now)
        if kept is not None:
            refused = {url: ReasonCode(code) for url, code in kept.refused.items()}
            return Granted(self._name_kept(kept, repeated=True), refused)
        shard, now, until_s = self.pages.arrays, request.now, request.now + request.lease_s
        self.formula_switch.keep_up(self.politeness_policy.leases.expire(shard, now))
        query = self.query(len(request.urls), now, request.lease_s)
        chosen = choose_granted(shard, query, request.urls, self.pages.find(request.urls), self.panel)
        refused = {url: why_refused(shard, query, row) for url, row in chosen.refused.items()}
        codes, grounds = number_codes(chosen.reasons)
        scores = self.formula_switch.current.scan.score(shard, now, query.cycle_s, chosen.rows)
        tiers = tiers_of(read_overdue(shard, chosen.rows, query.limits, now))
        columns = chosen.rows, scores, tiers, self.change_probabilities(now, chosen.rows), grounds
        self._lease(chosen.rows, now, until_s, chosen.panel)
        self.quotas.count(chosen.rows.size)
        kept = KeptBatch(request.arguments, now, until_s, chosen.panel, codes, *columns, refused)
        if request.key is not None:
            self.keys.keep(request.key, kept)
        return Granted(self._name_kept(kept), refused)

    def find_kept(self, key: str, now: float) -> Batch | None:
        """Return what was leased under a key, None if it is not in use at `now`. O(batch)."""
        return self._name_kept(self.keys.kept(key), repeated=True) if self.keys.has(key, now) else None

    def restore_leases(self, leases: GrantedLeases, key: str | None = None, kept: KeptBatch | None = None) -> None:
        """Grant the leases of an earlier batch again, and keep it for its key if it had one. O(batch)."""
        shard = self.pages.arrays
        self.formula_switch.keep_up(self.politeness_policy.leases.expire(shard, leases.now))
        self._lease(leases.rows, leases.now, leases.until_s, leases.panel)
        self.panel.restore(leases.panel_state)
        self.quotas.restore(leases.quotas_state)
        if key is not None and kept is not None:
            self.keys.keep(key, kept)

    def _lease(self, rows: Ints, now: float, until_s: float, panel: int) -> None:
        """Lease ``rows``: int64[m], the first `panel` for the panel, and forget what has expired by `now`."""
        self.keys.forget(now)
        self.politeness_policy.forget(now)
        self.politeness_policy.grant(self.pages.arrays, rows, now, until_s, panel)
        count_visits(self.pages.arrays, rows, now)
        self.panel.count(rows.size, panel)

    def _name_kept(self, kept: KeptBatch, *, repeated: bool = False) -> Batch:
        """Return a batch that is kept. O(batch)."""
        shard = self.pages.arrays
        return Batch(
            url_texts(shard.pages, kept.rows),
            kept.scores,
            kept.tiers,
            kept.probabilities,
            kept.rows,
            cache(lambda: host_names(shard.groups, shard.pages.records, kept.rows)),
            lambda: kept.reasons,
            kept.now,
            kept.until_s,
            kept.panel,
            repeated,
            *read_validators(shard.pages.validators, shard.pages.validator_texts, kept.rows),
        )

    def explain(self, row: int, champion: Champion, query: Query, plan: CrawlPlan | None) -> Explanation:
        """Return what is known of the page of `row`, and why the batch of `query` has it or not. O(pages).

        `plan`: of the crawl rates in use.
        """
        shard = self.pages.arrays
        kinds = self.pages.signal_kinds
        tried = self.trial.ranking_of(shard, row, query.now)  # of a page in a trial the challenger's score counts
        ranked = RankedBy(*(tried or (champion, self.formula_switch.current.scan)), query.limits, kinds, plan)
        query = self._share(query)
        explanation, score = explain_page(shard, ranked, query, row), ranked.score(shard, query, row)
        with self.leases_as_of(query.now), self.quotas.unchanged(), self.panel.unchanged():
            chosen = self._compose(query, self.formula_switch.peek, self.formula_switch.peek_new)
            membership = membership_reasons(shard, chosen, row, score=score, eligible=explanation.eligible)
        in_batch = bool(np.isin(row, chosen.batch.rows))
        memberships = self.panel.reasons(row)
        if tried:
            membership = membership if in_batch else []  # those with better scores are the champion's
            memberships.append(self.trial.reason())
        reasons = *describe_reasons(membership), *explanation.reasons, *describe_reasons(memberships)
        return structs.replace(explanation, in_batch=in_batch, reasons=reasons)

    def query(self, k: int, now: float, lease_s: float) -> Query:
        """Return the ranking query for a batch of `k` pages at `now`."""
        return Query(k, now, self.pages.cycle_s, self.salt(now), self.politeness_policy.limits, lease_s)

    def _query_of(self, request: BatchRequest) -> Query:
        """Return the ranking query for a batch as requested. O(1), and with hosts O(groups + pages of these hosts)."""
        query, shard = self.query(request.k, request.now, request.lease_s), self.pages.arrays
        if request.per_host is not None:
            query = replace(query, limits=query.limits._replace(per_request=request.per_host))
        if request.hosts is not None:
            query = replace(query, among=HostPages(*find_pages_of_hosts(shard.groups, shard.corpus, request.hosts)))
        return self._share(query)

    def _share(self, query: Query) -> Query:
        """Return `query` with what each domain may have of the day's visits. O(1)."""
        limits = limit_domains(self.pages.arrays.corpus, self.host_share, query.now, query.k)
        return replace(query, domains=limits)

    def salt(self, now: float) -> int:
        """Return the salt of tie keys in the cycle of `now`; it differs each cycle, so that no page always loses."""
        digits = f"{self.seed} {math.floor(now / self.pages.cycle_s)}".encode()
        return int.from_bytes(hashlib.blake2b(digits, digest_size=8).digest(), "little")

    def change_probabilities(self, now: float, rows: Ints) -> Floats:
        """Return the probabilities that the pages of ``rows``: int64[m] have changed: float64[m], 0 to 1. O(m)."""
        return change_probabilities(self.pages.arrays, now, self.pages.cycle_s, rows)

    def name_pages(self, composed: ComposedBatch, until: float | None = None) -> Batch:
        """Return `composed` as a batch with URLs, hosts and reasons, leased until `until` unless that is None."""
        shard, ranked = self.pages.arrays, composed.batch
        now, probabilities = composed.query.now, composed.probabilities
        hosts = cache(lambda: host_names(shard.groups, shard.pages.records, ranked.rows))
        return Batch(
            url_texts(shard.pages, ranked.rows),
            ranked.scores,
            ranked.tiers,
            self.change_probabilities(now, ranked.rows) if probabilities is None else probabilities,
            ranked.rows,
            hosts,
            batch_reasons(shard, composed),
            now,
            until,
            composed.panel,
            False,
            *read_validators(shard.pages.validators, shard.pages.validator_texts, ranked.rows),
        )

    def _compose(
        self, query: Query, rank: Callable[[Query], Ranked], rank_new: Callable[[Query], Ranked]
    ) -> ComposedBatch:
        """Return a batch: the panel's pages and the best, quotas applied, surge probes; in the order of handing out."""
        shard, scan = self.pages.arrays, self.formula_switch.current.scan
        first = self.panel.choose(shard, query)
        query = replace(query, first=first)
        sources = RankedSources(rank_new, lambda rows: scan.score(shard, query.now, query.cycle_s, rows))
        query, best = self.trial.choose(shard, query, lambda wider: self._rank(wider, rank))
        best, tried = self.trial.join(shard, query, best, sources.score)
        shared = self.quotas.adjust(shard, query, best, sources)
        batch, surge_probes = self._add_surge_probes(query, best, shared, tried)
        batch, probabilities = _arrange(shard, query, batch)
        return ComposedBatch(query, best, batch, first.size, self.quotas.new, surge_probes, tried, probabilities)

    def _rank(self, query: Query, rank: Callable[[Query], Ranked]) -> tuple[Query, Ranked]:
        """Return the best pages, and the query without shares of domains if they are no longer to be kept.

        That is if all pages of other domains that may be visited are in the batch, and leave room: then a domain that
        has had its share takes visits from nobody.
        """
        best = rank(query)
        k = min(query.k, int(self.pages.arrays.corpus["domain_pages"][0]))
        if best.rows.size >= k or not find_full(self.pages.arrays, query.domains, best.rows).size:
            return query, best
        query = replace(query, domains=NO_DOMAIN_LIMITS)
        more = rank(replace(query, first=best.rows))
        added = slice(best.rows.size, None)
        joined = Ranked(
            np.concatenate([best.rows, more.rows[added]]),
            np.concatenate([best.scores, more.scores[added]]),
            np.concatenate([best.tiers, more.tiers[added]]),
        )
        return query, put_in_order(self.pages.arrays, query, joined)

    def _add_surge_probes(
        self, query: Query, best: Ranked, batch: Ranked, tried: Ints = NO_ROWS
    ) -> tuple[Ranked, Ints]:
        """Return the batch with its surge probes, and their rows. Pages of the panel, quotas and ``tried`` stay."""
        shard, rows = self.pages.arrays, batch.rows
        if {"surge", "gain"}.isdisjoint(self.formula_switch.formula.terminals):
            return batch, rows[:0]
        stays = np.isin(rows, query.first) | np.isin(rows, tried)
        if batch is not best:
            stays |= ~np.isin(rows, best.rows)
        if self.quotas.new:
            stays |= (shard.pages.records["flags"][rows] & VISITED) == 0
        scan = self.formula_switch.current.scan
        return self.surge_probes.adjust(
            shard, query, batch, stays, lambda rows: scan.score(shard, query.now, query.cycle_s, rows)
        )

    @contextmanager
    def leases_as_of(self, now: float) -> Iterator[None]:
        """Count leases that expire by `now`, which may be in the future, as ended within this block."""
        leases, shard = self.politeness_policy.leases, self.pages.arrays
        ended = leases.expire(shard, now)
        self.formula_switch.keep_up(ended)
        try:
            yield
        finally:
            leases.restore(shard, ended)
            self.formula_switch.keep_up(ended)
