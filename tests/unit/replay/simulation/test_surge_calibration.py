"""Calibration of the default in simulated worlds: probabilities of a change, with and without surges, by any cycle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from streamsched.numerics.arrays import Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.simulation.metrics import Calibration
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import Schedule, simulate

DAY = 86_400.0
HOUR = 3_600.0
GROUPS = 20
GROUP_PAGES = 40
PAGES = GROUPS * GROUP_PAGES


class World(NamedTuple):
    """Pages of Gamma rates of mean `rate` a day, some `busy`; each group is edited every `every_days`, by `share`.

    Each page gets a new rate every `drift_days`.
    """

    rate: float = 0.02
    busy: float = 0.0
    every_days: float = np.inf
    share: float = 0.0
    drift_days: float = np.inf


WORLDS = {
    "no surges": World(),
    "drifting": World(rate=0.1, drift_days=60.0),
    "surges": World(every_days=20.0, share=0.6),
    "rare surges": World(every_days=90.0, share=0.8),
    "always changing": World(busy=0.5),
    "always changing and surges": World(busy=0.2, every_days=20.0, share=0.6),
}


def draw_drifting(rng: np.random.Generator, world: World, days: int) -> Floats:
    """Times of the changes of a page whose rate is drawn anew from time to time."""
    draws = np.sort(rng.uniform(0.0, days, rng.poisson(days / world.drift_days)))
    edges = np.concatenate([[0.0], draws, [days]])
    spans = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    rates = rng.gamma(0.5, world.rate / 0.5, edges.size - 1)
    return np.concatenate(
        [
            rng.uniform(start, end, rng.poisson(rate * (end - start)))
            for (start, end), rate in zip(spans, rates, strict=True)
        ]
    )


def make_window(world: World, days: int, cycle_s: float) -> Window:
    rng = np.random.default_rng(3)
    rates = rng.gamma(0.5, world.rate / 0.5, PAGES)
    rates[rng.random(PAGES) < world.busy] = 30.0
    times: list[Floats] = [rng.uniform(0.0, days, rng.poisson(rate * days)) for rate in rates]
    if world.drift_days < days:
        times = [draw_drifting(rng, world, days) for _ in range(PAGES)]
    for group in range(GROUPS):
        for edit in rng.uniform(0.0, days, rng.poisson(days / world.every_days)):
            for page in range(group * GROUP_PAGES, (group + 1) * GROUP_PAGES):
                if rng.random() < world.share:
                    times[page] = np.append(times[page], edit)
    urls = [f"https://a.example/{page // GROUP_PAGES}/{page}" for page in range(PAGES)]
    pages = np.concatenate([np.arange(PAGES), np.repeat(np.arange(PAGES), [part.size for part in times])])
    seconds = np.concatenate([np.full(PAGES, -np.inf), np.concatenate(times) * DAY])
    log = ChangeLog.collect(PackedUrls.pack(urls), pages, seconds, np.zeros(seconds.size, np.bool_))
    return log.window(0.0, cycle_s, int(days * DAY / cycle_s), later_pages=False)


def crawl(world: World, days: int, cycle_s: float, budget: float) -> Calibration:
    """Forecasts of the last two thirds of the days."""
    window = make_window(world, days, cycle_s)
    schedule = Schedule(budget, 2, "since_visit", window.cycles // 3)
    policy = make_policy("default", cycle_s, 0, schedule, 1)
    assert isinstance(policy, ScheduledPolicy)
    trace = simulate(window, policy, schedule, np.zeros(PAGES, np.int64), None, policy.predict)
    assert trace.calibration is not None
    return trace.calibration


# The error allowed: surges come to whole groups at once, so that few of them make an error by chance; three draws of
# each world have errors up to two thirds of it, except 0.045 of 0.05. A drifting page is chosen for the rate it had.
DAILY = dict(zip(WORLDS, (0.02, 0.09, 0.05, 0.08, 0.02, 0.02), strict=True))
HOURLY = {"drifting": 0.07, "surges": 0.1, "always changing and surges": 0.02}


@pytest.mark.parametrize("name", WORLDS)
def test_what_is_predicted_comes_by_the_day(name: str) -> None:
    check(crawl(WORLDS[name], 240, DAY, 0.05), DAILY[name], surges=name == "surges")


@pytest.mark.parametrize("name", HOURLY)
def test_what_is_predicted_comes_by_the_hour(name: str) -> None:
    check(crawl(WORLDS[name], 60, HOUR, 0.005), HOURLY[name], surges=name == "surges")


def check(found: Calibration, allowed: float, *, surges: bool) -> None:
    every = found.all_visits
    assert every.error is not None
    assert every.error < allowed
    assert every.mean_predicted == pytest.approx(every.share_observed, abs=0.07)
    if surges:
        assert found.with_surge.total > 1_000
        assert found.with_surge.mean_predicted == pytest.approx(found.with_surge.share_observed, abs=0.1)
