"""The operations of formulas on blocks of float64: defined for every input, silent, in place where asked (SPEC 5).

=============  =================================================================================================
operation      value; wherever an operand is NaN the result is NaN
=============  =================================================================================================
a + b, a - b   IEEE 754; inf - inf is NaN
a * b          IEEE 754; 0 * inf is NaN
-a             the sign flipped
a / b          0 where b is 0 (inf / 0 and 0 / 0 too), else IEEE 754: a / inf is 0, inf / inf is NaN
log(a)         natural; 0 where a <= 0 (-inf too); log(inf) is inf
exp(a)         e to the power of a clamped to [-80, 80]; never 0 nor inf
pow(a, b)      with b clamped to [-80, 80]: 0 where a < 0 (whatever b, 0 too); 0 where a is 0 and b < 0;
               pow(a, 0) is 1 for a >= 0; pow(inf, b) is inf for b > 0 and 0 for b < 0; may overflow to inf
=============  =================================================================================================

-0 counts as 0 everywhere, so two results that differ only in the sign of a zero are the same result. Every lane's value
depends on that lane's operands alone: not on the block's length or the lane's place in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from streamsched.arrays import Bools, Floats
from streamsched.formula.vocabulary import BinaryOp, UnaryOp

__all__ = ["EXPONENT_LIMIT", "OPERATIONS", "Operand", "Operation", "Scratch", "apply"]

EXPONENT_LIMIT: Final = 80.0  # exp(80) is 5.5e34: products of a few stay far from overflow (SPEC 5)

Operand: TypeAlias = Floats | float
Operation: TypeAlias = Callable[..., None]  # (operand, out, scratch) or (left, right, out, scratch)


class Scratch:
    """What operations over blocks of `length` rows need beside operands and result: one column and three masks."""

    __slots__ = ("column", "masks")

    def __init__(self, length: int) -> None:
        self.column: Floats = np.empty(length)
        self.masks: tuple[Bools, Bools, Bools] = (
            np.empty(length, np.bool_),
            np.empty(length, np.bool_),
            np.empty(length, np.bool_),
        )

    def head(self, length: int) -> Scratch:
        """Return a view of the first `length` rows. O(1)."""
        view = object.__new__(Scratch)
        view.column = self.column[:length]
        first, second, third = self.masks
        view.masks = (first[:length], second[:length], third[:length])
        return view


def apply(op: UnaryOp | BinaryOp, *operands: float) -> float:
    """Return what `op` gives in a block where its operands are these numbers. O(1).

    >>> apply("/", 1.0, 0.0), apply("log", -1.0), apply("pow", -2.0, 2.0), apply("pow", 0.0, 0.0)
    (0.0, 0.0, 0.0, 1.0)
    """
    lanes = 8  # a whole vector, so that the loop is the one that blocks go through
    out = np.empty(lanes)
    with np.errstate(all="ignore"):
        OPERATIONS[op](*(np.full(lanes, operand) for operand in operands), out, Scratch(lanes))
    return float(out[0])


def _add(left: Operand, right: Operand, out: Floats, _scratch: Scratch) -> None:
    np.add(left, right, out=out)


def _subtract(left: Operand, right: Operand, out: Floats, _scratch: Scratch) -> None:
    np.subtract(left, right, out=out)


def _multiply(left: Operand, right: Operand, out: Floats, _scratch: Scratch) -> None:
    np.multiply(left, right, out=out)


def _negate(operand: Operand, out: Floats, _scratch: Scratch) -> None:
    np.negative(operand, out=out)


def _divide(left: Operand, right: Operand, out: Floats, scratch: Scratch) -> None:
    if not isinstance(right, np.ndarray) and right != 0.0:
        np.divide(left, right, out=out)
        return
    outside, defined, _ = scratch.masks
    np.equal(right, 0.0, out=outside)
    if not outside.any():
        np.divide(left, right, out=out)
        return
    np.equal(left, left, out=defined)  # NaN / 0 stays the NaN that division gives
    np.logical_and(outside, defined, out=outside)
    np.divide(left, right, out=out)
    np.putmask(out, outside, 0.0)


def _log(operand: Operand, out: Floats, scratch: Scratch) -> None:
    outside = scratch.masks[0]
    np.less_equal(operand, 0.0, out=outside)
    np.log(operand, out=out)
    if outside.any():
        np.putmask(out, outside, 0.0)


def _exp(operand: Operand, out: Floats, _scratch: Scratch) -> None:
    _clamp(operand, out)
    np.exp(out, out=out)


def _power(base: Operand, exponent: Operand, out: Floats, scratch: Scratch) -> None:
    """Write pow(base, exponent) to `out`, which may be either operand."""
    clamped = scratch.column
    _clamp(exponent, clamped)
    if not isinstance(base, np.ndarray):
        out.fill(base)
        base = out
    first, second, third = scratch.masks
    np.greater(base, 0.0, out=first)
    np.equal(clamped, clamped, out=second)
    if first.all() and second.all():
        _raise(base, clamped, out)
        return
    undefined = np.logical_not(second, out=second)
    np.logical_or(undefined, np.not_equal(base, base, out=third), out=undefined)
    np.equal(base, 0.0, out=first)
    np.logical_and(first, np.less(clamped, 0.0, out=third), out=first)
    outside = np.logical_or(first, np.less(base, 0.0, out=third), out=first)
    _raise(base, clamped, out)
    np.putmask(out, outside, 0.0)
    np.putmask(out, undefined, np.nan)


def _raise(base: Floats, exponent: Floats, out: Floats) -> None:
    """Write base to the power of exponent to `out`, always by the routine for columns.

    Where the exponent is a single number (2: a square) NumPy takes routines with other last bits, and it may see one in
    a column of one row.
    """
    if out.size == 1:
        out[0] = np.power(np.repeat(base, 2), np.repeat(exponent, 2))[0]
    else:
        np.power(base, exponent, out=out)


def _clamp(operand: Operand, out: Floats) -> None:
    np.maximum(operand, -EXPONENT_LIMIT, out=out)
    np.minimum(out, EXPONENT_LIMIT, out=out)


OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {"+": _add, "-": _subtract, "*": _multiply, "/": _divide}
    | {"neg": _negate, "log": _log, "exp": _exp, "pow": _power}
)
