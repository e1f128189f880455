"""The operations of formulas on float64: defined for every input, silent, the same wherever they are run.

=============  =================================================================================================
operation      value; if an operand is NaN the result is NaN
=============  =================================================================================================
a + b, a - b   IEEE 754; inf - inf is NaN
a * b          IEEE 754; 0 * inf is NaN
-a             the sign flipped
a / b          0 if b is 0 (also inf / 0 and 0 / 0), else IEEE 754: a / inf is 0, inf / inf is NaN
log(a)         natural; 0 if a <= 0 (also -inf); log(inf) is inf
exp(a)         e to the power of a clamped to [-80, 80]; never 0 nor inf
pow(a, b)      with b clamped to [-80, 80]: 0 if a < 0 (for any b, also 0); 0 if a is 0 and b < 0;
               pow(a, 0) is 1 for a >= 0; pow(inf, b) is inf for b > 0 and 0 for b < 0; may overflow to inf
=============  =================================================================================================

-0 counts as 0 everywhere, so two results that differ only in the sign of a zero are the same result. Every lane's value
depends on that lane's operands alone: not on the block's length or the lane's place in it. The code, and so the bits,
are those of `streamsched.formula.evaluation.machine`: exp and log are within 1 ulp of the exact value, pow within 2.
"""

from __future__ import annotations

import numpy as np

from streamsched.formula.evaluation.machine import OPERATION_CODES, run_steps
from streamsched.formula.syntax.nodes import BinaryOp, UnaryOp


def apply(op: UnaryOp | BinaryOp, *operands: float) -> float:
    """Return what `op` gives in a block where its operands are these numbers. O(1).

    >>> apply("/", 1.0, 0.0), apply("log", -1.0), apply("pow", -2.0, 2.0), apply("pow", 0.0, 0.0)
    (0.0, 0.0, 0.0, 1.0)
    """
    slots = np.zeros((3, 1))
    slots[: len(operands), 0] = operands
    run_steps(np.array([[OPERATION_CODES[op], 0, len(operands) - 1, 2]], np.int32), slots, 1)
    return float(slots[2, 0])
