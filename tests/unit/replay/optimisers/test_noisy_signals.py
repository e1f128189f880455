"""GREEDY-NCIS's experiments: the simulated crawl against one that values every page at each tick, and the report."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamsched.errors import SettingsError
from streamsched.optimal import NoisyPages, crawl_value
from streamsched.replay.optimisers import NoisyExperiments, NoisySettings, report_noisy_signals, run_noisy_signals
from streamsched.replay.optimisers.noisy_signals import (
    BUDGETS,
    PolicyAccuracy,
    SignalExperiment,
    _best_accuracy,
    _draw_events,
    _Events,
    _mixed_accuracy,
    _simulate,
)
from streamsched.replay.reporting.report import to_json


def draw(count: int, noise: float, seed: int) -> NoisyPages:
    rng = np.random.default_rng(seed)
    return NoisyPages(rng.random(count), rng.random(count), rng.beta(0.25, 0.25, count), np.full(count, noise))


def simulate_slowly(pages: NoisyPages, events: _Events, visits: float, until: float) -> float:
    """Every page is valued at each tick, and its staleness summed from its list of changes."""
    count = pages.recall.size
    last, signals = np.zeros(count), np.zeros(count, np.int64)
    crawls: list[list[float]] = [[] for _ in range(count)]
    event = 0
    for tick in range(1, int(visits * until) + 1):
        now = tick / visits
        while event < events.at.size and events.at[event] <= now:
            signals[events.row[event]] += events.kind[event] > 0
            event += 1
        best = int(np.argmax(crawl_value(pages, now - last, signals)))
        crawls[best].append(now)
        last[best], signals[best] = now, 0
    stale, begin = 0.0, until / 4
    for row in range(count):
        changes = events.at[(events.row == row) & (events.kind < 2)]
        for start, end in zip([0.0, *crawls[row]], [*crawls[row], until], strict=True):
            within = changes[(changes > start) & (changes <= end)]
            if within.size:
                stale += pages.importance[row] * max(end - max(within[0], begin), 0.0)
    return float(1.0 - stale / (pages.importance.sum() * (until - begin)))


@pytest.mark.parametrize(("noise", "visits"), [(0.0, 3.0), (0.3, 3.0), (0.3, 15.0)])
def test_pages_valued_seldom_are_visited_as_pages_valued_at_each_tick(noise: float, visits: float) -> None:
    pages = draw(20, noise, 1)
    events = _draw_events(pages, 40.0, np.random.default_rng(2))
    found = _simulate(pages, pages, events, 1024, visits, 40)
    assert found == pytest.approx(simulate_slowly(pages, events, visits, 40.0), abs=1e-9)


def test_events_come_at_the_rates_of_the_pages() -> None:
    pages = NoisyPages(np.ones(2), np.array([1.0, 0.0]), np.array([0.75, 0.5]), np.array([0.0, 0.5]))
    events = _draw_events(pages, 10_000.0, np.random.default_rng(0))
    assert np.all(np.diff(events.at) >= 0.0)
    counts = np.zeros((2, 3))
    np.add.at(counts, (events.row, events.kind), 1)
    assert counts / 10_000.0 == pytest.approx(np.array([[0.25, 0.75, 0.0], [0.0, 0.0, 0.5]]), abs=0.03)


def test_the_optimum_of_one_page_is_that_of_equal_intervals() -> None:
    page = NoisyPages(np.ones(1), np.array([0.5]), np.zeros(1), np.zeros(1))
    assert _best_accuracy(page, 2.0) == pytest.approx((1.0 - np.exp(-0.25)) / 0.25, abs=1e-4)


def test_lambdacrawl_serves_current_copies_of_announced_pages_as_often_as_it_visits_them() -> None:
    pages = NoisyPages(np.ones(2), np.ones(2), np.array([1.0, 0.0]), np.zeros(2))
    assert _mixed_accuracy(pages, 100.0) == pytest.approx(1.0, abs=0.01)
    assert 0.2 < _mixed_accuracy(pages, 1.0) < _best_accuracy(pages, 1.0) + 1e-4


def test_policies_come_in_the_papers_order_and_runs_are_repeatable() -> None:
    short = NoisySettings(pages=20, runs=2, time=5)
    for one, other in zip(run_noisy_signals(short).experiments, run_noisy_signals(short).experiments, strict=True):
        for runs, same in zip(one.policies, other.policies, strict=True):
            assert runs.accuracy.tobytes() == same.accuracy.tobytes()
            assert runs.accuracy.shape == (2, len(BUDGETS))
    result = run_noisy_signals(NoisySettings(pages=40, runs=2, time=40))
    noisy = {runs.policy: runs.accuracy.mean(axis=0) for runs in result.experiments[1].policies}
    assert np.all(noisy["GREEDY-NCIS"] > noisy["GREEDY"] - 0.01)
    assert noisy["GREEDY-CIS"][0] < noisy["GREEDY"][0] < noisy["GREEDY-NCIS"][0]
    assert noisy["GREEDY-NCIS"] == pytest.approx(noisy["optimum"], abs=0.05)


def made(greedy: float) -> NoisyExperiments:
    names = ("GREEDY", "GREEDY-CIS", "GREEDY-NCIS", "GREEDY-NCIS, 2 terms", "LambdaCrawl", "optimum")
    levels = (greedy, 0.3, 0.5, 0.5, 0.4, 0.505)
    policies = [
        PolicyAccuracy(name, np.full((2, len(BUDGETS)), level)) for name, level in zip(names, levels, strict=True)
    ]
    return NoisyExperiments(NoisySettings(), [SignalExperiment(number, "made", policies) for number in "123"])


@pytest.mark.parametrize(("greedy", "holds"), [(0.4, 9), (0.2, 8), (0.6, 7)])
def test_claims_hold_by_the_order_of_the_policies(greedy: float, holds: int) -> None:
    content = json.loads(to_json(report_noisy_signals(made(greedy))))
    assert sum(claim["holds"] for claim in content["claims"]) == holds
    assert len(content["claims"]) == 9


@pytest.mark.parametrize(("name", "value"), [("pages", 19), ("runs", 0), ("time", 0), ("seed", -1)])
def test_numbers_that_are_too_small_are_refused(name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=name):
        NoisySettings(**{name: value})
