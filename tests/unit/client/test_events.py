"""Outcomes and signals of the client, beside those of the library."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsched
from streamsched.client import Outcome, Signal
from streamsched.errors import InvalidOutcome, InvalidSignal

NUMBERS = st.floats() | st.integers(-(2**70), 2**70) | st.booleans()
VALUES = (
    st.none() | NUMBERS | st.text(max_size=3) | st.sampled_from([0, 200, 999, 1_000, 0.5, "robots_denied", -1, 1e39])
)
FIELDS = st.fixed_dictionaries(
    {"url": st.text(max_size=3) | VALUES, "fetched_at": VALUES | st.just(1.0)},
    optional={name: VALUES for name in Outcome.__struct_fields__ if name not in {"url", "fetched_at"}},
)


def is_accepted(kind: Any, fields: dict[str, Any]) -> bool:
    try:
        kind(**fields)
    except (InvalidOutcome, TypeError):
        return False
    return True


@given(FIELDS)
def test_what_the_client_accepts_the_library_accepts(fields: dict[str, Any]) -> None:
    if is_accepted(Outcome, fields):
        assert is_accepted(streamsched.Outcome, fields)


@given(FIELDS)
def test_what_the_library_accepts_the_client_accepts(fields: dict[str, Any]) -> None:
    if is_accepted(streamsched.Outcome, fields):
        assert is_accepted(Outcome, fields)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", ""),
        ("url", "\ud800"),
        ("fetched_at", math.nan),
        ("fetched_at", None),
        ("status", 1_000),
        ("status", True),
        ("fingerprint", 2**64),
        ("changed", 1),
        ("cost", 1e39),
        ("retry_after", math.inf),
        ("moved_to", ""),
        ("significance", 1.5),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object) -> None:
    fields: dict[str, Any] = {"url": "https://a.example/", "fetched_at": 1.0, field: value}
    with pytest.raises(InvalidOutcome) as caught:
        Outcome(**fields)
    assert caught.value.field == field


@pytest.mark.parametrize(("field", "value"), [("url", ""), ("at", math.inf), ("source", 3), ("significance", -0.1)])
def test_a_wrong_field_of_a_signal_is_named(field: str, value: object) -> None:
    fields: dict[str, Any] = {"url": "https://a.example/", "at": 1.0, "source": "feed", field: value}
    with pytest.raises(InvalidSignal) as caught:
        Signal(**fields)
    assert caught.value.field == field


def test_fields_are_those_of_the_library() -> None:
    assert Outcome.__struct_fields__ == streamsched.Outcome.__match_args__
    assert Signal.__struct_fields__ == streamsched.Signal.__match_args__
