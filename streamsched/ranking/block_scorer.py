"""A formula compiled for pages anywhere in the table: scores now, and upper bounds of scores until later.

Pages are processed LANES at a time: their records are copied side by side, so that terminals and steps run over
columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.seasonality.seasonal_terminals import SeasonalityView
from streamsched.formula.bounds.compiler import compile_bound
from streamsched.formula.bounds.interval_machine import BoundSteps, run_bounds
from streamsched.formula.evaluation.machine import ROWS, Steps, run_steps
from streamsched.formula.terminals import (
    MOVING,
    RANGES,
    SEASONAL,
    TERMINAL_CODES,
    Context,
    fill_highest,
    fill_lowest,
    fill_terminal,
)
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.ranking.block_layout import BLOCK_ROWS
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.seasonality_schema import SEASONAL_LINK

if TYPE_CHECKING:
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Floats, Ints, Records
    from streamsched.records.schema import ShardArrays

__all__ = [
    "LANES",
    "LEADERS",
    "BlockScorer",
    "bound_lanes",
    "gather_lanes",
    "make_block_scorer",
    "move_lane",
    "score_lanes",
]

LANES: Final = ROWS  # pages at a time
LEADERS: Final = LANES // BLOCK_ROWS  # further lanes, one for each block
_UNTRACED: Final = SEASONAL | {"n", "X", "t", "CG", "NAD", "rate", "posterior", "importance", "cost", "surge"}

Codes = npt.NDArray[np.int64]


class Search(NamedTuple):
    """How far ahead leaders stay at or below the target: columns of float64[LEADERS].

    Times are in cycles from now. Heights are bounds plus the fall of the target until then.
    """

    target: Floats  # the level that will probably be needed
    low: Floats  # the latest time known at which a leader stays below
    low_height: Floats
    high: Floats  # the earliest known at which it does not; inf if unknown
    high_height: Floats
    before: Floats  # the second latest
    before_height: Floats
    at: Floats  # the time looked at
    bound: Floats  # ... the bound there
    side: Floats  # ... and on which side of the target it is
    block: Floats  # the block that the leader belongs to


class BlockScorer(NamedTuple):
    """A formula's two programs and the memory they run in; for one thread."""

    codes: Codes  # the terminals that the score reads, in slot order
    steps: Steps
    slots: Floats
    result: int
    low_codes: Codes  # those that the bound reads at the start of its time
    high_codes: Codes  # ... and at its end, in the following slots
    bound_steps: BoundSteps
    bound_slots: Floats
    bound_result: int
    traced: bool  # whether a terminal reads TRACE
    linked: bool  # whether a terminal reads SEASONAL_LINK and what it refers to
    pages: Records  # PAGE[LANES + LEADERS]
    traces: Records  # TRACE[LANES + LEADERS]
    links: Records  # LINK[LANES + LEADERS]
    ends: Floats  # float64[LANES + LEADERS]: when each lane's bound expires
    cuts: Floats  # float64[LEADERS]: when a page of the block becomes eligible or overdue
    search: Search


def make_block_scorer(formula: Formula) -> BlockScorer:
    """Return the scorer of `formula`. O(size)."""
    program = formula.compile()
    bound = compile_bound(formula.root, MOVING, RANGES)
    arena = program.arena(LANES)
    arena.prepare(program)
    return BlockScorer(
        _codes(program.terminals),
        program.steps,
        arena.slots,
        program.result,
        _codes(bound.lows),
        _codes(bound.highs),
        bound.steps,
        bound.make_slots(LANES),
        bound.result,
        not _UNTRACED.issuperset(formula.terminals),
        not SEASONAL.isdisjoint(formula.terminals),
        np.zeros(LANES + LEADERS, PAGE),
        np.zeros(LANES + LEADERS, TRACE),
        np.zeros(LANES + LEADERS, SEASONAL_LINK),
        np.empty(LANES + LEADERS),
        np.empty(LEADERS),
        Search(*(np.empty(LEADERS) for _ in Search._fields)),
    )


@bare_kernel
def gather_lanes(scorer: BlockScorer, shard: ShardArrays, rows: Ints) -> None:
    """Copy the records of `rows`: int64[m], m <= LANES, into the lanes; a negative row leaves its lane as it was."""
    for i in range(rows.size):
        if rows[i] >= 0:
            scorer.pages[i] = shard.pages.records[rows[i]]
    if scorer.traced:
        for i in range(rows.size):
            if rows[i] >= 0:
                scorer.traces[i] = shard.pages.traces[rows[i]]
    if scorer.linked:
        for i in range(rows.size):
            if rows[i] >= 0:
                scorer.links[i] = shard.seasonality.links[rows[i]]


@inlined_kernel
def move_lane(scorer: BlockScorer, lane: int, to: int) -> None:
    """Copy the records of one lane into another. O(1)."""
    scorer.pages[to] = scorer.pages[lane]
    if scorer.traced:
        scorer.traces[to] = scorer.traces[lane]
    if scorer.linked:
        scorer.links[to] = scorer.links[lane]


@bare_kernel
def score_lanes(  # noqa: PLR0913, PLR0917  a kernel
    scorer: BlockScorer, shard: ShardArrays, first: int, count: int, now: float, cycle_s: float, out: Floats
) -> None:
    """Write the scores of `count` lanes from `first` on at `now` to `out`: float64[count or more]. O(count * steps).

    `shard`: the shard that the lanes were gathered from.
    """
    pages, traces = scorer.pages[first : first + count], scorer.traces[first : first + count]
    context = _context_of(scorer, shard, first, count)
    for slot in range(scorer.codes.size):
        fill_terminal(scorer.codes[slot], pages, traces, context, now, cycle_s, scorer.slots[slot, :count])
    if scorer.steps.shape[0]:
        run_steps(scorer.steps, scorer.slots, count)
    for i in range(count):
        out[i] = scorer.slots[scorer.result, i]


@bare_kernel
def bound_lanes(  # noqa: PLR0913, PLR0917  a kernel
    scorer: BlockScorer, shard: ShardArrays, first: int, count: int, now: float, cycle_s: float, out: Floats
) -> None:
    """Write upper bounds of the scores of `count` lanes from `first` on, from `now` to their ends, to `out`.

    `shard`: as for `score_lanes`; `out`: float64[count or more], -inf for NaN. O(count * steps).
    """
    slots = scorer.bound_slots
    pages, traces = scorer.pages[first : first + count], scorer.traces[first : first + count]
    context = _context_of(scorer, shard, first, count)
    ends = scorer.ends[first : first + count]
    lows = scorer.low_codes.size
    for slot in range(lows):
        fill_lowest(scorer.low_codes[slot], pages, traces, context, now, ends, cycle_s, slots[slot, :count])
    for slot in range(scorer.high_codes.size):
        fill_highest(scorer.high_codes[slot], pages, context, now, ends, cycle_s, slots[lows + slot, :count])
    if scorer.bound_steps.shape[0]:
        run_bounds(scorer.bound_steps, slots, count)
    for i in range(count):
        bound = slots[scorer.bound_result, i]
        out[i] = -np.inf if np.isnan(bound) else bound


@inlined_kernel
def _context_of(scorer: BlockScorer, shard: ShardArrays, first: int, count: int) -> Context:
    """Return the context of the pages of `count` lanes from `first` on."""
    seasonality = shard.seasonality
    return Context(
        shard.groups.records,
        SeasonalityView(scorer.links[first : first + count], seasonality.schedules, seasonality.profiles),
    )


def _codes(names: Iterable[str]) -> Codes:
    return np.array([TERMINAL_CODES[name] for name in names], np.int64)
