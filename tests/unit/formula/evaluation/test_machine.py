"""The machine: every operation on every pair of special numbers, in place of either operand, in any number of rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from streamsched.formula.evaluation.machine import COPY, OPERATION_CODES, ROWS, Steps, make_slots, run_steps
from streamsched.numerics.arrays import Floats
from tests.reference import estimators

INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.7, 80.0, -80.0, 81.0, -81.0, INF, -INF, NAN]
SPECIAL += [5e-324, -5e-324, 1e-310, 2.0**-1022, 1e-300, 1e300, 1e308, -1e308, 1.7976931348623157e308]
PAIRS = list(itertools.product(SPECIAL, SPECIAL))
PLACES = {"apart": (0, 1, 2), "left": (0, 1, 0), "right": (0, 1, 1), "twice": (0, 0, 2), "all": (0, 0, 0)}


def steps_of(*steps: tuple[int, ...]) -> Steps:
    return np.array(steps, np.int32).reshape(-1, 4)


def slots_of(rows: int, slots: int = 3) -> Floats:
    """Finite numbers above 0, more than the machine works on at a time where wanted."""
    return np.random.default_rng(1).lognormal(0, 2, (slots, rows))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", OPERATION_CODES)
def test_every_pair_of_special_numbers(op: str, place: str) -> None:
    left, right, result = PLACES[place]
    slots = np.zeros((3, len(PAIRS)))
    slots[:2] = np.array(PAIRS).T
    operands = slots[[left, right]].T.tolist()
    run_steps(steps_of((OPERATION_CODES[op], left, right, result)), slots, len(PAIRS))
    for (a, b), found in zip(operands, slots[result].tolist(), strict=True):
        expected = estimators.protected(op, *((a,) if op in ("neg", "log", "exp") else (a, b)))
        assert near(found, expected), (op, a, b)


def near(found: float, expected: float) -> bool:
    """The same within two units in the last place, where numbers are subnormal within two of theirs."""
    if not math.isfinite(expected):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return abs(found - expected) <= 2 * math.ulp(expected)


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_arithmetic_is_that_of_the_processor(op: str) -> None:
    slots = slots_of(ROWS)
    x, y = slots[0].copy(), slots[1].copy()
    run_steps(steps_of((OPERATION_CODES[op], 0, 1, 2)), slots, ROWS)
    expected = {"+": x + y, "-": x - y, "*": x * y, "/": x / y}[op]
    assert slots[2].tobytes() == expected.tobytes()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", OPERATION_CODES)
def test_a_lane_has_the_same_bits_in_any_number_of_rows(op: str, place: str) -> None:
    """Also in whichever slot the result goes, and lanes beyond the rows are left alone."""
    left, right, result = PLACES[place]
    step = steps_of((OPERATION_CODES[op], left, right, result))
    whole = slots_of(ROWS)
    before = whole.copy()
    run_steps(steps_of((OPERATION_CODES[op], left, right, 2)), whole, ROWS)
    for rows in (0, 1, 2, 3, 5, 8, 13, 31, 64, 67, ROWS - 1):
        slots = before.copy()
        run_steps(step, slots, rows)
        assert slots[result, :rows].tobytes() == whole[2, :rows].tobytes()
        slots[result, :rows] = before[result, :rows]
        assert slots.tobytes() == before.tobytes()


def test_steps_run_in_order() -> None:
    slots = slots_of(10)
    x, y = slots[0].copy(), slots[1].copy()
    code = OPERATION_CODES
    run_steps(steps_of((code["*"], 0, 1, 2), (code["-"], 2, 0, 2), (COPY, 2, 2, 1), (code["neg"], 1, 1, 0)), slots, 10)
    np.testing.assert_array_equal(slots, [-(x * y - x), x * y - x, x * y - x])


def test_no_steps_do_nothing() -> None:
    slots = slots_of(10)
    before = slots.copy()
    run_steps(steps_of(), slots, 10)
    np.testing.assert_array_equal(slots, before)


@pytest.mark.parametrize("rows", [ROWS + 1, 3 * ROWS + 5])
def test_more_rows_than_are_worked_on_at_a_time(rows: int) -> None:
    slots = slots_of(rows + 1)
    x, y = slots[0].copy(), slots[1].copy()
    slots[2] = 7.0
    run_steps(steps_of((OPERATION_CODES["+"], 0, 1, 2), (OPERATION_CODES["*"], 2, 0, 2)), slots, rows)
    np.testing.assert_array_equal(slots[2], [*((x + y) * x)[:rows], 7.0])


@pytest.mark.parametrize("rows", [1, 8, 500, ROWS])
def test_slots_begin_with_a_line_of_the_cache(rows: int) -> None:
    for _ in range(5):
        slots = make_slots(3, rows)
        assert slots.shape[1] >= rows
        assert [slot.ctypes.data % 64 for slot in slots] == [0, 0, 0]
        assert not slots.any()
