"""Each online estimator, fed visit by visit, is what its definition gives when computed from the whole history."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation.river_estimators import (
    AAD,
    CG,
    GAD,
    NAD,
    SAD,
    GammaPosterior,
    ModifiedInterval,
    NaiveInterval,
    OnlineEstimator,
)
from tests.reference import estimators

intervals = st.just(0.0) | st.floats(-9, 9).map(lambda power: 10.0**power)
visits = st.lists(st.tuples(st.booleans(), intervals), max_size=80)
Visits = list[tuple[bool, float]]
Definition = Callable[[list[bool]], float]


def fed(page: OnlineEstimator, history: Visits) -> OnlineEstimator:
    for changed, interval in history:
        page.learn_one({"interval": interval}, changed)
    return page


@pytest.mark.parametrize(
    ("estimator", "definition"),
    [(CG, estimators.cg), (NAD, estimators.nad), (SAD, estimators.sad), (AAD, estimators.aad), (GAD, estimators.gad)],
)
@given(visits)
def test_rate_is_recomputed_from_history(
    estimator: type[OnlineEstimator], definition: Definition, history: Visits
) -> None:
    expected = definition([changed for changed, _ in history])
    assert fed(estimator(), history).get() == pytest.approx(expected, rel=1e-14, abs=2.0**-62)


@given(visits)
def test_intervals_are_recomputed_from_history(history: Visits) -> None:
    flags, times = [changed for changed, _ in history], [interval for _, interval in history]
    simple, modified = fed(NaiveInterval(), history), fed(ModifiedInterval(), history)
    assert simple.get() == pytest.approx(estimators.naive_interval(flags, times))
    assert modified.get() == pytest.approx(estimators.modified_interval(flags))
    if any(flags) and any(times):
        assert simple.rate == pytest.approx(sum(flags) / math.fsum(times))
        assert modified.rate == pytest.approx(estimators.cg(flags) * len(flags) / math.fsum(times))
    elif not any(flags):
        assert simple.rate == modified.rate == 0.0


@given(visits, st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_posterior_is_recomputed_from_history(history: Visits, shape: float, exposure: float) -> None:
    flags, times = [changed for changed, _ in history], [interval for _, interval in history]
    page = fed(GammaPosterior(shape, exposure), history)
    after = estimators.gamma_posterior(shape, exposure, flags, times)
    assert page.get() == pytest.approx(after[0] / after[1], rel=1e-12)
    assert page.probability(3.0) == pytest.approx(estimators.probability_changed(*after, 3.0), rel=1e-12)
