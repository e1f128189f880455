"""LambdaCrawl and BinaryLambdaCrawl: figures of their papers' authors, limits, and errors that name the argument."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from streamsched import SettingsError
from streamsched.numerics.arrays import Floats
from streamsched.optimal import approximate_crawl, binary_cost, binary_crawl, harmonic_cost, lambda_crawl
from tests.reference import optimal as reference

IMPORTANCE, CHANGE_RATE = [1, 2, 3], [0.1, 0.5, 1]


def test_three_pages() -> None:
    crawl = lambda_crawl(IMPORTANCE, CHANGE_RATE, budget=1)
    assert crawl.visit_rate.round(6).tolist() == [0.124208, 0.333939, 0.541852]
    assert round(crawl.cost, 6) == 1.852752
    assert round(binary_cost(IMPORTANCE, CHANGE_RATE, crawl.visit_rate), 6) == 1.196951
    assert np.isnan(crawl.visit_probability).all()


def test_three_pages_with_signals() -> None:
    crawl = lambda_crawl(IMPORTANCE, CHANGE_RATE, budget=1, complete=[True, True, True])
    assert crawl.visit_probability.round(12).tolist() == [1.0, 0.72, 0.54]
    assert crawl.visit_rate.round(12).tolist() == [0.1, 0.36, 0.54]


def test_three_pages_binary() -> None:
    crawl = binary_crawl(IMPORTANCE, CHANGE_RATE, budget=1, floor=0)
    assert crawl.visit_rate.round(6).tolist() == [0.169723, 0.35294, 0.477336]


@pytest.fixture(scope="module")
def many() -> tuple[Floats, Floats, float]:
    rng = np.random.default_rng(0)
    n = 100_000
    importance = rng.integers(1, 1001, n)
    return importance.astype(np.float64), np.clip(rng.lognormal(-2, 1.2, n), 0.0005, 7), 0.2 * n


def test_hundred_thousand_pages(many: tuple[Floats, Floats, float]) -> None:
    """The printed binary cost of LambdaCrawl is 197.0997: its authors search the multiplier to within 0.1 of 985."""
    importance, change_rate, budget = many
    policies = {
        "lambda": lambda_crawl(importance, change_rate, budget=budget).visit_rate,
        "approximation": approximate_crawl(importance, change_rate, budget=budget).visit_rate,
        "binary 0.4": binary_crawl(importance, change_rate, budget=budget).visit_rate,
        "binary 0": binary_crawl(importance, change_rate, budget=budget, floor=0).visit_rate,
        "uniform": np.full(change_rate.size, 0.2),
        "proportional": change_rate * (budget / change_rate.sum()),
    }
    costs = {
        name: (
            round(harmonic_cost(importance, change_rate, rate), 4),
            round(binary_cost(importance, change_rate, rate), 4),
        )
        for name, rate in policies.items()
    }
    assert costs == {
        "lambda": (279.6246, 197.0996),
        "approximation": (306.9730, 194.8733),
        "binary 0.4": (311.1875, 191.9669),
        "binary 0": (math.inf, 188.6041),
        "uniform": (334.5111, 212.2852),
        "proportional": (434.2904, 290.2487),
    }


def test_signals_lower_the_cost_below_that_of_the_authors_nested_search(many: tuple[Floats, Floats, float]) -> None:
    importance, change_rate, budget = many
    complete = np.arange(change_rate.size) < 4_000
    crawl = lambda_crawl(importance, change_rate, budget=budget, complete=complete)
    approximate = approximate_crawl(importance, change_rate, budget=budget, complete=complete)
    assert crawl.visit_rate.sum() == pytest.approx(budget, rel=1e-9)
    assert 269.0 < crawl.cost < 269.0481
    assert crawl.cost == pytest.approx(
        harmonic_cost(importance, change_rate, crawl.visit_rate, crawl.visit_probability), rel=1e-12
    )
    assert crawl.cost < approximate.cost < approximate_crawl(importance, change_rate, budget=budget).cost


def test_costs_are_their_definitions() -> None:
    pages = [(1.0, 0.1, 0.3), (2.0, 0.5, 0.2), (3.0, 1.0, 0.5)]
    importance, change_rate, visit_rate = ([page[i] for page in pages] for i in range(3))
    assert harmonic_cost(importance, change_rate, visit_rate) == pytest.approx(
        reference.harmonic_cost(pages), rel=1e-14
    )
    assert binary_cost(importance, change_rate, visit_rate) == pytest.approx(reference.binary_cost(pages), rel=1e-14)
    probability = [math.nan, 0.4, math.nan]
    seen = [pages[0], pages[2]]
    assert harmonic_cost(importance, change_rate, visit_rate, probability) == pytest.approx(
        (2 * reference.harmonic_cost(seen) - 2.0 * math.log(0.4)) / 3
    )
    assert binary_cost(importance, change_rate, visit_rate, probability) == pytest.approx(
        (2 * reference.binary_cost(seen) + 2.0 * 0.6) / 3
    )


def test_pages_never_visited_cost_without_limit_unless_they_do_not_matter() -> None:
    assert harmonic_cost([1, 1], [1, 1], [1, 0]) == math.inf
    assert harmonic_cost([1, 0, 1], [1, 1, 0], [1, 0, 0]) == pytest.approx(math.log(2) / 3)
    assert binary_cost([1, 0, 1], [1, 1, 0], [1, 0, 0]) == pytest.approx(0.5 / 3)


@pytest.mark.parametrize("budget", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("solve", [lambda_crawl, binary_crawl, approximate_crawl])
def test_any_budget_is_spent(solve: Any, budget: float) -> None:
    importance, change_rate = [1.0, 5.0, 20.0], [3.0, 0.2, 1e-6]
    assert solve(importance, change_rate, budget=budget).visit_rate.sum() == pytest.approx(budget, rel=1e-9)


def test_a_tiny_budget_goes_by_importance() -> None:
    """ρ tends to importance/multiplier as the budget tends to 0; without a floor, binary crawls visit one page."""
    crawl = lambda_crawl(IMPORTANCE, CHANGE_RATE, budget=1e-9)
    assert crawl.visit_rate / 1e-9 == pytest.approx(np.array(IMPORTANCE) / 6, rel=1e-6)
    best = binary_crawl([1, 2, 3], [0.1, 0.5, 1], budget=1e-9, floor=0)
    assert best.visit_rate.tolist() == [pytest.approx(1e-9, rel=1e-9), 0.0, 0.0]


def test_a_huge_budget_goes_by_the_root_of_importance_and_change_rate() -> None:
    roots = np.sqrt(np.multiply(IMPORTANCE, CHANGE_RATE))
    for crawl in (
        lambda_crawl(IMPORTANCE, CHANGE_RATE, budget=1e9),
        binary_crawl(IMPORTANCE, CHANGE_RATE, budget=1e9, floor=0),
    ):
        assert crawl.visit_rate / 1e9 == pytest.approx(roots / roots.sum(), rel=1e-6)
        assert crawl.cost < 1e-8


@pytest.mark.parametrize("complete", [[False, False], [True, True], [True, False]])
def test_pages_that_hardly_change(complete: list[bool]) -> None:
    crawl = lambda_crawl([1, 1], [1e-12, 1.0], budget=0.5, complete=complete)
    assert crawl.visit_rate.tolist() == pytest.approx([0.0, 0.5], abs=2e-6)
    still = lambda_crawl([1, 1], [0.0, 1.0], budget=0.5, complete=complete)
    assert still.visit_rate.tolist() == [0.0, pytest.approx(0.5)]
    assert math.isfinite(still.cost)


def test_nothing_to_visit() -> None:
    for importance, change_rate in (([0, 0], [1, 1]), ([1, 1], [0, 0])):
        crawl = lambda_crawl(importance, change_rate, budget=1)
        assert (crawl.visit_rate.tolist(), crawl.multiplier, crawl.cost) == ([0.0, 0.0], 0.0, 0.0)


def test_signals_for_all_changes_need_no_more_visits_than_changes() -> None:
    crawl = lambda_crawl([1, 2], [0.1, 0.5], budget=9, complete=[True, True])
    assert (crawl.visit_rate.tolist(), crawl.visit_probability.tolist()) == ([0.1, 0.5], [1.0, 1.0])
    assert (crawl.multiplier, crawl.cost) == (0.0, 0.0)


def test_one_page_gets_the_budget_and_equal_pages_equal_shares() -> None:
    for solve in (lambda_crawl, binary_crawl, approximate_crawl):
        assert solve([7], [0.3], budget=0.2).visit_rate.tolist() == [pytest.approx(0.2, rel=1e-12)]
        assert solve([7] * 8, [0.3] * 8, budget=2).visit_rate.tolist() == [pytest.approx(0.25, rel=1e-9)] * 8


def test_a_host_that_takes_no_visits_gets_none() -> None:
    for solve in (lambda_crawl, binary_crawl):
        crawl = solve(IMPORTANCE, CHANGE_RATE, budget=1, host=[0, 1, 1], host_budget=[0, 5])
        assert crawl.visit_rate[0] == 0.0
        assert crawl.visit_rate.sum() == pytest.approx(1.0, rel=1e-9)
        assert crawl.host_multiplier.tolist() == [math.inf, crawl.multiplier]


def test_hosts_that_take_the_whole_budget_and_no_more() -> None:
    crawl = lambda_crawl(IMPORTANCE, CHANGE_RATE, budget=1, host=[0, 1, 1], host_budget=[0.25, 0.75])
    assert np.bincount([0, 1, 1], crawl.visit_rate).tolist() == pytest.approx([0.25, 0.75], rel=1e-9)


def test_a_uniform_floor() -> None:
    crawl = binary_crawl(IMPORTANCE, CHANGE_RATE, budget=0.9, floor=1)
    assert crawl.visit_rate.tolist() == pytest.approx([0.3] * 3, rel=1e-12)


def test_results_cannot_be_changed() -> None:
    crawl = lambda_crawl(IMPORTANCE, CHANGE_RATE, budget=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        crawl.cost = 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "setting", "found"),
    [
        ({"importance": [1, math.nan, 3]}, "importance[1]", math.nan),
        ({"importance": [1, 2, -3]}, "importance[2]", -3.0),
        ({"importance": []}, "importance", None),
        ({"importance": "abc"}, "importance", None),
        ({"importance": [[1, 2, 3]]}, "importance", None),
        ({"change_rate": [math.inf, 2, 3]}, "change_rate[0]", math.inf),
        ({"change_rate": [1, 2]}, "change_rate", None),
        ({"budget": 0}, "budget", 0),
        ({"budget": -1}, "budget", -1),
        ({"budget": math.nan}, "budget", math.nan),
        ({"budget": math.inf}, "budget", math.inf),
        ({"complete": [True]}, "complete", None),
        ({"complete": [1, 0, 1]}, "complete", None),
        ({"host": [0, 0, 0]}, "host_budget", None),
        ({"host_budget": [1]}, "host", None),
        ({"host": [0, 0, 2], "host_budget": [1, 1]}, "host[2]", 2),
        ({"host": [0, -1, 0], "host_budget": [1, 1]}, "host[1]", -1),
        ({"host": [0, 0], "host_budget": [1, 1]}, "host", None),
        ({"host": [0.0, 0.0, 0.0], "host_budget": [1, 1]}, "host", None),
        ({"host": [0, 1, 0], "host_budget": [1, -1]}, "host_budget[1]", -1.0),
        ({"host": [0, 1, 0], "host_budget": [math.nan, 1]}, "host_budget[0]", math.nan),
        ({"host": [0, 0, 0], "host_budget": [0.5, 9]}, "budget", 1),
    ],
)
def test_errors_name_the_argument_and_the_index(wrong: dict[str, Any], setting: str, found: object) -> None:
    arguments: dict[str, Any] = {"importance": IMPORTANCE, "change_rate": CHANGE_RATE, "budget": 1} | wrong
    with pytest.raises(SettingsError) as caught:
        lambda_crawl(**arguments)
    assert caught.value.setting == setting
    if found is not None:
        assert caught.value.found == pytest.approx(found, nan_ok=True)
    if "complete" not in wrong:
        with pytest.raises(SettingsError) as caught:
            binary_crawl(**arguments)
        assert caught.value.setting == setting


@pytest.mark.parametrize("floor", [-0.1, 1.1, math.nan, None, "0.4", True])
def test_a_floor_is_a_share(floor: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        binary_crawl(IMPORTANCE, CHANGE_RATE, budget=1, floor=floor)
    assert caught.value.setting == "floor"


@pytest.mark.parametrize("cost", [harmonic_cost, binary_cost])
def test_costs_check_their_columns(cost: Any) -> None:
    for columns, setting in (
        ((IMPORTANCE, CHANGE_RATE, [1, 1]), "visit_rate"),
        ((IMPORTANCE, CHANGE_RATE, [1, 1, -1]), "visit_rate[2]"),
        ((IMPORTANCE, CHANGE_RATE, [1, 1, 1], [0.5, 2.0, math.nan]), "visit_probability[1]"),
        ((IMPORTANCE, CHANGE_RATE, [1, 1, 1], [0.5]), "visit_probability"),
    ):
        with pytest.raises(SettingsError) as caught:
            cost(*columns)
        assert caught.value.setting == setting


def test_floors_that_reach_a_hosts_limit_leave_no_visit_to_divide() -> None:
    """Each page of the host gets its equal share, and the host's price is infinite: nothing is above the floors."""
    crawl = binary_crawl(
        [1.0, 2.0, 3.0, 4.0], [0.1, 0.5, 1.0, 1.0], budget=4.0, floor=1.0, host=[0, 0, 0, 1], host_budget=[0.3, 9.0]
    )
    assert crawl.visit_rate == pytest.approx([0.1, 0.1, 0.1, 3.7])
    assert crawl.host_multiplier[0] == math.inf
