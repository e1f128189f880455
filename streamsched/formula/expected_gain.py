"""Expected gain of a visit: the probability of a change, less what waiting as long again would add.

Let P(t) be the probability that a page has changed t after its last visit. If visits cost a share c of a change each,
the interval that maximises (P(t) - c)/t satisfies P(t) - t·P'(t) = c (the index of a renewal problem: Whittle 1988). So
pages are visited in the order of P - t·P'. For a known rate that is the order of P. Of two pages with the same P, the
one whose rate is less certain has the larger index: P' is smaller, because if it changes often, it has already changed.
"""

from __future__ import annotations

from typing import Final

from streamsched.numerics.arrays import Floats
from streamsched.numerics.compilation.machine_operations import widen_vectors
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import ALMOST_CERTAIN, exp, expm1, log1p

_LEAST_SHAPE: Final = 1e-300
_LOWEST_LOG: Final = -700.0  # e to it is a normal number


@inlined_kernel
def expected_gain(due: float, shape: float, unseen: float, spared: float) -> float:
    """Return the expected gain of a visit, from 0 to 1. O(1).

    `due`: the terminal; `shape`: of the page's posterior; `unseen`: the hazard of surges times the cycles since the
    last visit; `spared`: the share of the page's group that shown surges have not hit since. With a the shape,
    t·P'/(1 - P) is a·(1 - (1 - due)^(1/a)) for the page's own changes, the time being that in which its posterior
    reaches `due`. The hazard of surges adds hazard·t; what surges have already hit adds nothing.
    """
    quiet = log1p(-min(due, ALMOST_CERTAIN))
    shape = max(shape, _LEAST_SHAPE)
    return _gain(quiet, shape * (0.0 - expm1(quiet / shape)), unseen, spared)


@bare_kernel
def convert_to_gain(out: Floats, shapes: Floats, unseen: Floats, spared: Floats) -> None:
    """Replace ratios by the `expected_gain` of pages whose `due` is 1 - (1 + ratio)^-shape: they lack schedules. O(m).

    A ratio is that of the weighted cycles since the last visit to the exposure of a page's posterior. All: float64[m].
    """
    widen_vectors()
    for i in range(out.size):
        ratio, shape = out[i], shapes[i]
        out[i] = _gain(-(shape * log1p(ratio)), shape * (ratio / (1.0 + ratio)), unseen[i], spared[i])


@inlined_kernel
def _gain(quiet: float, pace: float, unseen: float, spared: float) -> float:
    """Return the expected gain; `quiet`: log(1 - due); `pace`: t·P'/(1 - P) of the page's own changes."""
    left = spared * exp(max(quiet - unseen, _LOWEST_LOG))
    return min(max(1.0 - left * (1.0 + (pace + unseen)), 0.0), 1.0)
