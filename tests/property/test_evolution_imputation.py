"""The imputation kernel equals its slow reference for any visits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched.evolution.data.imputation import UNIFORM_ACTIVITY, PageVisits, impute_history
from tests.reference.imputation import PageRandom, impute

times = st.sampled_from([-1e15, -3.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 4.25, 5.0, 6.0, 7.75, 8.0, 9.0, 1e15]) | st.floats(
    -5, 12
)
visits = st.lists(st.tuples(times, st.booleans()), max_size=8).map(sorted)
posteriors = st.tuples(
    st.sampled_from([1e-6, 0.05, 0.5, 1.0, 30.0, 1e9]) | st.floats(0.05, 60.0),
    st.sampled_from([1e-12, 1.0, 1e12]) | st.floats(0.1, 50.0),
)
pages = st.lists(st.tuples(visits, posteriors, st.integers(0, 2**64 - 1)), max_size=5)
activity = st.none() | st.lists(st.sampled_from([1.0, 0.0, 0.25, 3.0]) | st.floats(0.0, 7.0), min_size=9, max_size=9)


@given(pages, st.integers(0, 9), st.integers(-(2**65), 2**65), activity)
def test_kernel_equals_its_reference(
    pages: list[tuple[list[tuple[float, bool]], tuple[float, float], int]],
    cycles: int,
    seed: int,
    activity: list[float] | None,
) -> None:
    """With no activity, uniform activity and varying activity: of two profiles, the second is uniform."""
    profiles = [activity or [1.0] * 9, [1.0] * 9]
    numbers = [i % 2 for i in range(len(pages))]
    flat = [visit for found, *_ in pages for visit in found]
    page_visits = PageVisits(
        np.cumsum([0, *(len(found) for found, *_ in pages)]),
        np.array([at for at, _ in flat], np.float64),
        np.array([saw for _, saw in flat], np.bool_),
        np.array([shape for _, (shape, _), _ in pages]),
        np.array([exposure for _, (_, exposure), _ in pages]),
        np.array([page_hash for *_, page_hash in pages], np.uint64),
        *(
            UNIFORM_ACTIVITY
            if activity is None
            else (np.array(profiles)[:, :cycles].copy(), np.array(numbers, np.int64))
        ),
    )
    changed, observed = impute_history(page_visits, cycles, seed)
    assert changed.shape == observed.shape == (len(pages), cycles)
    for i, (found, posterior, page_hash) in enumerate(pages):
        assert (changed[i].tolist(), observed[i].tolist()) == impute(
            found, posterior, PageRandom(seed, page_hash), profiles[numbers[i]][:cycles]
        )
