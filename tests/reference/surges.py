"""Slow reference implementation of `surges`: the windows of each group, in plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from streamsched.estimation import surges


def single(number: float) -> float:
    """The nearest float32."""
    return float(np.float32(number))


@dataclass
class Window:
    """A window's start, the probability of each share of the group's pages having been hit, and the published share."""

    begin_s: float
    weights: dict[float, float]
    unvisited: int  # pages not visited since it began
    share: float = 0.0

    @property
    def doubt(self) -> float:
        """The probability that there was no surge."""
        return max(1.0 - sum(self.weights.values()), 1e-6)

    @property
    def expected(self) -> float:
        """The expected share of the pages hit."""
        return sum(weight * share for share, weight in self.weights.items())

    def applies_to(self, last_visit_s: float, at_s: float) -> bool:
        """Whether a page last visited then and visited now is evidence about the window."""
        return last_visit_s < self.begin_s <= at_s

    def update(self, changed: bool, quiet: float) -> None:
        """Bayes' rule; `quiet`: the probability that nothing else changed the page."""
        likely = {share: quiet * (1.0 - share) for share in self.weights}  # of no change
        if changed:
            likely = {share: 1.0 - chance for share, chance in likely.items()}
        none = self.doubt * (1.0 - quiet if changed else quiet)
        joint = {share: weight * likely[share] for share, weight in self.weights.items()}
        total = none + sum(joint.values())
        self.weights = {share: single(weight / total) for share, weight in joint.items()}

    def publish(self, hazard: float) -> None:
        """Publish the expected share beyond the hazard if it is far from the published one."""
        excess = (self.expected - hazard) / (1.0 - hazard)
        if abs(excess - self.share) > 1 / 16 or (self.share > 0.0 and excess < 1 / 32):
            self.share = single(excess) if excess >= 1 / 32 else 0.0


@dataclass
class GroupSurges:
    """The surges of one group."""

    open: Window | None = None
    kept: Window | None = None
    hazard: float = 0.0
    surges: float = 0.0
    windows: float = 0.0
    missed: float = 0.0

    @property
    def chance(self) -> float:
        """The probability that a window has a surge."""
        return (1.0 + self.surges) / (100.0 + self.windows)

    def turn(self, at_s: float, cycle_s: float, pages: int) -> None:
        """Begin a window if a cycle has passed since the open one began."""
        if self.open is not None and abs(at_s - self.open.begin_s) < cycle_s:
            return
        if self.open is not None:
            self.end(self.open)
        hazard = (100.0 * self.chance * 0.5 + self.missed) / (100.0 + self.windows)
        if not self.hazard / 2**0.25 <= hazard <= self.hazard * 2**0.25:
            self.hazard = single(hazard)
        chance = self.chance
        self.open = Window(at_s, {share: single(chance / 5) for share in surges.SHARES}, pages)

    def end(self, window: Window) -> None:
        """Learn from a closed window, and keep it if it weighs no less than the one kept."""
        self.surges = single(self.surges + 1.0 - window.doubt - self.surges / 1000.0)
        self.missed = single(self.missed - self.missed / 1000.0)
        self.windows = single(self.windows + 1.0 - self.windows / 1000.0)
        if window.share == 0.0:
            self.missed = single(self.missed + window.expected)
        elif self.kept is None or self.kept.share * self.kept.unvisited <= window.share * window.unvisited:
            self.kept = window

    def windows_of(self, last_visit_s: float, at_s: float) -> list[Window]:
        """The windows that a visit now is evidence about, to a page last visited then."""
        windows = [window for window in (self.open, self.kept) if window is not None]
        if self.kept is not None and self.kept.share == 0.0:
            windows.pop()
        return [window for window in windows if window.applies_to(last_visit_s, at_s)]

    def untouched(self, last_visit_s: float) -> float:
        """The share of pages last visited then that no published surge has hit since."""
        windows = [window for window in (self.open, self.kept) if window is not None]
        return math.prod(1.0 - window.share for window in windows if last_visit_s < window.begin_s)


@dataclass
class Surges:
    """The surges of all groups, by name: ``("a.example", "docs")``."""

    cycle_s: float
    groups: dict[tuple[str, ...], GroupSurges] = field(default_factory=dict)

    def of(self, name: tuple[str, ...]) -> GroupSurges:
        """The surges of the group of that name."""
        return self.groups.setdefault(name, GroupSurges())

    def weigh(self, name: tuple[str, ...], visit: tuple[float, float, bool], own: float, pages: int) -> float:
        """Update by a visit, given the page's last one, its time and whether it saw a change, in a group of `pages`.

        `own`: the probability that the page itself changed. Returns that given what was seen.
        """
        last_visit_s, at_s, changed = visit
        if pages < 2:
            return 1.0
        group = self.of(name)
        group.turn(at_s, self.cycle_s, pages)
        borne = group.windows_of(last_visit_s, at_s)
        own = min(max(own, 1e-12), 1.0 - 1e-12)
        spared = [1.0 - window.expected for window in borne]
        for at, window in enumerate(borne):
            window.update(changed, (1.0 - own) * math.prod(spared[:at] + spared[at + 1 :]))
            window.unvisited = max(window.unvisited - 1, 0)
            window.publish(group.hazard)
        if not changed:
            return 1.0
        alone = own / (1.0 - (1.0 - own) * math.prod(spared))
        return alone + (1.0 - alone) * group.chance

    def terminal(self, name: tuple[str, ...], last_visit_s: float, elapsed: float) -> float:
        """The probability that a surge has hit a page since its last visit, `elapsed` cycles ago."""
        spared = self.of(name).untouched(last_visit_s)
        return 1.0 - spared + spared * -math.expm1(-elapsed * self.of(name).hazard)
