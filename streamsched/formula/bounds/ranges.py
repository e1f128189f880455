"""Ranges of subexpressions that hold for all columns, known before any is read.

A range contains every value except NaN, and every end of an interval that `bounds.interval_machine` may return. It need
not be narrow: what matters is on which side of 0 and 1 it lies, and whether it is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from streamsched.formula.evaluation.machine import EXPONENT_LIMIT, LOWEST_LOG
from streamsched.formula.terminal_table import NONNEGATIVE

_WIDER: Final = 1e-6  # relative: far more than the widening of function intervals


class Range(NamedTuple):
    """All numbers from `least` to `most`, which may be infinite."""

    least: float
    most: float

    @property
    def reaches_infinity(self) -> bool:
        """True if one end is infinite."""
        return math.isinf(self.least) or math.isinf(self.most)

    @property
    def has_zero(self) -> bool:
        """True if it contains 0."""
        return self.least <= 0.0 <= self.most


ANY: Final = Range(-math.inf, math.inf)
TERMINAL: Final = Range(*NONNEGATIVE)


def range_of(op: str, *operands: Range) -> Range:
    """Return the range of an operation's values. O(1).

    >>> range_of("/", TERMINAL, Range(1.0, 2.0))
    Range(least=0.0, most=1.7976931348623157e+308)
    """
    return _RANGES[op](*operands)


def _add(left: Range, right: Range) -> Range:
    least, most = left.least + right.least, left.most + right.most
    return Range(-math.inf if math.isnan(least) else least, math.inf if math.isnan(most) else most)


def _negate(operand: Range) -> Range:
    return Range(-operand.most, -operand.least)


def _multiply(left: Range, right: Range) -> Range:
    return _hull([x * y for x in left for y in right])


def _divide(left: Range, right: Range) -> Range:
    if not right.has_zero:
        return _hull([x / y for x in left for y in right])
    if left.least >= 0.0 and right.least >= 0.0:
        return Range(0.0, math.inf)
    return ANY


def _take_log(operand: Range) -> Range:
    least = 0.0 if operand.least >= 1.0 else LOWEST_LOG
    return Range(least, math.log(operand.most) * (1.0 + _WIDER) if operand.most > 1.0 else 0.0)


def _take_exp(operand: Range) -> Range:
    least, most = (math.exp(min(max(end, -EXPONENT_LIMIT), EXPONENT_LIMIT)) for end in operand)
    return Range(least * (1.0 - _WIDER), most * (1.0 + _WIDER))


def _raise(_base: Range, _exponent: Range) -> Range:
    return Range(0.0, math.inf)


def _hull(corners: list[float]) -> Range:
    """Return the range of the corners; 0 times infinity and the quotient of two infinities count as 0."""
    numbers = [0.0 if math.isnan(corner) else corner for corner in corners]
    return Range(min(numbers), max(numbers))


_RANGES: Final[dict[str, Callable[..., Range]]] = {
    "+": _add,
    "-": lambda left, right: _add(left, _negate(right)),
    "*": _multiply,
    "/": _divide,
    "pow": _raise,
    "neg": _negate,
    "log": _take_log,
    "exp": _take_exp,
}
