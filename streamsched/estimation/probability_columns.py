"""Probabilities of changes for a block of pages, a column at a time, so that loops of arithmetic vectorise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.numerics.compilation.machine_operations import widen_vectors
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.vector_math import expm1, log1p

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Records

__all__ = ["convert_to_posterior", "convert_to_probability", "take_log1p"]


@bare_kernel
def convert_to_posterior(pages: Records, out: Floats) -> None:
    """Replace cycles by the probability that each of ``pages``: PAGE[m] changes in as many, at its rate. O(m)."""
    for i in range(out.size):
        out[i] = out[i] / (pages[i].prior_exposure + pages[i].own_exposure)
    take_log1p(out)
    for i in range(out.size):
        out[i] = out[i] * (pages[i].prior_shape + pages[i].own_shape)
    convert_to_probability(out)


@bare_kernel
def take_log1p(out: Floats) -> None:
    """Replace each of ``out``: float64[m] by the logarithm of 1 plus it. O(m)."""
    widen_vectors()
    for i in range(out.size):
        out[i] = log1p(out[i])


@bare_kernel
def convert_to_probability(out: Floats) -> None:
    """Replace expected numbers of changes by the probability of at least one. O(m)."""
    widen_vectors()
    for i in range(out.size):
        out[i] = min(0.0 - expm1(-out[i]), 1.0)
