"""What the log keeps of records that were taken from streams."""

from __future__ import annotations

from streamsched.persistence.call_codec import decode_call
from streamsched.persistence.taken_records import StreamOffsets, StreamPositions, TakenRecords, TakenTurns


def entries(taken: TakenRecords) -> list[TakenTurns]:
    found = []
    for payload in taken.encode():
        fields, arrays = decode_call(payload)
        assert fields.pop("call") == TakenTurns.kind
        found.append(TakenTurns.decode(fields, arrays))
    return found


def turns(entry: TakenTurns) -> list[tuple[str, int]]:
    pairs = zip(entry.turns, entry.counts, strict=True)
    return [(entry.streams[number].path, count) for number, count in pairs]


def test_deliveries_of_a_stream_are_one_turn() -> None:
    taken, reached = TakenRecords(), StreamPositions.from_json({"positions": {"a": 5}, "beyond": {}})
    taken.add(reached.advance("a", 3, 8, None))
    taken.add(reached.advance("a", 2, 10, None))
    (entry,) = entries(taken)
    assert entry.streams == [StreamOffsets("a", 5, 0, 5, 10, 0, None)]
    assert turns(entry) == [("a", 5)]
    assert reached.to_json() == {"positions": {"a": 10}, "beyond": {}}


def test_streams_that_alternate_are_one_entry() -> None:
    taken, reached = TakenRecords(), StreamPositions()
    for path, count, position in (("a", 1, None), ("b", 2, 1), ("a", 3, 4), ("b", 0, 2), ("a", 5, None)):
        taken.add(reached.advance(path, count, position, None))
    (entry,) = entries(taken)
    assert entry.streams == [StreamOffsets("a", None, 0, 9, 4, 5, None), StreamOffsets("b", None, 0, 2, 2, 0, None)]
    assert turns(entry) == [("a", 1), ("b", 2), ("a", 3), ("b", 0), ("a", 5)]
    again = StreamPositions()
    for one in entry.streams:
        again.reach(one)
    assert again.to_json() == reached.to_json() == {"positions": {"a": 4, "b": 2}, "beyond": {"a": 5}}


def test_another_time_begins_an_entry() -> None:
    taken, reached = TakenRecords(), StreamPositions()
    taken.add(reached.advance("a", 1, 1, None))
    taken.add(reached.advance("b", 1, 1, 9.0))
    taken.add(reached.advance("a", 1, 2, 7.0))
    assert [entry.streams for entry in entries(taken)] == [
        [StreamOffsets("a", None, 0, 1, 1, 0, None), StreamOffsets("b", None, 0, 1, 1, 0, 9.0)],
        [StreamOffsets("a", 1, 0, 1, 2, 0, 7.0)],
    ]


def test_many_turns_begin_an_entry() -> None:
    taken, reached = TakenRecords(), StreamPositions()
    for i in range(70_000):
        taken.add(reached.advance("ab"[i % 2], 1, i, None))
    first, second = entries(taken)
    assert len(first.turns) == 1 << 16
    assert turns(first)[:2] + turns(second)[-2:] == [("a", 1), ("b", 1)] * 2
    assert [one.start for one in second.streams] == [one.position for one in first.streams]
    assert sum(one.records for one in first.streams + second.streams) == 70_000


def test_parts_of_a_delivery_leave_the_position() -> None:
    taken, reached = TakenRecords(), StreamPositions.from_json({"positions": {"a": 5}, "beyond": {}})
    taken.add(reached.advance("a", 4, None, None))
    assert entries(taken)[0].streams == [StreamOffsets("a", 5, 0, 4, 5, 4, None)]
    taken.clear()
    taken.add(reached.advance("a", 3, 9, None))  # begins after the 4 that the first entry has
    assert entries(taken)[0].streams == [StreamOffsets("a", 5, 4, 3, 9, 0, None)]
    taken.clear()
    taken.add(reached.advance("a", 1, 10, None))
    assert entries(taken)[0].streams == [StreamOffsets("a", 9, 0, 1, 10, 0, None)]
