"""What the client sends is what the service reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsched
from streamsched.client import Outcome, Signal
from streamsched.client.protocol.bodies import encode_message, encode_outcomes, encode_signals
from streamsched.connectors.records.record_types import OUTCOMES
from streamsched.errors import SettingsError

AMOUNTS = st.floats(0.0, 1e30)
OUTCOME_LISTS = st.lists(
    st.builds(
        Outcome,
        url=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
        fetched_at=st.floats(-1e10, 1e10),
        status=st.none() | st.integers(0, 999) | st.sampled_from(["robots_denied", "not_attempted"]),
        fingerprint=st.none() | st.integers(0, 2**64 - 1),
        changed=st.none() | st.booleans(),
        importance=st.none() | AMOUNTS,
        cost=st.none() | AMOUNTS,
        retry_after=st.none() | AMOUNTS,
        moved_to=st.none() | st.just("https://b.example/ä"),
        significance=st.none() | st.floats(0.0, 1.0),
    ),
    max_size=12,
)


def as_library(outcome: Outcome) -> streamsched.Outcome:
    return streamsched.Outcome(**msgspec.structs.asdict(outcome))


@given(OUTCOME_LISTS)
def test_a_frame_holds_the_outcomes(outcomes: list[Outcome]) -> None:
    body = encode_outcomes(outcomes)
    assert body.media_type == "application/vnd.streamsched.frames"
    assert list(OUTCOMES.decode_frame(msgspec.msgpack.decode(body.content))) == list(map(as_library, outcomes))


@given(OUTCOME_LISTS)
def test_the_library_s_outcomes_and_batches_are_sent_alike(outcomes: list[Outcome]) -> None:
    rows = list(map(as_library, outcomes))
    frame = msgspec.msgpack.decode(encode_outcomes(streamsched.OutcomeBatch.from_outcomes(rows)).content)
    assert encode_outcomes(rows) == encode_outcomes(outcomes)
    assert list(OUTCOMES.decode_frame(frame)) == rows


def test_signals_are_a_message_and_batches_a_frame() -> None:
    signals = [Signal("https://a.example/", 1.0, "feed"), Signal("https://b.example/", 2.0, "sitemap", 0.5)]
    rows = [streamsched.Signal(*msgspec.structs.astuple(signal)) for signal in signals]
    for given_signals in (signals, rows):
        message: Any = msgspec.msgpack.decode(encode_signals(given_signals).content)
        assert [streamsched.Signal(**one) for one in message["signals"]] == rows
    assert encode_signals(streamsched.SignalBatch.from_signals(rows)).media_type == "application/vnd.streamsched.frames"


@pytest.mark.parametrize("encode", [encode_outcomes, encode_signals])
@pytest.mark.parametrize("records", [3, None, "text", [1], [{"url": "https://a.example/"}]], ids=str)
def test_other_things_are_refused(encode: Any, records: object) -> None:
    with pytest.raises(SettingsError, match=r"outcomes|signals"):
        encode(records)


def test_a_value_without_an_encoding_is_named() -> None:
    with pytest.raises(SettingsError, match="lease"):
        encode_message({"k": 1, "lease": object()})
