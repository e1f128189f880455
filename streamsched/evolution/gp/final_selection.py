"""Final selection of the solution among the elites: GP4C_Best, GP4C_Avg and GP4C_Sum (section 4.2.3 of the paper).

With t the training fitness, v the validation fitness and σ their standard deviation (de Almeida et al. 2007)::

    best    v
    avg     (t + v) / 2 - σ
    sum     (t + v) - σ

Neither paper says which standard deviation is meant. This module uses the population's, abs(t - v) / 2, because the two
numbers are not a sample of more. So Avg_σ is the smaller of the two, and Sum_σ is 1.5 times the smaller plus half the
larger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats

__all__ = ["Selection", "measure", "select"]

Selection: TypeAlias = Literal["best", "avg", "sum"]


def measure(train: Floats, validation: Floats, selection: Selection) -> Floats:
    """Return the selection score of each individual, float64[n], higher is better; NaN if a term is NaN. O(n).

    ``train`` and ``validation``: float64[n], fitness on the two sets.

    >>> measure(np.array([0.6]), np.array([0.4]), "sum")
    array([0.9])
    """
    if selection == "best":
        return validation.copy()
    lower, upper = np.minimum(train, validation), np.maximum(train, validation)
    return lower if selection == "avg" else 1.5 * lower + 0.5 * upper


def select(train: Floats, validation: Floats, selection: Selection) -> int:
    """Return the index of the individual with the highest score, the first of equals; NaN ranks last. O(n).

    ``train`` and ``validation``: float64[n], fitness on the two sets. Raises ValueError if there is no individual, the
    lengths differ or every score is NaN.

    >>> train, validation = np.array([0.80, 0.62, 0.59]), np.array([0.55, 0.60, 0.61])
    >>> [select(train, validation, selection) for selection in ("best", "avg", "sum")]
    [2, 1, 0]
    """
    if train.shape != validation.shape:
        raise ValueError(
            f"expected training and validation fitness of equal length, found {train.size} and {validation.size}"
        )
    measures = measure(train, validation, selection)
    if np.isnan(measures).all():
        raise ValueError(f"expected at least one evaluated individual, found none among {measures.size}")
    return int(np.nanargmax(measures))
