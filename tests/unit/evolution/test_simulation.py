"""Simulated crawls: runs of pages, choice of classes, surges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.evolution.data.shared_changes import MIN_GROUP_PAGES, number_large_groups
from streamsched.evolution.simulation.arena import make_arena
from streamsched.evolution.simulation.crawl import choose_classes
from streamsched.evolution.simulation.simulated_events import find_surges
from streamsched.evolution.simulation.tie_order import close_gap, count_within, find_reach
from tests.reference.simulated_crawl import hit_share
from tests.support.cases import examples

PAGES = 20_000
ARENA = make_arena(PAGES, PAGES, 1)


@examples(ordinary=9, whole=30)
@given(st.sampled_from([1, 2, 70, 2048, 4097, 13_000]), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(0, 9_000))
def test_a_gap_closes(size: int, low: float, high: float, start: int) -> None:
    begin, end = sorted((int(low * size), int(high * size)))
    ARENA.members[: 2 * PAGES] = -1
    run = np.arange(size) * 3
    ARENA.members[start : start + size] = run
    ARENA.starts[0], ARENA.sizes[0] = start, size
    close_gap(ARENA, 0, begin, end)
    left = ARENA.members[ARENA.starts[0] : ARENA.starts[0] + size - (end - begin)]
    assert left.tolist() == [*run[:begin].tolist(), *run[end:].tolist()]
    assert np.all(ARENA.members[:start] == -1)
    assert np.all(ARENA.members[start + size : 2 * PAGES] == -1)


@examples(ordinary=9, whole=30)
@given(st.sets(st.integers(0, 99), min_size=1), st.integers(0, 99), st.data())
def test_the_reach_of_one_class_is_the_least_length_with_enough_pages(
    numbers: set[int], offset: int, data: st.DataObject
) -> None:
    taken = data.draw(st.integers(1, len(numbers)))
    ARENA.members[: len(numbers)] = sorted(numbers)
    ARENA.starts[5], ARENA.sizes[5], ARENA.chosen[0] = 0, len(numbers), 5
    reach = find_reach(ARENA, (0, 1), offset, taken, 100)
    assert count_within(ARENA, 5, offset, reach, 100) == taken
    assert count_within(ARENA, 5, offset, reach - 1, 100) == taken - 1


@examples(ordinary=20, whole=65)
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


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.01, 0.2, 0.9]), st.sampled_from([0.0, 0.4, 1.0]))
def test_surge_hazards_equal_the_reference(seed: int, rate: float, hit: float) -> None:
    rng = np.random.default_rng(seed)
    changed = rng.random((60, 12)) < rate
    changed[:20, 5] |= rng.random(20) < hit
    numbers = number_large_groups(np.repeat([4, 9, 2], [20, 30, 10]))
    taken = find_surges(changed, numbers)[0]
    assert taken.shape == (12, 3)
    assert np.all(taken[:, 0] == 0.0)
    for number, part in ((1, slice(20)), (2, slice(20, 50))):
        expected = np.cumsum([-np.log1p(-hit_share(changed[part], at)) for at in range(12)])
        np.testing.assert_allclose(taken[:, number], expected, rtol=1e-9, atol=1e-12)


def test_a_bulk_edit_is_a_surge_and_single_changes_are_not() -> None:
    changed = np.zeros((40, 10), np.bool_)
    changed[3, 2] = True
    changed[:18, 6] = True
    taken = find_surges(changed, number_large_groups(np.repeat([0, 1], 20)))[0]
    assert taken[5, 1] == 0.0
    assert 1.0 - np.exp(-taken[6, 1]) == pytest.approx(0.87, abs=0.02)
    assert taken[9, 1] == taken[6, 1]
    assert np.all(taken[:, 2] == 0.0)


def test_small_groups_have_no_surges() -> None:
    numbers = number_large_groups(np.repeat([5, 6], [MIN_GROUP_PAGES - 1, MIN_GROUP_PAGES]))
    assert set(numbers[: MIN_GROUP_PAGES - 1].tolist()) == {0}
    assert set(numbers[MIN_GROUP_PAGES - 1 :].tolist()) == {1}
