"""The slow, obvious reference for the draw of surges: all visits of a group, one cycle at a time, in Python numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from tests.reference.imputation import PageRandom

HAZARDS = [-math.log1p(-share) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
LEAST = 1e-6
Visits = Sequence[tuple[float, bool]]


class Group:
    """A group's surges: the hazard of each cycle, given the visits of its pages and their rates."""

    def __init__(self, pages: Sequence[tuple[Visits, float]], cycles: int, random: PageRandom, odds: float) -> None:
        self.hazard = [0.0] * cycles
        self.random, self.odds = random, odds
        self.quiet: list[tuple[float, float]] = []
        self.changed: list[list[float]] = []  # start, end, and changes expected so far
        for visits, rate in pages:
            for (start, _), (end, saw) in pairwise(visits):
                if end <= 0.0:
                    continue
                inside = max(start, 0.0), min(end, float(cycles))
                if saw and end > start and start < cycles:
                    self.changed.append([*inside, max(rate * (end - start), LEAST)])
                else:
                    self.quiet.append(inside)

    def weights(self, cycle: int) -> list[float]:
        """Log odds of a surge of each share in that cycle, against none."""
        quiet = sum(overlap(start, end, cycle) for start, end in self.quiet)
        logs = [self.odds - hazard * quiet for hazard in HAZARDS]
        for start, end, total in self.changed:
            part = overlap(start, end, cycle)
            if part > 0.0:
                for i, hazard in enumerate(HAZARDS):
                    logs[i] += math.log(-math.expm1(-(total + part * hazard))) - math.log(-math.expm1(-total))
        return logs

    def set(self, cycle: int, value: float) -> None:
        change, self.hazard[cycle] = value - self.hazard[cycle], value
        for interval in self.changed if change else ():
            interval[2] = max(interval[2] + overlap(interval[0], interval[1], cycle) * change, LEAST)

    def choose(self, cycles: Sequence[int]) -> bool:
        """Draw one surge in one of these cycles, or none."""
        logs = [
            (log, cycle, hazard) for cycle in cycles for log, hazard in zip(self.weights(cycle), HAZARDS, strict=True)
        ]
        most = max([0.0, *(log for log, *_ in logs)])
        left = self.random.uniform() * (math.exp(-most) + sum(math.exp(log - most) for log, *_ in logs))
        left -= math.exp(-most)
        for log, cycle, hazard in logs:
            if left < 0.0:
                return False
            left -= math.exp(log - most)
            if left < 0.0:
                self.set(cycle, hazard)
                return True
        return False

    def draw(self) -> list[float]:
        every = range(len(self.hazard))
        for _ in every:
            if not self.choose([cycle for cycle in every if self.hazard[cycle] == 0.0]):
                break
        for _ in range(2):
            for cycle in every:
                self.set(cycle, 0.0)
                self.choose([cycle])
        return self.hazard


def overlap(start: float, end: float, cycle: int) -> float:
    return max(min(end, cycle + 1.0) - max(start, float(cycle)), 0.0)


def draw_groups(groups: Sequence[Sequence[tuple[Visits, float]]], cycles: int, seed: int) -> list[list[float]]:
    """The hazards of each group, in their order: what the groups before show says how common surges are."""
    surges, windows, drawn = 1.0, 100.0, []
    for number, pages in enumerate(groups, 1):
        odds = math.log(surges / (windows - surges) / len(HAZARDS))
        drawn.append(Group(pages, cycles, PageRandom(seed ^ 0x5EED5A1E, number), odds).draw())
        surges += sum(hazard > 0.0 for hazard in drawn[-1])
        windows += cycles
    return drawn
