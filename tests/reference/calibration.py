"""Slow twin of the calibration watch: one forecast at a time, as its docstring says."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Forecast:
    """A forecast for a page, and how often the page had been visited, and had changed, when it was made."""

    page: int
    probability: float
    visits: int
    changes: int
    until_s: float


@dataclass
class Watch:
    """Compares forecasts with visits: ``compared`` has the newest `window` of them, as (probability, changed)."""

    window: int
    most: int
    waiting: list[Forecast] = field(default_factory=list)
    compared: list[tuple[float, bool]] = field(default_factory=list)

    def note(self, forecasts: list[Forecast]) -> None:
        if len(self.waiting) + len(forecasts) <= self.most:
            self.waiting += forecasts

    def settle(self, visits: list[int], changes: list[int], now: float) -> None:
        left = []
        for number, one in enumerate(self.waiting):
            later = [other for other in self.waiting[number + 1 :] if other.page == one.page]
            seen = (later[0].visits, later[0].changes) if later else (visits[one.page], changes[one.page])
            if seen[0] == one.visits + 1:
                self.compared.append((one.probability, seen[1] > one.changes))
            elif seen[0] == one.visits and not later and one.until_s > now:
                left.append(one)
        self.waiting = left
        self.compared = self.compared[-self.window :]


def calibration_error(compared: list[tuple[float, bool]]) -> float | None:
    """Return the mean of |predicted − observed| over 20 bins of equal steps of the square root, per visit."""
    if not compared:
        return None
    difference = [0.0] * 20
    edges = [(step / 20) ** 2 for step in range(21)]
    for probability, changed in compared:
        at = max(step for step in range(20) if edges[step] <= probability)
        difference[at] += probability - changed
    return sum(map(abs, difference)) / len(compared)


def freshness(changed: list[float], visited: list[bool]) -> float:
    """Return the mean over pages of the probability that a copy is current, given that of a change."""
    return float(np.mean([1.0 - chance if seen else 0.0 for chance, seen in zip(changed, visited, strict=True)]))
