"""The slow, obvious twin of `surges`: what each group believes of its windows, in plain numbers."""

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
    """Since when, how probable each share of the group's pages is to have been hit, and what is shown of that."""

    begin_s: float
    weights: dict[float, float]
    left: int  # pages that bear its surge still
    shown: float = 0.0

    @property
    def doubt(self) -> float:
        """The probability that there was no surge."""
        return max(1.0 - sum(self.weights.values()), 1e-6)

    @property
    def expected(self) -> float:
        """The share of the pages that is expected to be hit."""
        return sum(weight * share for share, weight in self.weights.items())

    def is_borne(self, last_visit_s: float, at_s: float) -> bool:
        """Whether a page last visited then and visited now tells of the window."""
        return last_visit_s < self.begin_s <= at_s

    def hear(self, changed: bool, quiet: float) -> None:
        """Bayes' rule; `quiet`: the probability that nothing else changed the page."""
        likely = {share: quiet * (1.0 - share) for share in self.weights}  # of no change
        if changed:
            likely = {share: 1.0 - chance for share, chance in likely.items()}
        none = self.doubt * (1.0 - quiet if changed else quiet)
        joint = {share: weight * likely[share] for share, weight in self.weights.items()}
        total = none + sum(joint.values())
        self.weights = {share: single(weight / total) for share, weight in joint.items()}

    def show(self, hazard: float) -> None:
        """Show what is expected beyond the hazard, where that is far from what is shown."""
        excess = (self.expected - hazard) / (1.0 - hazard)
        if abs(excess - self.shown) > 1 / 16 or (self.shown > 0.0 and excess < 1 / 32):
            self.shown = single(excess) if excess >= 1 / 32 else 0.0


@dataclass
class GroupSurges:
    """What one group knows."""

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
        """Begin a window where a cycle has passed since the present one began."""
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
        """Learn from a window that is over, and keep it if it weighs no less than the one kept."""
        self.surges = single(self.surges + 1.0 - window.doubt - self.surges / 1000.0)
        self.missed = single(self.missed - self.missed / 1000.0)
        self.windows = single(self.windows + 1.0 - self.windows / 1000.0)
        if window.shown == 0.0:
            self.missed = single(self.missed + window.expected)
        elif self.kept is None or self.kept.shown * self.kept.left <= window.shown * window.left:
            self.kept = window

    def borne(self, last_visit_s: float, at_s: float) -> list[Window]:
        """The windows that a page last visited then tells of when it is visited now."""
        windows = [window for window in (self.open, self.kept) if window is not None]
        if self.kept is not None and self.kept.shown == 0.0:
            windows.pop()
        return [window for window in windows if window.is_borne(last_visit_s, at_s)]

    def spared(self, last_visit_s: float) -> float:
        """The share of pages last visited then that no surge shown has hit since."""
        windows = [window for window in (self.open, self.kept) if window is not None]
        return math.prod(1.0 - window.shown for window in windows if last_visit_s < window.begin_s)


@dataclass
class Surges:
    """What all groups know, by name: ``("a.example", "docs")``."""

    cycle_s: float
    groups: dict[tuple[str, ...], GroupSurges] = field(default_factory=dict)

    def of(self, name: tuple[str, ...]) -> GroupSurges:
        """What the group of that name knows."""
        return self.groups.setdefault(name, GroupSurges())

    def weigh(self, name: tuple[str, ...], visit: tuple[float, float, bool], own: float, pages: int) -> float:
        """Take in a visit, as the page's last before, its time and whether it saw a change, in a group of `pages`.

        `own`: the probability that the page itself changed. Returns that given what was seen.
        """
        last_visit_s, at_s, changed = visit
        if pages < 2:
            return 1.0
        group = self.of(name)
        group.turn(at_s, self.cycle_s, pages)
        borne = group.borne(last_visit_s, at_s)
        own = min(max(own, 1e-12), 1.0 - 1e-12)
        spared = [1.0 - window.expected for window in borne]
        for at, window in enumerate(borne):
            window.hear(changed, (1.0 - own) * math.prod(spared[:at] + spared[at + 1 :]))
            window.left = max(window.left - 1, 0)
            window.show(group.hazard)
        if not changed:
            return 1.0
        alone = own / (1.0 - (1.0 - own) * math.prod(spared))
        return alone + (1.0 - alone) * group.chance

    def terminal(self, name: tuple[str, ...], last_visit_s: float, elapsed: float) -> float:
        """The probability that a surge has hit a page since its last visit, `elapsed` cycles ago."""
        spared = self.of(name).spared(last_visit_s)
        return 1.0 - spared + spared * -math.expm1(-elapsed * self.of(name).hazard)
