"""Optimal visit rates: optimality conditions, limits, symmetries, and the same rates by nested bisection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from streamsched.numerics.arrays import Floats, Ints
from streamsched.optimal import CrawlRates, approximate_crawl, binary_cost, binary_crawl, harmonic_cost, lambda_crawl
from tests.reference import optimal as reference
from tests.support.crawl_problems import Problem, problems

scales = st.floats(0.01, 100.0) | st.integers(-1000, 1000).map(lambda power: math.ldexp(1.0, power))
floors = st.sampled_from([0.0, 0.4, 1.0]) | st.floats(0.0, 1.0)


def marginal_values(problem: Problem, rate: Floats, *, complete: bool) -> Floats:
    """The derivatives of -n times the harmonic cost by the visits of each page."""
    with np.errstate(divide="ignore"):
        incomplete = problem.importance * problem.change_rate / (rate * (rate + problem.change_rate))
        return np.where(problem.complete, problem.importance / rate, incomplete) if complete else incomplete


def served(problem: Problem) -> Ints:
    return np.bincount(problem.host, minlength=problem.host_budget.size)


@given(problems())
def test_lambda_crawl_spends_the_budget_at_one_price(problem: Problem) -> None:
    crawl = lambda_crawl(**problem.pages, complete=problem.complete)
    at_most = problem.change_rate.sum() if problem.complete.all() else np.inf
    assert crawl.visit_rate.sum() == pytest.approx(min(problem.budget, at_most), rel=1e-9)
    sure = problem.complete & (crawl.visit_probability == 1.0)
    values = marginal_values(problem, crawl.visit_rate, complete=True)
    assert values[~sure] == pytest.approx(crawl.multiplier, rel=1e-9)
    assert np.all(values[sure] >= crawl.multiplier * (1.0 - 1e-9))
    assert crawl.visit_rate[problem.complete] == pytest.approx(
        (crawl.visit_probability * problem.change_rate)[problem.complete], rel=1e-12
    )
    assert np.isnan(crawl.visit_probability[~problem.complete]).all()


@given(problems())
def test_polite_crawl_keeps_to_hosts_limits_at_higher_prices(problem: Problem) -> None:
    crawl = lambda_crawl(**problem.pages, **problem.hosts)
    used = np.bincount(problem.host, crawl.visit_rate, problem.host_budget.size)
    limits = problem.host_budget
    assert crawl.visit_rate.sum() == pytest.approx(problem.budget, rel=1e-9)
    assert np.all(used <= limits * (1.0 + 1e-9))
    prices = crawl.host_multiplier
    assert np.all(prices >= crawl.multiplier * (1.0 - 1e-12))
    free = (served(problem) > 0) & (used < limits * (1.0 - 1e-9))
    assert prices[free] == pytest.approx(crawl.multiplier)
    values = marginal_values(problem, crawl.visit_rate, complete=False)
    visited = crawl.visit_rate > 0.0
    assert values[visited] == pytest.approx(prices[problem.host][visited], rel=1e-9)
    assert np.array_equal(visited, limits[problem.host] > 0.0)


@given(problems(), floors)
def test_binary_crawl_spends_the_budget_at_one_price_above_the_floor(problem: Problem, floor: float) -> None:
    crawl = binary_crawl(**problem.pages, floor=floor)
    least = floor * problem.budget / problem.importance.size
    assert crawl.visit_rate.sum() == pytest.approx(problem.budget, rel=1e-9)
    assert np.all(crawl.visit_rate >= least * (1.0 - 1e-12))
    values = problem.importance * problem.change_rate / (crawl.visit_rate + problem.change_rate) ** 2
    above = crawl.visit_rate > least * (1.0 + 1e-9) + 1e-12
    assert values[above] == pytest.approx(crawl.multiplier, rel=1e-6)
    if floor < 1.0:
        assert np.all(values[~above] <= crawl.multiplier * (1.0 + 1e-6))


@given(problems(), floors)
def test_polite_binary_crawl_keeps_to_hosts_limits(problem: Problem, floor: float) -> None:
    crawl = binary_crawl(**problem.pages, **problem.hosts, floor=floor)
    used = np.bincount(problem.host, crawl.visit_rate, problem.host_budget.size)
    assert crawl.visit_rate.sum() == pytest.approx(problem.budget, rel=1e-9)
    assert np.all(used <= problem.host_budget * (1.0 + 1e-9))
    share = problem.host_budget / np.maximum(served(problem), 1)
    least = np.minimum(floor * problem.budget / problem.importance.size, share[problem.host])
    assert np.all(crawl.visit_rate >= least * (1.0 - 1e-9))


@pytest.mark.parametrize("polite", [False, True])
@given(problems(), floors)
def test_the_same_rates_by_nested_bisection(polite: bool, problem: Problem, floor: float) -> None:
    n = problem.importance.size
    hosts = [np.flatnonzero(problem.host == h).tolist() for h in range(problem.host_budget.size)]
    limits = problem.host_budget.tolist()
    if not polite:
        hosts, limits = [list(range(n))], [np.inf]
    given_hosts = problem.hosts if polite else {}
    mixed = lambda_crawl(**problem.pages, **given_hosts, complete=problem.complete)
    columns = list(
        zip(problem.importance.tolist(), problem.change_rate.tolist(), problem.complete.tolist(), strict=True)
    )
    expected = reference.divide(
        lambda i, price: reference.harmonic_rate(columns[i][0], columns[i][1], price, columns[i][2]),
        hosts, limits, problem.budget,
    )  # fmt: skip
    assert mixed.visit_rate == pytest.approx([expected[i] for i in range(n)], rel=1e-6, abs=1e-9)
    least = [floor * problem.budget / n] * n
    if polite:
        least = [min(least[i], limits[problem.host[i]] / served(problem)[problem.host[i]]) for i in range(n)]
    binary = binary_crawl(**problem.pages, **given_hosts, floor=floor)
    expected = reference.divide(
        lambda i, price: reference.binary_rate(columns[i][0], columns[i][1], price, least[i]),
        hosts, limits, problem.budget,
    )  # fmt: skip
    assert binary.visit_rate == pytest.approx([expected[i] for i in range(n)], rel=1e-6, abs=1e-9)


@given(problems(), scales)
def test_scales_of_importance_and_time_do_not_matter(problem: Problem, scale: float) -> None:
    for solve in (lambda_crawl, binary_crawl):
        crawl = solve(**problem.pages, **problem.hosts)
        heavier = solve(problem.importance * scale, problem.change_rate, budget=problem.budget, **problem.hosts)
        assert heavier.visit_rate == pytest.approx(crawl.visit_rate, rel=1e-6, abs=1e-9 * problem.budget)
        faster = solve(
            problem.importance, problem.change_rate * scale, budget=problem.budget * scale,
            host=problem.host, host_budget=problem.host_budget * scale,
        )  # fmt: skip
        assert faster.visit_rate == pytest.approx(crawl.visit_rate * scale, rel=1e-6, abs=1e-9 * problem.budget * scale)
        assert faster.cost == pytest.approx(crawl.cost, rel=1e-6)


@given(problems(), st.randoms(use_true_random=False))
def test_pages_may_come_in_any_order(problem: Problem, random: Any) -> None:
    order = list(range(problem.importance.size))
    random.shuffle(order)
    importance, change_rate, complete = problem.importance[order], problem.change_rate[order], problem.complete[order]
    hosts: dict[str, Any] = {"host": problem.host[order], "host_budget": problem.host_budget}
    pairs: list[tuple[CrawlRates, CrawlRates]] = [
        (lambda_crawl(**problem.pages, **problem.hosts, complete=problem.complete),
         lambda_crawl(importance, change_rate, budget=problem.budget, **hosts, complete=complete)),
        (binary_crawl(**problem.pages, **problem.hosts),
         binary_crawl(importance, change_rate, budget=problem.budget, **hosts)),
        (approximate_crawl(**problem.pages, complete=problem.complete),
         approximate_crawl(importance, change_rate, budget=problem.budget, complete=complete)),
    ]  # fmt: skip
    for ordered, shuffled in pairs:
        assert shuffled.visit_rate == pytest.approx(ordered.visit_rate[order], rel=1e-9, abs=1e-12)
        assert shuffled.cost == pytest.approx(ordered.cost, rel=1e-9)


@given(problems(), st.data())
def test_no_other_division_costs_less(problem: Problem, data: st.DataObject) -> None:
    n = problem.importance.size
    other = np.array(data.draw(st.lists(st.floats(0.01, 1.0), min_size=n, max_size=n)))
    other *= problem.budget / other.sum()
    pages = problem.importance, problem.change_rate
    best = lambda_crawl(*pages, budget=problem.budget)
    assert harmonic_cost(*pages, best.visit_rate) == best.cost
    assert best.cost <= harmonic_cost(*pages, other) * (1.0 + 1e-12)
    assert best.cost <= approximate_crawl(*pages, budget=problem.budget).cost * (1.0 + 1e-12)
    mixed = lambda_crawl(*pages, budget=problem.budget, complete=problem.complete)
    approximate = approximate_crawl(*pages, budget=problem.budget, complete=problem.complete)
    assert mixed.cost <= approximate.cost * (1.0 + 1e-9)
    assert approximate.visit_rate.sum() <= problem.budget * (1.0 + 1e-9)
    binary = binary_crawl(*pages, budget=problem.budget, floor=0.0)
    assert binary_cost(*pages, binary.visit_rate) == binary.cost
    assert binary.cost <= binary_cost(*pages, other) * (1.0 + 1e-12)


@given(problems())
def test_the_approximation_is_exact_for_equal_ratios(problem: Problem) -> None:
    ratios = problem.importance, problem.importance * 0.01
    best = lambda_crawl(*ratios, budget=problem.budget)
    assert approximate_crawl(*ratios, budget=problem.budget).visit_rate == pytest.approx(best.visit_rate, rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_slsqp_finds_the_same_on_ten_pages(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pages = rng.uniform(1.0, 10.0, 10), rng.uniform(0.05, 2.0, 10)
    host, limits = np.arange(10) % 2, np.array([0.5, 5.0])
    for solve, cost in ((lambda_crawl, harmonic_cost), (binary_crawl, binary_cost)):
        least = 0.4 * 2.0 / 10 if solve is binary_crawl else 1e-6
        found = minimize(
            lambda rates, cost=cost: cost(*pages, np.abs(rates)),
            np.where(host == 0, 0.09, 0.31),
            method="SLSQP",
            bounds=[(least, 3.0)] * 10,
            constraints=[
                {"type": "eq", "fun": lambda rates: rates.sum() - 2.0},
                {"type": "ineq", "fun": lambda rates: limits[0] - rates[host == 0].sum()},
            ],
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        crawl = solve(*pages, budget=2.0, host=host, host_budget=limits)
        assert crawl.visit_rate == pytest.approx(found.x, abs=2e-4)
        assert crawl.cost <= found.fun * (1.0 + 1e-9)


@pytest.mark.parametrize("width", [1e8, 1e300])
@given(st.integers(0, 2**32))
def test_budgets_and_limits_are_met_at_any_magnitudes(width: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    importance, change_rate = width ** rng.uniform(-1, 1, n), width ** rng.uniform(-1, 1, n)
    importance[2:][rng.random(n - 2) < 0.2] = 0.0
    change_rate[2:][rng.random(n - 2) < 0.2] = 0.0
    budget, host = width ** rng.uniform(-1, 1), rng.integers(0, 4, n)
    limits = budget * 10.0 ** rng.uniform(-6, 3, 4)
    limits[host[0]] = np.inf
    for solve in (lambda_crawl, binary_crawl, approximate_crawl):
        assert solve(importance, change_rate, budget=budget).visit_rate.sum() == pytest.approx(budget, rel=1e-9)
    for solve in (lambda_crawl, binary_crawl):
        crawl = solve(importance, change_rate, budget=budget, host=host, host_budget=limits)
        assert crawl.visit_rate.sum() == pytest.approx(budget, rel=1e-9)
        assert np.all(np.bincount(host, crawl.visit_rate, 4) <= limits * (1.0 + 1e-9))
