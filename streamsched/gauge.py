"""A formula as kernels use it on pages anywhere in the table: their scores now, and bounds of their scores until later.

Pages are taken LANES at a time: their records are copied side by side, so that terminals and steps run over columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.arrays import Floats, Ints, Records
from streamsched.formula import Formula
from streamsched.formula.bounds import compile_bound
from streamsched.formula.intervals import BoundSteps, run_bounds
from streamsched.formula.machine import ROWS, Steps, run_steps
from streamsched.jit import bare_kernel
from streamsched.tables import PAGE, TRACE, Tables
from streamsched.terminals import MOVING, RANGES, TERMINAL_CODES, fill_terminal, fill_terminal_at, loosen_terminal

__all__ = ["LANES", "Gauge", "bound_lanes", "gather_lanes", "make_gauge", "score_lanes"]

LANES: Final = ROWS  # pages at a time
_UNTRACED: Final = frozenset({"n", "X", "t", "CG", "NAD", "rate", "posterior", "importance", "cost"})

Codes = npt.NDArray[np.int64]


class Gauge(NamedTuple):
    """A formula's two programs with the memory they run in; for one thread."""

    codes: Codes  # the terminals that the score reads, in the order of their slots
    steps: Steps
    slots: Floats
    result: int
    low_codes: Codes  # those that the bound reads at the beginning
    high_codes: Codes  # ... and at the end, in the slots behind
    bound_steps: BoundSteps
    bound_slots: Floats
    bound_result: int
    traced: bool  # whether some terminal reads TRACE
    pages: Records  # PAGE[LANES]
    traces: Records  # TRACE[LANES]
    ends: Floats  # float64[LANES]: until when each lane's bound is to hold
    cuts: Floats  # float64[LANES]: by block, when a page of it becomes eligible or overdue


def make_gauge(formula: Formula) -> Gauge:
    """Return the gauge of `formula`. O(size)."""
    program = formula.compile()
    bound = compile_bound(formula.root, MOVING, RANGES)
    arena = program.arena(LANES)
    arena.prepare(program)
    return Gauge(
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
        np.zeros(LANES, PAGE),
        np.zeros(LANES, TRACE),
        np.empty(LANES),
        np.empty(LANES),
    )


@bare_kernel
def gather_lanes(gauge: Gauge, tables: Tables, rows: Ints) -> None:
    """Copy the records of `rows`: int64[m], m <= LANES, into the lanes; a negative row leaves its lane as it was."""
    for i in range(rows.size):
        if rows[i] >= 0:
            gauge.pages[i] = tables.pages[rows[i]]
            if gauge.traced:
                gauge.traces[i] = tables.traces[rows[i]]


@bare_kernel
def score_lanes(gauge: Gauge, count: int, now: float, cycle_s: float, out: Floats) -> None:
    """Write to `out`: float64[count or more] the scores of the first `count` lanes at `now`. O(count * steps)."""
    pages, traces = gauge.pages[:count], gauge.traces[:count]
    for slot in range(gauge.codes.size):
        fill_terminal(gauge.codes[slot], pages, traces, now, cycle_s, gauge.slots[slot, :count])
    if gauge.steps.shape[0]:
        run_steps(gauge.steps, gauge.slots, count)
    for i in range(count):
        out[i] = gauge.slots[gauge.result, i]


@bare_kernel
def bound_lanes(gauge: Gauge, now: float, ends: Floats, cycle_s: float, out: Floats) -> None:
    """Write to `out` what the score of no lane exceeds from `now` to ``ends``: float64[count]; -inf for NaN.

    `out`: float64[count or more]. O(count * steps).
    """
    count = ends.size
    slots = gauge.bound_slots
    pages, traces = gauge.pages[:count], gauge.traces[:count]
    lows = gauge.low_codes.size
    for slot in range(lows):
        fill_terminal(gauge.low_codes[slot], pages, traces, now, cycle_s, slots[slot, :count])
        loosen_terminal(gauge.low_codes[slot], False, slots[slot, :count])
    for slot in range(gauge.high_codes.size):
        fill_terminal_at(gauge.high_codes[slot], pages, ends, cycle_s, slots[lows + slot, :count])
        loosen_terminal(gauge.high_codes[slot], True, slots[lows + slot, :count])
    if gauge.bound_steps.shape[0]:
        run_bounds(gauge.bound_steps, slots, count)
    for i in range(count):
        bound = slots[gauge.bound_result, i]
        out[i] = -np.inf if np.isnan(bound) else bound


def _codes(names: Iterable[str]) -> Codes:
    return np.array([TERMINAL_CODES[name] for name in names], np.int64)
