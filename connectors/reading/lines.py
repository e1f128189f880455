"""A byte stream as chunks of whole lines, each knowing its line number, in bounded memory however long a line is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np

from streamsched.connectors.reading.byte_stream import BYTE_ORDER_MARK, RecordChunk, RecordReader
from streamsched.connectors.reading.rejections import (
    MAX_RAW_BYTES,
    RecordProblem,
    RejectionCounter,
    describe,
    parse_valid,
)
from streamsched.connectors.source import Records
from streamsched.numerics.arrays import Ints

MAX_LINE_BYTES: Final = 4 << 20  # 100 times the longest sensible event; a page's whole crawl history still fits

_IS_TEXT: Final = np.array([not bytes([byte]).isspace() for byte in range(256)])

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class LineChunk:
    """Whole lines in ``data``, the first of them line ``first`` (from 1), up to byte ``stop`` of the input.

    ``ends``: int64[n], position in ``data`` of each line's newline; the last line of the input may lack it.
    """

    data: bytes
    first: int
    ends: Ints
    stop: int

    def __len__(self) -> int:
        return self.ends.size

    def numbered(self) -> dict[int, bytes]:
        """Return the lines without their newlines by number; blank lines are left out. O(bytes).

        A line that is left out costs no object: a megabyte may hold a million of them.
        """
        starts = np.concatenate([np.zeros(min(1, len(self)), np.int64), self.ends[:-1] + 1])
        filled = np.logical_or.reduceat(_IS_TEXT[np.frombuffer(self.data, np.uint8)], starts) if len(self) else starts
        kept = np.flatnonzero(filled)
        spans = zip(kept.tolist(), starts[kept].tolist(), self.ends[kept].tolist(), strict=True)
        return {self.first + index: self.data[start:end] for index, start, end in spans}


@dataclass(frozen=True, slots=True)
class LineFormat(Generic[Row, Records]):
    """A format of one record a line.

    ``decode_whole(chunk)``: all its lines at once, None if they must be parsed one by one;
    ``parse_line(line)``: one line's record, raises ParseError; ``to_columns(rows)``: records that parsed, as a batch;
    ``finish()``: is called at the end of the input.
    """

    decode_whole: Callable[[LineChunk], Records | None]
    parse_line: Callable[[bytes], Row]
    to_columns: Callable[[Sequence[Row]], Records]
    finish: Callable[[], None] = lambda: None

    def read(self, reader: RecordReader) -> Iterator[RecordChunk[Records]]:
        """Return the valid records of each chunk of lines, chunks without one left out; rejects the others."""
        for chunk in split_lines(reader):
            records = self.decode_whole(chunk)
            lines: Sequence[int] = range(chunk.first, chunk.first + len(chunk))
            if records is None or records.problems():
                records, lines = parse_valid(chunk.numbered(), self.parse_line, self.to_columns, reader.rejections)
            if len(records):
                yield RecordChunk(records, chunk.stop, chunk.first + len(chunk) - 1, lines)
        self.finish()


def split_lines(reader: RecordReader) -> Iterator[LineChunk]:
    """Return chunks of 1 to ``reader.batch`` lines; rejects lines of more than 4 MiB and one that a damage cut off.

    A byte order mark at the start of the input is no part of its first line; a last line without newline is a line.
    Holds at most a line and a block. O(bytes).
    """
    stream = reader.stream
    if stream.offset == 0 and stream.peek(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK:
        stream.read(len(BYTE_ORDER_MARK))
    line, rest, long = reader.records + 1, b"", _OversizedLine()
    while block := stream.read():
        data = rest + block
        if not long.size and data.isspace():  # counted without listing their ends, which take eight bytes each
            line, data = line + data.count(b"\n"), data[data.rfind(b"\n") + 1 :]
        end = data.find(b"\n")
        if end < 0:
            rest = long.swallow(data)
            continue
        if long.size + end > MAX_LINE_BYTES:
            long.reject(reader.rejections, line, data[:end])
            line, data = line + 1, data[end + 1 :]
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
        yield from _split(data, line, ends, stream.offset - len(data), reader.batch)
        line, rest = line + ends.size, data[ends[-1] + 1 :] if ends.size else data
    if long.size + len(rest) > MAX_LINE_BYTES:
        long.reject(reader.rejections, line, rest)
    elif rest and stream.damage is not None:
        reader.rejections.reject(
            line, RecordProblem("record", f"cut off: {stream.damage.reason}", describe(rest)), rest
        )
    elif rest:
        yield LineChunk(rest, line, np.array([len(rest)]), stream.offset)


class _OversizedLine:
    """Size and head of a line that exceeds the limit."""

    def __init__(self) -> None:
        self.size = 0
        self._head = b""

    def swallow(self, data: bytes) -> bytes:
        """Return `data`, a line's beginning, while it may still end in time; otherwise forget it."""
        if self.size + len(data) <= MAX_LINE_BYTES:
            return data
        self._head = self._head or data[:MAX_RAW_BYTES]
        self.size += len(data)
        return b""

    def reject(self, rejections: RejectionCounter, line: int, tail: bytes) -> None:
        """Report the line that ends with `tail`, and forget it."""
        head, size = self._head or tail[:MAX_RAW_BYTES], self.size + len(tail)
        problem = RecordProblem(
            "record", f"expected a line of at most {MAX_LINE_BYTES} bytes", f"{size} bytes, {describe(head)}"
        )
        rejections.reject(line, problem, head, size=size)
        self.size, self._head = 0, b""


def _split(data: bytes, line: int, ends: Ints, offset: int, batch: int) -> Iterator[LineChunk]:
    """Return the lines that end in `data`, which begins with `line` at byte `offset`, in chunks of at most `batch`.

    Chunks of blank lines are left out.
    """
    start = 0
    for index in range(0, ends.size, batch):
        own = ends[index : index + batch]
        stop = int(own[-1]) + 1
        lines = data[start:stop]
        if not lines.isspace():
            yield LineChunk(lines, line + index, own - start, offset + stop)
        start = stop
