"""The machine that runs formulas inside kernels: steps over slots, each slot a column of a few hundred rows.

A step names an operation, the slots of its operands and the slot of its result, which may be one of theirs. Operations
are those of `streamsched.formula.protected`, to the last bit wherever a formula is run: every lane's value depends on
that lane's operands alone, not on how many rows there are nor on where among them it stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streamsched.arrays import Floats
from streamsched.jit import bare_kernel

__all__ = [
    "ADD",
    "COPY",
    "DIVIDE",
    "EXP",
    "LOG",
    "MULTIPLY",
    "NEGATE",
    "OPERATION_CODES",
    "POWER",
    "ROWS",
    "SUBTRACT",
    "Steps",
    "run_steps",
]

Steps: TypeAlias = npt.NDArray[np.int32]  # int32[m, 4]: operation, left slot, right slot, result slot

ROWS: Final = 512  # of a slot: 4 KiB, so that the slots of a formula stay in a core's first-level cache

ADD: Final = 0
SUBTRACT: Final = 1
MULTIPLY: Final = 2
DIVIDE: Final = 3
POWER: Final = 4
NEGATE: Final = 5
LOG: Final = 6
EXP: Final = 7
COPY: Final = 8  # its right slot, as that of all operations of one operand, is not looked at

OPERATION_CODES: Final[Mapping[str, int]] = MappingProxyType(
    {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE, "pow": POWER, "neg": NEGATE, "log": LOG, "exp": EXP}
)

_LIMIT: Final = 80.0  # protected.EXPONENT_LIMIT


@bare_kernel
def run_steps(steps: Steps, slots: Floats, rows: int) -> None:
    """Run the steps one after another over the first `rows` lanes of the slots. O(steps * rows).

    `steps`: int32[m, 4]; `slots`: float64[s, w], w >= `rows`, contiguous. Nothing is checked.
    """
    for step in range(steps.shape[0]):
        operation, left, right, result = steps[step, 0], steps[step, 1], steps[step, 2], steps[step, 3]
        if operation == ADD:
            for i in range(rows):
                slots[result, i] = slots[left, i] + slots[right, i]
        elif operation == SUBTRACT:
            for i in range(rows):
                slots[result, i] = slots[left, i] - slots[right, i]
        elif operation == MULTIPLY:
            for i in range(rows):
                slots[result, i] = slots[left, i] * slots[right, i]
        elif operation == DIVIDE:
            for i in range(rows):
                slots[result, i] = _divide(slots[left, i], slots[right, i])
        elif operation == POWER:
            for i in range(rows):
                slots[result, i] = _raise(slots[left, i], slots[right, i])
        elif operation == NEGATE:
            for i in range(rows):
                slots[result, i] = -slots[left, i]
        elif operation == LOG:
            for i in range(rows):
                value = slots[left, i]
                slots[result, i] = 0.0 if value <= 0.0 else math.log(value)
        elif operation == EXP:
            for i in range(rows):
                slots[result, i] = math.exp(_clamp(slots[left, i]))
        else:
            for i in range(rows):
                slots[result, i] = slots[left, i]


@bare_kernel
def _divide(left: float, right: float) -> float:
    quotient = left / right
    return 0.0 if right == 0.0 and left == left else quotient


@bare_kernel
def _raise(base: float, exponent: float) -> float:
    clamped = _clamp(exponent)
    if base != base or clamped != clamped:
        return math.nan
    if base < 0.0 or (base == 0.0 and clamped < 0.0):
        return 0.0
    return math.pow(base, clamped)


@bare_kernel
def _clamp(value: float) -> float:
    if value > _LIMIT:
        return _LIMIT
    return -_LIMIT if value < -_LIMIT else value
