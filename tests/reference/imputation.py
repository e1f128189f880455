"""The slow, obvious reference for imputation: one page, one cycle at a time, in Python numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

MASK = 2**64 - 1


def fold(left: int, right: int) -> int:
    return (left * right >> 64) ^ (left * right & MASK)


def mix(value: int) -> int:
    return fold(value ^ 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)


class PageRandom:
    """The random stream of one page under one seed."""

    def __init__(self, seed: int, page_hash: int) -> None:
        self.state = mix(page_hash ^ mix(seed % 2**64 ^ 0xE7037ED1A0B428DB))

    def uniform(self) -> float:
        self.state = (self.state + 0xA0761D6478BD642F) & MASK
        return ((fold(self.state, self.state ^ 0xE7037ED1A0B428DB) >> 12) + 0.5) / 2**52

    def gamma(self, shape: float) -> float:
        lift = 1.0 if shape >= 1.0 else self.uniform() ** (1.0 / shape)
        mode = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
        while True:
            normal = math.sqrt(-2.0 * math.log(self.uniform())) * math.cos(2.0 * math.pi * self.uniform())
            cube = (1.0 + normal / math.sqrt(9.0 * mode)) ** 3
            if cube > 0.0:
                bound = 0.5 * normal * normal + mode * (1.0 - cube + math.log(cube))
                if math.log(self.uniform()) < bound:
                    return lift * mode * cube


class History:
    """One page's cycles: changed, observed and imputed ones."""

    def __init__(self, rate: float, cycles: int, random: PageRandom, activity: Sequence[float]) -> None:
        self.activity = activity
        self.rate = rate
        self.cycles = range(cycles)
        self.random = random
        self.changed: set[int] = set()
        self.observed: set[int] = set()
        self.imputed: set[int] = set()

    def draw(self, start: float, end: float, least: int | None = None) -> None:
        """Draw each cycle between `start` and `end`, from number `least` on."""
        for cycle in self.cycles:
            if cycle + 1 > start and cycle < end and (least is None or cycle >= least):
                self.imputed.add(cycle)
                overlap = min(end, cycle + 1) - max(start, cycle)
                if self.random.uniform() < -math.expm1(-self.rate * (overlap * self.activity[cycle])):
                    self.changed.add(cycle)

    def cycle_after(self, at: float, wait: float) -> int:
        """The cycle at `wait` activity-weighted cycles after `at`; outside the window all have activity 1."""
        for cycle in self.cycles:
            if cycle + 1 <= at:
                continue
            if at < cycle and wait < cycle - at:
                return math.floor(at + wait)
            wait, at = (wait - (cycle - at), float(cycle)) if at < cycle else (wait, at)
            length = (cycle + 1 - at) * self.activity[cycle]
            if wait < length:
                return cycle
            wait, at = wait - length, cycle + 1.0
        return math.floor(at + wait)

    def place_change(self, start: float, end: float) -> None:
        """Impute the cycle of an observed change."""
        touched = range(min(math.floor(start), math.ceil(end) - 1), math.ceil(end))
        if len(touched) == 1:
            self.observed.add(touched[0])
            return
        self.imputed.update(cycle for cycle in self.cycles if cycle in touched)
        share = self.random.uniform()
        within = [cycle for cycle in self.cycles if cycle in touched]
        spans = [(cycle, max(start, cycle), min(end, cycle + 1)) for cycle in within]
        length = max(end - start + sum((to - since) * (self.activity[cycle] - 1.0) for cycle, since, to in spans), 0.0)
        mean = self.rate * length
        wait = -math.log1p(share * math.expm1(-mean)) / self.rate if mean > 1e-12 else share * length
        hit = min(max(self.cycle_after(start, wait), touched[0]), touched[-1])
        self.changed.add(hit)
        self.draw(start, end, hit + 1)


def impute(
    visits: Sequence[tuple[float, bool]], posterior: tuple[float, float], random: PageRandom, activity: Sequence[float]
) -> tuple[list[bool], list[bool]]:
    """The cycles in which the page changed, and which cycles are observed; each cycle has its activity."""
    cycles = len(activity)
    history = History(random.gamma(posterior[0]) / posterior[1], cycles, random, activity)
    history.draw(0.0, visits[0][0] if visits else cycles)
    for (start, _), (end, saw) in pairwise(visits):
        if saw:
            history.place_change(start, end)
    if visits:
        history.draw(max(visits[-1][0], 0.0), cycles)
    changed = [cycle in history.changed | history.observed for cycle in history.cycles]
    return changed, [cycle in history.observed or cycle not in history.imputed for cycle in history.cycles]
