"""Policies through the real Scheduler: that each ranks by what it says, and draws lots among equals."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import OutcomeBatch, PackedUrls, Scheduler
from streamsched.numerics.arrays import Bools, Rows
from streamsched.numerics.topk_order import select_top
from streamsched.replay.simulation.policies import (
    EVOLVING,
    FORMULAS,
    PLANNING,
    POLICIES,
    STEADY,
    VALUING,
    formula_of,
    is_objective,
    make_policy,
)
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import Policy, PolicyQuery
from streamsched.scheduler.planning.planned_rates import PLANNERS

DAY = 86_400.0
PAGES = 40
URLS = PackedUrls.pack([f"https://host{page % 3}.example/{page % 5}/{page}" for page in range(PAGES)])


def ask(cycle: int, k: int = 8, changed: Bools | None = None) -> PolicyQuery:
    return PolicyQuery(k, PAGES, cycle, (cycle + 1) * DAY, np.zeros(PAGES, bool) if changed is None else changed)


def visit(policy: Policy | Scheduler, cycle: int, rows: Rows, changed: Bools) -> None:
    policy.observe(OutcomeBatch(URLS.take(rows), np.full(rows.size, (cycle + 1) * DAY), changed=changed[rows]))


def teach(policy: Policy | Scheduler) -> None:
    """Some days in which pages change each at a rate of its own, all visited at first and then some."""
    rng = np.random.default_rng(0)
    for cycle in range(8):
        rows = np.arange(PAGES) if cycle < 2 else np.sort(rng.permutation(PAGES)[:10])
        visit(policy, cycle, rows, rng.random(PAGES) < np.linspace(0, 0.9, PAGES))


@pytest.mark.parametrize("name", [*FORMULAS, "default", "changes", "balanced(0.2)", "t * X"])
def test_a_policy_ranks_as_a_scheduler_with_its_formula(name: str) -> None:
    policy, scheduler = make_policy(name, DAY, seed=3), Scheduler(cycle=DAY, seed=3, surges=name != "posterior")
    formula = formula_of(name)
    assert formula is not None
    if name != "default":
        scheduler.use(formula)
    for learner in (policy, scheduler):
        learner.discover(URLS, now=0.0)
        teach(learner)
    now = 9 * DAY
    expected = select_top(scheduler.scores(now=now), scheduler.core.tie_keys(now=now), 8)
    if is_objective(name):
        likely = scheduler.core.batch_builder.change_probabilities(now, expected)
        expected = expected[np.argsort(-likely, kind="stable")]
    assert policy.rank(ask(8)).tolist() == expected.tolist()
    if is_objective(name):  # calibration is that of the probabilities that callers see
        ranked = scheduler.rank(8, now=now)
        assert isinstance(policy, ScheduledPolicy)
        assert policy.predict(ranked.rows, now).probabilities.tolist() == ranked.probabilities.tolist()


def test_every_name_makes_a_policy_that_ranks_each_page_once() -> None:
    for name in POLICIES:
        policy = make_policy(name, DAY, seed=0)
        policy.discover(URLS, now=0.0)
        teach(policy)
        assert np.unique(policy.rank(ask(8))).size == 8


def test_age_visits_all_pages_in_turn() -> None:
    policy = make_policy("age", DAY, seed=0)
    policy.discover(URLS, now=0.0)
    never = np.zeros(PAGES, bool)
    visit(policy, 0, np.arange(PAGES), never)
    visited = []
    for cycle in range(1, 11):
        rows = policy.rank(ask(cycle))
        visit(policy, cycle, rows, never)
        visited.append(rows)
    for turn in range(6):
        assert np.sort(np.concatenate(visited[turn : turn + 5])).tolist() == list(range(PAGES))


def test_the_published_rates_never_rank_an_unchanged_page_above_a_changed_one() -> None:
    for name in ("cg", "nad", "sad", "aad", "gad"):
        policy = make_policy(name, DAY, seed=0)
        policy.discover(URLS, now=0.0)
        changed = np.arange(PAGES) % 7 == 0
        visit(policy, 0, np.arange(PAGES), changed)
        visit(policy, 1, np.arange(PAGES), changed)
        found = policy.rank(ask(2, k=10))
        assert sorted(found[:6]) == np.flatnonzero(changed).tolist()
        assert not changed[found[6:]].any()


def test_the_oracle_takes_what_changed_first_and_rand_does_not_look() -> None:
    changed = np.arange(PAGES) % 4 == 0
    oracle, rand = make_policy("oracle", DAY, seed=0), make_policy("rand", DAY, seed=0)
    for policy in (oracle, rand):
        policy.discover(URLS, now=0.0)
    found = oracle.rank(ask(2, k=12, changed=changed))
    assert sorted(found[:10]) == np.flatnonzero(changed).tolist()
    assert rand.rank(ask(2, k=12, changed=changed)).tolist() == rand.rank(ask(2, k=12)).tolist()


@pytest.mark.parametrize("name", ["rand", "oracle", "nad"])
def test_lots_are_drawn_anew_each_cycle_and_by_the_seed_alone(name: str) -> None:
    def draw(seed: int, cycle: int) -> list[int]:
        policy = make_policy(name, DAY, seed)
        policy.discover(URLS, now=0.0)
        return list(map(int, policy.rank(ask(cycle))))

    assert draw(0, 1) == draw(0, 1)
    assert draw(0, 1) != draw(0, 2)
    assert draw(0, 1) != draw(1, 1)


def test_rand_reaches_every_page_about_alike() -> None:
    policy = make_policy("rand", DAY, seed=0)
    policy.discover(URLS, now=0.0)
    counts = np.bincount(np.concatenate([policy.rank(ask(cycle)) for cycle in range(500)]), minlength=PAGES)
    assert counts.sum() == 4000
    assert counts.min() > 60  # of 100 each, four standard deviations off
    assert counts.max() < 140


def test_every_optimiser_of_the_scheduler_can_be_replayed() -> None:
    assert tuple(PLANNERS) == PLANNING
    assert set(POLICIES) == {*STEADY, *VALUING, *PLANNING, *EVOLVING}
