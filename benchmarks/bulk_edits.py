"""Bulk edits: stale page-days of the default policy, beside oracles that know of each edit.

A URL pattern of rarely changing pages is edited from time to time: four in five of its pages change within half an
hour. The other pages are Poisson pages of different rates, as `streamsched generate` makes them. Three crawlers, all
with the same posterior, set the scale:

- ``posterior`` knows nothing of surges;
- ``oracle`` knows of each edit as soon as it is over, without a visit, and the share of the pattern that it hit: from
  the next ranking on the pages not visited since have a higher score;
- ``late oracle`` knows one ranking later, when a crawler that learns from its visits can know at the earliest:
  in a replay all visits of a cycle are chosen together. It needs no visit either.

The table shows which share of the gap between ``posterior`` and ``oracle`` the others close.
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

_REACH: Final = 0.8  # share of the pages of the pattern that an edit changes
_EDIT_S: Final = 1_800  # duration of an edit
_OWN_RATE: Final = 0.002  # other changes per day of a page of the pattern
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
    """A simulated crawl: a pattern of `pages` pages, edited every `every_days` on average; cycle and budget."""

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
    """Stale page-days of a crawl: of all pages, and of those of the edited pattern."""

    everywhere: float
    pattern: float


def measure(setting: Setting, seeds: int) -> dict[str, Stale]:
    """Return the stale page-days of each crawler, as means of `seeds` simulations."""
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
        none, oracle = stale["posterior"], stale["oracle"]
        for name, found in stale.items():
            table.add_row(
                str(setting) if name == "posterior" else "",
                name,
                f"{found.everywhere:,.0f}",
                f"{(none.everywhere - found.everywhere) / (none.everywhere - oracle.everywhere):.0%}",
                f"{found.pattern:,.0f}",
                f"{(none.pattern - found.pattern) / (none.pattern - oracle.pattern):.0%}",
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
        "late oracle": _Oracle(setting.cycle_s, seed, edits + setting.cycle_s, edits),
        "oracle": _Oracle(setting.cycle_s, seed, edits, edits),
    }
    schedule = Schedule(setting.budget, 2, "since_visit")
    return {name: _crawl(window, crawler, schedule, edited) for name, crawler in crawlers.items()}


def _simulate_edits(setting: Setting, seed: int) -> tuple[ChangeLog, Floats]:
    """Return a log, with the pages of the edited pattern last, and the end of each edit: float64[edits]."""
    background = synthesize(_BACKGROUND, seed)
    rng = np.random.default_rng([seed, setting.pages])
    span_s, first = background.last_s - background.first_s, _BACKGROUND.pages
    count = rng.poisson(span_s / DAY_S / setting.every_days)
    begins = np.sort(rng.uniform(0.0, span_s - _EDIT_S, count))
    edit, hit = np.nonzero(rng.random((count, setting.pages)) < _REACH)
    own = np.repeat(np.arange(setting.pages), rng.poisson(_OWN_RATE * span_s / DAY_S, setting.pages))
    pages = [np.arange(setting.pages), hit, own]  # the first change of a page is its appearance
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
    """Return the stale page-days of a crawler: of all pages, and of those ``edited``: bool[pages]."""
    tenths = np.zeros(window.pages, np.int64)
    recorder = _Recorder(crawler)
    whole = simulate(window, recorder, schedule, tenths)
    weighted = replace(window, importance=edited.astype(np.float64))  # freshness is weighted by importance
    part = simulate(weighted, _Repeater(recorder.visits), schedule, tenths)
    cycle_days = window.cycle_s / DAY_S
    return Stale(
        float(np.sum(1.0 - whole.freshness)) * window.pages * cycle_days,
        float(np.sum(1.0 - part.freshness)) * np.count_nonzero(edited) * cycle_days,
    )


class _Oracle:
    """Ranks by the posterior and knows from ``known_s`` on of the edits that were over at ``over_s``."""

    def __init__(self, cycle_s: float, seed: int, known_s: Floats, over_s: Floats) -> None:
        self._scheduler = Scheduler(cycle=cycle_s, seed=seed, formula="posterior")
        self._known_s, self._over_s = known_s, over_s

    def discover(self, urls: PackedUrls, now: float) -> None:
        self._scheduler.discover(urls, now=now)

    def rank(self, query: PolicyQuery) -> Rows:
        unchanged = 1.0 - self._scheduler.scores(now=query.now)
        last_visit_s = self._scheduler.core.pages.arrays.pages.records["last_visit_s"][: query.known]
        edited = np.arange(query.known) >= _BACKGROUND.pages
        for over_s in self._over_s[self._known_s <= query.now]:
            unchanged[edited & (last_visit_s < over_s)] *= 1.0 - _REACH
        return select_top(1.0 - unchanged, self._scheduler.core.tie_keys(now=query.now), query.k)

    def observe(self, outcomes: OutcomeBatch) -> None:
        self._scheduler.observe(outcomes)


class _Recorder:
    """Records the visits of a crawler."""

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


class _Repeater:
    """Repeats recorded visits."""

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
