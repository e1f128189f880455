"""Opening files: what is refused, with which message; what the content decides; and where a source can resume."""

from __future__ import annotations

import gzip
import json
from codecs import BOM_UTF8
from dataclasses import replace
from pathlib import Path

import pytest

from streamsched import InvalidOutcome, OutcomeBatch
from streamsched.connectors import Position, open_source, write_msgpack
from streamsched.errors import SettingsError, SourceError
from tests.support.crawl_outcomes import read_out

EVENTS = '{"url":"https://a.example/","fetched_at":9}'
LOG = b"".join(b"%d\tM\thttps://a.example/%d\n" % (1000 + i, i) for i in range(10))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_bytes(LOG)
    return path


def test_no_such_file_and_directory(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        open_source(tmp_path / "none.jsonl")
    with pytest.raises(SourceError, match="is a directory: expected a file"):
        open_source(tmp_path)


def test_unknown_formats(tmp_path: Path, log: Path) -> None:
    with pytest.raises(SourceError, match="expected one of changes, jsonl, microsoft, msgpack, found 'csv'"):
        open_source(log, format="csv")
    odd = tmp_path / "a.csv"
    odd.write_bytes(b"url,fetched_at\n")
    with pytest.raises(SourceError, match=r"not recognised: expected one of changes, jsonl, .*, by name .*; a CSV .*"):
        open_source(odd)
    with open_source(odd, format="jsonl") as source:
        assert list(source) == []
        assert source.rejected == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("log.tsv", [b"1000\tA\thttps://a.example/1\n", b"1001\tA\thttps://a.example/2\n"]),
        ("log", [b'{"url":"https://a.example/%d","fetched_at":9}\n' % n for n in (1, 2)]),
        ("urlid_offset_history.txt", [b"1\t1.5\t[]\n", b"2\t1.5\t[]\n"]),
    ],
)
def test_a_byte_order_mark_is_no_part_of_the_first_record(
    tmp_path: Path, name: str, lines: list[bytes], pack: type[bytes]
) -> None:
    path = tmp_path / name
    path.write_bytes(pack(BOM_UTF8 + b"".join(lines)))
    with open_source(path, batch=1) as source:
        first = next(source)
        assert (len(first.records), first.position.offset) == (1, len(BOM_UTF8 + lines[0]))
        assert (len(read_out(source)), source.rejected) == (1, 0)
        source.seek(first.position)
        assert (len(read_out(source)), source.rejected) == (1, 0)


@pytest.mark.parametrize("format_name", [None, "jsonl"])
@pytest.mark.parametrize("name", ["log", "log.jsonl", "log.json"])
@pytest.mark.parametrize(
    ("content", "found", "expected"),
    [
        (EVENTS.encode("utf-16"), "UTF-16", "UTF-8"),
        (EVENTS.encode("utf-16-le"), "UTF-16", "UTF-8"),
        (EVENTS.encode("utf-16-be"), "UTF-16", "UTF-8"),
        (b"[" + EVENTS.encode() + b"]", "JSON array", "JSON Lines"),
        (BOM_UTF8 + b" [\n  " + EVENTS.encode() + b"\n]\n", "JSON array", "JSON Lines"),
        (b"[]", "JSON array", "JSON Lines"),
    ],
)
def test_a_text_of_another_kind_is_named(
    tmp_path: Path, content: bytes, found: str, expected: str, name: str, format_name: str | None
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SourceError, match=f"{found}.*: expected {expected}"):
        open_source(path, format=format_name)


def test_a_line_in_brackets_costs_no_more_than_itself(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("[info] begin\n" + EVENTS)
    with open_source(path) as source:
        assert (len(read_out(source)), source.rejected) == (1, 1)


@pytest.mark.parametrize("batch", [0, -1])
def test_batch_must_be_positive(log: Path, batch: int) -> None:
    with pytest.raises(SettingsError, match="batch"):
        open_source(log, batch=batch)


def test_gzip_is_told_by_content_and_not_by_name(tmp_path: Path) -> None:
    for name, data in (("log.tsv", gzip.compress(LOG)), ("log.tsv.gz", LOG)):
        path = tmp_path / name
        path.write_bytes(data)
        with open_source(path) as source:
            assert len(read_out(source)) == 10


def test_paths_may_be_text(log: Path) -> None:
    with open_source(str(log)) as source:
        assert len(read_out(source)) == 10


def test_an_empty_file_of_any_name_delivers_nothing(tmp_path: Path) -> None:
    for name, data in (("a", b""), ("a.jsonl", b""), ("a.gz", gzip.compress(b"")), ("b.gz", b"")):
        path = tmp_path / name
        path.write_bytes(data)
        with open_source(path) as source:
            assert list(source) == []


def test_positions_stand_at_records(log: Path) -> None:
    with open_source(log, batch=3) as source:
        positions = [delivery.position for delivery in source]
    offsets = [sum(map(len, LOG.splitlines(keepends=True)[:n])) for n in (3, 6, 9, 10)]
    assert positions == [
        Position("changes", str(log.resolve()), offset, n) for offset, n in zip(offsets, (3, 6, 9, 10), strict=True)
    ]


def test_a_position_says_the_format(tmp_path: Path, log: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(LOG)
    with open_source(path, format="changes", batch=4) as source:
        position = next(source).position
    with open_source(path, position=position) as source:
        assert len(read_out(source)) == 6
    with pytest.raises(SourceError, match="belongs to"):
        open_source(path, format="jsonl", position=position)
    with pytest.raises(SourceError, match="found 'kafka'"):
        open_source(log, position=replace(position, kind="kafka"))


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_position_within_a_line_is_refused(log: Path, compress: type[bytes]) -> None:
    log.write_bytes(compress(LOG))
    with open_source(log, batch=2) as source:
        position = next(source).position
    with pytest.raises(SourceError, match="not at the start of a line") as raised:
        open_source(log, position=replace(position, offset=position.offset - 3))
    assert raised.value.offset == position.offset - 3


def test_a_file_may_grow(log: Path) -> None:
    log.write_bytes(LOG.rstrip())
    with open_source(log) as source:
        position = list(source)[-1].position
    for end in (b"\n", b"\r\n"):
        log.write_bytes(LOG.rstrip() + end + b"5000\tM\tnew\n")
        with open_source(log, position=position) as source:
            assert [outcome.url for outcome in read_out(source)] == ["new"]
            assert source.rejected == 0


def test_a_failed_seek_leaves_the_source_where_it_was(log: Path) -> None:
    with open_source(log, batch=4) as source:
        position = next(source).position
        with pytest.raises(SourceError):
            source.seek(replace(position, offset=10**6))
        assert len(read_out(source)) == 6


def test_dead_letters_are_on_their_way_before_the_position(tmp_path: Path, log: Path) -> None:
    log.write_bytes(b"bad\n" + LOG)
    letters = tmp_path / "dead"
    with open_source(log, dead_letters=letters) as source:
        next(source)
        assert json.loads(letters.read_text())["offset"] == 1


def test_dead_letters_that_cannot_be_written_are_refused_at_once(tmp_path: Path, log: Path) -> None:
    with pytest.raises(SourceError, match="dead letters"):
        open_source(log, dead_letters=tmp_path)


def test_outcomes_that_a_reader_rejects_are_kept_aside(tmp_path: Path, log: Path) -> None:
    problems = [InvalidOutcome(1, "fetched_at", 1_004.0, "UTC epoch seconds up to 1003")]
    letters = tmp_path / "letters"
    with open_source(log, dead_letters=letters, batch=3) as source:
        for number, delivery in enumerate(source):
            if number == 1:
                source.reject(delivery, problems)
        assert source.rejected == 1
    (letter,) = [json.loads(line) for line in letters.read_text().splitlines()]
    assert (letter["unit"], letter["offset"], letter["field"], letter["found"]) == ("line", 5, "fetched_at", "1004.0")
    assert json.loads(letter["raw"])["url"] == "https://a.example/4"


def test_what_a_reader_rejects_has_its_line_among_blank_and_bad_ones(log: Path) -> None:
    log.write_bytes(LOG + b"\nbad\n" + LOG)
    lines = len(LOG.splitlines())
    with open_source(log) as source:
        (delivery,) = source
        last = len(delivery.records) - 1
        source.reject(delivery, [InvalidOutcome(last, "fetched_at", 7.0, "UTC epoch seconds up to 5")])
        assert source.rejections[-1].offset == 2 * lines + 2


def test_an_outcome_of_a_frame_that_a_reader_rejects(tmp_path: Path) -> None:
    path = tmp_path / "o.msgpack"
    write_msgpack([OutcomeBatch([f"https://a.example/{i}" for i in range(9)], range(1, 10))], path)
    with open_source(path) as source:
        delivery = next(source)
        source.reject(delivery, [InvalidOutcome(7, "fetched_at", 7.0, "UTC epoch seconds up to 5")])
        (rejection,) = source.rejections
    assert (rejection.unit, rejection.offset) == ("byte", path.stat().st_size)
