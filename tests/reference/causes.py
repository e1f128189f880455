"""Slow reference implementation of the weights of causes in `interval_update`, by name and in plain numbers."""

from __future__ import annotations

import math
from collections import defaultdict


class Causes:
    """How many changes each cause made expect before the visits so far, and how many were credited to it; fading."""

    def __init__(self) -> None:
        self.expected = defaultdict[str, float](float)
        self.found = defaultdict[str, float](float)

    def weight(self, cause: str) -> float:
        """The weight of a cause."""
        return (20.0 + self.found[cause]) / (20.0 + self.expected[cause])

    def learn(self, expected: dict[str, float], changed: bool) -> None:
        """Count a visit."""
        expected = {cause: min(changes, 30.0) for cause, changes in expected.items()}
        parts = {cause: self.weight(cause) * changes for cause, changes in expected.items()}
        likely = max(-math.expm1(-math.fsum(parts.values())), 1e-12)
        kept = max(1.0 - (math.fsum(expected.values()) + changed) / 600.0, 0.0)
        for cause in expected:
            self.expected[cause] = kept * self.expected[cause] + expected[cause]
            self.found[cause] = kept * self.found[cause] + changed * parts[cause] / likely

    def probability(self, expected: dict[str, float]) -> float:
        """The probability of a change."""
        return -math.expm1(-math.fsum(self.weight(cause) * changes for cause, changes in expected.items()))


def changes(probability: float) -> float:
    """How many changes are expected, if there is one or more with a probability."""
    return -math.log1p(-min(probability, 1.0 - 2.0**-52))
