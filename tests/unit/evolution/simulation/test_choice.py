"""The classes chosen are those of a full sort: enough pages, whole runs of equal scores, best first."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.evolution.simulation.choice import choose_classes


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 300),
    st.sampled_from([1, 3, 40, 2**63]),
    st.floats(0.0, 1.0),
    st.sampled_from([1, 1000]),
)
def test_the_best_classes_with_enough_pages(seed: int, count: int, different: int, share: float, largest: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, different, count).astype(np.uint64)
    sizes = rng.integers(1, largest + 1, count)
    wanted = max(1, int(share * sizes.sum()))
    moved, chosen = keys.copy(), np.arange(count)
    selected = choose_classes(moved, sizes, wanted, chosen, count)
    assert sorted(chosen.tolist()) == list(range(count))
    assert moved.tolist() == keys[chosen].tolist()
    by_key = np.sort(keys)[::-1]
    assert moved[:selected].tolist() == by_key[:selected].tolist()
    filled = np.cumsum(sizes[chosen[:selected]])
    assert filled[-1] >= wanted
    assert selected == count or by_key[selected] < by_key[selected - 1]
    before = np.searchsorted(-by_key.astype(np.float64), -float(by_key[selected - 1]))
    if different < 2**53:
        assert before == 0 or filled[before - 1] < wanted
