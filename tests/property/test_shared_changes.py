"""The draw of surges equals its slow reference, and finds those that visits show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.evolution.data import shared_changes
from streamsched.evolution.data.shared_changes import GroupVisits, draw_shared_changes
from tests.reference.shared_changes import draw_groups
from tests.support.cases import examples

times = st.integers(-4, 40).map(lambda quarters: quarters / 4)
visits = st.lists(st.tuples(times, st.booleans()), max_size=6).map(sorted)
pages = st.lists(st.tuples(visits, st.sampled_from([0.001, 0.1, 2.0])), min_size=2, max_size=6)


def as_columns(groups: list[list[tuple[list[tuple[float, bool]], float]]]) -> GroupVisits:
    found = [page for group in groups for page in group]
    flat = [visit for visits, _ in found for visit in visits]
    return GroupVisits(
        np.cumsum([0, *(len(visits) for visits, _ in found)]),
        np.array([at for at, _ in flat], np.float64),
        np.array([saw for _, saw in flat], np.bool_),
        np.array([rate for _, rate in found], np.float64),
        np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
    )


@examples(ordinary=9, whole=30)
@given(st.lists(pages, min_size=1, max_size=3), st.integers(1, 9), st.integers(0, 2**40))
def test_the_draw_equals_its_reference(
    groups: list[list[tuple[list[tuple[float, bool]], float]]], cycles: int, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_changes, "MIN_GROUP_PAGES", 2)
        drawn = draw_shared_changes(as_columns(groups), cycles, seed)
    assert drawn.group.tolist() == [number for number, group in enumerate(groups, 1) for _ in group]
    assert not drawn.hazard[0].any()
    np.testing.assert_allclose(drawn.hazard[1:], draw_groups(groups, cycles, seed), rtol=1e-12)


def crawled(hit: float, rate: float, seed: int, cycles: int = 40, count: int = 300) -> GroupVisits:
    """A group of pages visited every ten days in turn, of which a surge hits a share on day 20."""
    rng = np.random.default_rng(seed)
    changes = rng.random((count, cycles)) < -np.expm1(-rate)
    changes[:, 20] |= rng.random(count) < hit
    group = []
    for page in range(count):
        ends = [float(day) for day in range(page % 10, cycles + 1, 10)]
        starts = [0.0, *ends[:-1]]
        seen = [bool(changes[page, int(a) : int(b)].any()) for a, b in zip(starts, ends, strict=True)]
        group.append((list(zip(ends, seen, strict=True)), rate))
    return as_columns([group])


@pytest.mark.parametrize("hit", [0.3, 0.7])
def test_a_surge_is_found_on_its_day(hit: float) -> None:
    for seed in range(5):
        shares = -np.expm1(-draw_shared_changes(crawled(hit, 0.002, seed), 40, seed).hazard[1])
        assert int(np.argmax(shares)) == 20
        assert abs(float(shares[20]) - hit) <= 0.2
        assert np.count_nonzero(shares) <= 2


def test_pages_that_change_independently_share_nothing() -> None:
    for rate in (0.002, 0.05, 0.3):
        shares = [-np.expm1(-draw_shared_changes(crawled(0.0, rate, seed), 40, seed).hazard) for seed in range(5)]
        assert np.mean([share.sum() for share in shares]) <= 0.3  # of the pages, in 40 cycles


def test_small_groups_and_no_visits_share_nothing() -> None:
    small = crawled(0.7, 0.01, 0, count=shared_changes.MIN_GROUP_PAGES - 1)
    assert draw_shared_changes(small, 40, 0).hazard.shape == (1, 40)
    empty = GroupVisits(np.zeros(1, np.int64), np.empty(0), np.empty(0, np.bool_), np.empty(0), np.empty(0, np.int64))
    assert draw_shared_changes(empty, 0, 0).hazard.shape == (1, 0)
