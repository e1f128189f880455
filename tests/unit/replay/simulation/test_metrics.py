"""The metrics at the edges that their doctests leave out."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.replay.simulation.metrics import (
    assign_deciles,
    change_rate,
    discounts,
    freshness,
    moving_mean,
    ndcg,
    stale_seconds,
)


def test_the_first_two_ranks_are_not_discounted_and_the_third_is_by_its_logarithm() -> None:
    assert discounts(5).tolist() == pytest.approx([1.0, 1.0, 1 / np.log(3), 1 / np.log(4), 1 / np.log(5)])
    with pytest.raises(ValueError, match="read-only"):
        discounts(5)[0] = 2.0


def test_ndcg_is_cut_at_k_and_knows_pages_that_were_not_visited() -> None:
    everything, half = np.array([True, True, True]), np.array([True, False, False])
    assert ndcg(everything, relevant=50) == 1.0
    assert ndcg(half, relevant=1) == 1.0
    assert ndcg(half, relevant=2) == 0.5
    assert ndcg(~everything, relevant=9) == 0.0
    assert ndcg(np.array([True]), relevant=1) == change_rate(np.array([True])) == 1.0


def test_staleness_stays_within_the_span() -> None:
    moments = np.array([-np.inf, 0.0, 100.0, 150.0, 200.0, 999.0, np.inf])
    assert stale_seconds(moments, 100.0, 200.0).tolist() == [100.0, 100.0, 100.0, 50.0, 0.0, 0.0, 0.0]
    assert freshness(moments, 100.0, 200.0) == pytest.approx(1 - 350 / 700)


def test_freshness_weighs_pages_by_importance_and_may_leave_some_out() -> None:
    moments = np.array([np.inf, 0.0])
    assert freshness(moments, 0.0, 10.0, np.array([0.0, 5.0])) == 0.0
    assert freshness(moments, 0.0, 10.0, np.array([1.0, 3.0])) == 0.25


def test_deciles_are_tenths_in_order_of_changes_with_equals_split_by_lot() -> None:
    changes = np.repeat([0, 3], [90, 10])
    deciles = assign_deciles(changes, np.arange(100, dtype=np.uint64)[::-1])
    assert np.bincount(deciles).tolist() == [10] * 10
    assert set(deciles[90:]) == {9}
    assert deciles[0] == 8
    assert deciles[89] == 0
    assert assign_deciles(np.array([4]), np.zeros(1, np.uint64)).tolist() == [0]


def test_a_moving_mean_is_of_what_counts() -> None:
    counted = np.array([False, True, True, False, False, False])
    found = moving_mean(np.array([9.0, 1.0, 3.0, 9.0, 9.0, 9.0]), counted, 3)
    assert found.tolist() == pytest.approx([np.nan, 1.0, 2.0, 2.0, 3.0, np.nan], nan_ok=True)
