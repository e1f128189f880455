"""The machine over intervals: every step in any number of rows, and none beyond them."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.formula.bounds.interval_machine import POWER_OF_2_LOW, SUM_LOW, run_bounds
from streamsched.formula.evaluation.machine import COPY, ROWS, run_steps

CODES = range(SUM_LOW, POWER_OF_2_LOW + 2)


@pytest.mark.parametrize("code", CODES)
def test_a_lane_has_the_same_bits_in_any_number_of_rows(code: int) -> None:
    """And lanes beyond the rows are left alone."""
    before = np.random.default_rng(1).normal(0, 2, (5, 2 * ROWS))
    before[1] += np.abs(before[0])
    steps = np.array([[code, 4, 0, 1, 2, 3]], np.int32)
    whole = before.copy()
    run_bounds(steps, whole, 2 * ROWS)
    assert not np.array_equal(whole[4], before[4])
    for rows in (0, 1, 3, 8, 31, 67, ROWS - 1, ROWS + 1):
        slots = before.copy()
        run_bounds(steps, slots, rows)
        assert slots[4, :rows].tobytes() == whole[4, :rows].tobytes()
        slots[4, :rows] = before[4, :rows]
        assert slots.tobytes() == before.tobytes()


@pytest.mark.parametrize("code", range(COPY + 1))
def test_operations_on_numbers_are_those_of_the_machine(code: int) -> None:
    found = np.random.default_rng(1).normal(0, 2, (3, 100))
    expected = found.copy()
    run_bounds(np.array([[code, 2, 0, 1, 1, 1]], np.int32), found, 100)
    run_steps(np.array([[code, 0, 1, 2]], np.int32), expected, 100)
    assert found.tobytes() == expected.tobytes()
