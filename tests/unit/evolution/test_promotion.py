"""The promotion test: noise of any kind does not promote a challenger, true gains do, and the reason is given."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import t as student

from streamsched.evolution.promotion import NOISE_MULTIPLE, Verdict, decide, fold_cycles, inflate_error
from streamsched.numerics.arrays import Floats

BLOCKS, SPANS, SALTS = 8, 4, 3
TRIALS = 200

# How much of the difference each kind of luck makes: of pages, of days, of pages on days, of ties.
LUCK = {
    "pages": (1.0, 0.0, 0.0, 0.0),
    "days": (0.0, 1.0, 0.0, 0.0),
    "pages and days": (1.0, 1.0, 0.0, 0.3),
    "pages on days": (0.0, 0.0, 1.0, 0.3),
    "ties": (0.0, 0.0, 0.0, 1.0),
    "all": (0.5, 0.5, 0.5, 1.0),
    "mostly days": (0.3, 1.0, 0.3, 1.0),
}


def contest(
    rng: np.random.Generator,
    luck: tuple[float, float, float, float],
    gain: float = 0.0,
    shape: tuple[int, int, int] = (BLOCKS, SPANS, SALTS),
) -> Verdict:
    """Two formulas whose fitness differs by `gain`, relative to its mean, and by noise of 5 %."""
    blocks, spans, _ = shape
    sizes = [(blocks, 1, 1), (1, spans, 1), (blocks, spans, 1), shape]
    level = rng.normal(0.3, 0.03, shape)
    difference = sum(0.05 * 0.3 * part * rng.normal(size=size) for part, size in zip(luck, sizes, strict=True))
    return decide(level, level + difference + 0.3 * gain)


def promoted(luck: tuple[float, float, float, float], gain: float = 0.0, **options: Any) -> int:
    rng = np.random.default_rng(20261121)
    return sum(contest(rng, luck, gain, **options).promote for _ in range(TRIALS))


@pytest.mark.parametrize("luck", LUCK.values(), ids=LUCK)
@pytest.mark.parametrize("shape", [(BLOCKS, SPANS, SALTS), (8, 8, 4), (4, 3, 2), (12, 2, 1), (2, 6, 2)], ids=str)
def test_challengers_without_true_gain_are_refused(
    luck: tuple[float, float, float, float], shape: tuple[int, int, int]
) -> None:
    """No true gain: promoted in at most 5 % of 200 contests."""
    assert promoted(luck, shape=shape) <= 0.05 * TRIALS


def test_heavy_tails_and_correlated_days_do_not_promote() -> None:
    """Differences of successive cycles correlate by a half; occasionally one page block differs strongly."""
    rng = np.random.default_rng(5)
    lucky = 0
    for _ in range(TRIALS):
        shocks = rng.standard_t(3, (BLOCKS, 1, 28)) + 1.0 * rng.standard_t(3, (1, 1, 28))
        series = np.zeros((BLOCKS, SALTS, 28))
        for cycle in range(28):
            series[:, :, cycle] = shocks[:, :, cycle] + (0.5 * series[:, :, cycle - 1] if cycle else 0.0)
        series += rng.normal(size=series.shape)
        difference = fold_cycles(0.01 * series, np.ones((BLOCKS, 28), np.bool_), SPANS)
        lucky += decide(np.full(difference.shape, 0.3), 0.3 + difference).promote
    assert 0 < lucky <= 0.05 * TRIALS  # and it does happen: the simulation has noise


def test_swapping_sides_negates_the_gain() -> None:
    """Swapping champion and challenger negates the gain and keeps the noise."""
    rng = np.random.default_rng(1)
    old, new = rng.normal(0.3, 0.03, (2, BLOCKS, SPANS, SALTS))
    one, other = decide(old, new), decide(new, old)
    assert one.gain == pytest.approx(-(other.gain or 0.0))
    assert one.noise == pytest.approx(other.noise)


@pytest.mark.parametrize(("gain", "power"), [(0.02, 0.05), (0.05, 0.45), (0.1, 0.97)])
def test_true_gains_are_accepted(gain: float, power: float) -> None:
    """Noise of 5 % per block, per day, per page and day, and per tie order: the power grows with the gain."""
    assert promoted((0.5, 0.5, 0.5, 1.0), gain) >= power * TRIALS


def test_tiny_but_certain_gain_is_accepted() -> None:
    level = np.random.default_rng(0).normal(0.3, 0.03, (BLOCKS, SPANS, SALTS))
    verdict = decide(level, level + 0.001)
    assert verdict.promote
    assert verdict.gain == pytest.approx(0.001)
    assert verdict.relative_gain == pytest.approx(0.001 / level.mean())


def test_equal_fitness_has_no_gain() -> None:
    level = np.full((BLOCKS, SPANS, SALTS), 0.25)
    verdict = decide(level, level)
    assert (verdict.promote, verdict.gain, verdict.noise) == (False, 0.0, 0.0)
    assert not decide(level, level + 1e-13).promote  # a rounding error is no gain
    assert not decide(0 * level, 0 * level).promote


def test_gain_in_a_single_block_is_refused() -> None:
    level = np.full((BLOCKS, SPANS, SALTS), 0.25)
    lucky = level.copy()
    lucky[0] += 0.5
    assert not decide(level, lucky).promote


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_unfinished_trials_do_not_promote(bad: float, side: int) -> None:
    both = np.stack([np.full((4, 3, 2), 0.2), np.full((4, 3, 2), 0.4)])
    both[side, 1, 2, 0] = bad
    verdict = decide(both[0], both[1])
    assert (verdict.promote, verdict.gain, verdict.noise) == (False, None, None)
    assert "1 of 24 trials were not finished" in verdict.why


@pytest.mark.parametrize("shape", [(1, 4, 2), (4, 1, 2), (1, 1, 1)])
def test_too_few_blocks_or_spans_do_not_promote(shape: tuple[int, int, int]) -> None:
    verdict = decide(np.full(shape, 0.2), np.full(shape, 0.4))
    assert (verdict.promote, verdict.noise) == (False, None)
    assert verdict.gain == pytest.approx(0.2)
    assert "too few to estimate the noise" in verdict.why


def test_no_trials_at_all() -> None:
    assert not decide(np.zeros((8, 0, 3)), np.zeros((8, 0, 3))).promote


def test_different_shapes_are_refused() -> None:
    for old, new in (((4, 3, 2), (4, 3, 1)), ((4, 3), (4, 3)), ((4, 3, 2), (3,))):
        with pytest.raises(ValueError, match="expected two float64"):
            decide(np.zeros(old), np.zeros(new))


def test_one_salt_is_enough() -> None:
    level = np.linspace(0.2, 0.3, 12).reshape(4, 3, 1)
    assert decide(level, level * 1.1).promote


def test_noise_of_a_hand_computed_contest() -> None:
    """Two blocks, two spans: block means 1 and 3, span means 1 and 3, no residual: variances 1 and 1, summed."""
    difference = np.array([[[0.0], [2.0]], [[2.0], [4.0]]])
    verdict = decide(np.zeros((2, 2, 1)), difference)
    assert verdict.gain == 2.0
    assert verdict.noise == pytest.approx(np.sqrt(2.0) * student.isf(student(1e12).sf(2.0), 1) / 2.0, rel=1e-6)


def test_more_rivals_need_more_gain() -> None:
    rng = np.random.default_rng(2)
    level = rng.normal(0.3, 0.03, (BLOCKS, SPANS, SALTS))
    other = level + 0.01 + rng.normal(0, 0.02, level.shape)
    alone, many = decide(level, other), decide(level, other, rivals=10)
    assert many.gain == alone.gain
    assert (many.noise or 0.0) > 1.2 * (alone.noise or np.inf)


@pytest.mark.parametrize("freedom", [1.0, 1.5, 4.0, 100.0])
def test_error_inflation_is_students(freedom: float) -> None:
    assert student(freedom).sf(NOISE_MULTIPLE * inflate_error(freedom)) == pytest.approx(
        student(1e12).sf(NOISE_MULTIPLE), rel=1e-6
    )


def test_the_reason_names_the_numbers() -> None:
    level = np.linspace(0.2, 0.3, 24).reshape(4, 3, 2)
    verdict = decide(level, 1.1 * level)
    expected = f"promoted: the gain of +0.025 (+10.00 %) exceeds 2 × the noise of {verdict.noise:.2g} over 4 blocks of "
    assert verdict.why == expected + "held-out pages, 3 spans of later cycles, 2 tie orders"
    assert decide(1.1 * level, level).why.startswith("not promoted: the gain of -0.025 (-9.09 %) does not exceed 2 × ")


def test_verdicts_survive_json_and_are_consistent() -> None:
    level = np.linspace(0.2, 0.3, 24).reshape(4, 3, 2)
    for verdict in (decide(level, 1.1 * level), decide(level, level), decide(level, level * np.nan)):
        assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
    for noise in (1.0, None):
        with pytest.raises(ValueError, match="verdict: promotes"):
            dataclasses.replace(decide(level, 1.1 * level), noise=noise)
    with pytest.raises(dataclasses.FrozenInstanceError):
        decide(level, level).promote = True  # type: ignore[misc]


def folded(values: list[float], counted: list[bool], spans: int) -> Floats:
    series = np.array(values).reshape(1, 1, -1)
    return fold_cycles(series, np.array(counted).reshape(1, -1), spans).ravel()


def test_cycles_are_folded_into_means_of_counted_ones() -> None:
    assert folded([1, 2, 3, 4, 5], [True] * 5, 2).tolist() == [1.5, 4.0]
    assert folded([1, 2, 3, 4], [True, False, True, True], 2).tolist() == [1.0, 3.5]
    assert np.isnan(folded([1, 2, 3, 4], [False, False, True, True], 2)).tolist() == [True, False]
    two = fold_cycles(np.arange(12.0).reshape(2, 2, 3), np.ones((2, 3), np.bool_), 1)
    assert two.tolist() == [[[1.0, 4.0]], [[7.0, 10.0]]]
