"""The claims of related pages on a page, as terminals read them: from the page's SEASONAL_LINK alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.related.related_schema import SHARE_BITS, SHARE_UNIT

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Record, Records

__all__ = ["is_claimed", "join_claims", "unclaimed"]


@inlined_kernel
def is_claimed(link: Record) -> bool:
    """Return whether there is a claim on a page. O(1)."""
    related = link.related
    return bool(((related[0] | related[1] | related[2]) & SHARE_BITS) != 0)


@inlined_kernel
def unclaimed(link: Record) -> float:
    """Return the probability that a page has not followed a change of a related page since its last visit. O(1)."""
    related = link.related
    first = 1.0 - SHARE_UNIT * float(np.int64(related[0]) & SHARE_BITS)
    second = 1.0 - SHARE_UNIT * float(np.int64(related[1]) & SHARE_BITS)
    return first * second * (1.0 - SHARE_UNIT * float(np.int64(related[2]) & SHARE_BITS))


@bare_kernel
def join_claims(links: Records, out: Floats) -> None:
    """Replace probabilities by those with the claims: ``links``: SEASONAL_LINK[m], ``out``: float64[m]. O(m).

    The result never falls when the probability given rises.
    """
    for i in range(out.size):
        link: Record = links[i]
        if is_claimed(link):
            out[i] = 1.0 - (1.0 - out[i]) * unclaimed(link)
