"""The corpus' prior: it finds the Gamma that made the pages, and keeps its head where there is nothing to find."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.replay.gp4c.prior import fit_prior


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
