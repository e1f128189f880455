"""What the client sends is what the service reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, SignalBatch
from streamsched.client import Outcome, Signal
from streamsched.client.calls import encode_message, encode_outcomes, encode_signals
from streamsched.errors import SettingsError
from streamsched.frames import decode_frame
from tests.support.crawl_outcomes import outcomes


@given(st.lists(outcomes, max_size=12))
def test_a_frame_holds_the_outcomes(rows: list[Outcome]) -> None:
    body = encode_outcomes(rows)
    assert body.media_type == "application/vnd.streamsched.frames"
    assert list(decode_frame(msgspec.msgpack.decode(body.content))) == rows
    assert encode_outcomes(OutcomeBatch.from_outcomes(rows)) == body


def test_a_frame_holds_the_signals() -> None:
    signals = [Signal("https://a.example/", 1.0, "feed"), Signal("https://b.example/", 2.0, "sitemap", 0.5)]
    body = encode_signals(signals)
    assert list(decode_frame(msgspec.msgpack.decode(body.content), SignalBatch)) == signals
    assert encode_signals(SignalBatch.from_signals(signals)) == body


@pytest.mark.parametrize("encode", [encode_outcomes, encode_signals])
@pytest.mark.parametrize("records", [3, None, "text", [1], [{"url": "https://a.example/"}]], ids=str)
def test_other_things_are_refused(encode: Any, records: object) -> None:
    with pytest.raises(SettingsError, match=r"outcomes|signals"):
        encode(records)


def test_a_value_without_an_encoding_is_named() -> None:
    with pytest.raises(SettingsError, match="lease"):
        encode_message({"k": 1, "lease": object()})
