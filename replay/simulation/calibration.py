"""Calibration: probabilities of a change at the moment of choice, against what the visits found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from streamsched.scheduler.monitoring.reliability import Reliability

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bools, Floats

__all__ = ["Calibration", "Forecast"]


class Forecast(NamedTuple):
    """What a policy expects of k pages: ``probabilities`` of a change: float64[k], ``surge_shown``: bool[k]."""

    probabilities: Floats
    surge_shown: Bools


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
