"""Imputed histories: exact if visits determine all, elsewhere with the pages' true number of changes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from streamsched.estimation.gamma_posterior import after_change
from streamsched.evolution.data.imputation import UNIFORM_ACTIVITY, PageVisits, impute_history
from streamsched.evolution.data.shared_changes import draw_gamma, draw_uniform, seed_state
from streamsched.numerics.arrays import Bools, Floats, Ints

CYCLES = 19
PRIOR = (0.5, 5.0)  # shape and exposure: a mean of 0.1 a cycle


def one_page(times: list[float], changed: list[bool], shape: float = 1.0, exposure: float = 4.0) -> PageVisits:
    return PageVisits(
        np.array([0, len(times)]),
        np.array(times, np.float64),
        np.array(changed, np.bool_),
        np.array([shape]),
        np.array([exposure]),
        np.array([77], np.uint64),
        *UNIFORM_ACTIVITY,
    )


def repeated(page: PageVisits, pages: int) -> PageVisits:
    """The same page under many hashes: many imputations of its history."""
    return PageVisits(
        np.arange(pages + 1) * page.times.size,
        np.tile(page.times, pages),
        np.tile(page.changed, pages),
        np.repeat(page.shape, pages),
        np.repeat(page.exposure, pages),
        np.arange(pages, dtype=np.uint64) + 5,
        *UNIFORM_ACTIVITY,
    )


def test_daily_visits_leave_nothing_to_impute() -> None:
    rng = np.random.default_rng(1)
    saw = rng.random(20) < 0.3
    changed, observed = impute_history(one_page([*map(float, range(20))], saw.tolist()), CYCLES, seed=0)
    assert changed[0].tolist() == saw[1:].tolist()
    assert observed.all()


def test_a_visit_without_change_clears_every_cycle() -> None:
    changed, observed = impute_history(one_page([-3.5, 7.2, 19.0], [True, False, False]), CYCLES, seed=0)
    assert not changed.any()
    assert observed.all()


def test_a_change_over_several_cycles_is_in_at_least_one() -> None:
    page = repeated(one_page([0.0, 4.0, 19.0], [False, True, False]), 400)
    changed, observed = impute_history(page, CYCLES, seed=0)
    assert changed[:, :4].any(axis=1).all()
    assert changed[:, :4].any(axis=0).all()
    assert not changed[:, 4:].any()
    assert np.array_equal(observed, np.broadcast_to(np.arange(CYCLES) >= 4, observed.shape))


def test_a_change_within_one_cycle_is_certain() -> None:
    times, saw = [-1.0, 3.2, 3.4, 8.0, 8.5], [False, True, True, True, True]
    changed, observed = impute_history(one_page(times, saw), 9, seed=0)
    assert changed[0, [3, 8]].all()
    assert observed[0].tolist() == [False, False, False, True, False, False, False, False, True]


def test_intervals_may_exceed_the_window() -> None:
    """A change somewhere in 30 cycles, ten of them in the window: it is in the window one time in three."""
    page = repeated(one_page([-10.0, 20.0], [False, True], shape=1e6, exposure=1e12), 20_000)
    changed, observed = impute_history(page, 10, seed=0)
    assert changed.any(axis=1).mean() == pytest.approx(1 / 3, abs=0.01)
    assert not observed.any()


@pytest.mark.parametrize(("times", "share"), [([0.9, 2.0], 0.1 / 1.1), ([0.25, 1.75], 0.5)])
def test_parts_of_cycles_weigh_by_their_length(times: list[float], share: float) -> None:
    page = repeated(one_page(times, [False, True], shape=1e6, exposure=1e12), 20_000)
    changed, _ = impute_history(page._replace(times=page.times), 2, seed=3)
    assert changed[:, 0].mean() == pytest.approx(share, abs=0.012)
    assert (changed[:, 0] ^ changed[:, 1]).mean() > 0.999


def test_imputed_changes_follow_activity() -> None:
    """One change in a long interval, and unobserved ones: in proportion to each cycle's activity."""
    activity = np.array([[0.0, 2.0, 0.5, 1.5]])
    page = repeated(one_page([0.0, 4.0], [False, True], shape=1e6, exposure=1e12), 20_000)
    page = page._replace(activity=activity, profile=np.zeros(20_000, np.int64))
    changed, _ = impute_history(page, 4, seed=1)
    assert changed.mean(axis=0) == pytest.approx(activity[0] / 4, abs=0.012)
    page = repeated(one_page([], [], shape=0.3e9, exposure=1e9), 20_000)
    page = page._replace(activity=activity, profile=np.zeros(20_000, np.int64))
    changed, _ = impute_history(page, 4, seed=1)
    assert changed.mean(axis=0) == pytest.approx(-np.expm1(-0.3 * activity[0]), abs=0.012)


def test_the_first_change_is_early_at_high_rates() -> None:
    """Rate 0.7 over 5 cycles: like unconditional cycles, given at least one change."""
    page = repeated(one_page([0.0, 5.0], [False, True], shape=0.7e9, exposure=1e9), 40_000)
    changed, _ = impute_history(page, 5, seed=1)
    alone, any_ = -math.expm1(-0.7), -math.expm1(-3.5)
    assert changed.mean(axis=0) == pytest.approx([alone / any_] * 5, abs=0.01)
    both = (changed[:, 1] & changed[:, 3]).mean()
    assert both == pytest.approx(alone**2 / any_, abs=0.01)


def test_unvisited_page_is_drawn_from_its_posterior() -> None:
    page = repeated(one_page([], [], shape=2.0, exposure=5.0), 20_000)
    changed, observed = impute_history(page, 3, seed=0)
    assert not observed.any()
    assert changed.mean() == pytest.approx(1.0 - (5.0 / 6.0) ** 2, abs=0.01)
    never = 1.0 - changed.any(axis=1).mean()  # one rate per page, not one per cycle
    assert never == pytest.approx((5.0 / 8.0) ** 2, abs=0.01)


def test_cycles_before_the_first_visit_are_imputed() -> None:
    page = repeated(one_page([2.5, 4.0], [True, False], shape=3e9, exposure=1e9), 10_000)
    changed, observed = impute_history(page, 4, seed=0)
    assert observed[0].tolist() == [False, False, False, True]
    assert changed.mean(axis=0) == pytest.approx([-math.expm1(-3.0)] * 2 + [-math.expm1(-1.5), 0.0], abs=0.01)


@pytest.mark.parametrize("seed", [0, -1, 2**80])
def test_draws_depend_only_on_seed_and_hash(seed: int) -> None:
    page = repeated(one_page([0.0, 9.0], [False, True]), 300)
    whole, _ = impute_history(page, CYCLES, seed)
    halves = [part(page, range(0, 300, 2)), part(page, range(1, 300, 2))]
    for start, half in enumerate(halves):
        assert np.array_equal(impute_history(half, CYCLES, seed)[0], whole[start::2])
    assert not np.array_equal(impute_history(page, CYCLES, seed + 1)[0], whole)


def part(page: PageVisits, rows: range) -> PageVisits:
    chosen = np.array(rows)
    visits = page.times.reshape(-1, 2)[chosen].ravel(), page.changed.reshape(-1, 2)[chosen].ravel()
    return PageVisits(
        np.arange(chosen.size + 1) * 2,
        *visits,
        page.shape[:1].repeat(chosen.size),
        page.exposure[chosen],
        page.hashes[chosen],
        *UNIFORM_ACTIVITY,
    )


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 2.5, 40.0])
def test_gamma_draws_are_gamma(shape: float) -> None:
    state = np.zeros(1, np.uint64)
    seed_state(state, np.uint64(4), np.uint64(9))
    draws = [draw_gamma(state, shape) for _ in range(20_000)]
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > 1e-3


def test_uniform_draws_are_uniform_over_hashes_too() -> None:
    state = np.zeros(1, np.uint64)
    first = np.empty(20_000)
    for i in range(first.size):
        seed_state(state, np.uint64(0), np.uint64(i))
        first[i] = draw_uniform(state)
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < 0.02


def crawled(rates: Floats, gap: float, rng: np.random.Generator) -> tuple[PageVisits, Bools]:
    """Poisson pages observed since 60 cycles before the window, visited every `gap` cycles on average."""
    before = 60
    truth = rng.random((rates.size, before + CYCLES)) < -np.expm1(-rates)[:, None]
    truth_at = [np.flatnonzero(row) + 1 for row in truth]  # a change in a cycle is observed at its end
    times, flags, sizes, shapes, exposures = [], [], [], [], []
    for changes in truth_at:
        due = np.unique(np.r_[0, np.flatnonzero(rng.random(before + CYCLES) < 1 / gap) + 1])
        counts: Ints = np.searchsorted(changes, due, "right")
        saw = np.r_[False, counts[1:] > counts[:-1]]
        shape, exposure = PRIOR
        for (start, stop), flag in zip(pairwise(due.tolist()), saw[1:].tolist(), strict=True):
            after = after_change(shape, exposure, stop - start) if flag else (shape, exposure + stop - start)
            shape, exposure = after
        times.append(due - before)
        flags.append(saw)
        sizes.append(due.size)
        shapes.append(shape)
        exposures.append(exposure)
    seen = PageVisits(
        np.r_[0, np.cumsum(sizes)],
        np.concatenate(times).astype(np.float64),
        np.concatenate(flags),
        np.array(shapes),
        np.array(exposures),
        rng.integers(0, 2**64, rates.size, np.uint64),
        *UNIFORM_ACTIVITY,
    )
    return seen, truth[:, before:]


@pytest.mark.parametrize("gap", [3.0, 10.0, 30.0])
def test_sparse_visits_impute_the_true_rates(gap: float) -> None:
    """Overall within 4 %, and within 15 % for each third of the pages by true rate that is observed often enough."""
    rng = np.random.default_rng(int(gap))
    rates = rng.gamma(PRIOR[0], 1 / PRIOR[1], 6_000)
    seen, truth = crawled(rates, gap, rng)
    changed, observed = impute_history(seen, CYCLES, seed=2)
    assert observed.mean() < 0.95
    assert changed.mean() == pytest.approx(truth.mean(), rel=0.04)
    assert np.array_equal(changed[observed], truth[observed])
    shown = changed.mean(axis=1)
    means = [float(np.mean(shown[group])) for group in np.array_split(np.argsort(seen.shape / seen.exposure), 3)]
    true_means = [float(np.mean(truth[group])) for group in np.array_split(np.argsort(seen.shape / seen.exposure), 3)]
    assert means == pytest.approx(true_means, rel=0.15, abs=0.004)


def test_daily_visits_give_the_truth() -> None:
    rng = np.random.default_rng(3)
    seen, truth = crawled(rng.gamma(PRIOR[0], 1 / PRIOR[1], 300), 1.0, rng)
    changed, observed = impute_history(seen, CYCLES, seed=2)
    assert np.array_equal(changed, truth)
    assert observed.all()
