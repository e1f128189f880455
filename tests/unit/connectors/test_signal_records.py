"""Signals in every format: what goes in comes out, and neither outcomes nor signals pass for the other."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, Signal, SignalBatch
from streamsched.connectors import (
    Position,
    decode_frame,
    encode_frame,
    open_signals,
    open_source,
    write_jsonl,
    write_msgpack,
)
from streamsched.connectors.kafka.clients.protocol import Messages
from streamsched.connectors.kafka.decoding import MessageDecoder
from streamsched.connectors.records import OUTCOMES, SIGNALS
from streamsched.errors import InvalidOutcome, InvalidSignal, SettingsError, SourceError

signals = st.builds(
    Signal,
    st.sampled_from(["https://a.example/", "https://b.example:8080/é", "x"]),
    st.floats(0, 9e10, exclude_min=True),
    st.sampled_from(["sitemap", "feed", "indexnow", "é"]),
    st.none() | st.floats(0.0, 1.0),
)
Write = Callable[[Iterable[SignalBatch], Path], int]
WRITERS: dict[str, Write] = {
    "a.jsonl": write_jsonl,
    "b.jsonl.gz": write_jsonl,
    "frames.msgpack": write_msgpack,
    "maps.msgpack": partial(write_msgpack, frames=False),
    "maps.msgpack.gz": partial(write_msgpack, frames=False),
}


def make_signals(count: int) -> list[Signal]:
    return [
        Signal(f"https://h{i % 3}.example/p{i}", 1.0 + i, ("sitemap", "feed")[i % 2], None if i % 3 else i % 5 / 4)
        for i in range(count)
    ]


def read_signals(path: Path, **options: Position) -> list[Signal]:
    with open_signals(path, **options) as source:  # type: ignore[arg-type]  # positions only
        return [signal for delivery in source for signal in delivery.records]


@given(st.lists(signals, max_size=6))
def test_events_columns_and_frames_hold_what_the_signals_said(rows: list[Signal]) -> None:
    batch = SignalBatch.from_signals(rows)
    assert list(SignalBatch.from_events(list(batch.to_events()))) == rows
    assert list(decode_frame(msgspec.msgpack.decode(encode_frame(batch)), SignalBatch)) == rows
    assert list(SignalBatch.concatenate([batch, batch.take(np.arange(len(rows))[::-1])])) == rows + rows[::-1]


@given(st.lists(signals, max_size=8), st.sampled_from(["json", "msgpack", "frame"]))
def test_messages(rows: list[Signal], shape: str) -> None:
    batch = SignalBatch.from_signals(rows)
    if shape == "frame":
        values = [encode_frame(batch)] * bool(rows)
    else:
        encode = msgspec.json.encode if shape == "json" else msgspec.msgpack.encode
        values = [encode(event) for event in batch.to_events()]
    messages = Messages(0, list(range(len(values))), [None] * len(values), list(values), [])
    found = MessageDecoder(SIGNALS).decode(messages, 100)
    assert [signal for one in found.batches for signal in one.records] == rows
    assert not found.rejected
    refused = MessageDecoder(OUTCOMES).decode(messages)
    assert not refused.batches
    assert {one.fault.field for one in refused.rejected} <= {"fetched_at", "records"}
    assert len(refused.rejected) == len(values)


@pytest.mark.parametrize("name", WRITERS)
def test_files(tmp_path: Path, name: str) -> None:
    rows = make_signals(50)
    batches = [SignalBatch.from_signals(rows[i : i + 7]) for i in range(0, 50, 7)]
    assert WRITERS[name](batches, tmp_path / name) == 50
    assert read_signals(tmp_path / name) == rows


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_is_resumed_where_it_was_left(tmp_path: Path, name: str) -> None:
    rows = make_signals(50)
    WRITERS[name]([SignalBatch.from_signals(rows[i : i + 7]) for i in range(0, 50, 7)], tmp_path / name)
    with open_signals(tmp_path / name, batch=5) as source:
        first = next(source)
        assert source.starts == {first.position.path: Position(first.position.kind, first.position.path, 0, 0)}
    assert first.position.kind.endswith(" signals")
    assert list(first.records) + read_signals(tmp_path / name, position=first.position) == rows
    with pytest.raises(SourceError, match=f"belongs to .* \\({first.position.kind}\\), not to this file"):
        open_source(tmp_path / name, format=first.position.kind.split()[0], position=first.position)


def test_outcomes_among_signals_are_rejected_by_name(tmp_path: Path) -> None:
    signal, outcome = '{"url":"u","at":1,"source":"feed"}\n', '{"url":"u","fetched_at":1}\n'
    (tmp_path / "mixed.jsonl").write_text(signal + outcome + signal)
    with open_signals(tmp_path / "mixed.jsonl") as source:
        assert sum(len(delivery.records) for delivery in source) == 2
        assert [str(one) for one in source.rejections] == [
            f"{tmp_path}/mixed.jsonl, line 2: at: expected UTC epoch seconds above 0, found nothing"
        ]
    with open_source(tmp_path / "mixed.jsonl") as outcomes:
        assert sum(len(delivery.records) for delivery in outcomes) == 1
        assert [one.reason + one.found for one in outcomes.rejections] == [
            "expected UTC epoch seconds above 0nothing"
        ] * 2
        assert {one.field for one in outcomes.rejections} == {"fetched_at"}


def test_a_frame_of_either_is_no_frame_of_the_other(tmp_path: Path) -> None:
    outcome, signal = OutcomeBatch(["u"], [1.0]), SignalBatch(["u"], [1.0], "feed")
    with pytest.raises(InvalidOutcome, match="records: expected no mark, as in frames of outcomes, found 'signals'"):
        decode_frame(msgspec.msgpack.decode(encode_frame(signal)))
    with pytest.raises(InvalidSignal, match="records: expected 'signals', found None"):
        decode_frame(msgspec.msgpack.decode(encode_frame(outcome)), SignalBatch)
    (tmp_path / "a.msgpack").write_bytes(encode_frame(signal) + encode_frame(outcome))
    with open_signals(tmp_path / "a.msgpack") as source:
        assert [len(delivery.records) for delivery in source] == [1]
        assert [one.field for one in source.rejections] == ["records"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("v", 2),
        ("at", b"1234567"),
        ("at", None),
        ("url", None),
        ("url_offsets", b"1234"),
        ("names", None),
        ("names", [1]),
        ("source", b"\x07\x00"),
        ("source", None),
        ("significance", b"1234567"),
        ("given", b"\x02\x00"),
    ],
)
def test_frames_that_do_not_hold_together(field: str, value: object) -> None:
    batch = SignalBatch(["u", "v"], [1.0, 2.0], ["feed", "sitemap"], [0.5, None])
    columns = msgspec.msgpack.decode(encode_frame(batch))
    with pytest.raises(InvalidSignal) as raised:
        decode_frame(columns | {field: value}, SignalBatch)
    assert raised.value.field == field


def test_frames_of_lists_and_of_many_names() -> None:
    lists = {"v": 1, "records": "signals", "url": ["u", "v"], "at": [1, 2.5], "source": ["a", "b"]}
    assert list(decode_frame(lists, SignalBatch)) == [Signal("u", 1.0, "a"), Signal("v", 2.5, "b")]
    names = [f"source {i}" for i in range(1_000)]
    batch = SignalBatch(["u"] * 1_000, np.zeros(1_000), names)
    assert [one.source for one in decode_frame(msgspec.msgpack.decode(encode_frame(batch)), SignalBatch)] == names


def test_invalid_signals_are_kept_aside(tmp_path: Path) -> None:
    lines = [
        '{"url":"u","at":1,"source":"feed","significance":2}',
        '{"url":"u","at":1,"source":""}',
        '{"url":"u","at":true,"source":"feed"}',
        '{"url":"u","at":1,"source":7}',
    ]
    (tmp_path / "s.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    with open_signals(tmp_path / "s.jsonl.gz", dead_letters=tmp_path / "dead") as source:
        assert list(source) == []
        assert [one.field for one in source.rejections] == ["significance", "source", "at", "source"]
    assert len((tmp_path / "dead").read_text().splitlines()) == 4


def test_what_holds_no_signals_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("12\tM\thttps://a.example/\n")
    with pytest.raises(SourceError, match=r"expected one of jsonl, msgpack, .*: changes holds no signals"):
        open_signals(tmp_path / "log.tsv")
    with pytest.raises(SettingsError, match="batches: expected SignalBatch objects"):
        write_jsonl([SignalBatch([], [], "feed"), OutcomeBatch([], [])], tmp_path / "a.jsonl")  # type: ignore[arg-type]
    with pytest.raises(InvalidSignal, match="significance"):
        write_jsonl([SignalBatch(["u"], [1.0], "feed", [2.0])], tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()
