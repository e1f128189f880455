"""WebFountain's strategy 3 beside a second solver: who errs, if 31 % of the pages are crawled twice, not 18 %?

Nobody. A linear program finds as many for the change rates that are assumed here, and mixtures of 18 % that cost hardly
more; with other rates, which the paper does not print, a fifth of the pages is best and its tables come out as well.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamsched.numerics.arrays import Floats
from streamsched.optimal import BucketModel, NewPages, follow_plan, paper_model, strategy_weights, webfountain
from tests.reference.crawl_schedules import best_by_descent, best_mixture
from tests.support.cases import how_many
from tests.support.extras import needs_casadi


def drawn_model(seed: int, buckets: int = 6, periods: int = 5) -> BucketModel:
    rng = np.random.default_rng(seed)
    pages, change = rng.uniform(1.0, 5.0, buckets), rng.uniform(0.01, 0.9, buckets)
    budget = np.full(periods, pages.sum() * rng.uniform(0.2, 0.4))
    return BucketModel(pages, change, pages * change * rng.random(buckets), budget)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_no_plan_is_below_the_best_mixture(seed: int, strategy: int) -> None:
    model, rng = drawn_model(seed), np.random.default_rng(seed)
    weights = strategy_weights(strategy, 5)
    bound = best_mixture(model, weights).bound
    for scale in (0.3, 1.0):
        shares = np.round(rng.random((5, 6)) * scale, 1)
        assert follow_plan(model, weights, shares, np.zeros(5)).objective >= bound


@needs_casadi
@pytest.mark.longer
@pytest.mark.parametrize("seed", range(how_many(1, 3)))
@pytest.mark.parametrize("strategy", [1, 2, 3])
def test_plans_are_those_of_the_second_solver(seed: int, strategy: int) -> None:
    """A mixture may crawl one half of a bucket in one period and the other half in another, which no plan can."""
    model, weights = drawn_model(seed), strategy_weights(strategy, 5)
    objective = webfountain(model, weights, starts=8).objective
    assert objective >= best_mixture(model, weights).bound * (1.0 - 1e-6)
    assert objective == pytest.approx(best_by_descent(model, weights, starts=60, seed=seed), rel=0.004)


@needs_casadi
@pytest.mark.parametrize("low", [0.01, 0.1])
def test_a_crawl_to_spare_is_a_second_one_by_hand(low: float) -> None:
    """A fast and a slow page, three periods of one crawl: however low the weight, strategy 3 crawls the fast one twice.

    Fast, slow, fast: the slow one may have changed in periods 1 and 3, the fast one surely in 2. Slow, fast, fast has
    the slow one stale for longer, and so has strategy 1's fast, fast, fast.
    """
    slow = 0.05
    model = BucketModel(np.ones(2), np.array([1.0, slow]), np.zeros(2), np.ones(3))
    weights = np.array([low, low, 1.0])
    expected = low * (slow + 1.0) + slow
    for shares in ([[0, 1], [1, 0], [1, 0]], [[1, 0], [1, 0], [1, 0]]):
        assert follow_plan(model, weights, np.array(shares), np.zeros(3)).objective > expected
    for weight in (low, 1e-6):
        mixture = best_mixture(model, np.array([weight, weight, 1.0]))
        assert mixture.cost == pytest.approx(weight * (slow + 1.0) + slow)
        assert mixture.again == pytest.approx(0.5)
    plan = webfountain(model, weights, starts=3)
    assert plan.objective == pytest.approx(expected, rel=1e-4)
    assert plan.crawl_share.sum(axis=0) == pytest.approx([2.0, 1.0], abs=1e-3)


def crawled_again(model: BucketModel, weights: Floats) -> tuple[float, float]:
    """Return the objective of a plan, and the share of the pages that it crawls more than once."""
    plan = webfountain(model, weights, starts=1)
    return plan.objective, float(np.mean(plan.crawl_share.sum(axis=0) > 1.5))


@needs_casadi
def test_the_second_solver_crawls_a_third_of_the_pages_again_too() -> None:
    """255 buckets, which take a minute: 33.1 % by the mixture, 33.7 % by the plan, 0.7 % above it."""
    model, weights = replace(paper_model(54.0, buckets=85), new=NewPages()), strategy_weights(3, 14)
    mixture = best_mixture(model, weights)
    objective, again = crawled_again(model, weights)
    assert mixture.bound * (1.0 - 1e-6) <= objective < 1.01 * mixture.bound
    assert 0.3 < mixture.again < 0.36
    assert again == pytest.approx(mixture.again, abs=0.03)
    assert mixture.crawls == pytest.approx(14 * 54.0 / 510.0, rel=1e-3)  # the budget is spent, whoever gets it


@pytest.mark.parametrize(("low", "more"), [(0.01, 0.013), (0.001, 0.002), (0.0001, 0.0003)])
def test_eighteen_per_cent_cost_hardly_more(low: float, more: float) -> None:
    """So the objective does not decide between them: a solver that stops at a local optimum may give either."""
    model, weights = replace(paper_model(54.0, buckets=51), new=NewPages()), strategy_weights(3, 14)
    weights = np.where(weights < 1.0, low, 1.0)
    best, limited = best_mixture(model, weights), best_mixture(model, weights, most_again=0.18)
    assert best.again > 0.3
    assert limited.again <= 0.18 + 1e-6
    assert 1.0 <= limited.cost / best.cost < 1.0 + more


@needs_casadi
@pytest.mark.longer
def test_with_other_rates_the_tables_come_out_and_a_fifth_is_crawled_again() -> None:
    """Lifetimes and budget as found by a random search. With those of `paper_model`, a third is crawled again."""
    printed = {
        (1, 3): (21.38, 17.02), (1, 2): (17.22, 16.09), (1, 1): (325.92, 30.86), (2, 1): (377.44, 35.34),
        (2, 3): (25.00, 19.72),
    }  # fmt: skip
    ranks = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 1.0)
    days = (0.2, 10.0, 29.0, 42.0, 83.0, 150.0, 171.0, 359.0)
    lifetimes = np.interp((np.arange(51) + 0.5) / 51, ranks, days)
    change = -np.expm1(-1.0 / lifetimes)
    for (version, strategy), (objective, obsolete) in list(printed.items())[: how_many(2, 5)]:
        usual = paper_model(46.5, version=version, buckets=51)
        model = replace(usual, change_share=change, obsolete=change * usual.pages)
        plan = webfountain(model, strategy_weights(strategy, 14), starts=1)
        assert plan.objective == pytest.approx(objective, rel=0.1)
        assert plan.obsolete[-1].sum() == pytest.approx(obsolete, rel=0.1)
        if (version, strategy) == (1, 3):
            crawls = plan.crawl_share.sum(axis=0)
            assert 0.15 < np.mean(crawls > 1.5) < 0.25
            assert np.mean(crawls > 0.95) > 0.95
