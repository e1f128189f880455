"""Chunks of lines: nothing lost, every line numbered, and lines that are too long not held."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.connectors import open_source
from streamsched.connectors.reading import byte_stream, lines
from streamsched.connectors.reading.byte_stream import BLOCK_BYTES, ByteStream, RecordReader
from streamsched.connectors.reading.lines import LineChunk, split_lines
from streamsched.connectors.reading.rejections import RejectionCounter, Rejections
from tests.support.crawl_outcomes import read_out

GOOD = b"10\tM\tu\n"


@contextmanager
def split(path: Path, batch: int = 100, block: int = 0) -> Iterator[tuple[list[LineChunk], Rejections]]:
    stream = ByteStream(str(path))
    if block:
        whole = stream.read
        stream.read = lambda size=block: whole(min(size, block))  # type: ignore[method-assign]
    rejections = Rejections()
    try:
        yield (
            list(split_lines(RecordReader(stream, RejectionCounter(rejections, str(path), "line"), batch))),
            rejections,
        )
    finally:
        stream.close()


@given(
    data=st.lists(st.sampled_from([b"\n", b"a", b"bc", b"\r\n"]), max_size=30).map(b"".join),
    batch=st.integers(1, 5),
    block=st.integers(1, 9),
)
def test_chunks_are_the_input(tmp_path_factory: pytest.TempPathFactory, data: bytes, batch: int, block: int) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(data)
    with split(path, batch, block) as (chunks, rejections):
        assert rejections.count == 0
    stop = 0
    for chunk in chunks:
        assert 1 <= len(chunk) <= batch
        assert not chunk.data.isspace()
        start = chunk.stop - len(chunk.data)
        assert start >= stop
        assert not data[stop:start].strip()  # only blank lines are left out
        stop = chunk.stop
        assert (chunk.data, chunk.first) == (data[start:stop], data[:start].count(b"\n") + 1)
        newlines = [i for i, byte in enumerate(chunk.data) if byte == ord("\n")]
        assert chunk.ends.tolist() == (newlines if chunk.data.endswith(b"\n") else [*newlines, len(chunk.data)])
    assert not data[stop:].strip()
    numbered = {number: text for chunk in chunks for number, text in chunk.numbered().items()}
    assert numbered == {i: text for i, text in enumerate(data.split(b"\n"), 1) if text.strip()}


def test_blank_lines_make_no_chunks_and_no_objects(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    with gzip.open(path, "wb", 1) as file:
        file.write(GOOD)
        for _ in range(8):
            file.write(b"\n" * BLOCK_BYTES)
        file.write(b"\r\n" * 1000 + GOOD + b"\n" * BLOCK_BYTES + GOOD)
    tracemalloc.start()
    with split(path, batch=65_536) as (chunks, rejections):
        taken = sum(len(chunk) for chunk in chunks)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first = 2 + 8 * BLOCK_BYTES + 1000
    assert [number for chunk in chunks for number in chunk.numbered()] == [1, first, first + BLOCK_BYTES + 1]
    assert taken <= 3 * 65_536
    assert most < 40 * BLOCK_BYTES  # a block, and eight bytes for each of its lines
    assert rejections.count == 0


@pytest.mark.parametrize("length", [99, 100, 101, 5000])
@pytest.mark.parametrize("end", [b"\n" + GOOD, b"\n", b""])
@pytest.mark.parametrize("block", [1, 64])
def test_lines_beyond_the_limit_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int, end: bytes, block: int
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    path = tmp_path / "log"
    path.write_bytes(GOOD + b"x" * length + end)
    with split(path, block=block) as (chunks, rejections):
        kept = [text for chunk in chunks for text in chunk.numbered().values()]
        assert kept.count(b"x" * length) == (length <= 100)
        assert kept.count(GOOD.strip()) == 1 + end.count(GOOD)
        assert [rejection.offset for rejection in rejections.last] == ([2] if length > 100 else [])
        assert all(rejection.found.startswith(f"{length} bytes, 'xxx") for rejection in rejections.last)


def test_a_line_of_many_megabytes(tmp_path: Path) -> None:
    size = 9 << 20
    path, letters = tmp_path / "log.tsv", tmp_path / "dead"
    path.write_bytes(GOOD + b"x" * size + b"\n" + GOOD + b"y" * size)
    with open_source(path, dead_letters=letters) as source:
        first = next(source)
        assert len(first.records) + len(read_out(source)) == 2
        assert [rejection.offset for rejection in source.rejections] == [2, 4]
        source.seek(first.position)
        assert len(read_out(source)) == 1
    letter = json.loads(letters.read_text().splitlines()[0])
    assert letter["raw_bytes"] == size
    assert letter["raw"] == "x" * (1 << 20)


def test_the_limit_exceeds_a_block() -> None:
    # Only the first line that ends in a block may exceed the limit, and only that one is looked at.
    assert lines.MAX_LINE_BYTES >= byte_stream.BLOCK_BYTES
