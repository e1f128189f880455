"""What is known of values before columns are read: signs, sides of 1, and what stays finite."""

from __future__ import annotations

import math

import pytest

from streamsched.formula.bounds.ranges import ANY, TERMINAL, Range, range_of

INF, HUGE = math.inf, TERMINAL.most


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        ("+", (TERMINAL, TERMINAL), (0, INF)),
        ("+", (TERMINAL, Range(-2, 1)), (-2, HUGE)),
        ("+", (ANY, TERMINAL), ANY),
        ("+", (Range(INF, INF), Range(-INF, 1)), ANY._replace(least=-INF)),
        ("-", (TERMINAL, TERMINAL), (-HUGE, HUGE)),
        ("-", (Range(1, 1), Range(0, 1)), (0, 1)),
        ("neg", (Range(-1, 3),), (-3, 1)),
        ("*", (TERMINAL, TERMINAL), (0, INF)),
        ("*", (Range(-2, 3), Range(-5, 4)), (-15, 12)),
        ("*", (Range(0, 0), ANY), (0, 0)),
        ("/", (TERMINAL, TERMINAL), (0, INF)),
        ("/", (Range(-1, 2), Range(2, 4)), (-0.5, 1)),
        ("/", (Range(1, 2), Range(-4, -2)), (-1, -0.25)),
        ("/", (Range(1, 2), Range(-4, 2)), ANY),
        ("/", (Range(-1, 2), Range(0, 2)), ANY),
        ("/", (Range(1, INF), Range(2, INF)), (0, INF)),
        ("log", (Range(1, 1),), (0, 0)),
        ("log", (Range(0.9, 1),), (-745, 0)),
        ("log", (Range(-3, -1),), (-745, 0)),
        ("log", (Range(1, INF),), (0, INF)),
        ("log", (Range(0, math.e),), (-745, 1)),
        ("exp", (ANY,), (math.exp(-80), math.exp(80))),
        ("exp", (Range(0, 1),), (1, math.e)),
        ("pow", (ANY, ANY), (0, INF)),
    ],
)
def test_ranges(op: str, operands: tuple[Range, ...], expected: tuple[float, float]) -> None:
    assert range_of(op, *operands) == pytest.approx(expected, rel=1e-5)


def test_ranges_of_functions_leave_room_for_their_last_bits() -> None:
    least, most = range_of("exp", Range(0, 1))
    assert least < 1.0 - 1e-9
    assert most > math.e + 1e-9
    assert range_of("log", Range(1, math.e)).most > 1.0 + 1e-9
    assert range_of("log", Range(0, 1)).least < math.log(5e-324)


def test_what_a_range_reaches() -> None:
    assert ANY.reaches_infinity
    assert Range(-INF, 0).reaches_infinity
    assert not TERMINAL.reaches_infinity
    assert TERMINAL.has_zero
    assert not Range(1, INF).has_zero
