"""Bulk edits: how much of the time that copies are stale the default champion spares, beside crawlers that are told.

A pattern of quiet pages is edited now and then, four in five of them within half an hour, among Poisson pages of uneven
rates on sites as `streamsched generate` lays them out. Three crawlers set the scale, all by the same posterior:

- ``posterior`` knows nothing of surges;
- ``told`` knows of each edit once it is over, and which share of the pattern it hit: at the first ranking from then on
  the pages not visited since are ranked so much higher. It needs no visit to find an edit;
- ``a cycle later`` is told at the ranking after that: as soon as any crawler can know that learns from its visits, for
  in a replay a cycle's visits are chosen together and answered together. It still finds each edit without a visit.

Of the gap between ``posterior`` and ``told``, in stale page-days, it is said how much the others close.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import select_top
from streamsched.outcomes import OutcomeBatch
from streamsched.replay import SyntheticSettings, synthesize
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.scheduler_policy import ScheduledPolicy
from streamsched.replay.simulation.simulator import DAY_S, Policy, PolicyQuery, Schedule, simulate
from streamsched.replay.truth.ground_truth import ChangeLog, Window
from streamsched.scheduler.scheduler import Scheduler

__all__ = ["SETTINGS", "Setting", "measure", "print_settings"]

_REACH: Final = 0.8  # share of the pattern's pages that an edit changes
_EDIT_S: Final = 1_800  # how long an edit takes
_OWN_RATE: Final = 0.002  # changes a day that the pattern's pages have besides
_BACKGROUND: Final = SyntheticSettings(
    pages=3_000,
    days=240,
    poisson=1.0,
    weekday=0.0,
    clock=0.0,
    bursty=0.0,
    dead=0.0,
    rate_per_day=0.02,
    page_shape=0.5,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One simulated crawl: a pattern of `pages` pages, edited every `every_days` on average, and the crawl's pace."""

    pages: int
    every_days: float
    cycle_s: float
    budget: float

    def __str__(self) -> str:
        pace = "daily" if self.cycle_s == DAY_S else "hourly"
        return f"{self.pages} pages, every {self.every_days:g} days, {pace} {100 * self.budget:g} %"


SETTINGS: Final = (
    *(Setting(pages, 15.0, DAY_S, 0.05) for pages in (40, 150, 600)),
    Setting(150, 40.0, DAY_S, 0.05),
    *(Setting(pages, 15.0, 3_600.0, 0.005) for pages in (40, 150, 600)),
    Setting(150, 40.0, 3_600.0, 0.005),
)


@dataclass(frozen=True, slots=True)
class Stale:
    """Stale page-days of a crawl: of all pages, and of the edited pattern's."""

    everywhere: float
    pattern: float


def measure(setting: Setting, seeds: int) -> dict[str, Stale]:
    """Return what each crawler leaves stale, the mean of `seeds` simulations."""
    runs = [_measure_once(setting, seed) for seed in range(seeds)]
    means = {}
    for name in runs[0]:
        pairs = np.array([[run[name].everywhere, run[name].pattern] for run in runs])
        means[name] = Stale(*pairs.mean(axis=0).tolist())
    return means


def print_settings(seeds: int, settings: tuple[Setting, ...] = SETTINGS) -> None:
    """Measure the settings and print a table: stale page-days, and the share of the gap closed."""
    table = Table("Setting", "Crawler", title="Bulk edits of one URL pattern", title_justify="left")
    for name in ("all, page-days", "gap closed", "pattern, page-days", "gap closed"):
        table.add_column(name, justify="right")
    console = Console(width=130)
    for setting in settings:
        stale = measure(setting, seeds)
        none, told = stale["posterior"], stale["told"]
        for name, found in stale.items():
            table.add_row(
                str(setting) if name == "posterior" else "",
                name,
                f"{found.everywhere:,.0f}",
                f"{(none.everywhere - found.everywhere) / (none.everywhere - told.everywhere):.0%}",
                f"{found.pattern:,.0f}",
                f"{(none.pattern - found.pattern) / (none.pattern - told.pattern):.0%}",
            )
        table.add_section()
    console.print(table)


def _measure_once(setting: Setting, seed: int) -> dict[str, Stale]:
    log, edits = _simulate_edits(setting, seed)
    window = log.window(log.first_s, setting.cycle_s, int((log.last_s - log.first_s) / setting.cycle_s))
    edited = np.arange(window.pages) >= _BACKGROUND.pages
    crawlers: dict[str, Policy] = {
        "posterior": make_policy("posterior", setting.cycle_s, seed),
        "default, no surge_probes": ScheduledPolicy(Scheduler(cycle=setting.cycle_s, seed=seed, surge_probes=False)),
        "default": make_policy("default", setting.cycle_s, seed),
        "a cycle later": _Told(setting.cycle_s, seed, edits + setting.cycle_s, edits),
        "told": _Told(setting.cycle_s, seed, edits, edits),
    }
    schedule = Schedule(setting.budget, 2, "since_visit")
    return {name: _crawl(window, crawler, schedule, edited) for name, crawler in crawlers.items()}


def _simulate_edits(setting: Setting, seed: int) -> tuple[ChangeLog, Floats]:
    """Return a log whose last pages are the edited pattern's, and when each edit was over: float64[edits]."""
    background = synthesize(_BACKGROUND, seed)
    rng = np.random.default_rng([seed, setting.pages])
    span_s, first = background.last_s - background.first_s, _BACKGROUND.pages
    count = rng.poisson(span_s / DAY_S / setting.every_days)
    begins = np.sort(rng.uniform(0.0, span_s - _EDIT_S, count))
    edit, hit = np.nonzero(rng.random((count, setting.pages)) < _REACH)
    own = np.repeat(np.arange(setting.pages), rng.poisson(_OWN_RATE * span_s / DAY_S, setting.pages))
    pages = [np.arange(setting.pages), hit, own]  # the first of each page is its appearance
    seconds = [
        np.zeros(setting.pages),
        begins[edit] + rng.uniform(0, _EDIT_S, edit.size),
        rng.uniform(0, span_s, own.size),
    ]
    urls = [f"https://www.edited.{_BACKGROUND.domain}/docs/{page:04}.html" for page in range(setting.pages)]
    known = np.repeat(np.arange(first), np.diff(background.offsets))
    log = ChangeLog.collect(
        PackedUrls.pack([*background.urls, *urls]),
        np.concatenate([known, *(first + part for part in pages)]),
        np.concatenate([background.times_s, *(background.first_s + np.floor(part) for part in seconds)]),
        np.zeros(known.size + sum(part.size for part in pages), np.bool_),
    )
    return log, background.first_s + np.ceil(begins + _EDIT_S)


def _crawl(window: Window, crawler: Policy, schedule: Schedule, edited: Bools) -> Stale:
    """Return what a crawler leaves stale of all pages, and of those ``edited``: bool[pages]."""
    tenths = np.zeros(window.pages, np.int64)
    recorded = _Recorded(crawler)
    whole = simulate(window, recorded, schedule, tenths)
    weighted = replace(window, importance=edited.astype(np.float64))  # freshness is weighted by importance
    part = simulate(weighted, _Again(recorded.visits), schedule, tenths)
    cycle_days = window.cycle_s / DAY_S
    return Stale(
        float(np.sum(1.0 - whole.freshness)) * window.pages * cycle_days,
        float(np.sum(1.0 - part.freshness)) * np.count_nonzero(edited) * cycle_days,
    )


class _Told:
    """A crawler by the posterior that is told of edits: of each at ``told_s``, that it was over at ``over_s``."""

    def __init__(self, cycle_s: float, seed: int, told_s: Floats, over_s: Floats) -> None:
        self._scheduler = Scheduler(cycle=cycle_s, seed=seed, formula="posterior")
        self._told_s, self._over_s = told_s, over_s

    def discover(self, urls: PackedUrls, now: float) -> None:
        self._scheduler.discover(urls, now=now)

    def rank(self, query: PolicyQuery) -> Rows:
        spared = 1.0 - self._scheduler.scores(now=query.now)
        last_visit_s = self._scheduler.core.pages.arrays.pages.records["last_visit_s"][: query.known]
        edited = np.arange(query.known) >= _BACKGROUND.pages
        for over_s in self._over_s[self._told_s <= query.now]:
            spared[edited & (last_visit_s < over_s)] *= 1.0 - _REACH
        return select_top(1.0 - spared, self._scheduler.core.tie_keys(now=query.now), query.k)

    def observe(self, outcomes: OutcomeBatch) -> None:
        self._scheduler.observe(outcomes)


class _Recorded:
    """A crawler whose visits are kept."""

    def __init__(self, crawler: Policy) -> None:
        self._crawler = crawler
        self.visits: list[Ints] = []

    def discover(self, urls: PackedUrls, now: float) -> None:
        self._crawler.discover(urls, now)

    def rank(self, query: PolicyQuery) -> Rows:
        self.visits.append(self._crawler.rank(query).copy())
        return self.visits[-1]

    def observe(self, outcomes: OutcomeBatch) -> None:
        self._crawler.observe(outcomes)


class _Again:
    """A crawler that makes the visits of another again."""

    def __init__(self, visits: list[Ints]) -> None:
        self._visits = iter(visits)

    def discover(self, urls: PackedUrls, now: float) -> None:
        pass

    def rank(self, query: PolicyQuery) -> Rows:
        rows = next(self._visits)
        assert rows.size == query.k
        return rows

    def observe(self, outcomes: OutcomeBatch) -> None:
        pass
