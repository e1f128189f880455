"""Expected gain of a visit: the probability of a change, less what waiting as long again would add.

Let P(t) be the probability that a page has changed t after its last visit. If visits cost a share c of a change each,
the interval that maximises (P(t) - c)/t satisfies P(t) - t·P'(t) = c (the index of a renewal problem: Whittle 1988). So
pages are visited in the order of P - t·P'. For a known rate that is the order of P. Of two pages with the same P, the
one whose rate is less certain has the larger index: P' is smaller, because if it changes often, it has already changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.probability_columns import convert_to_probability, take_log1p
from streamsched.numerics.jit import bare_kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Records

__all__ = ["convert_to_gain"]

_ALMOST_CERTAIN: Final = 1.0 - 2.0**-52


@bare_kernel
def convert_to_gain(pages: Records, unseen: Floats, spared: Floats, out: Floats) -> None:
    """Replace each page's `due` in `out`: float64[m] by its expected gain, from 0 to 1. O(m).

    `unseen`: the hazard of surges times the cycles since its visit; `spared`: the share of its group that shown surges
    have not hit. Both float64[m].

    With a the shape of the page's posterior, t·P'/(1 - P) is a·(1 - (1 - due)^(1/a)) for its own changes: the time is
    that in which its posterior reaches `due`. The hazard of surges adds hazard·t, and shares that surges have hit
    nothing.
    """
    pace = np.empty(out.size)
    for i in range(out.size):
        out[i] = -min(out[i], _ALMOST_CERTAIN)
    take_log1p(out)
    for i in range(out.size):
        pace[i] = -out[i] / (pages[i].prior_shape + pages[i].own_shape)
    convert_to_probability(pace)
    for i in range(out.size):
        pace[i] = pace[i] * (pages[i].prior_shape + pages[i].own_shape) + unseen[i]
        out[i] = unseen[i] - out[i]
    convert_to_probability(out)
    for i in range(out.size):
        out[i] = min(max(1.0 - spared[i] * (1.0 - out[i]) * (1.0 + pace[i]), 0.0), 1.0)
