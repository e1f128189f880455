"""The machine that runs formulas inside kernels: steps over slots, each slot a column of a few hundred rows.

A step consists of an operation, the slots of its operands and the slot of its result, which may be one of theirs.
Operations are those of `evaluation.protected`, the same to the last bit wherever a formula runs: the value of a lane
depends only on the operands of that lane, not on the number of rows or its position among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats
from streamsched.numerics.compilation.machine_operations import widen_vectors
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, log, power

Steps: TypeAlias = npt.NDArray[np.int32]  # int32[m, 4]: operation, left slot, right slot, result slot

ROWS: Final = (
    512  # rows that all steps run over in turn: 4 KiB of a slot, so that several fit into the first-level cache
)
_LINE: Final = 8  # float64s of a cache line; unaligned loads of the widest vectors take twice as long
_STAGGER: Final = 16  # float64s between slots, so that equal rows do not compete for one cache set

ADD: Final = 0
SUBTRACT: Final = 1
MULTIPLY: Final = 2
DIVIDE: Final = 3
POWER: Final = 4
NEGATE: Final = 5
LOG: Final = 6
EXP: Final = 7
COPY: Final = 8  # operations of one operand ignore the right slot

OPERATION_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE, "pow": POWER, "neg": NEGATE, "log": LOG, "exp": EXP}
)

EXPONENT_LIMIT: Final = 80.0  # exp(80) is 5.5e34: products of a few stay far from overflow
LOWEST_LOG: Final = -745.0  # less than the logarithm of the smallest number above 0, which is -744.4


def make_slots(count: int, rows: int) -> Floats:
    """Return zeroed slots, float64[count, rows or a few more], each aligned to a cache line.

    >>> make_slots(3, 500).shape
    (3, 520)
    """
    width = -(-rows // _LINE) * _LINE + _STAGGER
    store = np.zeros(count * width + _LINE)
    first = -(store.ctypes.data // store.itemsize) % _LINE
    return store[first : first + count * width].reshape(count, width)


@bare_kernel
def run_steps(steps: Steps, slots: Floats, rows: int) -> None:
    """Run the steps one after another over the first `rows` lanes of the slots. O(steps * rows).

    `steps`: int32[m, 4]; `slots`: float64[s, w], w >= `rows`, contiguous. Nothing is checked. With more than ROWS rows,
    all steps run over ROWS of them before the next, so that results of a step are still in a close cache.
    """
    for start in range(0, rows, ROWS):
        first, stop = np.uint64(start), np.uint64(min(start + ROWS, rows))  # signed ones could index from the end
        for step in range(steps.shape[0]):
            operands = steps[step, 1], steps[step, 2]
            run_step(steps[step, 0], operands, steps[step, 3], slots, first, stop)


@inlined_kernel
def run_step(operation: int, operands: tuple[int, int], result: int, slots: Floats, first: int, stop: int) -> None:
    """Run one step over the lanes from `first` to `stop`. O(lanes), which should be at most ROWS."""
    left, right = operands
    if operation > POWER:
        _copy(slots, left, result, first, stop)
        _run_function(operation, slots, result, first, stop)
    elif operation == POWER:
        if result == right:
            _raise_to(slots, left, right, first, stop)
        else:
            _copy(slots, left, result, first, stop)
            _raise_by(slots, result, right, first, stop)
    elif result == left:
        _run_into_left(operation, slots, left, right, first, stop)
    elif result == right:
        _run_into_right(operation, slots, left, right, first, stop)
    else:
        _run_apart(operation, slots, left, right, result, (first, stop))


# A loop whose result is an operand vectorises only if the code says so: otherwise the compiler inserts checks for
# overlap. Hence one function for each case.
@bare_kernel
def _run_into_left(operation: int, slots: Floats, left: int, right: int, first: int, stop: int) -> None:
    widen_vectors()
    if operation == ADD:
        for i in range(first, stop):
            slots[left, i] = slots[left, i] + slots[right, i]
    elif operation == SUBTRACT:
        for i in range(first, stop):
            slots[left, i] = slots[left, i] - slots[right, i]
    elif operation == MULTIPLY:
        for i in range(first, stop):
            slots[left, i] = slots[left, i] * slots[right, i]
    else:
        for i in range(first, stop):
            slots[left, i] = divide(slots[left, i], slots[right, i])


@bare_kernel
def _run_into_right(operation: int, slots: Floats, left: int, right: int, first: int, stop: int) -> None:
    widen_vectors()
    if operation == SUBTRACT:
        for i in range(first, stop):
            slots[right, i] = slots[left, i] - slots[right, i]
    elif operation == DIVIDE:
        for i in range(first, stop):
            slots[right, i] = divide(slots[left, i], slots[right, i])
    else:  # the other operations are commutative
        _run_into_left(operation, slots, right, left, first, stop)


@bare_kernel
def _run_apart(operation: int, slots: Floats, left: int, right: int, result: int, span: tuple[int, int]) -> None:
    widen_vectors()
    if operation == ADD:
        for i in range(span[0], span[1]):
            slots[result, i] = slots[left, i] + slots[right, i]
    elif operation == SUBTRACT:
        for i in range(span[0], span[1]):
            slots[result, i] = slots[left, i] - slots[right, i]
    elif operation == MULTIPLY:
        for i in range(span[0], span[1]):
            slots[result, i] = slots[left, i] * slots[right, i]
    else:
        for i in range(span[0], span[1]):
            slots[result, i] = divide(slots[left, i], slots[right, i])


@bare_kernel
def _run_function(operation: int, slots: Floats, slot: int, first: int, stop: int) -> None:
    """Replace a slot by its negation, logarithm or exponential, or leave it."""
    widen_vectors()
    if operation == NEGATE:
        for i in range(first, stop):
            slots[slot, i] = -slots[slot, i]
    elif operation == LOG:
        for i in range(first, stop):
            value = slots[slot, i]
            logarithm = log(value)
            slots[slot, i] = 0.0 if value <= 0.0 else logarithm
    elif operation == EXP:
        for i in range(first, stop):
            slots[slot, i] = exp(clamp(slots[slot, i]))


@bare_kernel
def _raise_by(slots: Floats, base: int, exponent: int, first: int, stop: int) -> None:
    widen_vectors()
    for i in range(first, stop):
        slots[base, i] = raise_base(slots[base, i], slots[exponent, i])


@bare_kernel
def _raise_to(slots: Floats, base: int, exponent: int, first: int, stop: int) -> None:
    widen_vectors()
    for i in range(first, stop):
        slots[exponent, i] = raise_base(slots[base, i], slots[exponent, i])


@bare_kernel
def _copy(slots: Floats, source: int, target: int, first: int, stop: int) -> None:
    widen_vectors()
    if source != target:
        for i in range(first, stop):
            slots[target, i] = slots[source, i]


@inlined_kernel
def divide(left: float, right: float) -> float:
    """Return the protected quotient. O(1)."""
    quotient = left / right
    nothing = left if np.isnan(left) else 0.0
    return nothing if right == 0.0 else quotient


@inlined_kernel
def raise_base(base: float, exponent: float) -> float:
    """Return the protected power. All cases are computed and one is selected, so that there is no branch. O(1)."""
    exponent = clamp(exponent)
    result = power(base, exponent)
    unbounded = 0.0 if exponent < 0.0 else (1.0 if exponent == 0.0 else base)
    result = unbounded if base == np.inf else result
    result = (1.0 if exponent == 0.0 else 0.0) if base == 0.0 else result
    result = 0.0 if base < 0.0 else result
    result = exponent if np.isnan(exponent) else result
    return base if np.isnan(base) else result


@inlined_kernel
def clamp(value: float) -> float:
    """Return `value` clamped to the exponents that are allowed. O(1)."""
    return max(min(value, EXPONENT_LIMIT), -EXPONENT_LIMIT)
