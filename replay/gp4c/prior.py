"""Gamma prior of a whole corpus, fitted by moments, for the posterior policy of the experiment.

A page of rate λ shows no change in a cycle with probability exp(-λ), and in two given cycles with exp(-2λ). Under
Gamma(shape, exposure) these are (b / (b + 1))^s and (b / (b + 2))^s on average, s the shape and b the exposure. The
corpus' shares of quiet cycles and of quiet pairs of cycles estimate both without bias, and their logarithms' ratio,
ln(1 + 2/b) / ln(1 + 1/b), which rises from 1 to 2 with b, gives b, then s.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools

__all__ = ["fit_prior"]

_LOWEST_SHAPE: Final = 0.1  # below, a page's first visit would dominate its estimate
_HIGHEST_SHAPE: Final = 100.0  # above, pages hardly differ
_HALVINGS: Final = 200  # bisection steps on the logarithm of the exposure: to the last bit


def fit_prior(changed: Bools) -> tuple[float, float]:
    """Return shape and mean, changes per cycle, of the prior of ``changed``: bool[pages, cycles]. O(pages · cycles).

    Shapes are limited to 0.1 to 100. The fit includes one extra page that changes in half of the cycles, so the mean is
    above 0 if nothing changes, and finite if every page changes in every cycle.

    >>> flags = np.random.default_rng(1).random((50_000, 19)) < 1 - np.exp(-np.random.default_rng(2).gamma(
    ...     0.5, 0.2, (50_000, 1)))
    >>> shape, mean = fit_prior(flags)
    >>> round(shape, 1), round(mean, 2)
    (0.5, 0.1)
    """
    pages, cycles = changed.shape
    quiet = (cycles - np.count_nonzero(changed, 1)).astype(np.float64)
    singles = (float(quiet.sum()) / cycles + 0.5) / (pages + 1.0)
    shape = _HIGHEST_SHAPE
    if cycles > 1:
        pairs = (float((quiet * (quiet - 1.0)).sum()) / (cycles * (cycles - 1.0)) + 0.25) / (pages + 1.0)
        shape = _solve_shape(-math.log(singles), -math.log(pairs))
    exposure = 1.0 / math.expm1(-math.log(singles) / shape)
    return shape, shape / exposure


def _solve_shape(single: float, pair: float) -> float:
    """Return the shape, within its limits, for these negative logarithms of the shares of quiet cycles and pairs."""
    ratio = pair / single
    low, high = -50.0, 50.0  # of the exposure's logarithm
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        exposure = math.exp(middle)
        if math.log1p(2 / exposure) / math.log1p(1 / exposure) < ratio:
            low = middle
        else:
            high = middle
    return min(max(single / math.log1p(math.exp(-low)), _LOWEST_SHAPE), _HIGHEST_SHAPE)
