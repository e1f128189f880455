"""When a frame of outcomes is due, and what it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.client import Outcome
from streamsched.client.sender import OutcomeBuffer
from streamsched.errors import SettingsError


def outcome(number: int) -> Outcome:
    return Outcome(f"https://a.example/{number}", float(number))


def test_a_frame_is_due_by_count_or_by_time() -> None:
    buffer = OutcomeBuffer(frame=3, every_s=2.0, capacity=10)
    assert buffer.due_in_s(0.0) is None
    buffer.add(outcome(0), 5.0)
    buffer.add(outcome(1), 6.0)
    assert buffer.due_in_s(6.5) == 0.5
    assert buffer.due_in_s(8.0) == -1.0
    buffer.add(outcome(2), 6.0)
    assert buffer.due_in_s(6.0) == 0.0


def test_a_full_buffer_is_due() -> None:
    buffer = OutcomeBuffer(frame=100, every_s=60.0, capacity=1)
    assert not buffer.is_full
    buffer.add(outcome(0), 0.0)
    assert buffer.is_full
    assert buffer.wakes_sender
    assert buffer.due_in_s(0.0) == 0.0


@given(st.lists(st.integers(1, 5), max_size=20), st.integers(1, 7))
def test_frames_are_all_outcomes_in_order(steps: list[int], frame: int) -> None:
    buffer = OutcomeBuffer(frame=frame, every_s=1.0, capacity=1_000)
    added: list[Outcome] = []
    sent: list[Outcome] = []
    for step in steps:
        for _ in range(step):
            added.append(outcome(len(added)))
            buffer.add(added[-1], 0.0)
        first = buffer.first_frame()
        assert 1 <= len(first) <= frame
        buffer.drop(len(first))
        sent += first
        assert (buffer.added, buffer.sent) == (len(added), len(sent))
    assert sent + buffer.outcomes() == added


def test_a_frame_of_long_urls_is_shorter() -> None:
    buffer = OutcomeBuffer(frame=1_000, every_s=1.0, capacity=1_000)
    for number in range(1_000):
        buffer.add(Outcome(f"https://a.example/{number:08000}", 1.0), 0.0)
    assert 100 < len(buffer.first_frame()) < 200


@pytest.mark.parametrize(
    ("name", "value"), [("frame", 0), ("frame", 10_001), ("frame", 1.5), ("capacity", 0), ("every_s", 0.0)]
)
def test_a_wrong_argument_is_named(name: str, value: float) -> None:
    arguments = {"frame": 1, "every_s": 1.0, "capacity": 1} | {name: value}
    with pytest.raises(SettingsError) as caught:
        OutcomeBuffer(**arguments)  # type: ignore[arg-type]
    assert caught.value.setting == name
