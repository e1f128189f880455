"""A formula compiled for pages anywhere in the table: scores now, and upper bounds of scores until later.

Pages are processed LANES at a time: their records are copied side by side, so that terminals and steps run over
columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.formula.bounds.compiler import compile_bound
from streamsched.formula.bounds.interval_machine import BoundSteps, run_bounds
from streamsched.formula.evaluation.machine import ROWS, Steps, run_steps
from streamsched.formula.terminals import (
    LINKED,
    MOVING,
    RANGES,
    TERMINAL_CODES,
    fill_highest,
    fill_lowest,
    fill_terminal,
    linked_context,
)
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.seasonality_schema import SEASONAL_LINK

if TYPE_CHECKING:
    from streamsched.formula.formula import Formula
    from streamsched.numerics.arrays import Floats, Ints, Records
    from streamsched.records.schema import ShardArrays

__all__ = ["LANES", "PageScorer", "bound_lanes", "gather_lane", "make_page_scorer", "move_lane", "score_lanes"]

LANES: Final = ROWS  # pages at a time
_UNTRACED: Final = LINKED | {"n", "X", "t", "CG", "NAD", "rate", "posterior", "importance", "cost"}

Codes = npt.NDArray[np.int64]


class PageScorer(NamedTuple):
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
    linked: bool  # whether a terminal reads SEASONAL_LINK
    pages: Records  # PAGE[LANES]
    traces: Records  # TRACE[LANES]
    links: Records  # SEASONAL_LINK[LANES]
    rows: Ints  # int64[LANES]: the rows that the lanes hold
    ends: Floats  # float64[LANES]: when each lane's bound ends
    scores: Floats  # float64[LANES]
    bounds: Floats  # float64[LANES]


def make_page_scorer(formula: Formula) -> PageScorer:
    """Return the scorer of `formula`. O(size)."""
    program = formula.compile()
    bound = compile_bound(formula.root, MOVING, RANGES)
    arena = program.arena(LANES)
    arena.prepare(program)
    return PageScorer(
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
        not LINKED.isdisjoint(formula.terminals),
        np.zeros(LANES, PAGE),
        np.zeros(LANES, TRACE),
        np.zeros(LANES, SEASONAL_LINK),
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


@bare_kernel
def score_lanes(scorer: PageScorer, shard: ShardArrays, count: int, now: float, cycle_s: float) -> None:
    """Write the scores of the first `count` lanes at `now` to ``scorer.scores``. O(count * steps).

    `shard`: the shard that the lanes were gathered from.
    """
    pages, traces, context = (
        scorer.pages[:count],
        scorer.traces[:count],
        linked_context(shard.groups.records, shard.seasonality, scorer.links[:count]),
    )
    for slot in range(scorer.codes.size):
        fill_terminal(scorer.codes[slot], pages, traces, context, now, cycle_s, scorer.slots[slot, :count])
    if scorer.steps.shape[0]:
        run_steps(scorer.steps, scorer.slots, count)
    for i in range(count):
        scorer.scores[i] = scorer.slots[scorer.result, i]


@bare_kernel
def bound_lanes(scorer: PageScorer, shard: ShardArrays, count: int, since: float, cycle_s: float) -> None:
    """Write upper bounds of the scores of the first `count` lanes from `since` to their ends to ``scorer.bounds``.

    -inf for NaN. `shard`: as for `score_lanes`. O(count * steps).
    """
    slots, ends = scorer.bound_slots, scorer.ends[:count]
    pages, traces, context = (
        scorer.pages[:count],
        scorer.traces[:count],
        linked_context(shard.groups.records, shard.seasonality, scorer.links[:count]),
    )
    lows = scorer.low_codes.size
    for slot in range(lows):
        fill_lowest(scorer.low_codes[slot], pages, traces, context, since, ends, cycle_s, slots[slot, :count])
    for slot in range(scorer.high_codes.size):
        fill_highest(scorer.high_codes[slot], pages, context, since, ends, cycle_s, slots[lows + slot, :count])
    if scorer.bound_steps.shape[0]:
        run_bounds(scorer.bound_steps, slots, count)
    for i in range(count):
        bound = slots[scorer.bound_result, i]
        scorer.bounds[i] = -np.inf if np.isnan(bound) else bound


def _codes(names: Iterable[str]) -> Codes:
    return np.array([TERMINAL_CODES[name] for name in names], np.int64)
