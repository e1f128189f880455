"""Calibration: probabilities of a change at the moment of choice, against what the visits found (SPEC 4, "Surge")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats, Ints

__all__ = ["BINS", "BIN_EDGES", "Calibration", "Forecast", "Reliability"]

BINS: Final = 20
BIN_EDGES: Final[Floats] = (np.arange(BINS + 1) / BINS) ** 2
"""float64[21]: equal steps of the square root, so that the small probabilities of short cycles can be distinguished."""


class Forecast(NamedTuple):
    """What a policy expects of k pages: ``probabilities`` of a change: float64[k], ``surge_shown``: bool[k]."""

    probabilities: Floats
    surge_shown: Bools


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


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Visits to pages without and with a surge shown in their group at the moment of choice."""

    without_surge: Reliability
    with_surge: Reliability

    @property
    def all_visits(self) -> Reliability:
        """All visits."""
        return self.without_surge + self.with_surge

    @classmethod
    def of(cls, forecast: Forecast, changed: Bools) -> Calibration:
        """Return the counts of k visits with their forecast, ``changed``: bool[k]. O(k)."""
        parts = (~forecast.surge_shown, forecast.surge_shown)
        return cls(*(Reliability.of(forecast.probabilities[part], changed[part]) for part in parts))

    @classmethod
    def empty(cls) -> Calibration:
        """Return the counts of no visits."""
        return cls(Reliability.empty(), Reliability.empty())

    def __add__(self, other: Calibration) -> Calibration:
        """Return the counts of both."""
        return Calibration(self.without_surge + other.without_surge, self.with_surge + other.with_surge)
