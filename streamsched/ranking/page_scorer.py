"""A formula compiled for pages anywhere in the table: scores now, and upper bounds of scores until later.

Pages are processed LANES at a time: their records are copied side by side, so that terminals and steps run over
columns.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.formula.bounds.compiler import compile_bound
from streamsched.formula.bounds.interval_machine import BoundSteps, run_bounds
from streamsched.formula.evaluation.machine import ROWS
from streamsched.formula.formula import Formula
from streamsched.formula.terminal_table import LINKED, MOVING, RANGES, SIGNALLED, TRACED
from streamsched.formula.terminals import (
    Context,
    fill_highest,
    fill_lowest,
    linked_context,
)
from streamsched.numerics.arrays import Floats, Ints, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.ranking.block_scan import BlockScorer, codes_of, make_block_scorer, score_block
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import SEASONAL_LINK
from streamsched.records.signal_schema import SIGNAL

LANES: Final = ROWS  # pages at a time


class PageScorer(NamedTuple):
    """A formula's two programs and the memory they run in; for one thread."""

    block: BlockScorer
    low_codes: Ints  # the terminals that the bound reads at the start of its time
    high_codes: Ints  # ... and at its end, in the following slots
    bound_steps: BoundSteps
    bound_slots: Floats
    bound_result: int
    traced: bool  # whether a terminal reads TRACE
    linked: bool  # whether a terminal reads SEASONAL_LINK
    signalled: bool  # whether a terminal reads SIGNAL
    pages: Records  # PAGE[LANES]
    traces: Records  # TRACE[LANES]
    links: Records  # SEASONAL_LINK[LANES]
    signals: Records  # SIGNAL[LANES]
    rows: Ints  # int64[LANES]: the rows that the lanes hold
    ends: Floats  # float64[LANES]: when each lane's bound ends
    scores: Floats  # float64[LANES]
    bounds: Floats  # float64[LANES]


def make_page_scorer(formula: Formula) -> PageScorer:
    """Return the scorer of `formula`. O(size)."""
    bound = compile_bound(formula.root, MOVING, RANGES)
    return PageScorer(
        make_block_scorer(formula.compile()),
        codes_of(bound.lows),
        codes_of(bound.highs),
        bound.steps,
        bound.make_slots(LANES),
        bound.result,
        not TRACED.isdisjoint(formula.terminals),
        not LINKED.isdisjoint(formula.terminals),
        not SIGNALLED.isdisjoint(formula.terminals),
        np.zeros(LANES, PAGE),
        np.zeros(LANES, TRACE),
        np.zeros(LANES, SEASONAL_LINK),
        np.zeros(LANES, SIGNAL),
        np.empty(LANES, np.int64),
        *(np.empty(LANES) for _ in range(3)),
    )


@inlined_kernel
def gather_lane(scorer: PageScorer, shard: ShardArrays, lane: int, row: int) -> None:
    """Copy the records of the page of `row` into a lane. O(1)."""
    scorer.rows[lane] = row
    scorer.pages[lane] = shard.pages.records[row]
    if scorer.traced:
        scorer.traces[lane] = shard.pages.traces[row]
    if scorer.linked:
        scorer.links[lane] = shard.seasonality.links[row]
    if scorer.signalled and shard.pages.signals.size:
        scorer.signals[lane] = shard.pages.signals[row]


@inlined_kernel
def move_lane(scorer: PageScorer, lane: int, to: int) -> None:
    """Copy the records and the score of one lane into another. O(1)."""
    if lane == to:
        return
    scorer.rows[to] = scorer.rows[lane]
    scorer.scores[to] = scorer.scores[lane]
    scorer.pages[to] = scorer.pages[lane]
    if scorer.traced:
        scorer.traces[to] = scorer.traces[lane]
    if scorer.linked:
        scorer.links[to] = scorer.links[lane]
    if scorer.signalled:
        scorer.signals[to] = scorer.signals[lane]


@inlined_kernel
def _context(scorer: PageScorer, shard: ShardArrays, count: int) -> Context:
    """Return the context of the pages of the first `count` lanes."""
    signals = min(count, shard.pages.signals.size)
    return linked_context(shard, scorer.links[:count], scorer.signals[:signals])


@bare_kernel
def score_lanes(scorer: PageScorer, shard: ShardArrays, count: int, now: float, cycle_s: float) -> None:
    """Write the scores of the first `count` lanes at `now` to ``scorer.scores``. O(count * steps).

    `shard`: the shard that the lanes were gathered from.
    """
    context = _context(scorer, shard, count)
    score_block(scorer.block, scorer.pages[:count], scorer.traces[:count], context, now, cycle_s)
    for i in range(count):
        scorer.scores[i] = scorer.block.slots[scorer.block.result, i]


@bare_kernel
def bound_lanes(scorer: PageScorer, shard: ShardArrays, count: int, since: float, cycle_s: float) -> None:
    """Write upper bounds of the scores of the first `count` lanes from `since` to their ends to ``scorer.bounds``.

    -inf for NaN. `shard`: as for `score_lanes`. O(count * steps).
    """
    context = _context(scorer, shard, count)
    bound_block(scorer, scorer.pages[:count], scorer.traces[:count], context, since, cycle_s)


@bare_kernel
def bound_block(
    scorer: PageScorer, pages: Records, traces: Records, context: Context, since: float, cycle_s: float
) -> None:
    """`bound_lanes` for contiguous pages; ``scorer.ends`` must belong to them. O(m * steps).

    `pages`: PAGE[m], LANES at most; `traces`: TRACE[m]; `context`: of the same pages.
    """
    slots, ends = scorer.bound_slots, scorer.ends[: pages.size]
    lows = scorer.low_codes.size
    for slot in range(lows):
        column = slots[slot, : pages.size]
        fill_lowest(scorer.low_codes[slot], pages, traces, context, since, ends, cycle_s, column)
    for slot in range(scorer.high_codes.size):
        column = slots[lows + slot, : pages.size]
        fill_highest(scorer.high_codes[slot], pages, context, since, ends, cycle_s, column)
    if scorer.bound_steps.shape[0]:
        run_bounds(scorer.bound_steps, slots, pages.size)
    for i in range(pages.size):
        bound = slots[scorer.bound_result, i]
        scorer.bounds[i] = -np.inf if np.isnan(bound) else bound
