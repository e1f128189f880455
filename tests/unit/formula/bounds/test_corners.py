"""Which corner an end lies at, by the signs of both operands, and that nothing is read in vain."""

from __future__ import annotations

import pytest

from streamsched.formula.bounds import interval_machine
from streamsched.formula.bounds.corners import HIGH, LOW, Interval, find_corners
from streamsched.formula.bounds.ranges import Range
from streamsched.formula.evaluation import machine

PLUS, MINUS, BOTH = Range(1, 5), Range(-5, -1), Range(-5, 5)
A, B = (0, 1), (2, 3)  # the ends of two operands


@pytest.mark.parametrize(
    ("left", "right", "low", "high"),
    [
        (PLUS, PLUS, (0, 2), (1, 3)),
        (PLUS, MINUS, (1, 2), (0, 3)),
        (MINUS, PLUS, (0, 3), (1, 2)),
        (MINUS, MINUS, (1, 3), (0, 2)),
        (BOTH, PLUS, (0, 2, 0, 3), (1, 2, 1, 3)),
        (MINUS, BOTH, (0, 3, 1, 3), (0, 2, 1, 2)),
        (BOTH, BOTH, (0, 1, 2, 3), (0, 1, 2, 3)),
    ],
)
def test_products(left: Range, right: Range, low: tuple[int, ...], high: tuple[int, ...]) -> None:
    for end, expected in ((LOW, low), (HIGH, high)):
        found = find_corners("*", (Interval(A, left), Interval(B, right)), end)
        assert found.operands == expected
        several = interval_machine.PRODUCT_OF_4_LOW if left == right == BOTH else interval_machine.PRODUCT_OF_2_LOW
        assert found.code == (machine.MULTIPLY if len(expected) == 2 else several + end)


@pytest.mark.parametrize(
    ("left", "right", "low", "high"),
    [
        (PLUS, PLUS, (0, 3), (1, 2)),
        (PLUS, MINUS, (1, 3), (0, 2)),
        (MINUS, PLUS, (0, 2), (1, 3)),
        (MINUS, MINUS, (1, 2), (0, 3)),
        (BOTH, PLUS, (0, 0, 2, 3), (1, 1, 2, 3)),
        (PLUS, BOTH, (0, 1, 2, 3), (0, 1, 2, 3)),
    ],
)
def test_quotients(left: Range, right: Range, low: tuple[int, ...], high: tuple[int, ...]) -> None:
    for end, expected in ((LOW, low), (HIGH, high)):
        found = find_corners("/", (Interval(A, left), Interval(B, right)), end)
        assert found.operands == expected
        assert found.code == (machine.DIVIDE if len(expected) == 2 else interval_machine.QUOTIENT_LOW + end)


@pytest.mark.parametrize(
    ("base", "exponent", "two", "low", "high"),
    [
        (Range(1, 5), PLUS, 0, (0, 0, 2, 2), (1, 1, 3, 3)),
        (Range(1, 5), MINUS, 0, (1, 1, 2, 2), (0, 0, 3, 3)),
        (Range(1, 5), BOTH, 0, (0, 1, 2, 2), (0, 1, 3, 3)),
        (Range(0.1, 1), PLUS, 0, (0, 0, 3, 3), (1, 1, 2, 2)),
        (Range(0.1, 1), MINUS, 0, (1, 1, 3, 3), (0, 0, 2, 2)),
        (Range(0, 5), PLUS, 0, (0, 0, 2, 3), (1, 1, 2, 3)),
        (Range(0, 5), MINUS, 0, (0, 1, 2, 3), (0, 1, 2, 3)),
        (Range(0.1, 5), MINUS, 0, (1, 1, 2, 3), (0, 0, 2, 3)),
        (Range(0.1, 5), BOTH, 2, (0, 1, 2, 3), (0, 1, 2, 3)),
    ],
)
def test_powers(base: Range, exponent: Range, two: int, low: tuple[int, ...], high: tuple[int, ...]) -> None:
    for end, expected in ((LOW, low), (HIGH, high)):
        found = find_corners("pow", (Interval(A, base), Interval(B, exponent)), end)
        assert found == (interval_machine.POWER_LOW + two + end, expected)


@pytest.mark.parametrize("op", machine.OPERATION_CODES)
def test_what_stands_still_takes_the_operation_itself(op: str) -> None:
    still = Interval((0, 0), BOTH), Interval((2, 2), BOTH)
    operands = still[:1] if op in ("neg", "log", "exp") else still
    for end in (LOW, HIGH):
        found = find_corners(op, operands, end)
        assert found == (machine.OPERATION_CODES[op], (0, 2)[: len(operands)])
