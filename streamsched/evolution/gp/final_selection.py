"""Which of the best individuals is the solution: GP4C_Best, GP4C_Avg and GP4C_Sum (section 4.2.3 of the paper).

With t the fitness in training, v that in validation and σ the standard deviation of the two (de Almeida et al. 2007)::

    best    v
    avg     (t + v) / 2 - σ
    sum     (t + v) - σ

Neither paper says which deviation is meant. It is the population's here, abs(t - v) / 2: the two numbers are all
there is, not a sample of more. So Avg_σ is the smaller of the two, and Sum_σ three halves of it and half the larger.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from streamsched.numerics.arrays import Floats

__all__ = ["Selection", "measure", "select"]

Selection: TypeAlias = Literal["best", "avg", "sum"]


def measure(train: Floats, validation: Floats, selection: Selection) -> Floats:
    """Return the measure of each individual, float64[n], the higher the better; NaN where one of its terms is. O(n).

    ``train`` and ``validation``: float64[n], fitness there.

    >>> measure(np.array([0.6]), np.array([0.4]), "sum")
    array([0.9])
    """
    if selection == "best":
        return validation.copy()
    lower, upper = np.minimum(train, validation), np.maximum(train, validation)
    return lower if selection == "avg" else 1.5 * lower + 0.5 * upper


def select(train: Floats, validation: Floats, selection: Selection) -> int:
    """Return the index of the individual of the highest measure, the first of equals; NaN ranks last. O(n).

    ``train`` and ``validation``: float64[n], fitness there. Raises ValueError where there is no individual, the lengths
    differ or every measure is NaN.

    >>> train, validation = np.array([0.80, 0.62, 0.59]), np.array([0.55, 0.60, 0.61])
    >>> [select(train, validation, selection) for selection in ("best", "avg", "sum")]
    [2, 1, 0]
    """
    if train.shape != validation.shape:
        raise ValueError(f"expected as many of training as of validation, found {train.size} and {validation.size}")
    measures = measure(train, validation, selection)
    if np.isnan(measures).all():
        raise ValueError(f"expected an individual that has been evaluated, found none among {measures.size}")
    return int(np.nanargmax(measures))
