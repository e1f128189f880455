"""Events and columns are each other's reverse."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors.reading.validation import ParseError
from streamsched.connectors.records.outcome_columns import outcomes_to_columns, outcomes_to_events
from streamsched.connectors.records.outcome_events import OutcomeEvent
from streamsched.connectors.records.packed_columns import pack_bytes
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.support.crawl_outcomes import outcomes


@given(st.lists(outcomes, max_size=6))
def test_columns_hold_what_the_events_said(rows: list[Outcome]) -> None:
    batch = outcomes_to_columns(list(outcomes_to_events(OutcomeBatch.from_outcomes(rows))))
    assert list(batch) == rows
    for field in ("status", "fingerprint", "changed", "importance", "cost", "retry_after", "significance"):
        some = any(getattr(row, field) is not None for row in rows)
        assert getattr(batch, field).size == (len(rows) if some else 0)


def test_fingerprints_as_text() -> None:
    batch = outcomes_to_columns([OutcomeEvent("u", 1.0, fingerprint=value) for value in ("00000000000000ff", 7, None)])
    assert [outcome.fingerprint for outcome in batch] == [255, 7, None]
    with pytest.raises(ParseError):
        outcomes_to_columns([OutcomeEvent("u", 1.0, fingerprint="255")])
    with pytest.raises(OverflowError):
        outcomes_to_columns([OutcomeEvent("u", 1.0, fingerprint=2**64)])


@given(st.lists(st.binary(max_size=5)))
def test_packing_bytes(urls: list[bytes]) -> None:
    packed = pack_bytes(urls)
    raw = packed.blob.tobytes()
    assert [raw[a:b] for a, b in pairwise(packed.offsets)] == urls
