"""A stream of msgpack maps: every way in which one can be malformed, and the way back after it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamsched.connectors import Rejection, encode_frame, open_source
from streamsched.connectors.formats import msgpack_stream
from streamsched.connectors.formats.msgpack_boundaries import FRAME
from streamsched.outcomes import Outcome, OutcomeBatch
from tests.reference import estimators
from tests.support.cases import examples
from tests.support.crawl_outcomes import make_outcomes, pack, read_out

EVENT = {"url": "https://a.example/", "fetched_at": 1.5}
OUTCOME = Outcome("https://a.example/", 1.5)


def read(folder: Path, data: bytes, **options: Any) -> tuple[list[Outcome], list[Rejection]]:
    path = folder / "stream.msgpack"
    path.write_bytes(data)
    with open_source(path, **options) as source:
        got = read_out(source)
        assert source.rejected == len(source.rejections) or source.rejected > 100
        return got, list(source.rejections)


def test_optional_fields_may_be_nil_and_unknown_ones_are_ignored(tmp_path: Path) -> None:
    full = EVENT | {"status": None, "changed": None, "v": 7, "extra": [1, {"url": b"deep"}], "retry_after": 90}
    assert read(tmp_path, pack(full)) == ([Outcome("https://a.example/", 1.5, retry_after=90.0)], [])


def test_fingerprints_as_numbers_and_as_text(tmp_path: Path) -> None:
    records = pack(EVENT | {"fingerprint": 2**64 - 1}, EVENT | {"fingerprint": "00000000000000fF"})
    got, rejections = read(tmp_path, records)
    assert [outcome.fingerprint for outcome in got] == [2**64 - 1, 255]
    assert rejections == []


@pytest.mark.parametrize(
    ("record", "field", "reason", "found"),
    [
        ({"fetched_at": 1}, "url", "expected 1 to 8192 bytes", "nothing"),
        ({"url": "u"}, "fetched_at", "expected UTC epoch seconds", "nothing"),
        ({}, "url", "expected 1 to 8192 bytes", "nothing"),
        (EVENT | {"url": 5}, "url", "expected 1 to 8192 bytes", "5"),
        (EVENT | {"url": None}, "url", "expected 1 to 8192 bytes", "None"),
        (EVENT | {"url": ""}, "url", "expected 1 to 8192 bytes", "''"),
        (EVENT | {"url": "x" * 8193}, "url", "expected 1 to 8192 bytes", "'xx"),
        (EVENT | {"fetched_at": None}, "fetched_at", "expected UTC epoch seconds", "None"),
        (EVENT | {"fetched_at": "1.5"}, "fetched_at", "expected UTC epoch seconds", "'1.5'"),
        (EVENT | {"fetched_at": True}, "fetched_at", "expected UTC epoch seconds", "True"),
        (EVENT | {"fetched_at": float("nan")}, "fetched_at", "expected UTC epoch seconds, finite", "nan"),
        (EVENT | {"fetched_at": float("inf")}, "fetched_at", "expected UTC epoch seconds, finite", "inf"),
        (EVENT | {"status": 1000}, "status", "expected a whole number from 0 to 999", "1000"),
        (EVENT | {"status": -1}, "status", "expected a whole number from 0 to 999", "-1"),
        (EVENT | {"status": 200.0}, "status", "expected a whole number from 0 to 999", "200.0"),
        (EVENT | {"status": "200"}, "status", "expected a whole number from 0 to 999", "'200'"),
        (EVENT | {"status": False}, "status", "expected a whole number from 0 to 999", "False"),
        (EVENT | {"fingerprint": -1}, "fingerprint", "expected a whole number from 0 to 2**64", "-1"),
        (EVENT | {"fingerprint": "ff"}, "fingerprint", "16 hexadecimal digits", "'ff'"),
        (EVENT | {"fingerprint": "0x00000000000000"}, "fingerprint", "16 hexadecimal digits", "'0x"),
        (EVENT | {"fingerprint": 1.0}, "fingerprint", "expected a whole number", "1.0"),
        (EVENT | {"changed": 1}, "changed", "expected true or false", "1"),
        (EVENT | {"changed": "yes"}, "changed", "expected true or false", "'yes'"),
        (EVENT | {"importance": -0.5}, "importance", "expected a finite number of 0 or more", "-0.5"),
        (EVENT | {"importance": [1]}, "importance", "expected a finite number", "[1]"),
        (EVENT | {"cost": float("nan")}, "cost", "expected a finite number of 0 or more", "nan"),
        (EVENT | {"cost": 1e39}, "cost", "expected a finite number of 0 or more", "1e+39"),
        (EVENT | {"retry_after": -1}, "retry_after", "expected a finite number of 0 or more", "-1.0"),
    ],
)
def test_malformed_events_are_named(tmp_path: Path, record: Any, field: str, reason: str, found: str) -> None:
    before = pack(EVENT)
    got, rejections = read(tmp_path, before + pack(record) + pack(EVENT))
    assert got == [OUTCOME, OUTCOME]
    assert len(rejections) == 1
    rejection = rejections[0]
    assert (rejection.unit, rejection.offset, rejection.field) == ("byte", len(before), field)
    assert reason in rejection.reason
    assert rejection.found.startswith(found)


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    broken = pack(EVENT).replace(b"https", b"htt\xff\xff")
    got, rejections = read(tmp_path, broken + pack(EVENT))
    assert got == [OUTCOME]
    assert "can't decode byte 0xff" in rejections[0].reason


@pytest.mark.parametrize(
    "junk",
    [
        b"\xc1",
        b"\x00\x01\x02",
        b"{not msgpack at all}",
        pack([1, 2, 3]),
        pack("https://a.example/"),
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa3url\xdb\xff\xff\xff\xff",
        b"\x81\xa3url\xdd\xff\xff\xff\xff",
        b"\x82\xa3url\xa1u\x01\x02",
        bytes(range(0xE0, 0x100)) * 100,
        encode_frame(OutcomeBatch.from_outcomes(make_outcomes(5)))[:200],
    ],
    ids=lambda junk: junk[:12].hex(),
)
def test_bytes_that_are_no_map_are_skipped_to_the_next(tmp_path: Path, junk: bytes) -> None:
    events = pack(EVENT, EVENT)
    for before, after in ((events, events), (events, b""), (b"", events)):
        got, rejections = read(tmp_path, before + junk + after)
        assert len(got) == len(before + after) // len(pack(EVENT))
        assert [rejection.offset for rejection in rejections] == [len(before)]
        assert f"{len(junk)} bytes skipped" in rejections[0].reason


def test_an_event_cut_off_at_the_end_is_skipped(tmp_path: Path) -> None:
    got, rejections = read(tmp_path, pack(EVENT, EVENT)[:-3])
    assert got == [OUTCOME]
    assert [rejection.offset for rejection in rejections] == [len(pack(EVENT))]


def test_a_frame_that_does_not_hold_together_is_one_rejection(tmp_path: Path) -> None:
    frame = msgpack.unpackb(encode_frame(OutcomeBatch.from_outcomes(make_outcomes(9))))
    good = pack(frame)
    letters = tmp_path / "dead"
    bad = [frame | {"v": 9}, frame | {"status": "many"}, frame | {"changed": b""}, frame | {"url_offsets": None}]
    data = good + pack(*bad) + good
    got, rejections = read(tmp_path, data, dead_letters=letters)
    assert len(got) == 18
    assert [rejection.field for rejection in rejections] == ["v", "status", "changed", "url_offsets"]
    assert rejections[0].offset == len(good)
    raws = [json.loads(line)["raw_base64"] for line in letters.read_text().splitlines()]
    assert [base64.b64decode(raw) for raw in raws] == [pack(record) for record in bad]


def test_invalid_records_of_a_frame_are_rejected_one_by_one(tmp_path: Path) -> None:
    rows = make_outcomes(8)
    batch = OutcomeBatch.from_outcomes(rows)
    batch.fetched_at[2] = np.nan
    batch.status[5] = 40_000
    batch.given[5] |= 1
    letters = tmp_path / "dead"
    got, rejections = read(tmp_path, pack(EVENT) + encode_frame(batch), dead_letters=letters)
    assert got == [OUTCOME, *(row for i, row in enumerate(rows) if i not in (2, 5))]
    assert [(r.offset, r.field) for r in rejections] == [(len(pack(EVENT)), "fetched_at"), (len(pack(EVENT)), "status")]
    assert "row 2 of the frame" in rejections[0].reason
    assert rejections[1].found == "40000"
    letter = json.loads(letters.read_text().splitlines()[1])
    saved = tmp_path / "again.msgpack"
    saved.write_bytes(base64.b64decode(letter["raw_base64"]))
    with open_source(saved) as source:
        assert list(source) == []
        assert [(r.field, r.found) for r in source.rejections] == [("status", "40000")]


def test_an_empty_frame_is_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, encode_frame(OutcomeBatch([], [])) + pack(EVENT)) == ([OUTCOME], [])


def test_order_is_the_streams(tmp_path: Path) -> None:
    rows = make_outcomes(12)
    parts = [encode_frame(OutcomeBatch.from_outcomes(rows[i : i + 2])) for i in range(0, 12, 2)]
    events = [pack(EVENT | {"fetched_at": 1.0 + i}) for i in range(6)]
    got, _ = read(tmp_path, b"".join(part + event for part, event in zip(parts, events, strict=True)))
    expected = [(rows[2 * i], rows[2 * i + 1], Outcome("https://a.example/", 1.0 + i)) for i in range(6)]
    assert got == [outcome for group in expected for outcome in group]


def test_a_map_beyond_the_limit_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msgpack_stream, "MAX_MAP_BYTES", 300)
    large = pack(EVENT | {"extra": b"x" * 300})
    got, rejections = read(tmp_path, pack(EVENT) + large + pack(EVENT))
    assert got == [OUTCOME, OUTCOME]
    assert [rejection.offset for rejection in rejections] == [len(pack(EVENT))]
    assert f"{len(large)} bytes skipped" in rejections[0].reason


def test_maps_larger_than_a_block_grow_the_buffer(tmp_path: Path) -> None:
    rows = make_outcomes(3)
    wide = pack(msgpack.unpackb(encode_frame(OutcomeBatch.from_outcomes(rows))) | {"extra": bytes(5 << 20)})
    assert read(tmp_path, pack(EVENT) + wide + pack(EVENT)) == ([OUTCOME, *rows, OUTCOME], [])


def test_garbage_beyond_a_block_is_one_rejection(tmp_path: Path) -> None:
    letters = tmp_path / "dead"
    size = 3_000_000
    got, rejections = read(tmp_path, pack(EVENT) + b"\xc1" * size + pack(EVENT), dead_letters=letters)
    assert got == [OUTCOME, OUTCOME]
    assert len(rejections) == 1
    assert f"{size} bytes skipped" in rejections[0].reason
    letter = json.loads(letters.read_text())
    assert letter["raw_bytes"] == size
    assert len(base64.b64decode(letter["raw_base64"])) == 1 << 20


junk = st.sampled_from([b"\x81", b"\xa3url", b"\xdf", b"\xc1", b"\xdd\0\0", b"\xc4\x05", b"\x80"]) | st.binary(
    max_size=9
)
good = st.sampled_from([pack(EVENT), pack({"url": "u", "fetched_at": 1}), pack(EVENT | {"status": 99999})])


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A stream of events with stretches cut out, overwritten and put in."""
    data = bytearray(b"".join(draw(st.lists(good | junk, max_size=8))))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(junk)
    return bytes(data)


@examples(ordinary=20, whole=65)
@given(data=mutated() | st.binary(max_size=80), batch=st.sampled_from([1, 3, 1000]))
def test_whatever_comes_every_map_and_every_gap_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, batch: int
) -> None:
    assume(not data.startswith(b"\x1f\x8b\x08"))  # which is gzip
    folder = tmp_path_factory.getbasetemp()
    maps, gaps = estimators.split_maps(data, 1 << 26)
    path = folder / "fuzz.msgpack"
    path.write_bytes(data)
    with open_source(path, batch=batch) as source:
        deliveries = list(source)
    if all(estimators.MsgpackMap(data, start, 1 << 26).kind != FRAME for start, _ in maps):
        assert len(read_out(deliveries)) + source.rejected == len(maps) + len(gaps)
    assert {delivery.position.offset for delivery in deliveries} <= {end for _, end in maps}
    skipped = [r.offset for r in source.rejections if "skipped" in r.reason]
    assert skipped == [start for start, _ in gaps]


@given(st.binary(max_size=300), st.integers(0, 2**32))
def test_a_damaged_frame_never_crashes(tmp_path_factory: pytest.TempPathFactory, patch: bytes, seed: int) -> None:
    rows = make_outcomes(6, seed % 7)
    data = bytearray(encode_frame(OutcomeBatch.from_outcomes(rows)) * 2)
    at = seed % len(data)
    data[at : at + len(patch)] = patch
    path = tmp_path_factory.getbasetemp() / "frame.msgpack"
    path.write_bytes(pack(EVENT) + bytes(data))
    with open_source(path) as source:
        assert len(read_out(source)) == 13 or source.rejected  # reading raises where an invalid record gets through
