"""Which pages the tests name, how many Poisson ones they misname, and what they cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.numerics.arrays import Floats, Ints
from streamsched.replay.analysis.observation import Observation
from streamsched.replay.analysis.page_types import (
    PAGE_TYPES,
    PageTypes,
    classify_pages,
    count_page_types,
    simulate_poisson,
    test_pages,
)

DAYS = 120


def observe(intervals: list[Ints], step_s: float = 60.0) -> Observation:
    """Pages with these intervals, in steps."""
    counts = np.array([len(page) for page in intervals])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    steps = np.concatenate([np.asarray(page, np.int64) for page in intervals])
    totals = np.array([int(np.sum(page)) + 1 for page in intervals])
    return Observation(np.full(counts.size, step_s), totals, counts + 1, totals * step_s, steps, offsets)


def clock_page(rng: np.random.Generator, period_s: float, kept: float, late_s: float) -> Ints:
    """A page that is updated by the clock, most times, up to `late_s` late; intervals in minutes."""
    times = np.arange(int(DAYS * 86_400 / period_s)) * period_s
    times = times[rng.random(times.size) < kept]
    return np.maximum(1, np.diff(np.rint((times + rng.uniform(0, late_s, times.size)) / 60))).astype(np.int64)


def names(seen: Observation, level: float = 0.01) -> list[str]:
    return [PAGE_TYPES[kind] for kind in classify_pages(test_pages(seen), level)]


@pytest.mark.parametrize(
    ("kind", "period_s", "late_s"),
    [("hourly", 3600.0, 120.0), ("daily", 86400.0, 1800.0), ("weekly", 604800.0, 7200.0)],
)
def test_pages_updated_by_the_clock_are_named_so(kind: str, period_s: float, late_s: float) -> None:
    rng = np.random.default_rng(1)
    found = names(observe([clock_page(rng, period_s, 0.9, late_s) for _ in range(100)]))
    assert found.count(kind) >= 97


@pytest.mark.parametrize("mean_steps", [1.5, 4.0, 60.0, 1440.0, 20_000.0])
@pytest.mark.parametrize("count", [6, 20, 150])
@pytest.mark.parametrize("level", [0.01, 0.1])
def test_no_more_poisson_pages_are_misnamed_than_the_level(mean_steps: float, count: int, level: float) -> None:
    rng = np.random.default_rng(int(mean_steps) + count)
    pages = 3000
    found = names(observe([rng.geometric(1 / mean_steps, count) for _ in range(pages)], 600.0), level)
    wrong = pages - found.count("poisson") - found.count("fast")
    assert wrong <= level * pages + 3 * np.sqrt(level * pages)


def test_bursts_and_evenness_are_named_other() -> None:
    rng = np.random.default_rng(3)
    bursts = [np.where(rng.random(60) < 0.8, rng.integers(1, 30, 60), rng.integers(5000, 9000, 60)) for _ in range(50)]
    even = [rng.integers(400, 520, 60) for _ in range(50)]  # minutes: near no period
    assert names(observe(bursts)).count("other") >= 45
    assert names(observe(even)).count("other") >= 45


def test_p_values_of_poisson_pages_are_hardly_ever_small() -> None:
    rng = np.random.default_rng(5)
    tests = test_pages(observe([rng.geometric(1 / 700, 80) for _ in range(4000)]))
    for column in tests.p_values.T:
        for bound in (0.01, 0.1, 0.3):
            assert np.mean(column <= bound) <= bound + 4 * np.sqrt(bound / 4000)
    other = tests.p_values[:, -1]
    assert 0.4 < np.mean(other <= 0.5) < 0.6  # as many as there should be, not only no more


def test_what_is_counted_adds_up() -> None:
    rng = np.random.default_rng(7)
    pages: list[Ints] = [clock_page(rng, 86_400.0, 0.95, 600.0) for _ in range(30)]
    pages += [rng.geometric(1 / 900, 40) for _ in range(170)] + [np.array([5, 5])] * 9 + [np.ones(30, np.int64)] * 4
    types = count_page_types(observe(pages), 0.01)
    assert sum(types.counts.values()) == len(pages)
    assert (types.counts["daily"], types.counts["few"], types.counts["fast"]) == (30, 9, 4)
    assert types.tested == 200
    assert sum(types.simulated.values()) == pytest.approx(1.0)
    assert 1 - types.simulated["poisson"] <= 0.01
    assert types.near["daily"] > 20 * types.expected["daily"] / 10
    assert types.unclear == types.untestable == ()
    assert repr(count_page_types(observe(pages), 0.01)) == repr(types)


@pytest.mark.parametrize(
    ("step_s", "unclear", "untestable"),
    [
        (60.0, (), ()),
        (3600.0, ("hourly",), ()),
        (3700.0, ("hourly",), ()),
        (86_400.0, ("daily",), ("hourly",)),
        (90_000.0, ("daily",), ("hourly",)),
        (172_800.0, ("weekly",), ("hourly", "daily")),
    ],
)
def test_steps_that_are_too_long_are_told(step_s: float, unclear: tuple[str, ...], untestable: tuple[str, ...]) -> None:
    rng = np.random.default_rng(9)
    types = count_page_types(observe([rng.geometric(0.2, 20) for _ in range(20)], step_s), 0.01)
    assert (types.unclear, types.untestable) == (unclear, untestable)
    for period in untestable:
        assert types.intervals[period] == 0


def test_a_log_without_pages_to_test_has_none() -> None:
    types: PageTypes = count_page_types(observe([np.array([1, 2, 3])]), 0.01)
    assert (types.tested, types.drawn, types.counts["few"]) == (0, 0, 1)


def test_simulated_pages_have_the_intervals_and_means_of_those_given() -> None:
    rng = np.random.default_rng(11)
    seen = observe([rng.geometric(1 / 50, 400), rng.geometric(1 / 5000, 400)])
    drawn = simulate_poisson(seen, np.array([0, 1]), seed=0)
    assert np.diff(drawn.offsets).tolist() == [400] * drawn.visits.size
    means: Floats = drawn.steps.reshape(-1, 400).mean(axis=1)
    assert np.median(means[means < 500]) == pytest.approx(seen.steps[:400].mean(), rel=0.05)
    assert np.median(means[means > 500]) == pytest.approx(seen.steps[400:].mean(), rel=0.05)


def test_a_period_that_few_intervals_are_near_names_no_page() -> None:
    rng = np.random.default_rng(13)
    pages = [np.where(rng.random(100) < share, 1440, rng.geometric(1 / 900, 100)) for share in [0.2] * 30 + [0.5] * 30]
    found = names(observe(pages))
    assert found[:30].count("daily") <= 1
    assert found[:30].count("other") >= 28
    assert found[30:].count("daily") == 30
