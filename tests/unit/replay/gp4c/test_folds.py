"""Folds and spans: no page and no cycle in two roles, each fold tested once, and later than what was learned from."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import ReplayError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.replay.gp4c.folds import assign_folds, cut_history, fit_prior, rotate_folds, split_history
from tests.support.gp4c_logs import DAY, START, made_log, small_settings


@pytest.fixture(scope="module")
def history() -> ChangeHistory:
    """Of a window in which cycle c of page p changed as the pages' own numbers say."""
    return cut_history(made_log().window(START, DAY, 57))


def test_each_fold_tests_once_validates_once_and_trains_three_times() -> None:
    rotations = rotate_folds()
    assert [rotation.test for rotation in rotations] == [0, 1, 2, 3, 4]
    assert sorted(rotation.validation for rotation in rotations) == [0, 1, 2, 3, 4]
    trained = [fold for rotation in rotations for fold in rotation.train]
    assert sorted(trained) == sorted([0, 1, 2, 3, 4] * 3)
    for rotation in rotations:
        assert sorted([*rotation.train, rotation.validation, rotation.test]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("pages", [5, 123, 5000])
def test_each_page_is_dealt_to_one_fold_of_even_size_whatever_the_order(pages: int) -> None:
    hashes = np.random.default_rng(pages).integers(0, 2**64, pages, np.uint64)
    fold_of = assign_folds(hashes, 5, seed=3)
    sizes = np.bincount(fold_of, minlength=5)
    assert sizes.sum() == pages
    assert sizes.max() - sizes.min() <= 1
    shuffled = np.random.default_rng(1).permutation(pages)
    np.testing.assert_array_equal(assign_folds(hashes[shuffled], 5, seed=3), fold_of[shuffled])


def test_seeds_deal_differently_and_the_log_s_order_does_not_show() -> None:
    hashes = np.arange(5000, dtype=np.uint64)
    one, other = assign_folds(hashes, 5, 0), assign_folds(hashes, 5, 1)
    assert 0.15 < np.mean(one == other) < 0.25
    halves = np.bincount(one[:2500], minlength=5)
    assert abs(halves - 500).max() < 100


def test_roles_share_no_page_and_no_cycle_and_follow_one_another(history: ChangeHistory) -> None:
    settings = small_settings()
    fold_of = assign_folds(history.hashes, 5, 0)
    tested = []
    for rotation in rotate_folds():
        stages = split_history(history, fold_of, rotation, settings)
        roles = (stages.train, stages.validation, stages.test)
        assert [role.cycles for role in roles] == [19, 19, 19]
        assert [role.pages for role in roles] == [72, 24, 24]
        assert len(set(np.concatenate([role.hashes for role in roles]).tolist())) == 120
        for span, role in enumerate(roles):
            rows = np.flatnonzero(np.isin(history.hashes, role.hashes))
            np.testing.assert_array_equal(role.changed, history.changed[rows, span * 19 : (span + 1) * 19])
        tested += stages.test.hashes.tolist()
    assert sorted(tested) == sorted(history.hashes.tolist())


def test_the_prior_is_learned_from_training_alone_and_given_to_all(history: ChangeHistory) -> None:
    rotation = rotate_folds()[2]
    stages = split_history(history, assign_folds(history.hashes, 5, 0), rotation, small_settings())
    assert (stages.prior_shape, stages.prior_mean) == fit_prior(stages.train.changed)
    for role in (stages.train, stages.validation, stages.test):
        assert role.prior_shape == stages.prior_shape
        assert set(role.columns["prior_mean"].tolist()) == {stages.prior_mean}


def test_changes_fall_into_their_cycles_an_edge_into_the_later() -> None:
    log = made_log(pages=30, days=60)
    history = cut_history(log.window(START, DAY, 57))
    for page in range(30):
        times = log.times_s[log.offsets[page] : log.offsets[page + 1]]
        cycles = {int((time - START) // DAY) for time in times if START < time < START + 57 * DAY}
        assert set(np.flatnonzero(history.changed[page]).tolist()) == cycles
    edge = cut_history(log.window(START + 3600.0, DAY, 10))  # the log's changes lie on its edges
    np.testing.assert_array_equal(edge.changed[:, 1:], history.changed[:, 1:10])
    assert not edge.changed[:, 0].any()  # what is there at the start has been seen


def test_hashes_are_those_of_the_urls(history: ChangeHistory) -> None:
    again = cut_history(made_log(seed=2).window(START, DAY, 57))
    np.testing.assert_array_equal(again.hashes, history.hashes)
    assert len(set(history.hashes.tolist())) == history.pages


def test_a_stage_without_changes_is_refused(history: ChangeHistory) -> None:
    quiet = ChangeHistory.of(history.changed & (np.arange(57) < 38), hashes=history.hashes)
    with pytest.raises(ReplayError, match=r"none of the 24 pages of fold 1 changes .* span 3: .* nothing to test on"):
        split_history(quiet, assign_folds(quiet.hashes, 5, 0), rotate_folds()[0], small_settings())


@pytest.mark.parametrize(("shape", "mean"), [(0.3, 0.05), (1.0, 0.2), (3.0, 0.5)])
def test_the_gamma_that_made_the_pages_is_found(shape: float, mean: float) -> None:
    rng = np.random.default_rng(5)
    rates = rng.gamma(shape, mean / shape, (100_000, 1))
    found_shape, found_mean = fit_prior(rng.random((100_000, 19)) < 1 - np.exp(-rates))
    assert found_shape == pytest.approx(shape, rel=0.1)
    assert found_mean == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_pages_that_are_all_alike_have_a_finite_prior(share: float) -> None:
    changed = np.random.default_rng(2).random((200, 10)) < share
    shape, mean = fit_prior(changed)
    assert 0.1 <= shape <= 100
    assert 0 < mean < 1000
    if share == 0.3:
        assert shape > 5
        assert mean == pytest.approx(-np.log(0.7), rel=0.1)


@pytest.mark.parametrize("cycles", [1, 2, 19])
def test_one_page_is_enough(cycles: int) -> None:
    for flag in (False, True):
        shape, mean = fit_prior(np.full((1, cycles), flag))
        assert np.isfinite([shape, mean]).all()
        assert min(shape, mean) > 0
