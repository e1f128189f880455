"""The machine over intervals: the operations on numbers, and one for each end of the interval of an operation.

An interval contains every value except NaN that its expression takes while terminals vary. If there is no such value,
its ends are undefined and may be NaN. That is sound, since every operation on a NaN gives NaN. From ends that are not
NaN, each operation here computes an end that is not NaN.

Sums, products and quotients are monotone as rounded: the values at the ends are the ends of the values, to the last
bit. `exp` and `log` are within 1 ulp of a monotone function, powers within 2: their ends are moved outwards by 4 and by
8 ulp, twice what soundness needs. As intervals shrink to a point at which an operation is continuous, its ends
converge to its value there, except for these ulps.

Below a- and a+ are the ends of an operand's interval, a, b, c and d numbers at any ends.

==================  =============  =====================================================================================
operation           operands       result
==================  =============  =====================================================================================
ADD to COPY         a b            as in `evaluation.machine`: of fixed values, or if a corner is enough
SUM_LOW, _HIGH      a b            a + b; if opposite infinities meet, one operand has no other value: the end
                                   that leaves the interval empty
DIFFERENCE_LOW ...  a b            a - b, likewise
PRODUCT             a b            a * b; 0 for 0 times infinity, as for the numbers just below infinity
PRODUCT_OF_2_LOW..  a b c d        the lesser or the greater of a * b and c * d
PRODUCT_OF_4_LOW..  a- a+ b- b+    the least or the greatest of the products at all corners
QUOTIENT            a b            a / b, protected; 0 for the quotient of infinities
QUOTIENT_LOW ...    a- a+ b- b+    the end of a / b; infinite if b comes near 0, and 0 included if b may be 0
EXP_LOW             a-             the exponential of a-, clamped
EXP_HIGH            a+             ... of a+
LOG_LOW, _HIGH      a- a+          the end of the protected logarithm, which jumps at 0
POWER_LOW, _HIGH    a- a+ b- b+    the end of the protected power; a is fixed, b keeps its sign or b- is b+
POWER_OF_2_LOW ...  a- a+ b- b+    the end of the protected power
==================  =============  =====================================================================================
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.formula.evaluation.machine import COPY, LOWEST_LOG, ROWS, clamp, divide, raise_base, run_step
from streamsched.numerics.arrays import Floats
from streamsched.numerics.compilation.machine_operations import widen_vectors
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, log

BoundSteps: TypeAlias = npt.NDArray[np.int32]  # int32[m, 6]: operation, result slot, four slots of operands

OPERANDS: Final = 4

# The higher end's code is the lower's plus 1.
SUM_LOW: Final = 10
SUM_HIGH: Final = 11
DIFFERENCE_LOW: Final = 12
DIFFERENCE_HIGH: Final = 13
PRODUCT: Final = 14
QUOTIENT: Final = 15
PRODUCT_OF_2_LOW: Final = 16
PRODUCT_OF_2_HIGH: Final = 17
PRODUCT_OF_4_LOW: Final = 18
PRODUCT_OF_4_HIGH: Final = 19
QUOTIENT_LOW: Final = 20
QUOTIENT_HIGH: Final = 21
EXP_LOW: Final = 22
EXP_HIGH: Final = 23
LOG_LOW: Final = 24
LOG_HIGH: Final = 25
POWER_LOW: Final = 26
POWER_HIGH: Final = 27
POWER_OF_2_LOW: Final = 28
POWER_OF_2_HIGH: Final = 29

_SMALLEST: Final = 5e-324
_UP: Final = 1.0 + 2.0**-50  # 4 ulp: exp and log are within 1 of the exact value at either point
_DOWN: Final = 1.0 - 2.0**-50
_POWER_UP: Final = 1.0 + 2.0**-49  # 8 ulp: powers are within 2
_POWER_DOWN: Final = 1.0 - 2.0**-49
_SUBNORMAL: Final = 16 * _SMALLEST  # the same where 8 ulp are less than the smallest number


@bare_kernel
def run_bounds(steps: BoundSteps, slots: Floats, rows: int) -> None:
    """Run the steps one after another over the first `rows` lanes of the slots. O(steps * rows).

    `steps`: int32[m, 6]; `slots`: float64[s, w], w >= `rows`, contiguous. Nothing is checked. The result of an
    operation that `evaluation.machine` does not have must not be one of its operands. Like `run_steps` it
    runs all steps over ROWS lanes before the next.
    """
    for start in range(0, rows, ROWS):
        first, stop = np.uint64(start), np.uint64(min(start + ROWS, rows))
        for step in range(steps.shape[0]):
            operation, result = steps[step, 0], steps[step, 1]
            a, b, c, d = steps[step, 2], steps[step, 3], steps[step, 4], steps[step, 5]
            if operation <= COPY:
                run_step(operation, (a, b), result, slots, first, stop)
            elif operation <= QUOTIENT:
                _run_corner(operation, slots, (a, b), result, first, stop)
            elif operation <= QUOTIENT_HIGH:
                _run_corners(operation, slots, (a, b, c, d), result, first, stop)
            elif operation <= LOG_HIGH:
                _run_function(operation, slots, (a, b), result, first, stop)
            else:
                _run_power(operation, slots, (a, b, c, d), result, first, stop)


@bare_kernel
def _run_corner(operation: int, slots: Floats, operands: tuple[int, int], result: int, first: int, stop: int) -> None:
    widen_vectors()
    a, b = operands
    if operation == SUM_LOW:
        for i in range(first, stop):
            slots[result, i] = _settle(slots[a, i] + slots[b, i], np.inf)
    elif operation == SUM_HIGH:
        for i in range(first, stop):
            slots[result, i] = _settle(slots[a, i] + slots[b, i], -np.inf)
    elif operation == DIFFERENCE_LOW:
        for i in range(first, stop):
            slots[result, i] = _settle(slots[a, i] - slots[b, i], np.inf)
    elif operation == DIFFERENCE_HIGH:
        for i in range(first, stop):
            slots[result, i] = _settle(slots[a, i] - slots[b, i], -np.inf)
    elif operation == PRODUCT:
        for i in range(first, stop):
            slots[result, i] = _settle_pair(slots[a, i] * slots[b, i], slots[a, i], slots[b, i])
    else:
        for i in range(first, stop):
            slots[result, i] = _settle_pair(divide(slots[a, i], slots[b, i]), slots[a, i], slots[b, i])


# Of a number and NaN, `min` and `max` return the first: later corners with 0 times infinity are skipped.
@bare_kernel
def _run_corners(
    operation: int, slots: Floats, operands: tuple[int, int, int, int], result: int, first: int, stop: int
) -> None:
    widen_vectors()
    a, b, c, d = operands
    if operation == PRODUCT_OF_2_LOW:
        for i in range(first, stop):
            one, other = slots[a, i] * slots[b, i], slots[c, i] * slots[d, i]
            slots[result, i] = min(_settle(one, 0.0), other)
    elif operation == PRODUCT_OF_2_HIGH:
        for i in range(first, stop):
            one, other = slots[a, i] * slots[b, i], slots[c, i] * slots[d, i]
            slots[result, i] = max(_settle(one, 0.0), other)
    elif operation == PRODUCT_OF_4_LOW:
        for i in range(first, stop):
            one, two = slots[a, i] * slots[c, i], slots[a, i] * slots[d, i]
            three, four = slots[b, i] * slots[c, i], slots[b, i] * slots[d, i]
            slots[result, i] = min(_settle(one, 0.0), two, three, four)
    elif operation == PRODUCT_OF_4_HIGH:
        for i in range(first, stop):
            one, two = slots[a, i] * slots[c, i], slots[a, i] * slots[d, i]
            three, four = slots[b, i] * slots[c, i], slots[b, i] * slots[d, i]
            slots[result, i] = max(_settle(one, 0.0), two, three, four)
    elif operation == QUOTIENT_LOW:  # as the higher end of -a / b
        for i in range(first, stop):
            slots[result, i] = -_divide_high(-slots[b, i], -slots[a, i], slots[c, i], slots[d, i])
    else:
        for i in range(first, stop):
            slots[result, i] = _divide_high(slots[a, i], slots[b, i], slots[c, i], slots[d, i])


@bare_kernel
def _run_function(operation: int, slots: Floats, operands: tuple[int, int], result: int, first: int, stop: int) -> None:
    widen_vectors()
    a, b = operands
    if operation == EXP_LOW:
        for i in range(first, stop):
            slots[result, i] = exp(clamp(slots[a, i])) * _DOWN
    elif operation == EXP_HIGH:
        for i in range(first, stop):
            slots[result, i] = exp(clamp(slots[a, i])) * _UP
    elif operation == LOG_LOW:
        for i in range(first, stop):
            logarithm = log(slots[a, i])
            beyond = LOWEST_LOG if slots[b, i] > 0.0 else 0.0
            slots[result, i] = beyond if slots[a, i] <= 0.0 else logarithm * (_DOWN if logarithm > 0.0 else _UP)
    else:
        for i in range(first, stop):
            logarithm = log(slots[b, i])
            logarithm *= _UP if logarithm > 0.0 else _DOWN
            logarithm = 0.0 if slots[b, i] <= 0.0 else logarithm
            slots[result, i] = max(logarithm, 0.0) if slots[a, i] <= 0.0 else logarithm


@bare_kernel
def _run_power(
    operation: int, slots: Floats, operands: tuple[int, int, int, int], result: int, first: int, stop: int
) -> None:
    """Raise intervals to intervals: over bases above 0 the extremes lie at corners, and one of each base's is better.

    Where exponents are on one side of 0, or the base is one, that base is known too.
    """
    widen_vectors()
    a, b, c, d = operands
    if operation == POWER_LOW:
        for i in range(first, stop):
            low, high, least, greatest = slots[a, i], slots[b, i], slots[c, i], slots[d, i]
            power = _raise_low(low if least >= 0.0 else high, least, greatest)
            slots[result, i] = _widen_low(power, low, least, greatest)
    elif operation == POWER_HIGH:
        for i in range(first, stop):
            low, high, least, greatest = slots[a, i], slots[b, i], slots[c, i], slots[d, i]
            floor = _SMALLEST if high > 0.0 else 1.0  # the first takes processors long
            power = _raise_high(max(high if least >= 0.0 else low, floor), least, greatest)
            slots[result, i] = _widen_high(power, high, least, greatest)
    elif operation == POWER_OF_2_LOW:
        for i in range(first, stop):
            low, high, least, greatest = slots[a, i], slots[b, i], slots[c, i], slots[d, i]
            power = min(_raise_low(low, least, greatest), _raise_low(high, least, greatest))
            slots[result, i] = _widen_low(power, low, least, greatest)
    else:
        for i in range(first, stop):
            low, high, least, greatest = slots[a, i], slots[b, i], slots[c, i], slots[d, i]
            floor = _SMALLEST if high > 0.0 else 1.0
            one, other = max(low, floor), max(high, floor)
            power = max(_raise_high(one, least, greatest), _raise_high(other, least, greatest))
            slots[result, i] = _widen_high(power, high, least, greatest)


@inlined_kernel
def _divide_high(low: float, high: float, least: float, greatest: float) -> float:
    """Return the higher end of [low, high] / [least, greatest]: at one corner, by the signs of both."""
    dividend = high if least > 0.0 else low
    quotient = dividend / (least if dividend >= 0.0 else greatest)
    unbounded = ((greatest > 0.0) & (high > 0.0)) | ((least < 0.0) & (low < 0.0))
    near = np.inf if unbounded else 0.0
    return near if (least <= 0.0) & (greatest >= 0.0) else _settle(quotient, 0.0)


@inlined_kernel
def _raise_low(base: float, least: float, greatest: float) -> float:
    """Return the least power of a base, if that is above 0."""
    return raise_base(base, least if base >= 1.0 else greatest)


@inlined_kernel
def _raise_high(base: float, least: float, greatest: float) -> float:
    """Return the greatest power of a base, if that is above 0."""
    return raise_base(base, greatest if base >= 1.0 else least)


@inlined_kernel
def _widen_high(power: float, high: float, least: float, greatest: float) -> float:
    """Return an upper end of powers from their greatest, of bases up to `high`: 0 if below 0, of 0 perhaps 1."""
    of_none = 1.0 if (high == 0.0) & (least <= 0.0) & (greatest >= 0.0) else 0.0
    return of_none if high <= 0.0 else power * _POWER_UP + _SUBNORMAL


@inlined_kernel
def _widen_low(power: float, low: float, least: float, greatest: float) -> float:
    """Return a lower end of powers from their least, of bases from `low`: 0 if that is not above 0, but of 0**0."""
    of_none = 1.0 if (low == 0.0) & (least == 0.0) & (greatest == 0.0) else 0.0
    return of_none if low <= 0.0 else max(power * _POWER_DOWN - _SUBNORMAL, 0.0)


@inlined_kernel
def _settle(value: float, instead: float) -> float:
    return instead if np.isnan(value) else value


@inlined_kernel
def _settle_pair(value: float, a: float, b: float) -> float:
    """Return 0 for NaN that was made of two numbers."""
    nothing = a if np.isnan(a) else (b if np.isnan(b) else 0.0)
    return nothing if np.isnan(value) else value
