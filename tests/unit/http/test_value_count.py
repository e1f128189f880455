"""Values of encoded bodies, counted without decoding, against those of what was encoded."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.http.protocol.bodies import FRAMES, JSON, MSGPACK, decode_body
from streamsched.http.protocol.problems import HttpError
from streamsched.http.protocol.value_count import has_more_values
from tests.support.hostile_requests import ROUTES

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ['"', "\\", '\\",[', "x" * 300, "é" * 40_000]
)
LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | TEXTS | st.binary(max_size=300)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(TEXTS, inner, max_size=20))


def count(value: Any, of_empty: int) -> int:
    """The values in `value`, keys too; an empty list or object is `of_empty`."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(count(one, of_empty) for one in value.values()) if value else of_empty
    if isinstance(value, list):
        return 1 + sum(count(one, of_empty) for one in value) if value else of_empty
    return 1


@given(VALUES | st.lists(st.integers(0, 9), min_size=15, max_size=70_000).map(lambda some: {"a": some}))
def test_values_are_counted_as_they_are(value: Any) -> None:
    for body, is_msgpack in ((msgspec.msgpack.encode(value), True), (msgspec.json.encode(value), False)):
        values = count(value, 1 if is_msgpack else 2)
        assert not has_more_values(body, values, is_msgpack=is_msgpack)
        assert has_more_values(body, values - 1, is_msgpack=is_msgpack) or len(body) < values


@given(st.binary(max_size=60), st.integers(0, 9), st.booleans())
def test_any_bytes_end(body: bytes, most: int, is_msgpack: bool) -> None:
    assert has_more_values(body, most, is_msgpack=is_msgpack) in (True, False)


MANY = 300_000


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        (JSON, b'{"k": [' + b"[]," * MANY + b"1]}"),
        (JSON, b'{"k": 1.0, "hosts": [' + b"1," * MANY + b"1]}"),
        (MSGPACK, b"\x81\xa1k\xdd" + MANY.to_bytes(4, "big") + b"\x90" * MANY),
        (MSGPACK, b"\x81\xa1k\xdf" + MANY.to_bytes(4, "big") + b"\xa0\x80" * MANY),
    ],
)
def test_a_body_of_too_many_values_is_refused_without_decoding_them(
    media_type: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The typed decoder stops at the wrong one; what was found is not looked for."""
    kind = next(route.operation.asked for route in ROUTES if route.operation.name == "next_batch")
    assert kind is not None
    plain: list[object] = []
    monkeypatch.setattr(msgspec, "convert", lambda *given, **_: plain.append(given))
    with pytest.raises(HttpError) as refusal:
        decode_body(body, media_type, kind)
    assert refusal.value.problem.detail == "k: expected int, found one of more than 262,144 values"
    assert plain == []


ITEMS = MANY.to_bytes(4, "big") + b"\x80" * MANY


@pytest.mark.parametrize(
    ("operation", "media_type", "body"),
    [
        ("observe", FRAMES, b"\x81\xa3url\xdd" + ITEMS),
        ("set_rules", JSON, None),
        ("discover", MSGPACK, b"\x81\xa4urls\xdd" + ITEMS),
    ],
)
def test_a_body_that_should_have_few_values_is_refused_undecoded(
    operation: str, media_type: str, body: bytes | None
) -> None:
    if body is None:  # made here: each worker collects
        body = b'{"rules": {' + b",".join(b'"%d": {}' % number for number in range(MANY)) + b"}}"
    reader = next(route.body for route in ROUTES if route.operation.name == operation)
    assert reader is not None
    with pytest.raises(HttpError, match="body: expected at most 262,144 values, found more"):
        reader.read(body, media_type)
