"""The sequential test of a trial: how often it errs without a gain, and how soon it sees one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.api.views import TrialEvidence
from streamsched.evolution.sequential_test import ALPHA, weigh_evidence
from streamsched.numerics.arrays import Floats
from streamsched.records.trial_counts import ARMS, BLOCKS, CHALLENGER, ROUNDS

_LOOKS = 2  # in each round
_ROUNDS = 8
_PAGES = 1_000


def _run_trial(seed: int, gain: float, rounds: int = _ROUNDS) -> TrialEvidence:
    """Return how a simulated trial of pages with Pareto-distributed rates ends, looked at `_LOOKS` times a round.

    `gain`: of the challenger's finds, relative. Its arm has a ninth as many pages as the champion's, drawn each round.
    """
    random = np.random.default_rng(seed)
    rates = np.minimum(0.02 * (1.0 + random.pareto(1.2, _PAGES)), 0.9)
    finds, costs = np.zeros((ROUNDS, ARMS, BLOCKS)), np.zeros((ROUNDS, ARMS, BLOCKS))
    evidence = weigh_evidence(finds, costs)
    for number in range(rounds):
        arm, block = (random.random(rates.size) >= 0.1).astype(int), random.integers(BLOCKS, size=rates.size)
        chance = np.where(arm == CHALLENGER, 1.0 + gain, 1.0) * rates
        for _ in range(_LOOKS):
            visits = random.poisson(5.0 * (0.1 + 0.9 * rates))
            found = random.binomial(visits, np.minimum(chance, 1.0))
            np.add.at(costs[number], (arm, block), visits)
            np.add.at(finds[number], (arm, block), found)
            evidence = weigh_evidence(finds, costs)
            if evidence.state != "open":
                return evidence
    return evidence


def test_equal_formulas_are_seldom_called_better_or_worse() -> None:
    """400 trials of formulas that are equally good: each error comes at most as often as the test allows."""
    states = [_run_trial(seed, 0.0).state for seed in range(400)]
    assert states.count("better") <= 400 * ALPHA
    assert states.count("worse") <= 400 * ALPHA
    assert states.count("open") >= 0.9 * len(states)


def test_planted_gains_are_found() -> None:
    """A challenger that finds much more is promoted in nearly all trials, one that finds less is never."""
    assert [_run_trial(seed, 1.0, ROUNDS).state for seed in range(20)].count("better") >= 17
    states = [_run_trial(seed, -0.5, ROUNDS).state for seed in range(20)]
    assert states.count("worse") >= 17
    assert "better" not in states


def test_a_small_gain_takes_longer_than_a_large_one() -> None:
    """The cost of the challenger's arm when the trial ends, at the median of ten."""
    ends = [np.median([_run_trial(seed, gain, ROUNDS).costs[CHALLENGER] for seed in range(10)]) for gain in (0.5, 2.0)]
    assert ends[0] > 1.5 * ends[1]


counts = st.lists(st.floats(0.0, 1e9), min_size=ARMS * BLOCKS * 2, max_size=ARMS * BLOCKS * 2)


def _as_rounds(values: list[float]) -> Floats:
    return np.array(values).reshape(2, ARMS, BLOCKS)


@given(counts, counts)
def test_evidence_is_finite_and_decides_one_way(finds: list[float], costs: list[float]) -> None:
    """Whatever was counted: e-values are numbers, and never both speak."""
    evidence = weigh_evidence(_as_rounds(finds), _as_rounds(costs))
    assert math.isfinite(evidence.better)
    assert math.isfinite(evidence.worse)
    assert min(evidence.better, evidence.worse) < 1.0 / ALPHA
    assert evidence.state in ("open", "better" if evidence.better > evidence.worse else "worse")


@given(counts, counts, st.floats(1e-3, 1e3))
@settings(max_examples=50)
def test_units_do_not_matter(finds: list[float], costs: list[float], unit: float) -> None:
    """Importance and cost are in any units: the gain is relative."""
    one = weigh_evidence(_as_rounds(finds), _as_rounds(costs))
    other = weigh_evidence(unit * _as_rounds(finds), _as_rounds(costs) / unit)
    if one.gain is None or other.gain is None or not 1e-6 < abs(one.gain) < 1e6:
        return  # differences of rounding alone
    np.testing.assert_allclose(other.gain, one.gain, rtol=1e-6)


def test_without_visits_nothing_is_known() -> None:
    """No visit, or visits of one arm alone, is no evidence."""
    nothing = np.zeros((ROUNDS, ARMS, BLOCKS))
    one_arm = nothing.copy()
    one_arm[0, CHALLENGER] = 5.0
    for finds, costs in ((nothing, nothing), (one_arm, one_arm)):
        evidence = weigh_evidence(finds, costs)
        assert (evidence.state, evidence.gain, evidence.better, evidence.worse) == ("open", None, 1.0, 1.0)
