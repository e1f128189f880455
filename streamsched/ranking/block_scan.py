"""Kernels of the full scan: the scores of a block of pages, and which of consecutive pages may be among the best."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from streamsched.formula.evaluation.machine import ROWS, Steps, run_steps
from streamsched.formula.evaluation.program import Program
from streamsched.formula.terminal_table import TERMINAL_CODES
from streamsched.formula.terminals import Context, fill_terminal, linked_context
from streamsched.numerics.arrays import Floats, Hashes, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.topk_order import sort_key
from streamsched.politeness.domain_shares import DomainLimits
from streamsched.politeness.eligibility import is_eligible, not_before
from streamsched.politeness.limits import Limits, host_capacity
from streamsched.politeness.priority import overdue_since
from streamsched.ranking.host_slots import HostUsage, Singles, SlotLimits, domain_level, host_slots_beat
from streamsched.records.page_schema import VISITED
from streamsched.records.schema import ShardArrays


class KernelQuery(NamedTuple):
    """A query as a kernel reads it."""

    now: float
    cycle_s: float
    salt: np.uint64
    limits: Limits
    lease_s: float
    domains: DomainLimits
    only_new: bool
    usage: HostUsage


class WorstOfBest(NamedTuple):
    """The worst page that can still be among the best: its overdue time, the sort key of its score, and its tie.

    ``key``: 0 for an overdue page, whose score does not matter.
    """

    overdue_s: float
    key: np.uint64
    tie: np.uint64


class Held(NamedTuple):
    """Rows with their scores, overdue times and ties: int64[m], float64[m], float64[m], uint64[m]."""

    rows: Ints
    scores: Floats
    overdue_s: Floats
    ties: Hashes


class Collected(NamedTuple):
    """The candidates so far: the first `size` of ``held``; worse pages than `bar` are not collected."""

    held: Held
    size: int
    bar: WorstOfBest


class BlockScorer(NamedTuple):
    """A formula's program and the memory that it runs in, ROWS pages at a time; for one thread."""

    codes: Ints  # int64[terminals]: the terminals, in slot order
    steps: Steps
    slots: Floats
    result: int


def make_block_scorer(program: Program) -> BlockScorer:
    """Return the scorer of `program`. O(size)."""
    arena = program.arena(ROWS)
    arena.prepare(program)
    return BlockScorer(codes_of(program.terminals), program.steps, arena.slots, program.result)


def codes_of(names: Iterable[str]) -> Ints:
    """Return the codes of terminals: int64[m]."""
    return np.array([TERMINAL_CODES[name] for name in names], np.int64)


@bare_kernel
def score_block(
    scorer: BlockScorer, pages: Records, traces: Records, context: Context, now: float, cycle_s: float
) -> None:
    """Write the scores of m pages, ROWS at most, at `now` to the slot of the result. O(m * steps).

    `pages`: PAGE[m]; `traces`: TRACE[m]; `context`: of the same pages.
    """
    for slot in range(scorer.codes.size):
        fill_terminal(scorer.codes[slot], pages, traces, context, now, cycle_s, scorer.slots[slot, : pages.size])
    if scorer.steps.shape[0]:
        run_steps(scorer.steps, scorer.slots, pages.size)


@bare_kernel
def scan_rows(
    shard: ShardArrays,
    scorer: BlockScorer,
    span: tuple[int, int],
    query: KernelQuery,
    collected: Collected,
    out: Singles,
) -> int:
    """Score and `collect` the rows of a span, from its first to before its last; return how many are then held.

    `out`: float32[pages], gets the scores, or is empty. O(m * steps). Terminals, steps and selection run over ROWS
    pages before the next, so that records are read from memory once.
    """
    scores, count = scorer.slots[scorer.result], collected.size
    for start in range(span[0], span[1], ROWS):
        stop = min(start + ROWS, span[1])
        context = linked_context(shard, shard.seasonality.links[start:stop], shard.pages.signals[start:stop])
        pages, traces = shard.pages.records[start:stop], shard.pages.traces[start:stop]
        score_block(scorer, pages, traces, context, query.now, query.cycle_s)
        for i in range(min(stop - start, out.size)):
            out[start + i] = scores[i]
        count = collect(shard, scores[: stop - start], start, query, Collected(collected.held, count, collected.bar))
    return count


@bare_kernel
def collect(shard: ShardArrays, scores: Floats, start: int, query: KernelQuery, collected: Collected) -> int:
    """Collect the eligible pages from row `start` on that are not worse than the bar; return how many are then held.

    `scores`: float64[m], theirs. O(m). There must be room for all of them.
    """
    held, count, bar = collected
    for i in range(scores.size):
        score = scores[i]
        if query.only_new and shard.pages.records[start + i].flags & VISITED:
            continue
        overdue_s = overdue_since(shard.pages.records[start + i], query.limits, query.now)
        if overdue_s > bar.overdue_s:
            continue
        key = np.uint64(0) if overdue_s < np.inf else sort_key(score)
        level = np.inf if overdue_s < np.inf else score  # never beaten: slots keep one level for all
        if overdue_s == bar.overdue_s and key < bar.key:
            continue
        if not _is_open(shard, start + i, level, query):
            continue
        tie = mix(shard.pages.records[start + i].url_hash ^ query.salt)
        if overdue_s == bar.overdue_s and key == bar.key and tie > bar.tie:
            continue
        held.rows[count] = start + i
        held.scores[count] = score
        held.overdue_s[count] = overdue_s
        held.ties[count] = tie
        count += 1
    return count


@bare_kernel
def count_before(
    shard: ShardArrays, scores: Floats, rows: Ints, query: KernelQuery, own: WorstOfBest, row: int
) -> tuple[int, int]:
    """Return how many eligible pages of ``rows``: int64[m] precede the page of `row`, and how many there are.

    `scores`: float64[m], theirs; `own`: what orders the page of `row`. O(m).
    """
    before = eligible = 0
    for i in range(scores.size):
        if not is_eligible(shard.pages, shard.groups.records, rows[i], query.limits, query.now):
            continue
        eligible += 1
        page: Record = shard.pages.records[rows[i]]
        overdue_s = overdue_since(page, query.limits, query.now)
        if overdue_s != own.overdue_s:
            before += int(overdue_s < own.overdue_s)
            continue
        key = np.uint64(0) if overdue_s < np.inf else sort_key(scores[i])
        if key != own.key:
            before += int(key > own.key)
            continue
        tie = mix(page.url_hash ^ query.salt)
        if tie < own.tie or (tie == own.tie and rows[i] < row):
            before += 1
    return before, eligible


@inlined_kernel
def _is_open(shard: ShardArrays, row: int, level: float, query: KernelQuery) -> bool:
    """Return whether a page is eligible, and better pages do not take all slots of its host or domain. O(1)."""
    if not_before(shard.pages, shard.groups.records, row, query.limits, query.now) > query.now:
        return False
    page: Record = shard.pages.records[row]
    group: Record = shard.groups.records[page.group]
    if host_capacity(shard.groups.records[group.host], query.limits, query.now, query.lease_s) <= 0:
        return False
    slot_limits = SlotLimits(query.limits, query.now, query.lease_s, query.domains)
    if host_slots_beat(shard, slot_limits, group.host, level, query.usage):
        return False
    needed = domain_level(shard, slot_limits, group.host, query.usage)
    return bool(needed == -np.inf or level >= needed)
