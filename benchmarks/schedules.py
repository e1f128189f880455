"""Scheduled pages among Poisson pages: the share of an oracle's gain over `posterior` that the default policy reaches.

A scheduled page is updated in the first five minutes of an hour of its own, on one to three weekdays of its own or on
all days. The other pages change as Poisson processes with exponentially distributed rates. Policies visit a share of
all pages in each cycle, after two cycles that visit all pages. Measurement begins after four weeks.

The oracle knows of each scheduled page whether it has changed, and ranks the others by `posterior`. The rival is
`posterior` alone, without rhythm and surge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.timing import Row
from streamsched.numerics.arrays import Bools, Floats, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.replay.simulation.policies import ScheduledPolicy, make_policy
from streamsched.replay.simulation.simulator import Policy, PolicyQuery, Schedule, Trace, simulate
from streamsched.replay.truth.ground_truth import Window
from streamsched.scheduler.scheduler import Scheduler

__all__ = ["measure"]

_MONDAY_S: Final = 1_704_067_200.0  # 2024-01-01
_HOUR_S: Final = 3_600.0
_DAY_S: Final = 86_400.0
_LATE_S: Final = 300.0
_LEARNING_DAYS: Final = 28
_HOSTS: Final = 100
_WARMUP: Final = 2  # cycles


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
        return _DAY_S if self.weekdays else _HOUR_S

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


def measure(pages: int = 2_000, seeds: int = 3) -> list[Row]:
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
                _Oracle(simulation.scheduled, setting.cycle_s, seed),
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
            times.append(days * _DAY_S + hour[page] * _HOUR_S + rng.uniform(0.0, _LATE_S, days.size))
        else:
            count = rng.poisson(rates[page] * setting.days)
            times.append(np.sort(rng.uniform(0.0, setting.days * _DAY_S, count)))
    urls = PackedUrls.pack([f"https://h{members[i] % _HOSTS}.example/{members[i]}/{i}" for i in range(pages)])
    window = Window(
        urls=urls,
        times_s=np.concatenate(times) + _MONDAY_S,
        offsets=np.concatenate([[0], np.cumsum([one.size for one in times])]),
        appears_s=np.full(pages, -np.inf),
        importance=None,
        start_s=_MONDAY_S,
        cycle_s=setting.cycle_s,
        cycles=round(setting.days * _DAY_S / setting.cycle_s),
    )
    return _Simulation(window, scheduled)


class _Oracle:
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
    first = round(_LEARNING_DAYS * _DAY_S / setting.cycle_s) - _WARMUP
    return np.array([trace.change_rate[first:].mean(), 1.0 - trace.freshness[first:].mean()])


def _compare(setting: _Setting, figures: Floats) -> list[Row]:
    """Return a row for each figure. ``figures``: float64[3, 2], of posterior, default and oracle."""
    rows: list[Row] = []
    for i, name in enumerate(("ChangeRate", "stale")):
        plain, ours, best = (float(one) for one in figures[:, i])
        better = best - plain if i == 0 else plain - best
        closed = f"{(ours - plain) / (best - plain):.0%} closed" if better > 0.02 * plain else "no gap"
        known = f"{plain:.4f}, oracle {best:.4f}"
        rows.append((f"{setting}: {name}", f"{ours:.4f}", known, closed, "90% closed"))
    return rows
