"""Reliability: how often pages have changed for which a probability of a change was foretold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints

__all__ = ["BINS", "BIN_EDGES", "Reliability"]

BINS: Final = 20
BIN_EDGES: Final[Floats] = (np.arange(BINS + 1) / BINS) ** 2
"""float64[21]: equal steps of the square root, so that the small probabilities of short cycles can be distinguished."""


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Visits by foretold probability.

    ``visits``: int64[20], those in each bin of `BIN_EDGES`; ``foretold``: float64[20], the sums of their probabilities;
    ``came``: int64[20], how many of them found a change.
    """

    visits: Ints
    foretold: Floats
    came: Ints

    @classmethod
    def of(cls, probabilities: Floats, changed: Bools) -> Reliability:
        """Return the counts of k visits, ``probabilities``: float64[k] from 0 to 1, ``changed``: bool[k]. O(k)."""
        bins = np.clip(np.searchsorted(BIN_EDGES, probabilities, "right") - 1, 0, BINS - 1)
        return cls(
            np.bincount(bins, minlength=BINS),
            np.bincount(bins, probabilities, BINS).astype(np.float64),  # of no visits they are whole numbers
            np.bincount(bins[changed], minlength=BINS),
        )

    @classmethod
    def empty(cls) -> Reliability:
        """Return the counts of no visits."""
        return cls.of(np.empty(0), np.empty(0, np.bool_))

    def __add__(self, other: Reliability) -> Reliability:
        """Return the counts of both."""
        return Reliability(self.visits + other.visits, self.foretold + other.foretold, self.came + other.came)

    @property
    def total(self) -> int:
        """Number of visits."""
        return int(self.visits.sum())

    @property
    def mean_foretold(self) -> float | None:
        """Mean probability; None without visits."""
        return float(self.foretold.sum() / self.total) if self.total else None

    @property
    def share_came(self) -> float | None:
        """Share of the visits that found a change; None without visits."""
        return float(self.came.sum() / self.total) if self.total else None

    @property
    def error(self) -> float | None:
        """Calibration error: the mean of |foretold - came| over the bins, weighted by visits; None without visits."""
        return float(np.abs(self.foretold - self.came).sum() / self.total) if self.total else None
