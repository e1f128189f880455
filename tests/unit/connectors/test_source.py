"""Positions as JSON, and what stands beside them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import connectors
from streamsched.connectors import Position, Rejection
from streamsched.errors import SourceError

counts = st.integers(0, 2**63)


@given(st.builds(Position, st.text(), st.text(), counts, counts, st.text()))
def test_positions_survive_json(position: Position) -> None:
    again = Position.from_json(position.to_json())
    assert (again, again.topic_id) == (position, position.topic_id)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": None},
        {"kind": 1},
        {"path": None},
        {"path": b"log"},
        {"offset": -1},
        {"offset": 1.0},
        {"offset": "1"},
        {"offset": True},
        {"records": -1},
        {"records": None},
        {"topic_id": 1},
    ],
)
def test_what_is_no_position_is_refused(change: dict[str, Any]) -> None:
    good = Position("jsonl", "log", 5, 1).to_json()
    with pytest.raises(SourceError, match="expected a position"):
        Position.from_json(good | change)
    for field in good:
        with pytest.raises(SourceError, match="expected a position"):
            Position.from_json({key: value for key, value in good.items() if key != field})


def test_records_are_frozen() -> None:
    for record in (Position("jsonl", "log", 5, 1), Rejection("log", "line", 1, "url", "expected text", "5")):
        with pytest.raises(AttributeError):
            record.path = "other"  # type: ignore[misc]
        assert not hasattr(record, "__dict__")


def test_public_names() -> None:
    assert connectors.__all__ == sorted(connectors.__all__)
    assert all(hasattr(connectors, name) for name in connectors.__all__)
