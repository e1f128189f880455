"""Which corners of its operands' intervals an end of an operation's interval lies at, as far as their ranges determine
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Final, NamedTuple

from streamsched.formula.bounds import interval_machine
from streamsched.formula.bounds.ranges import Range
from streamsched.formula.evaluation import machine

LOW: Final = 0
HIGH: Final = 1


class Interval(NamedTuple):
    """The numbers of the two ends of a value's interval, equal for a fixed value, and the range of both."""

    ends: tuple[int, int]  # LOW, HIGH
    range: Range

    @property
    def fixed(self) -> bool:
        """True if the value is fixed."""
        return self.ends[LOW] == self.ends[HIGH]


class EndStep(NamedTuple):
    """An operation of `streamsched.formula.bounds.interval_machine` that computes an end, and the ends it reads."""

    code: int
    operands: tuple[int, ...]


def find_corners(op: str, operands: tuple[Interval, ...], end: int) -> EndStep:
    """Return the step that computes the `end`, LOW or HIGH, of the interval of `op`. O(1).

    >>> from streamsched.formula.bounds.ranges import TERMINAL
    >>> find_corners("*", (Interval((0, 1), TERMINAL), Interval((2, 3), TERMINAL)), HIGH)  # both are not negative
    EndStep(code=2, operands=(1, 3))
    """
    if all(operand.fixed for operand in operands):
        return EndStep(machine.OPERATION_CODES[op], tuple(operand.ends[LOW] for operand in operands))
    return _FINDERS[op](*operands, end)


def _add(left: Interval, right: Interval, end: int) -> EndStep:
    meet = _infinities_meet(left.range, Range(-right.range.most, -right.range.least))
    return EndStep(interval_machine.SUM_LOW + end if meet else machine.ADD, (left.ends[end], right.ends[end]))


def _subtract(left: Interval, right: Interval, end: int) -> EndStep:
    meet = _infinities_meet(left.range, right.range)
    return EndStep(
        interval_machine.DIFFERENCE_LOW + end if meet else machine.SUBTRACT, (left.ends[end], right.ends[1 - end])
    )


def _infinities_meet(left: Range, right: Range) -> bool:
    """Return whether numbers of the ranges may be the same infinity."""
    return left.least == right.least == -math.inf or left.most == right.most == math.inf


def _negate(operand: Interval, end: int) -> EndStep:
    return EndStep(machine.NEGATE, (operand.ends[1 - end],))


def _multiply(left: Interval, right: Interval, end: int) -> EndStep:
    zero_meets = (left.range.has_zero and right.range.reaches_infinity) or (
        right.range.has_zero and left.range.reaches_infinity
    )
    corners = list(product(_toward(left, right.range, end), _toward(right, left.range, end)))
    if len(corners) == 1:
        return EndStep(interval_machine.PRODUCT if zero_meets else machine.MULTIPLY, corners[0])
    if len(corners) == 2:
        return EndStep(interval_machine.PRODUCT_OF_2_LOW + end, corners[0] + corners[1])
    return EndStep(interval_machine.PRODUCT_OF_4_LOW + end, left.ends + right.ends)


def _divide(left: Interval, right: Interval, end: int) -> EndStep:
    """Use one corner if it is known and the divisor is either 0 or not close to it."""
    dividends, divisors = _toward(left, right.range, end), _toward(right, left.range, 1 - end)
    if len(dividends) == len(divisors) == 1 and (right.fixed or not right.range.has_zero):
        meet = left.range.reaches_infinity and right.range.reaches_infinity
        return EndStep(interval_machine.QUOTIENT if meet else machine.DIVIDE, dividends + divisors)
    return EndStep(interval_machine.QUOTIENT_LOW + end, (dividends[0], dividends[-1], *right.ends))


def _toward(operand: Interval, other: Range, end: int) -> tuple[int, ...]:
    """Return the ends of a factor that the product's `end` may lie at, by the sign of the other factor."""
    if operand.fixed or other.least >= 0.0:
        return (operand.ends[end],)
    return (operand.ends[1 - end],) if other.most <= 0.0 else operand.ends


def _take_log(operand: Interval, end: int) -> EndStep:
    positive = operand.range.least > 0.0
    return EndStep(interval_machine.LOG_LOW + end, (operand.ends[end], operand.ends[end]) if positive else operand.ends)


def _take_exp(operand: Interval, end: int) -> EndStep:
    return EndStep(interval_machine.EXP_LOW + end, (operand.ends[end],))


def _raise(base: Interval, exponent: Interval, end: int) -> EndStep:
    """Choose the exponent if all bases lie on one side of 1, and the base if all exponents lie on one side of 0."""
    bases, exponents = base.ends, exponent.ends
    if base.range.least >= 1.0:
        exponents = (exponents[end], exponents[end])
    elif base.range.least > 0.0 and base.range.most <= 1.0:
        exponents = (exponents[1 - end], exponents[1 - end])
    if exponent.range.least >= 0.0:
        bases = (bases[end], bases[end])
    elif exponent.range.most <= 0.0 and base.range.least > 0.0:
        bases = (bases[1 - end], bases[1 - end])
    known = base.fixed or exponent.range.least >= 0.0 or exponent.range.most <= 0.0 or exponents[LOW] == exponents[HIGH]
    return EndStep((interval_machine.POWER_LOW if known else interval_machine.POWER_OF_2_LOW) + end, bases + exponents)


_FINDERS: Final[dict[str, Callable[..., EndStep]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "neg": _negate,
    "log": _take_log,
    "exp": _take_exp,
    "pow": _raise,
}
