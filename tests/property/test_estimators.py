"""Each estimator, fed visit by visit, is what its definition gives when computed from the whole history."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation import published_estimators
from streamsched.estimation.published_estimators import VisitCounts
from tests.reference import estimators

Visits = list[tuple[bool, float]]

intervals = st.just(1.0) | st.floats(0.0, 1e6) | st.floats(-12, 12).map(lambda power: 10.0**power)
visits = st.lists(st.tuples(st.booleans(), intervals), max_size=200)

BY_COUNTS: dict[str, Callable[[VisitCounts], float]] = {
    "cg": lambda c: float(published_estimators.cg(c.n, c.X)),
    "nad": lambda c: float(published_estimators.nad(c.n, c.X)),
    "sad": lambda c: float(published_estimators.sad(c.n, c.history)),
    "aad": lambda c: float(published_estimators.aad(c.n, c.weighted_sum)),
    "gad": lambda c: float(published_estimators.gad(c.n, c.history)),
    "modified_interval": lambda c: float(published_estimators.modified_interval(c.n, c.X)),
}


def count(history: Visits) -> VisitCounts:
    counts = VisitCounts()
    for changed, interval in history:
        counts.observe(changed, interval)
    return counts


@pytest.mark.parametrize("name", BY_COUNTS)
@given(visits)
def test_incremental_is_recomputed_from_history(name: str, history: Visits) -> None:
    expected = getattr(estimators, name)([changed for changed, _ in history])
    assert BY_COUNTS[name](count(history)) == pytest.approx(expected, rel=1e-14, abs=2.0**-62)


@given(visits)
def test_naive_interval_is_recomputed_from_history(history: Visits) -> None:
    counts = count(history)
    found = float(published_estimators.naive_interval(counts.total_time, counts.X))
    assert found == pytest.approx(
        estimators.naive_interval(*map(list, zip(*history, strict=True)) if history else ([], []))
    )


@given(visits)
def test_gad_from_the_history_word_is_the_halving_sum(history: Visits) -> None:
    g = 0.0
    for changed, _ in history:
        g = g / 2.0 + changed
    expected = g / (2.0 - 2.0 ** (1 - len(history))) if history else 0.0
    counts = count(history)
    assert float(published_estimators.gad(counts.n, counts.history)) == pytest.approx(expected, rel=1e-15, abs=2.0**-62)


@given(visits)
def test_rates_stay_between_never_and_always(history: Visits) -> None:
    counts = count(history)
    for name in ("nad", "sad", "aad", "gad"):
        assert 0.0 <= BY_COUNTS[name](counts) <= 1.0
