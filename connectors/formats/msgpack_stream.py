"""A stream of msgpack maps, one after another: single events, columnar frames, or both mixed.

The events of a stream are outcomes or signals: maps of the fields that docs/outcomes.md and docs/signal-streams.md
list, those that are optional absent or nil. A number may be float or int.

A map whose ``url`` is bin or an array is a frame (`streamsched.frames`). Keys are str;
unknown keys are ignored; of a key that occurs twice the last value counts. Nothing separates the maps. A map may have
64 MiB and 1,025 levels of arrays and maps. A map that breaks this table is one rejection.

Other bytes, larger maps among them, are skipped up to the next whole map with a key ``url`` and are one rejection with
their number.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Final, Generic

import msgspec
import numpy as np
from msgpack import Unpacker
from msgspec import structs

from streamsched.connectors.formats.msgpack_boundaries import (
    ANONYMOUS,
    FRAME,
    INCOMPLETE,
    MALFORMED,
    MapScanner,
    find_ends,
)
from streamsched.connectors.reading.byte_stream import BLOCK_BYTES, RecordChunk, RecordReader
from streamsched.connectors.reading.rejections import (
    MAX_RAW_BYTES,
    RecordProblem,
    RejectionCounter,
    RejectionSink,
    keep_valid,
    parse_valid,
)
from streamsched.connectors.records import UNREADABLE, EventDecoder, RecordType, describe_error
from streamsched.connectors.source import Records
from streamsched.errors import InvalidRecord, SourceError
from streamsched.frames import encode_frame

MAX_MAP_BYTES: Final = 64 << 20  # a frame of 500,000 records; bounds the memory that a header can make the reader use


class MapStream(Generic[Records]):
    """The format of a stream of maps whose events and frames hold `records`."""

    def __init__(self, records: RecordType[Records]) -> None:
        self.records = records
        self.events = EventMaps(EventDecoder(records))
        self.frames = FrameReader(records)

    def read(self, reader: RecordReader) -> Iterator[RecordChunk[Records]]:
        """Return the valid records of each run of at most ``reader.batch`` events and of each frame.

        Rejects the others. Holds one block, or twice the longest map. O(bytes), hostile or not.
        """
        maps = _MapReader(self, reader)
        rest = b""
        while block := _read_more(reader, len(rest)):
            rest = yield from maps.consume(rest + block, final=False)
        yield from maps.consume(rest, final=True)


def _read_more(reader: RecordReader, held: int) -> bytes:
    """Return the next block; at least `held` bytes if that is more than a block, so that growing stays linear."""
    blocks = [reader.stream.read()]
    size = len(blocks[0])
    while held > BLOCK_BYTES and size < held and blocks[-1]:
        blocks.append(reader.stream.read())
        size += len(blocks[-1])
    return b"".join(blocks)


class _SkippedBytes:
    """Bytes that are no map: their number and their head, for one rejection."""

    def __init__(self) -> None:
        self.size = 0
        self._start = 0
        self._head = b""

    def add(self, offset: int, data: bytes) -> None:
        if not self.size:
            self._start, self._head = offset, b""
        self._head += data[: MAX_RAW_BYTES - len(self._head)]
        self.size += len(data)

    def report(self, rejections: RejectionCounter, damage: SourceError | None) -> None:
        if self.size:
            cause = "" if damage is None else f", {damage.reason}"
            fault = RecordProblem("record", f"expected a map: {self.size} bytes skipped{cause}", show_bytes(self._head))
            rejections.reject(self._start, fault, self._head, size=self.size)
            self.size = 0


class _MapReader(Generic[Records]):
    """Turns blocks of the input into chunks; counts the maps and keeps the head of bytes that are being skipped."""

    def __init__(self, maps: MapStream[Records], reader: RecordReader) -> None:
        self._maps = maps
        self._reader = reader
        self._records = reader.records
        self._skipped = _SkippedBytes()
        self._chunk_maps = min(reader.batch, BLOCK_BYTES)  # a block holds no more maps
        self._after_frame = False

    def consume(self, data: bytes, *, final: bool) -> Generator[RecordChunk[Records], None, bytes]:
        """Yield the chunks in `data`, the last of the input if `final`; return the bytes that need the next block."""
        bounds = [0]
        if not self._skipped.size and not self._after_frame and len(data) <= MAX_MAP_BYTES:
            bounds = yield from self._read_events(data)
        at = yield from self._read_maps(data, bounds, final=final)
        if final:
            self._skipped.report(self._reader.rejections, self._reader.stream.damage)
        return data[at:]

    def _read_events(self, data: bytes) -> Generator[RecordChunk[Records], None, list[int]]:
        """Yield chunks as long as they hold valid events only; return the bounds of the values in the next one."""
        unpacker, at = Unpacker(max_buffer_size=0), 0
        unpacker.feed(data)
        while ends := find_ends(unpacker, self._chunk_maps):
            records = self._maps.events.decode_run(memoryview(data)[at : ends[-1]], len(ends))
            if records is None:
                break
            at = ends[-1]
            yield from self._make_chunk(records, at - len(data), len(ends))
        return [at, *ends]

    def _read_maps(self, data: bytes, bounds: list[int], *, final: bool) -> Generator[RecordChunk[Records], None, int]:
        """Yield the chunks from ``bounds[0]``, measuring each map; return the start of the bytes that need more."""
        scanner, at = MapScanner(data, MAX_MAP_BYTES, final=final, bounds=bounds), bounds[0]
        events = [at]  # bounds of those that follow each other and are not decoded yet
        while at < len(data):
            end, kind = (MALFORMED, ANONYMOUS) if self._skipped.size else scanner.measure(at)
            if end == INCOMPLETE and not final:
                break
            if end > 0 and kind != FRAME and len(events) <= self._chunk_maps:
                at = end
                events.append(at)
                continue
            yield from self._decode_events(data, events)
            if end > 0 and kind == FRAME:
                yield from self._decode_frame(data, at, end)
                at = end
            elif end < 0:
                at, found = self._skip(data, at, scanner)
                if not found:
                    return at
            self._after_frame = kind == FRAME
            events = [at]
        yield from self._decode_events(data, events)
        return at

    def _skip(self, data: bytes, at: int, scanner: MapScanner) -> tuple[int, bool]:
        """Skip the bytes at `at`, which are no map; return where they end and whether a map begins there."""
        next_at, found = scanner.find(at) if self._skipped.size else scanner.find_after(at)
        self._skipped.add(self._reader.stream.offset - len(data) + at, data[at:next_at])
        if found:
            self._skipped.report(self._reader.rejections, None)
        return next_at, found

    def _decode_events(self, data: bytes, bounds: list[int]) -> Iterator[RecordChunk[Records]]:
        """Return the chunk of the valid events between `bounds`: decoded in one call, or one by one if that fails."""
        if len(bounds) == 1:
            return
        records = self._maps.events.decode_run(memoryview(data)[bounds[0] : bounds[-1]], len(bounds) - 1)
        if records is None:
            base = self._reader.stream.offset - len(data)
            maps = {base + start: data[start:end] for start, end in pairwise(bounds)}
            from_events = self._maps.records.batch.from_events
            records, _ = parse_valid(maps, self._maps.events.parse, from_events, self._reader.rejections)
        yield from self._make_chunk(records, bounds[-1] - len(data), len(bounds) - 1)

    def _decode_frame(self, data: bytes, start: int, end: int) -> Iterator[RecordChunk[Records]]:
        offset = self._reader.stream.offset - len(data) + start
        records = self._maps.frames.read(memoryview(data)[start:end], offset, self._reader.rejections)
        yield from self._make_chunk(records, end - len(data), 1)

    def _make_chunk(self, records: Records, end: int, maps: int) -> Iterator[RecordChunk[Records]]:
        """Count `maps`; the last ends at `end` from the position of the stream; none without records."""
        self._records += maps
        if len(records):
            yield RecordChunk(records, self._reader.stream.offset + end, self._records)


_ARRAY_32: Final = b"\xdd"
_SHOWN: Final = 24  # bytes of binary data in a report


class EventMaps(Generic[Records]):
    """Decodes maps that are one of `events` each."""

    def __init__(self, events: EventDecoder[Records]) -> None:
        self._events = events
        self._one = msgspec.msgpack.Decoder(events.kind)
        self._many = msgspec.msgpack.Decoder(list[events.kind])  # type: ignore[name-defined]  # known when it runs

    def decode_run(self, run: bytes | memoryview, count: int) -> Records | None:
        """Return the `count` maps that make up `run` as columns; None unless all are valid. 0.7 µs a map."""
        array = b"".join((_ARRAY_32, count.to_bytes(4, "big"), run))
        records = self._events.decode_all(partial(self._many.decode, array), count)
        return None if records is None or records.problems() else records

    def parse(self, raw: bytes) -> Any:
        """Return the event in `raw`; raises ParseError. O(bytes)."""
        return self._events.decode_one(
            partial(self._one.decode, raw), partial(msgspec.msgpack.decode, raw), show_bytes(raw)
        )


class FrameReader(Generic[Records]):
    """Decodes columnar frames of `records`."""

    def __init__(self, records: RecordType[Records]) -> None:
        self._type = records
        self._frame = msgspec.msgpack.Decoder(records.frame())

    def read(self, raw: memoryview, offset: int, rejections: RejectionSink) -> Records:
        """Return the valid records of the frame `raw` at `offset`; an inconsistent frame is one rejection.

        A record that breaks the event format is a rejection of its own, its frame of one row the raw bytes.
        """
        try:
            records = self._type.decode_frame(structs.asdict(self._frame.decode(raw)))
        except InvalidRecord as problem:
            rejections.reject(offset, RecordProblem.of(problem), bytes(raw))
            return self._type.none()
        except UNREADABLE as error:
            rejections.reject(offset, describe_error(error, show_bytes(raw)), bytes(raw))
            return self._type.none()

        def reject(record: int, problem: RecordProblem) -> None:
            row = np.array([record], np.intp)
            in_frame = RecordProblem(problem.field, f"{problem.reason}, in row {record} of the frame", problem.found)
            rejections.reject(offset, in_frame, encode_frame(records.take(row)))

        return keep_valid(records, reject)


def show_bytes(raw: bytes | memoryview) -> str:
    r"""Return the beginning of `raw`, which is binary, as hexadecimal digits for a report.

    >>> show_bytes(b"\x81\xa3url")
    '81 a3 75 72 6c'
    """
    return bytes(raw[:_SHOWN]).hex(" ")
