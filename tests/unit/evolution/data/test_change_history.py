"""Change histories: slices, and rounding of priors and weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.evolution.data.change_history import ChangeHistory


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=20))
def test_rounding_is_close_and_monotonic(values: list[float]) -> None:
    history = ChangeHistory.of([[True]] * len(values), prior_mean=values, importance=values, cost=values)
    coarse = history.coarsen()
    for name in ("prior_mean", "importance", "cost"):
        column = getattr(coarse, name)
        assert column.tolist() == pytest.approx(values, rel=1 / 32)
        assert (np.diff(column[np.argsort(values)]) >= 0.0).all()
    assert history.prior_mean.tolist() == values
    assert coarse.coarsen().prior_mean.tolist() == coarse.prior_mean.tolist()


def test_an_octave_has_sixteen_rounded_values() -> None:
    means = np.linspace(1.0, 2.0, 10_000, endpoint=False)
    coarse = ChangeHistory.of([[True]] * means.size, prior_mean=means).coarsen()
    assert np.unique(coarse.prior_mean).tolist() == [1.0 + i / 16 for i in range(17)]


def test_zero_weights_and_other_fields_are_unchanged() -> None:
    history = ChangeHistory.of([[True, False], [False, True]], importance=[0.0, 0.3], cost=0.0, prior_shape=0.7)
    coarse = history.coarsen()
    assert coarse.importance.tolist() == [0.0, 0.296875]
    assert coarse.cost.tolist() == [0.0, 0.0]
    assert coarse.prior_shape == 0.7
    assert coarse.changed is history.changed
    assert coarse.hashes is history.hashes


@pytest.mark.parametrize(("first", "cycles"), [(-1, 2), (0, 4), (3, 1)])
def test_spans_lie_within(first: int, cycles: int) -> None:
    history = ChangeHistory.of([[True, False, True]])
    assert history.span(1, 2).changed.tolist() == [[False, True]]
    with pytest.raises(ValueError, match="expected cycles within 3"):
        history.span(first, cycles)
