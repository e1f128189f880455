"""The newest time of a stream agrees with its slow twin, and does not depend on how the stream is cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched.state.stream_clock import StreamClock
from tests.reference.stream_clock import Clock

times = st.one_of(st.integers(-40, 40).map(float), st.sampled_from([-9e10, 9e10, 0.0]), st.floats(-200.0, 200.0))
steps = st.lists(st.tuples(st.lists(times, max_size=12), st.none() | times), max_size=8)


@given(st.none() | st.sampled_from([0.5, 10.0, 25.0]), steps)
def test_twin(max_ahead_s: float | None, steps: list[tuple[list[float], float | None]]) -> None:
    clock, twin = StreamClock(max_ahead_s), Clock(max_ahead_s)
    for batch, now in steps:
        refused = clock.admit(np.array(batch)).tolist()
        assert refused == [i for i, time_s in enumerate(batch) if not twin.admit(time_s)]
        if now is not None:
            clock.advance(now)
            twin.advance(now)
        if twin.heard:
            assert clock.newest_s == twin.newest_s


@given(st.sampled_from([0.5, 10.0]), st.lists(times, max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_cuts_change_nothing(max_ahead_s: float, stream: list[float], cuts: list[int]) -> None:
    whole, parts = StreamClock(max_ahead_s), StreamClock(max_ahead_s)
    refused = whole.admit(np.array(stream)).tolist()
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found: list[int] = []
    for start, stop in pairwise(edges):
        found += (parts.admit(np.array(stream[start:stop])) + start).tolist()
    assert found == refused
    assert parts.state() == whole.state()


@given(st.lists(times, min_size=1, max_size=30))
def test_no_outcome_moves_the_bound_further_than_the_setting(stream: list[float]) -> None:
    clock = StreamClock(10.0)
    clock.advance(0.0)
    bound = 10.0
    for time_s in stream:
        clock.admit(np.array([time_s]))
        moved = clock.newest_s + 10.0 * (1 + clock.state()["refusals"])
        assert moved <= bound + 10.0
        bound = moved


@given(steps, times)
def test_state_says_whether_it_moved(steps: list[tuple[list[float], float | None]], last: float) -> None:
    clock = StreamClock(10.0)
    for batch, _ in steps:
        clock.admit(np.array(batch))
    before = clock.state()
    clock.admit(np.array([last]))
    assert clock.has_moved == (clock.state() != before)
