"""Change rates learned from syncs and probes: against the likelihood's maximum, their spread, and planned rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from streamsched.numerics.arrays import Floats
from streamsched.optimal import BinaryPoisson, CostLearner, LearnableFamily, RateLimits, SublinPoly
from streamsched.optimal.poisson_learning import PoissonLearner, poisson_sync_rates

LIMITS = RateLimits(lowest=0.05, highest=5.0, budget=4.0)


def observed(change_rate: float, syncs: int, seed: int, probe_share: float = 0.3) -> tuple[PoissonLearner, Floats]:
    """A learner that saw an arm, and the syncs it saw: probe age, sync age, seen by the probe, seen by the sync."""
    rng = np.random.default_rng(seed)
    costs = BinaryPoisson([change_rate])
    learner, arm = PoissonLearner(1, LIMITS), np.zeros(syncs, np.int64)
    sync_age = rng.uniform(0.3, 3.0, syncs)
    probe_age = np.where(rng.random(syncs) < probe_share, sync_age * rng.random(syncs), 0.0)
    by_probe, by_sync = costs.sample(arm, probe_age, sync_age, rng)
    learner.observe(arm, probe_age, sync_age, by_probe, by_sync)
    return learner, np.column_stack((probe_age, sync_age, by_probe, by_sync))


def slow_estimate(syncs: Floats) -> float:
    """The most likely change rate, interval by interval, with half an interval of either kind imagined."""
    shortest = min(1.0 / LIMITS.budget, float(syncs[:, 1].min()))
    intervals = [(shortest, True, 0.5), (shortest, False, 0.5)]
    for probe_age, sync_age, by_probe, by_sync in syncs.tolist():
        if probe_age > 0.0:
            intervals.append((probe_age, by_probe > 0.0, 1.0))
        if by_probe == 0.0:
            intervals.append((sync_age - probe_age, by_sync > 0.0, 1.0))

    def unlikely(log_rate: float) -> float:
        rate = math.exp(log_rate)
        return -sum(
            count * (math.log(-math.expm1(-rate * w)) if changed else -rate * w) for w, changed, count in intervals
        )

    found = minimize_scalar(unlikely, bounds=(-8.0, 4.0), method="bounded", options={"xatol": 1e-8})
    return math.exp(found.x)


@pytest.mark.parametrize("change_rate", [0.01, 0.4, 3.0])
@pytest.mark.parametrize("syncs", [1, 10, 500])
def test_estimates_are_the_most_likely_rates(change_rate: float, syncs: int) -> None:
    for seed in range(5):
        learner, seen = observed(change_rate, syncs, seed)
        assert learner.estimate()[0][0] == pytest.approx(slow_estimate(seen), rel=0.002)  # bins are 5 % wide


@pytest.mark.parametrize("change_rate", [0.1, 2.0])
def test_the_deviation_is_that_of_estimates(change_rate: float) -> None:
    found = [observed(change_rate, 300, seed)[0].estimate() for seed in range(200)]
    logs, deviations = np.log([rate[0] for rate, _ in found]), [deviation[0] for _, deviation in found]
    assert np.std(logs) == pytest.approx(float(np.mean(deviations)), rel=0.2)
    assert np.mean(logs) == pytest.approx(math.log(change_rate), abs=0.03)


def test_evidence_in_parts_is_evidence_at_once() -> None:
    whole, seen = observed(1.0, 60, seed=0)
    parts = PoissonLearner(1, LIMITS)
    for part in np.array_split(seen, 7):
        parts.observe(np.zeros(len(part), np.int64), *part.T)
    assert parts.estimate()[0] == pytest.approx(whole.estimate()[0], rel=1e-12)


def test_arms_that_only_changed_or_never_have_rates() -> None:
    """Nor has an arm without a sync, which keeps the widest spread."""
    learner = PoissonLearner(3, LIMITS)
    arm, ages, nothing = np.repeat([0, 1], 20), np.full(40, 20.0), np.zeros(40)
    learner.observe(arm, nothing, ages, nothing, np.repeat([1.0, 0.0], 20))
    rates, deviation = learner.estimate()
    assert np.isfinite(rates).all()
    assert rates[0] > 0.1
    assert 0.0 < rates[1] < 0.01
    assert deviation[2] == 1.0
    planned = learner.best_rates()
    assert planned.sum() <= LIMITS.budget * (1.0 + 1e-9)
    assert np.all((planned >= LIMITS.lowest) & (planned <= LIMITS.highest))


def test_drawn_rates_try_an_arm_that_was_given_up() -> None:
    """Of two arms the second seems too fast to be worth syncs; little was seen of it."""
    limits = RateLimits(lowest=0.05, highest=5.0, budget=0.5)
    learner = PoissonLearner(2, limits)
    arm, nothing = np.repeat([0, 1], [200, 2]), np.zeros(202)
    learner.observe(
        arm, nothing, np.ones(202), nothing, np.append(np.arange(200.0) % 2.0, np.ones(2)).astype(np.float64)
    )
    assert learner.best_rates()[1] == limits.lowest
    rng = np.random.default_rng(0)
    drawn = [learner.best_rates(rng)[1] for _ in range(50)]
    assert 5 < sum(rate > 2.0 * limits.lowest for rate in drawn) < 45


def test_a_budget_for_the_highest_rates_gives_them() -> None:
    limits = RateLimits(lowest=0.1, highest=0.5, budget=1.0)
    assert poisson_sync_rates(np.array([1.0, 9.0]), limits).tolist() == [0.5, 0.5]


def test_only_families_of_a_known_form_have_a_learner() -> None:
    costs = BinaryPoisson.draw(3)
    assert isinstance(costs, LearnableFamily)
    learner: CostLearner = costs.learner(LIMITS)
    assert learner.best_rates().size == 3
    assert not isinstance(SublinPoly.draw(3), LearnableFamily)
