"""What the log records of outcomes taken from streams."""

from __future__ import annotations

from typing import Any

from streamsched.persistence.call_codec import StreamOffsets, decode_call
from streamsched.persistence.taken_outcomes import TakenOutcomes


def entries(taken: TakenOutcomes) -> list[StreamOffsets]:
    found = []
    for payload in taken.encode():
        fields, _ = decode_call(payload)
        assert fields.pop("call") == StreamOffsets.kind
        found.append(StreamOffsets(**fields))
    return found


def test_deliveries_of_a_stream_are_one_entry() -> None:
    taken, positions = TakenOutcomes(), dict[str, Any]({"a": 5})
    taken.add("a", 3, None, positions, 8)
    taken.add("a", 2, None, positions, 10)
    assert entries(taken) == [StreamOffsets("a", 5, 0, 5, 10, None)]
    assert positions == {"a": 10}


def test_another_stream_or_time_begins_an_entry() -> None:
    taken, positions = TakenOutcomes(), dict[str, Any]()
    taken.add("a", 1, None, positions, 1)
    taken.add("b", 1, None, positions, 1)
    taken.add("b", 1, 7.0, positions, 2)
    assert entries(taken) == [
        StreamOffsets("a", None, 0, 1, 1, None),
        StreamOffsets("b", None, 0, 1, 1, None),
        StreamOffsets("b", 1, 0, 1, 2, 7.0),
    ]


def test_parts_of_a_delivery_leave_the_position() -> None:
    taken, positions = TakenOutcomes(), dict[str, Any]({"a": 5})
    taken.add("a", 4, None, positions, None)
    assert entries(taken) == [StreamOffsets("a", 5, 0, 4, 5, None)]
    taken.clear()
    taken.add("a", 3, None, positions, 9)  # begins after the 4 that the first entry has
    assert entries(taken) == [StreamOffsets("a", 5, 4, 3, 9, None)]
    taken.clear()
    taken.add("a", 1, None, positions, 10)
    assert entries(taken) == [StreamOffsets("a", 9, 0, 1, 10, None)]
