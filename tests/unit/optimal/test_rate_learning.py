"""Change rates from histories: the authors' figures, bounds, pages without history, and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import SettingsError
from streamsched.optimal import (
    SimulatedPages,
    approximate_crawl,
    binary_crawl,
    lambda_crawl,
    learn_and_crawl,
    learn_complete_rates,
    learn_rates,
)
from streamsched.optimal.rate_learning import HIGHEST_RATE, LOWEST_RATE
from tests.reference import optimal as reference
from tests.support.cases import grouped

intervals = st.floats(0.0, 50.0) | st.just(1.0)
histories = st.lists(st.lists(st.tuples(intervals, st.booleans()), max_size=20), min_size=1, max_size=6)


def test_three_visits() -> None:
    """The printed 1.068058 is the authors' bisection, to within 0.0001; the root is 1.068025."""
    (rate,) = learn_rates([1, 2, 4], [True, False, True])
    assert rate == pytest.approx(1.068058, abs=1e-4)
    seen = sum(w / math.expm1(rate * w) for w in (0.5, 1.0, 2.0))
    assert seen == pytest.approx(1.5, rel=1e-12)


def test_two_signals() -> None:
    assert learn_complete_rates([1, 2.5], until=4).round(6).tolist() == [0.555556]
    assert learn_complete_rates([1, 2.5, 3], [0, 0, 2, 3], until=[0, 4, 3]).tolist() == [1.0, 2.5 / 4.5, 1.5 / 3.5]


@given(histories)
def test_learning_is_the_bisection_of_each_page(drawn: list[list[tuple[float, bool]]]) -> None:
    times = [np.cumsum([interval for interval, _ in page]).astype(np.float64) for page in drawn]
    changed = [flag for page in drawn for _, flag in page]
    offsets = np.concatenate(([0], np.cumsum([len(page) for page in drawn])))
    rates = learn_rates(np.concatenate(times), np.array(changed, np.bool_), offsets)
    for rate, moments, page in zip(rates, times, drawn, strict=True):
        expected = reference.learn_rate([(t, flag) for t, (_, flag) in zip(moments, page, strict=True)])
        assert rate == pytest.approx(expected, rel=1e-9)


def test_rates_stay_within_their_bounds() -> None:
    often, never = np.arange(1, 1001) * 0.01, np.arange(1, 1001) * 100.0
    assert learn_rates(often, np.ones(1000, bool)).tolist() == [HIGHEST_RATE]
    assert learn_rates(never, np.zeros(1000, bool)).tolist() == [LOWEST_RATE]


def test_pages_without_visits_change_as_the_imagined_ones() -> None:
    assert learn_rates([], [], [0, 0, 0]).tolist() == pytest.approx([2 * math.log(2)] * 2)


@grouped(
    ("setting", "arguments"),
    {
        "times[1]": [([1, -1], [True, True]), ([1, math.nan], [True, True]), ([2, 1], [True, True])],
        "times[0]": [([math.inf, 1], [True, True])],
        "times": [([], [])],
        "changed": [([1, 2], [True]), ([1, 2], [1, 0])],
        "offsets[1]": [([1, 2], [True, True], [0, 1]), ([1, 2], [True, True], [0, 3])],
        "offsets[0]": [([1, 2], [True, True], [1, 2])],
        "offsets[2]": [([1, 2], [True, True], [0, 2, 1, 2])],
        "offsets": [([1, 2], [True, True], [0])],
    },
)
def test_errors_name_the_argument_and_the_index(arguments: tuple[Any, ...], setting: str) -> None:
    with pytest.raises(SettingsError) as caught:
        learn_rates(*arguments)
    assert caught.value.setting == setting


def test_times_may_fall_from_page_to_page() -> None:
    assert learn_rates([5, 1], [True, True], [0, 1, 2]).size == 2


def test_signals_after_the_end_are_an_error() -> None:
    for until, index in ((2, 1), ([9, 2], 1)):
        with pytest.raises(SettingsError) as caught:
            learn_complete_rates([1, 3], [0, 2] if isinstance(until, int) else [0, 0, 2], until=until)
        assert caught.value.setting == f"times[{index}]"


def test_learning_while_crawling_approaches_the_optimum() -> None:
    rng = np.random.default_rng(3)
    n = 4_000
    importance, rates = rng.integers(1, 1001, n), np.clip(rng.lognormal(-2, 1.2, n), 0.0005, 7)
    complete = np.arange(n) < n // 2
    best = lambda_crawl(importance, rates, budget=0.2 * n, complete=complete).cost
    learned = learn_and_crawl(importance, SimulatedPages(rates, complete, seed=1), budget=0.2 * n, epochs=21)
    assert np.all(learned.harmonic_cost >= best)
    assert learned.harmonic_cost[-1] - best < 0.3 * (learned.harmonic_cost[0] - best)
    again = learn_and_crawl(importance, SimulatedPages(rates, complete, seed=1), budget=0.2 * n, epochs=21)
    assert learned.harmonic_cost.tolist() == again.harmonic_cost.tolist()
    assert np.median(learned.change_rate[complete] / rates[complete]) == pytest.approx(1.0, abs=0.3)


def test_learning_with_other_policies() -> None:
    rates = [0.1, 0.5, 1.0]
    for solve in (approximate_crawl, lambda i, r, *, budget, complete: binary_crawl(i, r, budget=budget)):
        learned = learn_and_crawl([1, 2, 3], SimulatedPages(rates), budget=1, epochs=5, solve=solve)
        assert np.isfinite(learned.binary_cost).all()


def test_learning_checks_its_arguments() -> None:
    with pytest.raises(SettingsError, match="importance"):
        learn_and_crawl([-1], SimulatedPages([1.0]), budget=1)
    with pytest.raises(SettingsError, match="epochs"):
        learn_and_crawl([1], SimulatedPages([1.0]), budget=1, epochs=0)
    with pytest.raises(SettingsError, match="seed"):
        SimulatedPages([1.0], seed=-1)
