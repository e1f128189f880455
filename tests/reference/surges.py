"""Slow reference implementation of `surges`: the windows of each group, in plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from streamsched.estimation import surges
from streamsched.records.page_schema import SHORTEST_INTERVAL


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
        """Publish the share beyond the hazard if it is far from the published one."""
        excess = (self.expected - hazard) / (1.0 - hazard)
        if abs(excess - self.share) > 1 / 16 or (self.share > 0.0 and excess < 1 / 32):
            self.share = single(excess) if excess >= 1 / 32 else 0.0


@dataclass
class Pooled:
    """What is learned over all groups: sums of what the groups learn."""

    surges: float = 0.0
    days: float = 0.0
    hits: float = 0.0
    page_days: float = 0.0

    @property
    def frequency(self) -> float:
        """Surges of a group per day."""
        return (1.0 + self.surges) / (100.0 + self.days)

    @property
    def hazard(self) -> float:
        """Hits of surges not shown, per page and day."""
        return (1.0 + self.hits) / (200.0 + self.page_days)


@dataclass
class GroupSurges:
    """The surges of one group."""

    pooled: Pooled
    open: Window | None = None
    kept: Window | None = None
    told: float = 0.0  # the share published of the kept window when the open one began
    hazard: float = 0.0
    surges: float = 0.0
    days: float = 0.0
    hits: float = 0.0
    page_days: float = 0.0

    @property
    def frequency(self) -> float:
        """Surges per day."""
        return (100.0 * self.pooled.frequency + self.surges) / (100.0 + self.days)

    @property
    def rates(self) -> tuple[float, float]:
        """Shape and exposure of the hazard's posterior, per day."""
        return 4.0 + self.hits, 4.0 / self.pooled.hazard + self.page_days

    def turn(self, at_s: float, cycle_s: float, pages: int) -> None:
        """Begin a window if a cycle has passed since the open one began."""
        if self.open is not None and abs(at_s - self.open.begin_s) < max(cycle_s, 86_400.0):
            return
        days = cycle_s / 86_400.0
        if self.open is not None:
            days = min(abs(at_s - self.open.begin_s) / 86_400.0, 1000.0)
            self.end(self.open, days)
        shape, exposure = self.rates
        hazard = min(shape / exposure * cycle_s / 86_400.0, 0.99)
        if not self.hazard / 2**0.25 <= hazard <= self.hazard * 2**0.25:
            self.hazard = single(hazard)
        chance = -math.expm1(-self.frequency * days) * self.days / (3.0 + self.days)
        self.told = 0.0 if self.kept is None else self.kept.share
        self.open = Window(at_s, {share: single(chance / 5) for share in surges.SHARES}, pages)

    def end(self, window: Window, days: float) -> None:
        """Learn from a closed window, and keep it if it weighs no less than the one kept."""
        fading = days / 1000.0
        found, more = 1.0 - window.doubt - fading * self.surges, days - fading * self.days
        self.surges, self.days = single(self.surges + found), single(self.days + more)
        self.pooled.surges = max(self.pooled.surges + found, 0.0)
        self.pooled.days = max(self.pooled.days + more, 0.0)
        self.add_hits(-fading * self.hits, -fading * self.page_days)
        if window.share > 0.0 and (
            self.kept is None or self.kept.share * self.kept.unvisited <= window.share * window.unvisited
        ):
            self.kept = window

    def add_hits(self, hits: float, days: float) -> None:
        """Add to what the group and all groups know of the hazard."""
        hits, days = max(hits, -self.hits), max(days, -self.page_days)
        self.hits, self.page_days = single(self.hits + hits), self.page_days + days
        self.pooled.hits = max(self.pooled.hits + hits, 0.0)
        self.pooled.page_days = max(self.pooled.page_days + days, 0.0)

    def learn_hazard(self, days: float, other: float) -> float:
        """Update by a change within `days`; return the probability of a hit in them.

        `other`: the probability that something else changed the page.
        """
        shape, exposure = self.rates
        safe = [(exposure / (exposure + days)) ** (shape + more) for more in range(3)]
        none, once, twice = (1.0 - (1.0 - other) * one for one in safe)
        hit = -math.expm1(-shape * math.log1p(days / exposure))
        if none > 1e-6:  # below, the differences lose all digits
            mean = shape / exposure * once / none
            variance = shape * (shape + 1.0) / exposure**2 * twice / none - mean**2
        else:
            ratio = days / exposure
            none = other + (1.0 - other) * hit
            once = 1.0 + (1.0 - other) * safe[0] * ratio / (1.0 + ratio) / none
            twice = 1.0 - (1.0 - other) * safe[0] * math.expm1(-2.0 * math.log1p(ratio)) / none
            mean = shape / exposure * once
            variance = shape / exposure**2 * ((shape + 1.0) * twice - shape * once**2)
        self.add_hits(mean**2 / variance - shape, mean / variance - exposure)
        return hit

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
    pooled: Pooled = field(default_factory=Pooled)

    def of(self, name: tuple[str, ...]) -> GroupSurges:
        """The surges of the group of that name."""
        return self.groups.setdefault(name, GroupSurges(self.pooled))

    def weigh(self, name: tuple[str, ...], visit: tuple[float, float, bool], own: float, pages: int) -> float:
        """Update by a visit, given the page's last one, its time and whether it saw a change, in a group of `pages`.

        `own`: the probability that the page itself changed. Returns that given what was seen.
        """
        last_visit_s, at_s, changed = visit
        if pages < 2:
            return 1.0
        group, pooled = self.of(name), self.pooled
        group.turn(at_s, self.cycle_s, pages)
        borne = group.windows_of(last_visit_s, at_s)
        days = min(max((at_s - last_visit_s) / self.cycle_s, SHORTEST_INTERVAL) * self.cycle_s / 86_400.0, 1000.0)
        own = min(max(own, 1e-12), 1.0 - 1e-12)
        shares = [window.expected for window in borne]
        known = [
            share
            for window, share in zip(borne, shares, strict=True)
            if window is not group.open or (window.share > 0.0 and window.begin_s < at_s)
        ]
        hit = 0.0
        if changed:
            shown = math.prod(1.0 - share for share in known)
            hit = group.learn_hazard(days, 1.0 - (1.0 - own) * shown)
        else:
            group.page_days += days
            pooled.page_days += days
        quiet = (1.0 - own) * (1.0 - hit)
        for at, window in enumerate(borne):
            others = [1.0 - share for other, share in enumerate(shares) if other != at]
            window.update(changed, quiet * math.prod(others))
            window.unvisited = max(window.unvisited - 1, 0)
            window.publish(group.hazard)
        if not changed:
            return 1.0
        alone = own / (1.0 - quiet * math.prod(1.0 - share for share in shares))
        return alone - (1.0 - alone) * math.expm1(-group.frequency)

    def untold(self, name: tuple[str, ...], visit: tuple[float, float, bool], pages: int) -> float:
        """The share of a group that was not said to be hit when a visit was chosen; begin its window."""
        last_visit_s, at_s, _ = visit
        group = self.of(name)
        if pages >= 2:
            group.turn(at_s, self.cycle_s, pages)
        spared = 1.0
        if group.kept is not None and last_visit_s < group.kept.begin_s:
            spared -= group.told
        if group.open is not None and last_visit_s < group.open.begin_s < at_s:
            spared *= 1.0 - group.open.share
        return spared

    def terminal(self, name: tuple[str, ...], last_visit_s: float, elapsed: float) -> float:
        """The probability that a surge has hit a page since its last visit, `elapsed` cycles ago."""
        spared = self.of(name).untouched(last_visit_s)
        return 1.0 - spared + spared * -math.expm1(-elapsed * self.of(name).hazard)

    def gain(
        self,
        name: tuple[str, ...],
        last_visit_s: float,
        elapsed: float,
        due: float,
        *,
        shape: float,
        unclaimed: float,
        again: float,
    ) -> float:
        """The probability of a change less what waiting as long again would add.

        By `due`, the shape of its posterior, the probability that the page has not followed a related one, and what
        signals are expected to say again.
        """
        unseen = elapsed * self.of(name).hazard + again
        quiet = 1.0 - min(due, 1.0 - 2.0**-52)
        left: float = quiet * self.of(name).untouched(last_visit_s) * unclaimed * math.exp(-unseen)
        pace = shape * (1.0 - math.pow(quiet, 1.0 / shape)) + unseen
        return min(max(1.0 - left * (1.0 + pace), 0.0), 1.0)
