"""A stream of msgpack maps: single events, columnar frames, or both mixed.

A map whose ``url`` is a packed array or a list is a frame (see `formats.msgpack_frames`), any other an event
with the fields of SPEC 2. Bytes that are no map are skipped up to the next whole map with a key ``url``, and reported
as one rejection with their number. A map of more than 64 MiB counts as such bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from streamsched.connectors.formats.columns import to_columns
from streamsched.connectors.formats.msgpack_maps import EventMaps, read_frame, show_bytes
from streamsched.connectors.formats.msgpack_scan import FRAME, INCOMPLETE, find_map, walk_maps
from streamsched.connectors.reading.byte_stream import BLOCK_BYTES
from streamsched.connectors.reading.record_reader import Cut, RecordReader
from streamsched.connectors.reading.rejections import MAX_RAW_BYTES, Fault, RejectionCounter
from streamsched.connectors.reading.validation import sift
from streamsched.errors import SourceError
from streamsched.numerics.arrays import Ints
from streamsched.outcomes import OutcomeBatch

__all__ = ["MAX_MAP_BYTES", "read_maps"]

MAX_MAP_BYTES: Final = 64 << 20  # a frame of 500,000 outcomes; what a header may make the reader hold

_EVENTS: Final = EventMaps()


def read_maps(intake: RecordReader) -> Iterator[Cut]:
    """Return the valid outcomes of each run of at most ``intake.batch`` events and of each frame; rejects the others.

    Holds one block, or twice the longest map. O(bytes), hostile or not.
    """
    reader = _Reader(intake)
    rest = b""
    while block := _read_more(intake, len(rest)):
        rest = yield from reader.consume(rest + block, final=False)
    yield from reader.consume(rest, final=True)


def _read_more(intake: RecordReader, held: int) -> bytes:
    """Return the next block; as much again as is `held` where that is long, so that growing stays linear."""
    blocks = [intake.stream.read()]
    size = len(blocks[0])
    while held > BLOCK_BYTES and size < held and blocks[-1]:
        blocks.append(intake.stream.read())
        size += len(blocks[-1])
    return b"".join(blocks)


class _Skipped:
    """Bytes that are no map, one rejection in the end."""

    def __init__(self) -> None:
        self.size = 0
        self._start = 0
        self._head = b""

    def add(self, offset: int, data: bytes) -> None:
        if not self.size:
            self._start, self._head = offset, b""
        self._head += data[: MAX_RAW_BYTES - len(self._head)]
        self.size += len(data)

    def report(self, ledger: RejectionCounter, damage: SourceError | None) -> None:
        if self.size:
            cause = "" if damage is None else f", {damage.reason}"
            fault = Fault("record", f"expected a map: {self.size} bytes skipped{cause}", show_bytes(self._head))
            ledger.reject(self._start, fault, self._head, size=self.size)
            self.size = 0


class _Reader:
    """Turns stretches of the input into cuts; remembers the maps before and the bytes being skipped."""

    def __init__(self, intake: RecordReader) -> None:
        self._intake = intake
        self._records = intake.records
        self._skipped = _Skipped()
        most = min(intake.batch, BLOCK_BYTES)  # a block holds no more maps
        self._ends, self._kinds = np.empty(most, np.int64), np.empty(most, np.int64)

    def consume(self, data: bytes, *, final: bool) -> Generator[Cut, None, bytes]:
        """Yield what is in `data`, the last of the input where `final`; return the bytes that want what comes next."""
        view = np.frombuffer(data, np.uint8)
        base, at, stop = self._intake.stream.offset - len(data), 0, 0
        while at < len(data) and (stop != INCOMPLETE or final):
            if self._skipped.size or stop:
                first = at + 1 if stop else at
                found_at, found = find_map(view, first, MAX_MAP_BYTES, final)
                self._skipped.add(base + at, data[at:found_at])
                at = found_at
                if not found:
                    break
                self._skipped.report(self._intake.ledger, None)
            count, stop = walk_maps(view, at, MAX_MAP_BYTES, self._ends, self._kinds)
            if count:
                yield from self._deliver(data, at, self._ends[:count], self._kinds[:count])
                at = int(self._ends[count - 1])
        if final:
            self._skipped.report(self._intake.ledger, self._intake.stream.damage)
        return data[at:]

    def _deliver(self, data: bytes, start: int, ends: Ints, kinds: Ints) -> Iterator[Cut]:
        """Return a cut for each frame and each run of events between frames, in stream order."""
        base = self._intake.stream.offset - len(data)
        edges = np.flatnonzero((kinds[1:] == FRAME) | (kinds[:-1] == FRAME)) + 1
        for run in np.split(np.arange(ends.size), edges):
            stop = int(ends[run[-1]])
            if kinds[run[0]] == FRAME:
                outcomes = read_frame(memoryview(data)[start:stop], base + start, self._intake.ledger)
            else:
                bounds = [start, *ends[run].tolist()]
                outcomes = _decode_events(memoryview(data), base, bounds, self._intake.ledger)
            start = stop
            self._records += run.size
            if len(outcomes):
                yield Cut(outcomes, base + start, self._records)


def _decode_events(data: memoryview, base: int, bounds: list[int], ledger: RejectionCounter) -> OutcomeBatch:
    """Return the valid events between `bounds`: all in one call where none is faulty, else one by one."""
    outcomes = _EVENTS.decode_run(data[bounds[0] : bounds[-1]], len(bounds) - 1)
    if outcomes is not None:
        return outcomes
    maps = {base + start: bytes(data[start:end]) for start, end in pairwise(bounds)}
    return sift(maps, _EVENTS.parse, to_columns, ledger)
