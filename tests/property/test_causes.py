"""The weights of causes: those of the slow twin, bounded whatever a host says, true when the causes are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation.interval_update import Causes, cause_weight, learn_weights
from streamsched.numerics.arrays import Bools, Floats, Records
from streamsched.numerics.jit import kernel
from streamsched.records.schema import CAUSES, CORPUS
from tests.reference import causes as twin
from tests.support.cases import examples, how_many

FEW = st.floats(0.0, 1e9) | st.sampled_from([0.0, 5e-324, 1e-12, 0.1, 30.0, 1e300])
visits = st.lists(st.tuples(st.tuples(FEW, FEW, FEW, FEW, FEW), st.booleans()), max_size=60)


@kernel
def _learn(corpus: Records, expected: Floats, changed: Bools) -> None:
    for i in range(changed.size):
        five = expected[i, 0], expected[i, 1], expected[i, 2], expected[i, 3], expected[i, 4]
        learn_weights(corpus[0], five, changed[i])


@kernel
def _weigh(corpus: Records, cause: int) -> float:
    return cause_weight(corpus[0], cause)


def learned(expected: Floats, changed: Bools) -> Floats:
    """The weights after visits, ``expected``: float64[n, 5]."""
    corpus = np.zeros(1, CORPUS)
    _learn(corpus, expected, changed)
    return np.array([_weigh(corpus, cause) for cause in range(len(CAUSES))])


@examples(ordinary=50, whole=500)
@given(visits)
def test_weights_are_those_of_the_twin(seen: list[tuple[Causes, bool]]) -> None:
    reference = twin.Causes()
    for expected, changed in seen:
        reference.learn(dict(zip(CAUSES, expected, strict=True)), changed)
    weights = learned(
        np.array([one[0] for one in seen]).reshape(-1, len(CAUSES)), np.array([one[1] for one in seen], bool)
    )
    assert weights.tolist() == pytest.approx([reference.weight(cause) for cause in CAUSES], rel=1e-9)
    assert np.all(weights > 0.0)


@pytest.mark.longer
@pytest.mark.parametrize("changing", [0.0, 0.001, 0.5, 1.0])
@pytest.mark.parametrize("most", [1e-15, 1e-3, 1.0, 1e9])
def test_weights_stay_bounded_whatever_a_host_says(changing: float, most: float) -> None:
    rng = np.random.default_rng(1)
    size = how_many(100_000, 1_000_000)
    weights = learned(rng.random((size, len(CAUSES))) * most, rng.random(size) < changing)
    assert np.all((weights > 0.0) & (weights < 100.0))
    after = learned(np.full((3_000, len(CAUSES)), 0.1), rng.random(3_000) < -math.expm1(-0.5))
    assert after == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("factor", [1.0, 0.3, 0.6, 2.0])
@pytest.mark.parametrize("cause", range(len(CAUSES)))
def test_a_weight_converges_to_the_factor_by_which_its_cause_is_wrong(cause: int, factor: float) -> None:
    """Four visits in five have that cause, two in five another one, whose weight stays 1."""
    rng = np.random.default_rng(2)
    means, size = [], 12_000
    factors = np.where(np.arange(len(CAUSES)) == cause, factor, 1.0)
    for _ in range(20):
        expected = np.zeros((size, len(CAUSES)))
        expected[:, cause] = (rng.random(size) < 0.8) * rng.uniform(0.02, 0.4, size)
        expected[:, cause - 1] = (rng.random(size) < 0.4) * rng.uniform(0.02, 0.4, size)
        means.append(learned(expected, rng.random(size) < -np.expm1(-expected @ factors)))
    # The prior, which weighs as much as 20 of some 300 changes, pulls both towards 1 and so towards each other.
    assert np.mean(means, axis=0) == pytest.approx(factors, rel=0.15, abs=0.15)
