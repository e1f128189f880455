"""Ranking by a full scan: the k best eligible pages at a time `now`, exactly as sorting all of them would give.

Order: by tier (see `politeness.priority`), then score descending, NaN last; equal scores by the salted hash of the
page, so that neither the order of URLs nor that of rows decides. `FullScan` scores every page at every query, in blocks
that stay in cache, on several threads, and keeps only what reaches a threshold that a sample set and that rises from
there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeVar

import numpy as np

from streamsched.formula.evaluation.program import BLOCK, Arena, Program
from streamsched.formula.terminals import TerminalColumns, context_of
from streamsched.numerics.arrays import Floats, Ints, Rows
from streamsched.numerics.topk_order import select_top, sort_keys, tie_keys
from streamsched.politeness.domain_shares import NO_DOMAIN_LIMITS, DomainLimits, domain_capacities, find_domains
from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.limits import DEFAULT_LIMITS, Limits
from streamsched.politeness.priority import BY_SCORE, Tiers, read_overdue, select_best, tiers_of
from streamsched.ranking.block_scan import (
    BlockScorer,
    Collected,
    Held,
    KernelQuery,
    WorstOfBest,
    collect,
    count_before,
    make_block_scorer,
    scan_rows,
)
from streamsched.ranking.host_slots import HIGHER_TIER_LEVEL, Candidates, HostSlots, HostUsage, Singles, SlotLimits
from streamsched.records.page_schema import VISITED
from streamsched.records.schema import ShardArrays

Result = TypeVar("Result")

_SAMPLE_BLOCKS: Final = 1_024  # runs of rows in the sample that sets the first threshold: neighbours are alike
_SAMPLE_ROWS: Final = 8  # rows of a run
_MOST_COUNTED: Final = 1 << 16  # pages that are counted to find a page's place
_MANY_ROWS: Final = 4 * BLOCK  # fewer rows are scored faster than threads start, or than `scan_rows` is compiled


class HostPages(NamedTuple):
    """The hosts that a query is limited to and their pages: int64[h], their groups; int64[n], ascending rows."""

    hosts: Ints
    rows: Ints


@dataclass(frozen=True, slots=True)
class Query:
    """A ranking query: `k` pages at `now`, UTC epoch seconds."""

    k: int
    now: float
    cycle_s: float
    salt: int  # of the hash that orders equal scores
    limits: Limits = DEFAULT_LIMITS
    lease_s: float = math.inf  # how long pages are out: a host with a delay gives the pages that can be visited by then
    domains: DomainLimits = NO_DOMAIN_LIMITS  # how many pages of a domain the batch may hold
    first: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # eligible pages that come before all others
    only_new: bool = False  # rank only pages that were never visited
    among: HostPages | None = None  # rank only these pages, None for all

    @property
    def slot_limits(self) -> SlotLimits:
        """What limits the slots of hosts and domains in this query."""
        return SlotLimits(self.limits, self.now, self.lease_s, self.domains)

    def for_kernels(self, usage: HostUsage) -> KernelQuery:
        """Return the query as kernels read it. O(1)."""
        salt = np.uint64(self.salt)
        return KernelQuery(self.now, self.cycle_s, salt, self.limits, self.lease_s, self.domains, self.only_new, usage)


class Place(NamedTuple):
    """The place of a page in the ranking, 1 the best, and the number of eligible pages; both may be estimates."""

    position: int
    of_eligible: int
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class Ranked:
    """Pages in ranking order, m <= k: the query's first pages, then the best.

    ``rows``: int64[m]; ``scores``: float64[m], by the formula; ``tiers``: uint8[m], `BY_SCORE` for the first pages.
    """

    rows: Ints
    scores: Floats
    tiers: Tiers

    @property
    def levels(self) -> Floats:
        """Scores as host slots compare them: float64[m]. Pages of higher tiers share one, below all their bounds."""
        return np.where(self.tiers != BY_SCORE, HIGHER_TIER_LEVEL, np.minimum(self.scores, HIGHER_TIER_LEVEL))


def fill_slots(host_slots: HostSlots, shard: ShardArrays, query: Query, best: Ranked) -> Ranked:
    """Return the query's first pages, then those of `best`, as far as hosts and domains have free slots. O(m).

    First pages and those of higher tiers do not wait for slots of their domains. The scores of the first pages are inf
    until `FullScan.set_first_scores` sets them: no page of their hosts comes before them.
    """
    others = ~np.isin(best.rows, query.first) if query.first.size else slice(None)
    rows = np.concatenate([query.first, best.rows[others]])
    scores = np.concatenate([np.full(query.first.size, np.inf), best.scores[others]])
    tiers = np.concatenate([np.full(query.first.size, BY_SCORE, np.uint8), best.tiers[others]])
    ranked = Ranked(rows, scores, tiers)
    exempt = tiers != BY_SCORE
    exempt[: query.first.size] = True
    kept = host_slots.fill(shard, query.slot_limits, Candidates(rows, ranked.levels, exempt), query.k)
    return Ranked(rows[kept], scores[kept], tiers[kept])


class FullScan:
    """A ranking that scores all pages at each query: O(pages) time, memory for two blocks and 2 k candidates a thread.

    For one query at a time; it has its own threads.
    """

    def __init__(self, program: Program, threads: int | None = None) -> None:
        self._threads = threads or min(os.cpu_count() or 1, 8)
        self._workers = [_Worker(program) for _ in range(self._threads)]
        self._host_slots = HostSlots()

    def rank(self, shard: ShardArrays, query: Query, scores: Singles | None = None) -> Ranked:
        """Return the best `query.k` pages that are eligible at `query.now`, as far as hosts have free slots.

        `scores`: float32[pages], gets the scores of all pages. O(pages), and once more each time that full hosts leave
        too few pages; their other pages are then skipped. O(n) if the query is limited to n pages.
        """
        self._host_slots.clear(shard)
        if query.among is not None:
            return self._rank_among(shard, query, query.among.rows)
        pages = int(shard.corpus["pages"][0])
        query = replace(query, k=min(query.k, pages))  # candidates take memory by k
        wanted = query.k
        while query.k > 0:
            best = self._best(shard, replace(query, k=wanted), pages, scores)
            selected = fill_slots(self._host_slots, shard, query, best)
            if selected.rows.size == query.k or best.rows.size < wanted or wanted == pages:
                self._host_slots.clear(shard)
                return self.set_first_scores(shard, query, selected)
            wanted = min(4 * wanted, pages)
        return Ranked(np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8))

    def _rank_among(self, shard: ShardArrays, query: Query, rows: Ints) -> Ranked:
        """Return the best `query.k` of ``rows``: int64[n] that are eligible, as far as hosts have free slots. O(n)."""
        rows = rows[are_eligible(shard, rows, query.now, query.limits)]
        if query.only_new:
            rows = rows[(shard.pages.records["flags"][rows] & VISITED) == 0]
        scores = self.score(shard, query.now, query.cycle_s, rows)
        overdue_s = read_overdue(shard, rows, query.limits, query.now)
        ties = tie_keys(shard.pages.records["url_hash"][rows], query.salt)
        best = select_best(scores, overdue_s, ties, rows.size, rows)
        selected = fill_slots(
            self._host_slots, shard, query, Ranked(rows[best], scores[best], tiers_of(overdue_s[best]))
        )
        self._host_slots.clear(shard)
        return self.set_first_scores(shard, query, selected)

    def set_first_scores(self, shard: ShardArrays, query: Query, selected: Ranked) -> Ranked:
        """Replace the scores of the query's first pages by those of the formula. O(first)."""
        if not query.first.size:
            return selected
        before = int(np.count_nonzero(np.isin(selected.rows, query.first)))
        own = self.score(shard, query.now, query.cycle_s, selected.rows[:before])
        return Ranked(selected.rows, np.concatenate([own, selected.scores[before:]]), selected.tiers)

    def _best(self, shard: ShardArrays, query: Query, pages: int, out: Singles | None) -> Ranked:
        """Return the best `query.k` eligible pages, regardless of host slots."""
        start = self._first_bar(shard, query, pages)
        ranked = self._scan(shard, query, pages, start, out)
        if start is not None and ranked.rows.size < query.k:
            return self._scan(shard, query, pages, None, None)  # the sample misled, or too few pages are eligible
        return ranked

    def score(self, shard: ShardArrays, now: float, cycle_s: float, rows: Rows | None = None) -> Floats:
        """Return the scores of `rows`, or of all pages: float64[m]. O(m)."""
        size = int(shard.corpus["pages"][0]) if rows is None else rows.size
        scores = np.empty(size)
        for start in range(0, size, BLOCK):
            stop = min(start + BLOCK, size)
            part = slice(start, stop) if rows is None else rows[start:stop]
            scores[start:stop] = self._workers[0].score(shard, part, now, cycle_s)
        return scores

    def place(self, shard: ShardArrays, query: Query, row: int) -> Place:
        """Return the place of a page among the eligible ones, as if it were one of them. O(pages), at most 65,536.

        With more pages, both numbers are estimates from short runs of rows, evenly spread.
        """
        pages, rows = int(shard.corpus["pages"][0]), np.array([row])
        overdue_s = read_overdue(shard, rows, query.limits, query.now)[0]
        key = np.uint64(0) if overdue_s < np.inf else sort_keys(self.score(shard, query.now, query.cycle_s, rows))[0]
        own = WorstOfBest(overdue_s, key, tie_keys(shard.pages.records["url_hash"][rows], query.salt)[0])
        kernel_query = query.for_kernels(self._host_slots.usage)
        is_sample = pages > _MOST_COUNTED
        counted = _spread_runs(pages, _MOST_COUNTED // _SAMPLE_ROWS) if is_sample else np.arange(pages)
        before = eligible = 0
        for start in range(0, counted.size, BLOCK):
            block = counted[start : start + BLOCK]
            scores = self._workers[0].score(shard, block, query.now, query.cycle_s)
            found = count_before(shard, scores, block, kernel_query, own, row)
            before, eligible = before + found[0], eligible + found[1]
        scale = pages / max(counted.size, 1)
        return Place(1 + round(before * scale), round(eligible * scale), is_sample)

    def _share(self, pages: int, work: Callable[[_Worker, Iterator[int]], Result]) -> list[Result]:
        """Let each thread `work` on the blocks of pages that begin at some rows; return the results. Few take one."""
        starts = iter(range(0, pages, BLOCK))  # a range's iterator gives each to a single thread
        workers = self._workers if pages >= _MANY_ROWS else self._workers[:1]
        if len(workers) == 1:
            return [work(workers[0], starts)]
        with ThreadPoolExecutor(len(workers)) as pool:
            return list(pool.map(work, workers, [starts] * len(workers)))

    def _first_bar(self, shard: ShardArrays, query: Query, pages: int) -> float | None:
        """Return a score that k eligible pages very likely reach, from an evenly spread sample; None for few pages."""
        if pages < 8 * _SAMPLE_BLOCKS * _SAMPLE_ROWS:
            return None
        rows = _spread_runs(pages, _SAMPLE_BLOCKS)
        expected = query.k * rows.size / pages  # of the best k pages in the sample
        rows = rows[are_eligible(shard, rows, query.now, query.limits)]
        # Hosts and domains whose slots are in use are left out: the bar is for the others.
        usage, domains = self._host_slots.usage, find_domains(shard.groups, shard.pages.records, rows)
        free = usage.used[shard.groups.records["host"][shard.pages.records["group"][rows]]] == 0
        free &= usage.domain_used[domains] == 0
        if query.domains.share < 1.0:
            free &= domain_capacities(shard.groups.domains[domains], query.domains) > 0.0
        rows = rows[free]
        if query.only_new:
            rows = rows[(shard.pages.records["flags"][rows] & VISITED) == 0]
        place = int(expected + 6 * np.sqrt(expected) + 10)  # six standard deviations on the safe side
        if place >= rows.size:
            return None
        scores = self.score(shard, query.now, query.cycle_s, rows)
        bar = float(scores[select_top(scores, np.zeros(rows.size, np.uint64), place + 1)[-1]])
        return None if np.isnan(bar) else bar

    def _scan(self, shard: ShardArrays, query: Query, pages: int, bar: float | None, out: Singles | None) -> Ranked:
        many = pages >= _MANY_ROWS
        kernel_query = query.for_kernels(self._host_slots.usage)

        def scan(worker: _Worker, starts: Iterator[int]) -> Held:
            candidates, scan_block = _Candidates(query.k, bar), worker.scan if many else worker.scan_few
            for start in starts:
                block = slice(start, min(start + BLOCK, pages))
                candidates.add(scan_block(shard, block, kernel_query, candidates.make_room(), out))
            return candidates.held()

        held = Held._make(map(np.concatenate, zip(*self._share(pages, scan), strict=True)))
        best = select_best(held.scores, held.overdue_s, held.ties, query.k, held.rows)
        return Ranked(held.rows[best], held.scores[best], tiers_of(held.overdue_s[best]))


def _spread_runs(pages: int, count: int) -> Ints:
    """Return the rows of `count` short runs, evenly spread over `pages` rows: int64[count * _SAMPLE_ROWS]."""
    starts = np.linspace(0, pages - _SAMPLE_ROWS, count).astype(np.int64)
    rows: Ints = (starts[:, None] + np.arange(_SAMPLE_ROWS)).ravel()
    return rows


class _Worker:
    """One thread's buffers for scoring blocks, in one of two ways."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._arena: Arena = program.arena(BLOCK)
        self._columns = TerminalColumns(program.terminals, BLOCK, self._arena.slots)  # where the program reads them
        self._scores = np.empty(BLOCK)
        self._scorer: BlockScorer | None = None

    def score(self, shard: ShardArrays, rows: slice | Rows, now: float, cycle_s: float) -> Floats:
        """Return the scores of the pages of `rows`: float64[m], valid until the next call."""
        if isinstance(rows, slice):
            pages, traces = shard.pages.records[rows], shard.pages.traces[rows]
        else:  # `take` copies records several times faster than fancy indexing
            pages, traces = shard.pages.records.take(rows), shard.pages.traces.take(rows)
        context = context_of(shard, rows)
        out = self._scores[: pages.size]
        self._program.run(self._columns.fill(pages, traces, context, now, cycle_s), out, self._arena)
        return out

    def scan_few(
        self, shard: ShardArrays, block: slice, query: KernelQuery, collected: Collected, out: Singles | None
    ) -> int:
        """Score and collect the pages of `block` by the kernels that other callers use; return how many are held."""
        scores = self.score(shard, block, query.now, query.cycle_s)
        if out is not None:
            with np.errstate(over="ignore"):
                out[block] = scores
        return collect(shard, scores, block.start, query, collected)

    def scan(
        self, shard: ShardArrays, block: slice, query: KernelQuery, collected: Collected, out: Singles | None
    ) -> int:
        """Score and collect the pages of `block` in one kernel, which is faster once it is compiled."""
        if self._scorer is None:
            self._scorer = make_block_scorer(self._program)
        singles = _NO_SINGLES if out is None else out
        return scan_rows(shard, self._scorer, (block.start, block.stop), query, collected, singles)


_LAST: Final = np.uint64((1 << 64) - 1)
_NO_SINGLES: Final = np.empty(0, np.float32)


class _Candidates:
    """The best k rows so far, and later ones that are at least as good as the worst of these."""

    def __init__(self, k: int, bar: float | None) -> None:
        capacity = 2 * k + BLOCK
        held = Held(np.empty(capacity, np.int64), np.empty(capacity), np.empty(capacity), np.empty(capacity, np.uint64))
        key = np.uint64(0) if bar is None else sort_keys(np.array([bar]))[0]
        self._k = k
        self._collected = Collected(held, 0, WorstOfBest(np.inf, key, _LAST))

    def make_room(self) -> Collected:
        """Return the rows held so far, without those that a new bar excludes if there is no room for a block."""
        held, count, bar = self._collected
        if count + BLOCK > held.rows.size:
            best = self.best()
            for column, values in zip(held, best, strict=True):
                column[: values.size] = values
            if best.rows.size == self._k:
                overdue_s = float(best.overdue_s[-1])
                key = np.uint64(0) if overdue_s < np.inf else sort_keys(best.scores[-1:])[0]
                bar = WorstOfBest(overdue_s, key, best.ties[-1])
            self._collected = Collected(held, best.rows.size, bar)
        return self._collected

    def add(self, count: int) -> None:
        """Count the rows that were added to those held: now there are `count`."""
        self._collected = self._collected._replace(size=count)

    def held(self) -> Held:
        """Return the rows held so far."""
        return Held._make(column[: self._collected.size] for column in self._collected.held)

    def best(self) -> Held:
        """Return the best k of the rows held, in ranking order. O(m + k log k)."""
        held = self.held()
        best = select_best(held.scores, held.overdue_s, held.ties, self._k, held.rows)
        return Held._make(column[best] for column in held)
