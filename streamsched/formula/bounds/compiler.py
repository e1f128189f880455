"""Upper bounds of a formula's value while some terminals vary within given intervals: a program over intervals.

Fixed values are computed once, by the operations of `evaluation.machine`; of moving values, only those interval ends
that the bound depends on. If every interval is a point, the bound is the value, except that ends of exp, log and pow of
moving operands are moved outwards, by about 1e-15 of each. Wider intervals give looser bounds, by about their width if
a terminal occurs several times. As they shrink to a point at which every operation is continuous, the bound converges
to the value there, with the same exception.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamsched.formula.bounds.corners import HIGH, LOW, EndStep, Interval, find_corners
from streamsched.formula.bounds.interval_machine import OPERANDS, BoundSteps, run_bounds
from streamsched.formula.bounds.ranges import ANY, TERMINAL, Range, range_of
from streamsched.formula.evaluation.machine import COPY, OPERATION_CODES, make_slots
from streamsched.formula.evaluation.program import Values, assign_registers
from streamsched.formula.syntax.nodes import Node, fold
from streamsched.numerics.arrays import Floats


@dataclass(frozen=True, slots=True, eq=False)
class BoundProgram:
    """The bound of a formula as steps for `run_bounds`. Immutable: threads may share it, each with its own slots.

    The first slots are the columns of `lows`, in order, the next those of `highs`, then the `constants`, which keep
    their values; registers follow. A kernel fills the columns (for example with `fill_terminal`, at the start and at
    the end of the interval), writes each constant to all lanes once, and runs the steps. Then `result` holds the bound
    of each lane: no value of the formula except NaN is above it. It is infinite if nothing better is known. It is NaN
    only if the value is always NaN, for which the bound is undefined.
    """

    lows: tuple[str, ...]  # fixed terminals, and the minima of moving ones; sorted
    highs: tuple[str, ...]  # the maxima of moving ones; sorted
    constants: tuple[float, ...] = field(repr=False)
    registers: int  # slots for results
    steps: BoundSteps = field(repr=False)  # int32[m, 6]
    result: int = field(repr=False)  # the slot where the bound ends up

    @property
    def slots(self) -> int:
        """The number of slots that the program needs."""
        return len(self.lows) + len(self.highs) + len(self.constants) + self.registers

    def make_slots(self, rows: int) -> Floats:
        """Return slots to run this program in, float64[slots, rows or a few more], with the constants. O(slots)."""
        slots = make_slots(self.slots, rows)
        first = len(self.lows) + len(self.highs)
        slots[first : first + len(self.constants)] = np.array(self.constants)[:, None]
        return slots

    def run(self, lows: Mapping[str, Floats], highs: Mapping[str, Floats], rows: int) -> Floats:
        """Return the bound of each of `rows` rows, float64[rows]. O(rows * steps).

        ``lows[name]``, ``highs[name]``: float64[rows] for each of `lows` and of `highs`. Raises KeyError if a column is
        missing, and ValueError if it has another length.
        """
        slots = self.make_slots(rows)
        columns = [lows[name] for name in self.lows] + [highs[name] for name in self.highs]
        for slot, column in zip(slots, columns, strict=False):
            if column.shape != (rows,):
                raise ValueError(f"columns: expected {rows} rows, found {list(column.shape)}")
            slot[:rows] = column
        run_bounds(self.steps, slots, rows)
        return slots[self.result, :rows].copy()


def compile_bound(root: Node, moving: Collection[str], ranges: Mapping[str, tuple[float, float]]) -> BoundProgram:
    """Return the program of the upper bound of the tree at `root` while the terminals `moving` vary. O(size).

    ``ranges[name]``: the range of a terminal's column, if more is known than that it is finite and not negative; values
    outside make bounds wrong.

    >>> from streamsched.formula import Formula
    >>> program = compile_bound(Formula.parse("t * X - log(n)").root, {"t"}, {})
    >>> program.lows, program.highs, len(program.steps)
    (('X', 'n'), ('t',), 3)
    """
    values = Values()
    last = fold(root, values.add)
    keys = list(values.index)
    held = _intervals(keys, values.numbers, frozenset(moving), ranges)
    wanted = held[last].ends[HIGH]
    steps = _steps(keys, held, wanted)
    read = {wanted, *(end for step in steps.values() for end in step.operands)}

    lows = _columns(keys, held, read, LOW)
    highs = {name: end for name, end in _columns(keys, held, read, HIGH).items() if end not in lows.values()}
    constants = {held[value].ends[LOW]: number for value, number in values.numbers.items()}
    constants = {end: number for end, number in constants.items() if end in read}
    apart = {end for end, step in steps.items() if step.code > COPY}
    registers, count = assign_registers({end: step.operands for end, step in steps.items()}, apart)

    slots = {end: place for place, end in enumerate([*lows.values(), *highs.values(), *constants])}
    slots |= {end: len(slots) + register for end, register in registers.items()}
    rows = [
        (step.code, slots[end], *(slots[operand] for operand in _pad_operands(step))) for end, step in steps.items()
    ]
    table = np.array(rows, np.int32).reshape(-1, 2 + OPERANDS)
    return BoundProgram(tuple(lows), tuple(highs), tuple(constants.values()), count, table, slots[wanted])


def _intervals(
    keys: list[tuple[Any, ...]],
    numbers: Mapping[int, float],
    moving: frozenset[str],
    ranges: Mapping[str, tuple[float, float]],
) -> list[Interval]:
    """Return each value's interval; its ends are numbered 2 v and 2 v + 1, and 2 v twice if it is fixed."""
    held: list[Interval] = []
    for value, key in enumerate(keys):
        if value in numbers:
            number = numbers[value]
            fixed, span = True, ANY if math.isnan(number) else Range(number, number)
        elif key[0] == "column":
            least, most = ranges.get(key[1], TERMINAL)
            fixed, span = key[1] not in moving, Range(float(least), float(most))
        else:
            operands = [held[operand] for operand in key[1:]]
            fixed, span = all(one.fixed for one in operands), range_of(key[0], *(one.range for one in operands))
        held.append(Interval((2 * value, 2 * value + (not fixed)), span))
    return held


def _steps(keys: list[tuple[Any, ...]], held: list[Interval], wanted: int) -> dict[int, EndStep]:
    """Return the steps that compute the `wanted` end, by the end they compute, in an order to run them in."""
    steps: dict[int, EndStep] = {}
    pending = {wanted}
    for end in range(2 * len(keys) - 1, -1, -1):  # steps that read an end have greater numbers
        key = keys[end // 2]
        if end in pending and key[0] in OPERATION_CODES:
            steps[end] = find_corners(key[0], tuple(held[operand] for operand in key[1:]), end % 2)
            pending.update(steps[end].operands)
    return dict(reversed(steps.items()))


def _columns(keys: list[tuple[Any, ...]], held: list[Interval], read: Collection[int], side: int) -> dict[str, int]:
    """Return the ends of terminals on one side that are read, by name."""
    names = sorted((key[1], held[value].ends[side]) for value, key in enumerate(keys) if key[0] == "column")
    return {name: end for name, end in names if end in read}


def _pad_operands(step: EndStep) -> Iterable[int]:
    """Return as many operands as a step has slots; surplus ones are ignored."""
    return (*step.operands, *step.operands[-1:] * (OPERANDS - len(step.operands)))
