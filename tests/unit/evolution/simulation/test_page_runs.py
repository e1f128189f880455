"""Runs of page numbers: a gap closes as in a list, whichever side moves, and reach is that of a count."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.evolution.simulation.arena import make_arena
from streamsched.evolution.simulation.page_runs import close_gap, count_within, find_reach

PAGES = 20_000
ARENA = make_arena(PAGES, PAGES, 1)


@settings(max_examples=100, deadline=None)
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


@settings(max_examples=100, deadline=None)
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
