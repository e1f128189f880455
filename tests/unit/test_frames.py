"""Columnar frames: what goes in comes out, valid or not, and what does not hold together is named."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.errors import InvalidOutcome
from streamsched.frames import decode_frame, encode_frame, most_row_bytes
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from tests.support.cases import grouped
from tests.support.crawl_outcomes import make_outcomes, outcomes, same
from tests.support.field_tables import BLOCKS, with_tables
from tests.support.paths import ROOT

# Columns that hold anything their dtypes can, so that invalid records travel too.
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "status": st.none() | st.integers(-(2**31), 2**31 - 1),
    "fingerprint": st.none() | st.integers(0, 2**64 - 1),
    "changed": st.none() | st.booleans(),
    "importance": st.none() | st.floats(),
    "cost": st.none() | st.floats(),
    "retry_after": st.none() | st.floats(),
    "significance": st.none() | st.floats(),
    "not_before": st.none() | st.floats(),
}


@st.composite
def batches(draw: st.DrawFn) -> OutcomeBatch:
    count = draw(st.integers(0, 6))
    names = draw(st.sets(st.sampled_from(sorted(COLUMNS))))
    columns = {name: draw(st.lists(COLUMNS[name], min_size=count, max_size=count)) for name in names}
    urls = [draw(st.binary(max_size=20)) for _ in range(count)]
    slack = draw(st.binary(max_size=5))
    offsets = np.cumsum([len(slack), *map(len, urls)])
    packed = PackedUrls(slack + b"".join(urls) + slack, offsets)
    times = draw(st.lists(st.floats(), min_size=count, max_size=count))
    return OutcomeBatch(packed, times, **columns)


def unpack(frame: bytes) -> dict[str, Any]:
    columns: dict[str, Any] = msgpack.unpackb(frame)
    return columns


@given(batches())
def test_decoding_undoes_encoding(batch: OutcomeBatch) -> None:
    assert same(decode_frame(unpack(encode_frame(batch))), batch)


@given(st.lists(outcomes, max_size=6))
def test_valid_records_stay_valid(rows: list[Any]) -> None:
    batch = decode_frame(unpack(encode_frame(OutcomeBatch.from_outcomes(rows))))
    assert batch.problems() == []
    assert list(batch) == rows


@given(st.lists(outcomes, max_size=6), st.sets(st.sampled_from([*COLUMNS, "fetched_at", "url"])))
def test_any_column_may_be_a_list(rows: list[Any], names: set[str]) -> None:
    frame = unpack(encode_frame(OutcomeBatch.from_outcomes(rows)))
    if "url" in names:
        del frame["url_offsets"]
    for name in names & frame.keys():
        frame[name] = [getattr(row, name) for row in rows]
    # A packed column beside holes in `given` and lists with nil agree, as long as nil means not given.
    assert list(decode_frame(frame)) == rows


def test_a_record_takes_no_more_bytes_than_most_row_bytes_says() -> None:
    """Of fields with the widest values, exactly that number."""
    n = 70_000  # the headers of all columns have one length
    one: dict[str, Any] = {"status": 70_000, "fingerprint": 1, "changed": True, "moved_to": "", "etag": ""}
    one |= {"importance": 0.1, "cost": 0.1, "retry_after": 0.1, "significance": 0.1, "last_modified": "", "content": 1}
    one["not_before"] = 0.1
    columns = {name: [value, None] * n for name, value in one.items()}
    sizes = [
        len(encode_frame(OutcomeBatch(["u"] * m, np.ones(m), **{name: column[:m] for name, column in columns.items()})))
        for m in (n, 2 * n)
    ]
    assert sizes[1] - sizes[0] == n * (most_row_bytes(OutcomeBatch) + 1)  # and a byte of text


def test_what_a_frame_holds() -> None:
    batch = OutcomeBatch(
        ["https://a.example/", "é"],
        [1.5, 2.5],
        status=[200, None],
        fingerprint=[1, 2**64 - 1],
        changed=[True, False],
        importance=[0.5, 2.0],
        cost=[None, 3.0],
        retry_after=[None, 60.0],
    )
    assert unpack(encode_frame(batch)) == {
        "v": 1,
        "url": "https://a.example/é".encode(),
        "url_offsets": np.array([0, 18, 20], "<u4").tobytes(),
        "fetched_at": np.array([1.5, 2.5], "<f8").tobytes(),
        "status": np.array([200, 0], "<i2").tobytes(),
        "fingerprint": np.array([1, 2**64 - 1], "<u8").tobytes(),
        "changed": b"\1\0",
        "importance": np.array([0.5, 2.0], "<f8").tobytes(),
        "cost": np.array([0.0, 3.0], "<f8").tobytes(),
        "retry_after": np.array([0.0, 60.0], "<f8").tobytes(),
        "given": bytes([1 + 2 + 4 + 8, 2 + 4 + 8 + 16 + 32]),
    }


def test_given_is_left_out_where_every_column_is_full() -> None:
    frame = unpack(encode_frame(OutcomeBatch(["u"], [1.0], changed=[True])))
    assert sorted(frame) == ["changed", "fetched_at", "url", "url_offsets", "v"]


def test_given_is_wide_if_a_field_has_a_high_bit() -> None:
    batch = OutcomeBatch(["u", "w"], [1.0, 2.0], changed=[True, None], etag=['"1"', ""], last_modified=["é", None])
    frame = unpack(encode_frame(batch))
    assert frame["given"] == np.array([4 + 256 + 512, 256], "<u2").tobytes()
    assert (frame["etag"], frame["last_modified"]) == (b'"1"', "é".encode())
    assert same(decode_frame(frame), batch)


def test_narrow_and_wide_elements() -> None:
    frame = unpack(encode_frame(OutcomeBatch(["u", "w"], [1.0, 2.0])))
    frame["importance"] = np.array([0.5, 0.25], "<f4").tobytes()
    frame["status"] = np.array([1, 999], "<i4").tobytes()
    batch = decode_frame(frame)
    assert batch.importance.tolist() == [0.5, 0.25]
    assert batch.status.tolist() == [1, 999]


def test_columns_are_aligned_and_writable_and_urls_are_not_copied() -> None:
    frame = encode_frame(OutcomeBatch.from_outcomes(make_outcomes(9)))
    for shift in range(8):
        raw = memoryview(bytes(shift) + frame)[shift:]
        columns = msgspec.msgpack.decode(raw, type=dict[str, memoryview | int])
        batch = decode_frame(columns)
        assert np.shares_memory(batch.urls.blob, np.frombuffer(raw, np.uint8))
        for field in ("fetched_at", *COLUMNS, "given"):
            column = getattr(batch, field)
            assert column.flags.aligned
            assert column.flags.writeable


GOOD = {"v": 1, "url": b"ab", "url_offsets": np.array([0, 1, 2], "<u4").tobytes(), "fetched_at": np.ones(2).tobytes()}


def test_good_is_good() -> None:
    assert list(decode_frame(GOOD | {"extra": [1]}).urls) == ["a", "b"]


@grouped(
    ("expected", "change", "field"),
    {
        "version 1": [({"v": 2}, "v"), ({"v": None}, "v"), ({"v": True}, "v"), ({"v": b"\1"}, "v")],
        "packed array": [
            *[({"url": None}, "url"), ({"url": 5}, "url"), ({"url": "ab"}, "url")],
            *[({"url_offsets": None}, "url_offsets"), ({"url_offsets": [0, 1, 2]}, "url_offsets")],
            *[({"fetched_at": None}, "fetched_at"), ({"fetched_at": 1.0}, "fetched_at"), ({"cost": {}}, "cost")],
        ],
        "2 values": [({"url": ["a"]}, "url"), ({"status": [200]}, "status")],
        "a text": [({"url": ["a", 5]}, "url"), ({"url": ["a", None]}, "url")],
        "12 bytes": [({"url_offsets": bytes(8)}, "url_offsets")],
        "ascend": [({"url_offsets": np.array([0, 2, 1], "<u4").tobytes()}, "url_offsets")],
        "at most 2": [
            *[({"url_offsets": np.array([0, 1, 3], "<u4").tobytes()}, "url_offsets")],
            *[({"url_offsets": np.array([0, 1, 2**32 - 1], "<u4").tobytes()}, "url_offsets")],
        ],
        "multiple of 8": [({"fetched_at": bytes(15)}, "fetched_at")],
        "8 bytes": [({"fetched_at": bytes(8)}, "url_offsets")],
        "epoch seconds": [({"fetched_at": [1.0, None]}, "fetched_at")],
        "a number": [({"fetched_at": [1.0, "now"]}, "fetched_at"), ({"fetched_at": [1.0, True]}, "fetched_at")],
        "4 or 8 bytes": [({"status": bytes(6)}, "status")],
        "whole number": [({"status": [200, 2.5]}, "status"), ({"status": [200, 2**31]}, "status")],
        "16 bytes": [({"fingerprint": bytes(8)}, "fingerprint")],
        "2**64": [({"fingerprint": [1, -1]}, "fingerprint")],
        "2 bytes": [({"changed": b"\1"}, "changed")],
        "2 or 4 bytes": [({"given": b"\0"}, "given"), ({"given": bytes(3)}, "given")],
        "true or false": [({"changed": b"\1\2"}, "changed"), ({"changed": [True, 1]}, "changed")],
        "16 or 8 bytes": [({"importance": bytes(12)}, "importance")],
        "16 or 8 bytes, 2 values": [({name: bytes(4)}, name) for name in ("retry_after", "significance")],
        "columns that the frame has": [
            ({"given": given}, "given") for given in (b"\0\1", b"\0\x80", bytes([0, 0, 0, 1]))
        ],
        "uint8": [({"given": [0, 0]}, "given")],
    },
)
def test_malformed_frames_name_the_column(change: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(InvalidOutcome) as raised:
        decode_frame(GOOD | change)
    assert raised.value.field == field
    assert expected in raised.value.expected


def test_urls_beyond_32_bit_offsets_are_refused() -> None:
    blob = np.zeros(1, np.uint8)
    batch = OutcomeBatch(PackedUrls(blob, [0, 1]), [1.0])
    batch.urls.offsets = np.array([0, 2**32], np.int64)
    with pytest.raises(ValueError, match="4 GiB"):
        encode_frame(batch)


@pytest.mark.parametrize("page", sorted({page for page, _ in BLOCKS}))
def test_tables_of_fields_in_docs_are_made_of_the_fields(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert with_tables(page, text) == text, "make docs"
