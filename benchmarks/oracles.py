"""How near the default policy comes to oracles in simulated crawls: of bulk edits, and of pages with schedules.

Bulk edits: a URL pattern of rarely changing pages is edited from time to time; four in five of its pages change
within half an hour. The other pages are Poisson pages of different rates, as `streamsched generate` makes them. All
crawlers have the same posterior:

- ``posterior`` knows nothing of surges;
- ``oracle`` knows of each edit as soon as it is over, without a visit, and the share of the pattern that it hit: from
  the next ranking on the pages not visited since have a higher score;
- ``late oracle`` knows one ranking later, when a crawler that learns from its visits can know at the earliest: in a
  replay all visits of a cycle are chosen together. It needs no visit either.

Schedules: a scheduled page is updated in the first five minutes of an hour of its own, on one to three weekdays of
its own or on all days. The other pages change as Poisson processes with exponentially distributed rates. Policies
visit a share of all pages in each cycle, after two cycles that visit all pages. Measurement begins after four weeks.
The oracle knows of each scheduled page whether it has changed, and ranks the others by `posterior`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.report import Row
from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.topk_order import select_top
from streamsched.outcomes import OutcomeBatch
from streamsched.replay import SyntheticSettings, synthesize
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import DAY_S, Policy, PolicyQuery, Schedule, Trace, simulate
from streamsched.scheduler.scheduler import Scheduler

_REACH: Final = 0.8  # share of the pages of the pattern that an edit changes
_EDIT_S: Final = 1_800  # duration of an edit
_OWN_RATE: Final = 0.002  # other changes per day of a page of the pattern
_BACKGROUND: Final = SyntheticSettings(
    days=240,
    poisson=1.0,
    weekday=0.0,
    clock=0.0,
    bursty=0.0,
    dead=0.0,
    rate_per_day=0.02,
    page_shape=0.5,
)
_MONDAY_S: Final = 1_704_067_200.0  # 2024-01-01
_HOUR_S: Final = 3_600.0
_LATE_S: Final = 300.0
_LEARNING_DAYS: Final = 28
_HOSTS: Final = 100
_WARMUP: Final = 2  # cycles


@dataclass(frozen=True, slots=True)
class _Edits:
    """A simulated crawl: a pattern of `pages` pages, edited every `every_days` on average; cycle and budget."""

    pages: int
    every_days: float
    cycle_s: float
    budget: float

    def __str__(self) -> str:
        pace = "daily" if self.cycle_s == DAY_S else "hourly"
        return f"{self.pages} pages, every {self.every_days:g} days, {pace} {100 * self.budget:g} %"


_EDITS: Final = (
    *(_Edits(pages, 15.0, DAY_S, 0.05) for pages in (40, 150, 600)),
    _Edits(150, 40.0, DAY_S, 0.05),
    *(_Edits(pages, 15.0, 3_600.0, 0.005) for pages in (40, 150, 600)),
    _Edits(150, 40.0, 3_600.0, 0.005),
)


def measure_bulk_edits(pages: int, seeds: int) -> list[Row]:
    """Return the rows of bulk edits among `pages` other pages, as means of `seeds` simulations."""
    rows = []
    for edits in _EDITS:
        runs = [_measure_once(edits, pages, seed) for seed in range(seeds)]
        stale = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
        none, oracle = stale["posterior"], stale["oracle"]
        for name in ("default", "late oracle"):
            closed = (none - stale[name]) / (none - oracle)
            for i, part in enumerate(("all pages", "the pattern's pages")):
                known = f"{none[i]:,.0f}, oracle {oracle[i]:,.0f}"
                rows.append(Row(f"{edits}: {name}, {part}", f"{stale[name][i]:,.0f}", known, f"{closed[i]:.0%} closed"))
    return rows


def _measure_once(setting: _Edits, pages: int, seed: int) -> dict[str, Floats]:
    """Return the stale page-days of each crawler: float64[2], of all pages and of those of the edited pattern."""
    log, edits = _simulate_edits(setting, pages, seed)
    window = log.window(log.first_s, setting.cycle_s, int((log.last_s - log.first_s) / setting.cycle_s))
    edited = np.arange(window.pages) >= pages
    crawlers: dict[str, Policy] = {
        "posterior": make_policy("posterior", setting.cycle_s, seed),
        "default": make_policy("default", setting.cycle_s, seed),
        "late oracle": _EditOracle(setting.cycle_s, seed, edits + setting.cycle_s, edits, edited),
        "oracle": _EditOracle(setting.cycle_s, seed, edits, edits, edited),
    }
    schedule = Schedule(setting.budget, 2, "since_visit")
    return {name: _crawl(window, crawler, schedule, edited) for name, crawler in crawlers.items()}


def _simulate_edits(setting: _Edits, pages: int, seed: int) -> tuple[ChangeLog, Floats]:
    """Return a log, with the pages of the edited pattern last, and the end of each edit: float64[edits]."""
    background = synthesize(replace(_BACKGROUND, pages=pages), seed)
    rng = np.random.default_rng([seed, setting.pages])
    span_s, first = background.last_s - background.first_s, pages
    count = rng.poisson(span_s / DAY_S / setting.every_days)
    begins = np.sort(rng.uniform(0.0, span_s - _EDIT_S, count))
    edit, hit = np.nonzero(rng.random((count, setting.pages)) < _REACH)
    own = np.repeat(np.arange(setting.pages), rng.poisson(_OWN_RATE * span_s / DAY_S, setting.pages))
    parts = [np.arange(setting.pages), hit, own]  # the first change of a page is its appearance
    seconds = [
        np.zeros(setting.pages),
        begins[edit] + rng.uniform(0, _EDIT_S, edit.size),
        rng.uniform(0, span_s, own.size),
    ]
    urls = [f"https://www.edited.{_BACKGROUND.domain}/docs/{page:04}.html" for page in range(setting.pages)]
    known = np.repeat(np.arange(first), np.diff(background.offsets))
    log = ChangeLog.collect(
        PackedUrls.pack([*background.urls, *urls]),
        np.concatenate([known, *(first + part for part in parts)]),
        np.concatenate([background.times_s, *(background.first_s + np.floor(part) for part in seconds)]),
        np.zeros(known.size + sum(part.size for part in parts), np.bool_),
    )
    return log, background.first_s + np.ceil(begins + _EDIT_S)


def _crawl(window: Window, crawler: Policy, schedule: Schedule, edited: Bools) -> Floats:
    tenths = np.zeros(window.pages, np.int64)
    recorder = _Recorder(crawler)
    whole = simulate(window, recorder, schedule, tenths)
    weighted = replace(window, importance=edited.astype(np.float64))  # freshness is weighted by importance
    part = simulate(weighted, _Repeater(recorder.visits), schedule, tenths)
    cycle_days = window.cycle_s / DAY_S
    shares = [np.sum(1.0 - whole.freshness) * window.pages, np.sum(1.0 - part.freshness) * np.count_nonzero(edited)]
    return np.array(shares) * cycle_days


class _EditOracle:
    """Ranks by the posterior; knows from ``known_s`` on of the edits over at ``over_s`` of pages ``edited``."""

    def __init__(self, cycle_s: float, seed: int, known_s: Floats, over_s: Floats, edited: Bools) -> None:
        self._scheduler = Scheduler(cycle=cycle_s, seed=seed, formula="posterior")
        self._known_s, self._over_s, self._edited = known_s, over_s, edited

    def discover(self, urls: PackedUrls, now: float) -> None:
        self._scheduler.discover(urls, now=now)

    def rank(self, query: PolicyQuery) -> Rows:
        unchanged = 1.0 - self._scheduler.scores(now=query.now)
        last_visit_s = self._scheduler.core.pages.arrays.pages.records["last_visit_s"][: query.known]
        edited = self._edited[: query.known]
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


@dataclass(frozen=True, slots=True)
class _Setting:
    """A simulation. ``share`` of the pages has a schedule; the others change ``rate`` times a day on average.

    ``directory``: the number of pages that share a directory and its schedule, or have none.
    """

    weekdays: bool
    budget: float
    share: float
    rate: float
    directory: int = 1

    @property
    def cycle_s(self) -> float:
        return DAY_S if self.weekdays else _HOUR_S

    @property
    def days(self) -> int:
        """The number of simulated days: four weeks of learning, then four weeks of measurement, two if hourly."""
        return 2 * _LEARNING_DAYS if self.weekdays else _LEARNING_DAYS + _LEARNING_DAYS // 2

    def __str__(self) -> str:
        kind = "weekdays" if self.weekdays else "an hour"
        together = f", {self.directory} together" if self.directory > 1 else ""
        per = "day" if self.weekdays else "hour"
        return f"{kind}, {self.share:.0%} of the pages{together}; others {self.rate}/day; {self.budget:.0%} a {per}"


_SETTINGS: Final = (
    _Setting(weekdays=True, budget=0.15, share=0.2, rate=0.02),
    _Setting(weekdays=True, budget=0.10, share=0.2, rate=0.02),
    _Setting(weekdays=True, budget=0.15, share=0.2, rate=0.1),
    _Setting(weekdays=True, budget=0.10, share=0.2, rate=0.1),
    _Setting(weekdays=True, budget=0.10, share=0.2, rate=0.02, directory=20),
    _Setting(weekdays=False, budget=0.02, share=0.1, rate=0.02),
    _Setting(weekdays=False, budget=0.01, share=0.1, rate=0.02),
    _Setting(weekdays=False, budget=0.02, share=0.1, rate=0.1),
    _Setting(weekdays=False, budget=0.01, share=0.1, rate=0.1),
    _Setting(weekdays=False, budget=0.02, share=0.1, rate=0.02, directory=20),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Simulation:
    """Simulated changes. ``scheduled``: bool[pages]."""

    window: Window
    scheduled: Bools


def measure_schedules(pages: int, seeds: int) -> list[Row]:
    """Return a row for each setting and figure: the share of the gap that `default` closes, as means over `seeds`."""
    rows: list[Row] = []
    for setting in _SETTINGS:
        figures = np.zeros((3, 2))
        for seed in range(seeds):
            simulation = _draw_changes(setting, pages, seed)
            schedule = Schedule(setting.budget, _WARMUP, "since_visit")
            policies: list[Policy] = [
                make_policy("posterior", setting.cycle_s, seed),
                make_policy("default", setting.cycle_s, seed),
                _ScheduleOracle(simulation.scheduled, setting.cycle_s, seed),
            ]
            for i, policy in enumerate(policies):
                trace = simulate(simulation.window, policy, schedule, np.zeros(pages, np.int64))
                figures[i] += _read(trace, setting) / seeds
        rows += _compare(setting, figures)
    return rows


def _draw_changes(setting: _Setting, pages: int, seed: int) -> _Simulation:
    rng = np.random.default_rng(seed)
    members = np.arange(pages) // setting.directory
    directories = int(members[-1]) + 1
    scheduled = (rng.permutation(directories) < setting.share * directories)[members]
    hour = rng.integers(0, 24, directories)[members]
    weekdays_on = rng.random((directories, 7)).argsort(axis=1) < rng.integers(1, 4, directories)[:, None]
    open_days = np.tile(weekdays_on[members] if setting.weekdays else np.ones((pages, 7), np.bool_), setting.days // 7)
    rates = rng.exponential(setting.rate, pages)
    times: list[Floats] = []
    for page in range(pages):
        if scheduled[page]:
            days = np.flatnonzero(open_days[page])
            times.append(days * DAY_S + hour[page] * _HOUR_S + rng.uniform(0.0, _LATE_S, days.size))
        else:
            count = rng.poisson(rates[page] * setting.days)
            times.append(np.sort(rng.uniform(0.0, setting.days * DAY_S, count)))
    urls = PackedUrls.pack([f"https://h{members[i] % _HOSTS}.example/{members[i]}/{i}" for i in range(pages)])
    window = Window(
        urls=urls,
        times_s=np.concatenate(times) + _MONDAY_S,
        offsets=np.concatenate([[0], np.cumsum([one.size for one in times])]),
        appears_s=np.full(pages, -np.inf),
        importance=None,
        start_s=_MONDAY_S,
        cycle_s=setting.cycle_s,
        cycles=round(setting.days * DAY_S / setting.cycle_s),
    )
    return _Simulation(window, scheduled)


class _ScheduleOracle:
    """Ranks scheduled pages by whether they have changed, and the others by `posterior`."""

    def __init__(self, scheduled: Bools, cycle_s: float, seed: int) -> None:
        self._scheduled = scheduled
        self._scheduler = Scheduler(formula="posterior", cycle=cycle_s, seed=seed, surges=False)
        self._known = ScheduledPolicy(self._scheduler)

    def discover(self, urls: PackedUrls, now: float) -> None:
        self._known.discover(urls, now)

    def rank(self, query: PolicyQuery) -> Rows:
        scores = np.where(self._scheduled, query.changed, self._scheduler.scores(now=query.now))
        return np.lexsort((self._scheduler.core.tie_keys(now=query.now), -scores))[: query.k]

    def observe(self, outcomes: OutcomeBatch) -> None:
        self._known.observe(outcomes)


def _read(trace: Trace, setting: _Setting) -> Floats:
    """Return the ChangeRate and the share of stale copies after the first four weeks."""
    first = round(_LEARNING_DAYS * DAY_S / setting.cycle_s) - _WARMUP
    return np.array([trace.change_rate[first:].mean(), 1.0 - trace.freshness[first:].mean()])


def _compare(setting: _Setting, figures: Floats) -> list[Row]:
    """Return a row for each figure. ``figures``: float64[3, 2], of posterior, default and oracle."""
    rows: list[Row] = []
    for i, name in enumerate(("ChangeRate", "stale")):
        plain, ours, best = (float(one) for one in figures[:, i])
        better = best - plain if i == 0 else plain - best
        closed = f"{(ours - plain) / (best - plain):.0%} closed" if better > 0.02 * plain else "no gap"
        known = f"{plain:.4f}, oracle {best:.4f}"
        rows.append(Row(f"{setting}: {name}", f"{ours:.4f}", known, closed))
    return rows
