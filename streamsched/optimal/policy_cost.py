"""What a policy costs: how stale the copies of pages are on average, under either of two measures.

Pages change as Poisson processes and are visited as such, or with a fixed probability after each change if a signal
announces it. Kolobov et al. (2019), "Staying up to date with online content changes using reinforcement learning for
scheduling": harmonic cost, propositions 1 and 4; binary cost, equations 12 and 13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamsched.optimal.array_checks import check_length, check_values
from streamsched.optimal.crawl_problem import check_pages

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats

__all__ = ["binary_cost", "harmonic_cost", "mean_binary_cost", "mean_harmonic_cost"]


def harmonic_cost(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    visit_rate: npt.ArrayLike,
    visit_probability: npt.ArrayLike | None = None,
) -> float:
    """Return the mean over pages of -importance * ln(visit rate/(visit rate + change rate)). O(n).

    The i-th change that a copy misses costs 1/i. A page with a visit probability (not NaN) is completely observed and
    costs -importance * ln(probability). Infinite if an important page that changes is never visited. Raises
    SettingsError for invalid arrays.

    >>> harmonic_cost([1, 2, 3], [0.1, 0.5, 1], [0.124208, 0.333939, 0.541852])
    1.85275
    """
    return mean_harmonic_cost(*_check(importance, change_rate, visit_rate, visit_probability))


def binary_cost(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    visit_rate: npt.ArrayLike,
    visit_probability: npt.ArrayLike | None = None,
) -> float:
    """Return the mean over pages of importance * change rate/(visit rate + change rate): the stale share. O(n).

    A completely observed page costs importance * (1 - probability). Raises SettingsError for invalid arrays.

    >>> binary_cost([1, 2, 3], [0.1, 0.5, 1], [0.124208, 0.333939, 0.541852])
    1.19695
    """
    return mean_binary_cost(*_check(importance, change_rate, visit_rate, visit_probability))


def mean_harmonic_cost(
    importance: Floats, change_rate: Floats, visit_rate: Floats, visit_probability: Floats | None
) -> float:
    """Return `harmonic_cost` of checked columns."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        costs = importance * np.log1p(change_rate / visit_rate)
        if visit_probability is not None:
            costs = np.where(np.isnan(visit_probability), costs, -importance * np.log(visit_probability))
    return _mean(costs, importance, change_rate)


def mean_binary_cost(
    importance: Floats, change_rate: Floats, visit_rate: Floats, visit_probability: Floats | None
) -> float:
    """Return `binary_cost` of checked columns."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        costs = importance / (1.0 + visit_rate / change_rate)
        if visit_probability is not None:
            costs = np.where(np.isnan(visit_probability), costs, importance * (1.0 - visit_probability))
    return _mean(costs, importance, change_rate)


def _mean(costs: Floats, importance: Floats, change_rate: Floats) -> float:
    """Return the mean cost, where pages without importance or changes cost nothing however they are visited."""
    with np.errstate(over="ignore"):
        return float(np.where((importance > 0.0) & (change_rate > 0.0), costs, 0.0).mean())


def _check(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    visit_rate: npt.ArrayLike,
    visit_probability: npt.ArrayLike | None,
) -> tuple[Floats, Floats, Floats, Floats | None]:
    pages = check_pages(importance, change_rate)
    rates = check_values("visit_rate", visit_rate)
    check_length("visit_rate", rates, pages.importance.size, "page")
    if visit_probability is None:
        return pages.importance, pages.change_rate, rates, None
    chances = np.asarray(visit_probability)
    known = check_values("visit_probability", np.where(np.isnan(chances), 0.0, chances), most=1.0)
    check_length("visit_probability", known, rates.size, "page")
    return pages.importance, pages.change_rate, rates, np.where(np.isnan(chances), np.nan, known)
