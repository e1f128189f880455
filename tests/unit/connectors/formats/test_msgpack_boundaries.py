"""The ends of msgpack maps and the search for the next one, against a slow twin that reads token by token."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors.formats.msgpack_boundaries import (
    ANONYMOUS,
    EVENT,
    FRAME,
    INCOMPLETE,
    MALFORMED,
    MAX_DEPTH,
    MapScanner,
    find_ends,
    is_event,
)
from tests.reference import estimators
from tests.support.crawl_outcomes import pack

LIMIT = 1 << 16

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.sampled_from(["", "é", "x" * 40])
    | st.sampled_from([b"", b"\xc1", bytes(300)])
    | st.sampled_from([msgpack.ExtType(5, bytes(size)) for size in (0, 1, 2, 4, 8, 16, 17, 300)])
)
values = st.recursive(
    scalars | st.just([0] * 17),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "url"]), inner),
)
maps = st.dictionaries(st.sampled_from(["url", "a", "fetched_at", "k" * 40]), values)
# Bytes that often look like the beginning of something.
pieces = st.sampled_from(
    [b"\x81", b"\x82", b"\xa3url", b"\xdf", b"\xde\0", b"\xdd\0\0", b"\xc4", b"\x93", b"\xc1", b"\1"]
)
garbage = st.lists(pieces | st.binary(max_size=4), max_size=30).map(b"".join)


def feed(data: bytes) -> msgpack.Unpacker:
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    return unpacker


def measure(data: bytes, start: int = 0, limit: int = LIMIT) -> tuple[int, int]:
    return MapScanner(data, limit, final=True).measure(start)


@given(st.lists(maps, min_size=1, max_size=5))
def test_maps_of_another_encoder_end_where_they_end(records: list[dict[str, Any]]) -> None:
    packed = [pack(record) for record in records]
    data, bounds = b"".join(packed), list(accumulate(map(len, packed), initial=0))
    assert find_ends(feed(data), len(packed) + 1) == bounds[1:]
    measured = [measure(data, start) for start in bounds[:-1]]
    assert [end for end, _ in measured] == bounds[1:]
    kinds = [kind for _, kind in measured]
    assert [kind == ANONYMOUS for kind in kinds] == ["url" not in record for record in records]
    frames = [isinstance(record.get("url"), bytes | list) for record in records]
    assert [kind == FRAME for kind in kinds] == frames


@given(maps, st.data())
def test_a_part_of_a_map_is_incomplete(record: dict[str, Any], data: st.DataObject) -> None:
    packed = pack(record)
    part = packed[: data.draw(st.integers(0, len(packed) - 1))]
    assert measure(part)[0] == INCOMPLETE
    assert measure(part, limit=len(part))[0] == MALFORMED
    assert find_ends(feed(part), 1) == []


@given(garbage | maps.map(pack), st.integers(0, 40), st.integers(1, 400))
def test_measuring_is_its_slow_twin(data: bytes, start: int, limit: int) -> None:
    start = min(start, len(data))
    twin = estimators.MsgpackMap(data, start, limit)
    end, kind = measure(data, start, limit)
    assert end == twin.end
    assert end < 0 or kind == twin.kind


@given(st.lists(garbage | maps.map(pack), max_size=4).map(b"".join), st.booleans())
def test_finding_is_its_slow_twin_in_linear_time(data: bytes, final: bool) -> None:
    scanner = MapScanner(data, LIMIT, final=final)
    assert scanner.find(0) == estimators.find_map(data, 0, LIMIT, final=final)
    assert scanner.work <= 257 * max(len(data), 1 << 16)


def test_hostile_heads_that_share_a_long_tail_cost_linear_time() -> None:
    heads = 300
    tail = b"\1" * 20_000
    data = b""
    for left in range(heads, 0, -1):  # each head's first value hides the heads after it, and then all share the tail
        data += b"\xdf\0\x0f\xff\xff\xa3url\xc5" + ((left - 1) * 11).to_bytes(2, "big")
    data += b"".join(b"\xa1k\1" for _ in tail)
    scanner = MapScanner(data, 1 << 26, final=True)
    assert scanner.find(0) == (len(data), False)
    assert scanner.work <= 257 * max(len(data), 1 << 16)


@pytest.mark.parametrize("head", [b"\x82\xa1k", b"\x82\xa1k\xdd\0\xff\xff\xff", b"\xde\xff\xff\xa1k"])
def test_hostile_heads_that_hide_one_another_cost_linear_time(head: bytes) -> None:
    data = head * 100_000
    scanner = MapScanner(data, 1 << 26, final=True)
    assert scanner.find(0) == (len(data), False)
    assert scanner.work <= 257 * len(data)


def test_kinds() -> None:
    assert measure(pack({"url": "u"}))[1] == EVENT
    assert measure(pack({"url": None}))[1] == EVENT
    assert measure(pack({"url": b"u"}))[1] == FRAME
    assert measure(pack({"url": ["u"]}))[1] == FRAME
    assert measure(pack({"fetched_at": 1}))[1] == ANONYMOUS
    assert measure(pack({"a": {"url": "u"}}))[1] == ANONYMOUS


@pytest.mark.parametrize(
    "data",
    [
        b"\x01",
        b"\xc1",
        b"\x93\1\1\1",
        b"\x81\x01\x01",
        b"\x81\xa1a\xc1",
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa1a\xdd\xff\xff\xff\xff",
    ],
)
def test_what_can_never_be_a_map_is_malformed_at_once(data: bytes) -> None:
    assert measure(data)[0] == MALFORMED


def test_nesting_has_a_limit() -> None:
    def nested(depth: int) -> bytes:
        return b"\x81\xa1a" + b"\x91" * depth + b"\1"

    assert measure(nested(MAX_DEPTH - 1))[0] == 3 + MAX_DEPTH
    assert measure(nested(MAX_DEPTH))[0] == MALFORMED


def test_boundaries_stop_at_the_count_and_where_no_value_is() -> None:
    data = pack({"url": "u"}) * 3
    unpacker = feed(data + b"\xc1")
    assert find_ends(unpacker, 2) == [7, 14]
    assert find_ends(unpacker, 9) == [21]
    assert find_ends(unpacker, 9) == []


@given(garbage | maps.map(pack))
def test_an_event_is_a_map_whose_url_is_text(data: bytes) -> None:
    end, kind = measure(data, limit=1 << 26)
    if is_event(data):
        assert (end, kind) == (len(data), EVENT)


def test_a_length_beyond_the_limit_is_malformed_at_once_in_an_inner_list_too() -> None:
    data = b"\x81\xa1a\x91\xc6\0\xff\xff\xff" + bytes(70_000)
    assert measure(data, limit=1 << 26)[0] == INCOMPLETE
    assert measure(data, limit=1 << 20)[0] == MALFORMED
