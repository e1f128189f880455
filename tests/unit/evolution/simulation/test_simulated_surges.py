"""Cumulative surge hazards: equal to the reference, and 0 if pages change independently."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.evolution.data.shared_changes import MIN_GROUP_PAGES, number_large_groups
from streamsched.evolution.simulation.simulated_surges import cumulative_surge_hazard
from tests.reference.simulated_crawl import hit_share


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.01, 0.2, 0.9]), st.sampled_from([0.0, 0.4, 1.0]))
def test_surge_hazards_equal_the_reference(seed: int, rate: float, hit: float) -> None:
    rng = np.random.default_rng(seed)
    changed = rng.random((60, 12)) < rate
    changed[:20, 5] |= rng.random(20) < hit
    numbers = number_large_groups(np.repeat([4, 9, 2], [20, 30, 10]))
    taken = cumulative_surge_hazard(changed, numbers)
    assert taken.shape == (12, 3)
    assert np.all(taken[:, 0] == 0.0)
    for number, part in ((1, slice(20)), (2, slice(20, 50))):
        expected = np.cumsum([-np.log1p(-hit_share(changed[part], at)) for at in range(12)])
        np.testing.assert_allclose(taken[:, number], expected, rtol=1e-9, atol=1e-12)


def test_a_bulk_edit_is_a_surge_and_single_changes_are_not() -> None:
    changed = np.zeros((40, 10), np.bool_)
    changed[3, 2] = True
    changed[:18, 6] = True
    taken = cumulative_surge_hazard(changed, number_large_groups(np.repeat([0, 1], 20)))
    assert taken[5, 1] == 0.0
    assert 1.0 - np.exp(-taken[6, 1]) == pytest.approx(0.87, abs=0.02)
    assert taken[9, 1] == taken[6, 1]
    assert np.all(taken[:, 2] == 0.0)


def test_small_groups_have_no_surges() -> None:
    numbers = number_large_groups(np.repeat([5, 6], [MIN_GROUP_PAGES - 1, MIN_GROUP_PAGES]))
    assert set(numbers[: MIN_GROUP_PAGES - 1].tolist()) == {0}
    assert set(numbers[MIN_GROUP_PAGES - 1 :].tolist()) == {1}
