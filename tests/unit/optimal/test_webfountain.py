"""WebFountain's model: balance and limits of every plan, the paper's strategies, and a missing CasADi."""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import SettingsError
from streamsched.numerics.arrays import Floats
from streamsched.optimal import (
    BucketModel,
    CrawlPlan,
    NewPages,
    follow_plan,
    paper_model,
    strategy_weights,
    webfountain,
)
from tests.reference import optimal as reference
from tests.support.cases import examples, grouped, how_many
from tests.support.extras import needs_casadi

MILLIONTH = 1e-6  # of a million pages


NEW = NewPages(waiting=1.0, arrivals=0.5, found_by_old=0.01, found_by_new=0.05, cost=1.5)


def small_model(periods: int = 6, buckets: int = 12, budget: float = 7.0) -> BucketModel:
    change = np.geomspace(0.6, 0.003, buckets)
    pages = np.full(buckets, 5.0)
    return BucketModel(pages, change, change * pages, np.full(periods, budget), NEW)


def assert_constraints_hold(model: BucketModel, plan: CrawlPlan) -> None:
    """Check (1) to (6) of the paper, page numbers in millions."""
    obsolete, pages, new = reference.follow(
        (model.pages.tolist(), model.change_share.tolist(), model.obsolete.tolist()),
        (model.new.waiting, model.new.arrivals, model.new.found_by_old, model.new.found_by_new),
        plan.crawled.tolist(),
        plan.new_crawled.tolist(),
    )
    assert plan.obsolete == pytest.approx(np.array(obsolete), abs=MILLIONTH)
    assert plan.pages == pytest.approx(np.array(pages), abs=MILLIONTH)
    assert plan.new_pages == pytest.approx(new, abs=MILLIONTH)
    assert np.all(plan.crawled.sum(axis=1) + model.new.cost * plan.new_crawled <= model.budget + MILLIONTH)
    before = np.vstack((model.pages, plan.pages[:-1]))
    assert np.all((plan.crawled >= 0.0) & (plan.crawled <= before + MILLIONTH))
    waiting = np.concatenate(([model.new.waiting], plan.new_pages[:-1]))
    assert np.all((plan.new_crawled >= 0.0) & (plan.new_crawled <= waiting + MILLIONTH))


@given(st.integers(0, 2**32), st.floats(0.1, 5.0))
def test_any_plan_is_cut_to_what_is_possible(seed: int, scale: float) -> None:
    model, rng = small_model(), np.random.default_rng(seed)
    plan = follow_plan(model, np.ones(6), rng.normal(0.0, scale, (6, 12)), rng.normal(0.0, scale, 6))
    assert_constraints_hold(model, plan)
    assert plan.objective == pytest.approx(plan.obsolete.sum() + plan.new_pages.sum())


@needs_casadi
@examples(ordinary=3, whole=10)
@given(st.integers(1, 8), st.integers(1, 10), st.floats(0.5, 100.0), st.sampled_from([1, 2, 3]))
def test_solutions_hold_the_constraints_and_beat_their_starts(
    periods: int, buckets: int, budget: float, strategy: int
) -> None:
    model, weights = small_model(periods, buckets, budget), strategy_weights(strategy, periods)
    plan = webfountain(model, weights, starts=1)
    assert_constraints_hold(model, plan)
    alike = follow_plan(model, weights, np.zeros((periods, buckets)), np.zeros(periods))
    assert plan.objective <= alike.objective


@needs_casadi
def test_more_starts_are_no_worse_and_a_seed_repeats_them() -> None:
    model, weights = small_model(), strategy_weights(1, 6)
    found = [webfountain(model, weights, starts=starts, seed=1).objective for starts in (1, 3, 5, 5)]
    assert found[0] >= found[1] >= found[2] == found[3]


@needs_casadi
def test_the_unit_of_pages_does_not_matter() -> None:
    millions = small_model()
    pages = BucketModel(
        millions.pages * 1e6, millions.change_share, millions.obsolete * 1e6, millions.budget * 1e6,
        dataclasses.replace(NEW, waiting=1e6, arrivals=0.5e6),
    )  # fmt: skip
    weights = strategy_weights(1, 6)
    expected = webfountain(millions, weights, starts=1).objective
    assert webfountain(pages, weights, starts=1).objective == pytest.approx(expected * 1e6, rel=0.01)


def crawls(plan: CrawlPlan) -> Floats:
    """How often each bucket is crawled, fastest first."""
    return np.asarray(plan.crawl_share.sum(axis=0))


def coarse(model: BucketModel) -> BucketModel:
    """The model with a fifth of the buckets, each of five times the pages."""
    columns = (model.pages[2::5] * 5, model.change_share[2::5], model.obsolete[2::5] * 5)
    return BucketModel(*columns, model.budget, model.new)


@needs_casadi
def test_strategies_of_the_paper() -> None:
    """1 leaves out the slowest buckets and crawls fast ones in many periods; 2 and 3 crawl all at least once."""
    model = coarse(paper_model(54.0))
    every, last, both = (webfountain(model, strategy_weights(s, 14), starts=1) for s in (1, 2, 3))
    for plan in (every, last, both):
        assert_constraints_hold(model, plan)
    assert np.all(crawls(every)[-14:] < 0.05)
    assert crawls(every)[:5].mean() > 3.0
    assert crawls(last).min() > 0.95
    assert np.mean(crawls(both) > 0.95) > 0.8
    assert crawls(both)[:9].mean() > 1.2
    stale = [plan.obsolete.sum(axis=1) for plan in (every, last, both)]
    assert stale[0][:-1].sum() < stale[2][:-1].sum() < stale[1][:-1].sum()
    assert stale[1][-1] < stale[2][-1] < stale[0][-1]


TABLES = [
    (1, 2, 17.22, 16.09), (1, 3, 21.38, 17.02), (1, 1, 325.92, 30.86), (2, 1, 377.44, 35.34), (2, 3, 25.00, 19.72),
]  # fmt: skip


@needs_casadi
@pytest.mark.longer
@pytest.mark.parametrize(("version", "strategy", "objective", "obsolete"), TABLES[: how_many(2, 5)])
def test_tables_3_and_4(version: int, strategy: int, objective: float, obsolete: float) -> None:
    """In millions of pages, with the budget that gives strategy 1 as many obsolete pages as in table 3."""
    plan = webfountain(paper_model(54.0, version=version), strategy_weights(strategy, 14), starts=1)
    assert plan.objective == pytest.approx(objective, rel=0.1)
    assert plan.obsolete[-1].sum() == pytest.approx(obsolete, rel=0.1)
    assert plan.pages[-1].sum() == pytest.approx(522.0, rel=0.01)


@needs_casadi
@pytest.mark.soak
def test_obsolete_pages_stabilise_and_halve_with_the_change_rates() -> None:
    """Experiment 3: 28 periods of strategy 1, at the paper's change rates and at half of them."""
    weights = strategy_weights(1, 28)
    usual, halved = (
        webfountain(coarse(paper_model(54.0, periods=28, change_scale=scale)), weights, starts=1)
        for scale in (1.0, 0.5)
    )
    stale = usual.obsolete.sum(axis=1)
    assert stale[27] - stale[14] < 0.5 * (stale[14] - stale[0])
    assert np.mean(halved.obsolete.sum(axis=1) / stale) == pytest.approx(0.5, abs=0.1)


@needs_casadi
def test_no_plan_of_one_bucket_is_better_on_a_grid() -> None:
    """The best of all plans whose shares are multiples of a tenth is no better than the one found."""
    model = BucketModel([10.0], [0.3], [2.0], [4.0, 7.0, 5.0])  # type: ignore[arg-type]
    weights = strategy_weights(1, 3)
    grid = itertools.product(np.linspace(0.0, 1.0, 11), repeat=3)
    plans = [follow_plan(model, weights, np.array(shares)[:, np.newaxis], np.zeros(3)) for shares in grid]
    best = min(plan.objective for plan in plans)
    assert webfountain(model, weights, starts=3).objective <= best * 1.01


def test_the_paper_model() -> None:
    model = paper_model(54.0)
    assert model.pages.sum() == 510.0
    assert float(model.pages.sum()) + 14 * model.new.arrivals == pytest.approx(522.4, abs=0.1)
    assert np.all(np.diff(model.change_share) < 0.0)
    halved = paper_model(54.0, periods=28, change_scale=0.5)
    assert halved.budget.size == 28
    assert np.log1p(-halved.change_share) == pytest.approx(np.log1p(-model.change_share) / 2)
    assert sorted(set(paper_model(54.0, version=2).pages.tolist())) == [1.0, 3.0]


def test_without_casadi_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "casadi", None)
    with pytest.raises(SettingsError, match=r"streamsched\[webfountain\]") as caught:
        webfountain(small_model(), strategy_weights(1, 6))
    assert caught.value.setting == "casadi"


def model_of(**wrong: Any) -> BucketModel:
    model: dict[str, Any] = {"pages": [1, 1], "change_share": [0.1, 0.2], "obsolete": [0, 0], "budget": [1, 1]}
    return BucketModel(**model | wrong)


def plan_of(**wrong: Any) -> object:
    model = BucketModel(np.full(2, 2.0), np.array([0.5, 0.1]), np.array([1.0, 0.2]), np.ones(3))
    right = {"weights": np.ones(3), "crawl_share": np.zeros((3, 2)), "new_crawled": np.zeros(3)}
    return follow_plan(model, **right | wrong)


@grouped(
    ("setting", "call"),
    {
        "pages": [partial(model_of, pages=pages) for pages in ([], [1.0] * 257)],
        "pages[1]": [partial(model_of, pages=pages) for pages in ([1.0, 0.0], [1.0, math.inf])],
        "change_share[1]": [partial(model_of, change_share=[0.5, 1.5])],
        "change_share": [partial(model_of, change_share=[0.5])],
        "change_share[0]": [partial(model_of, change_share=[math.nan, 0.5])],
        "obsolete[1]": [partial(model_of, obsolete=obsolete) for obsolete in ([0.0, 2.0], [0.0, -1.0])],
        "budget[1]": [partial(model_of, budget=[1.0, 0.0])],
        "budget": [partial(model_of, budget=[]), partial(paper_model, 0.0)],
        "waiting": [partial(NewPages, waiting=-1.0)],
        "found_by_new": [partial(NewPages, found_by_new=2.0)],
        "cost": [partial(NewPages, cost=0.0)],
        "strategy": [partial(strategy_weights, 4, 3)],
        "periods": [partial(strategy_weights, 1, 0)],
        "weights": [
            *[partial(webfountain, small_model(), weights) for weights in ([1.0], [0.0] * 6)],
            partial(plan_of, weights=np.ones(2)),
        ],
        "weights[0]": [partial(webfountain, small_model(), [-1.0] * 6)],
        "starts": [partial(webfountain, small_model(), [1.0] * 6, starts=0)],
        "seed": [partial(webfountain, small_model(), [1.0] * 6, seed=-1)],
        "version": [partial(paper_model, 1.0, version=3)],
        "change_scale": [partial(paper_model, 1.0, change_scale=math.nan)],
        "crawl_share": [partial(plan_of, crawl_share=share) for share in (np.zeros((2, 3)), np.full((3, 2), np.nan))],
        "new_crawled": [partial(plan_of, new_crawled=np.array([0.0, np.inf, 0.0]))],
    },
)
def test_what_is_wrong_is_named(setting: str, call: Callable[[], object]) -> None:
    with pytest.raises(SettingsError) as caught:
        call()
    assert caught.value.setting == setting
