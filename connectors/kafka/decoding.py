"""Messages into outcomes: many small ones in one decode, each fault traced back to the message it stands in.

A message is one event, as JSON or as a msgpack map, or one columnar frame; the three may be mixed. The schema version
is 1 where nothing says otherwise: the header ``schema-version`` (digits) or the field ``v`` (in a frame required).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from streamsched.connectors.formats.columns import join, pack_bytes, to_columns
from streamsched.connectors.formats.events import Event
from streamsched.connectors.formats.jsonl import make_json_lines
from streamsched.connectors.formats.msgpack_frames import VERSION
from streamsched.connectors.formats.msgpack_maps import EventMaps, read_frame
from streamsched.connectors.formats.msgpack_stream import MAX_MAP_BYTES
from streamsched.connectors.kafka.clients.protocol import Headers, Messages
from streamsched.connectors.kafka.envelopes import BROKEN, EMPTY, FIRST_BYTE, FRAME_MAP, JSON, MAP, OTHER, sort_messages
from streamsched.connectors.kafka.message_keys import differ, host_keys
from streamsched.connectors.reading.lines import LineChunk
from streamsched.connectors.reading.rejections import MAX_RAW_BYTES, RecordProblem, describe
from streamsched.connectors.reading.validation import ParseError, parse_valid
from streamsched.errors import shorten
from streamsched.numerics.arrays import Bytes, Ints
from streamsched.outcomes import OutcomeBatch

__all__ = ["VERSION_FIELDS", "VERSION_HEADER", "Decoded", "Faulty", "Run", "decode_messages"]

VERSION_HEADER: Final = "schema-version"
VERSION_FIELDS: Final = ("v", VERSION_HEADER)  # of faults that say that a message's version is not known
_FEW: Final = 8  # messages of a shape, fewer of which are decoded one by one among others
_SINGLES: Final = (BROKEN, EMPTY, JSON, MAP, OTHER)
_MIXED: Final = 7
_REFUSED: Final = 6  # beside the kinds of `envelopes`: the headers say that we cannot read it


class VersionedEvent(Event):
    """An event that may say which version of the schema it has."""

    v: int | None = None


def _refuse_version(events: Sequence[VersionedEvent]) -> RecordProblem | None:
    strange = set(map(attrgetter("v"), events)) - {None, VERSION}
    return RecordProblem("v", f"expected schema version {VERSION}", shorten(min(strange))) if strange else None


_LINES: Final = make_json_lines(VersionedEvent, _refuse_version)
_MAPS: Final = EventMaps(VersionedEvent, _refuse_version)


class Faulty(NamedTuple):
    """What is wrong with the message at `offset`, or with a row of its frame, and that; `size` where `raw` is cut."""

    offset: int
    fault: RecordProblem
    raw: bytes
    size: int


class Run(NamedTuple):
    """Valid outcomes, at least one, and where the partition stands after them: the next offset, the messages taken.

    ``misplaced``: how many of the outcomes came with a key that is not their host; ``unkeyed``: with none.
    """

    outcomes: OutcomeBatch
    offset: int
    taken: int
    misplaced: int
    unkeyed: int


@dataclass(slots=True)
class Decoded:
    """What became of some messages: outcomes in runs, and faults, those of a run in order of offset."""

    runs: list[Run] = field(default_factory=list)
    faults: list[Faulty] = field(default_factory=list)

    def reject(self, offset: int, fault: RecordProblem, raw: bytes, *, size: int | None = None) -> None:
        """Record a rejection; see `streamsched.connectors.reading.rejections.RejectionSink`."""
        self.faults.append(Faulty(offset, fault, raw[:MAX_RAW_BYTES], len(raw) if size is None else size))


def decode_messages(messages: Messages, rows: int = 1) -> Decoded:
    """Return what `messages` say, neighbouring runs joined while they have no more than `rows` outcomes together.

    O(bytes); some 1.5 µs a small message, 25 µs a frame of 1,000.
    """
    decoded = Decoded()
    if not len(messages):
        return decoded
    values = [value or b"" for value in messages.values]
    data = b"".join(values)
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])
    kinds = sort_messages(values, MAX_MAP_BYTES)
    for i in _find_strangers(messages.headers):
        kinds[i] = _REFUSED
    stretch = _Stretch(messages, memoryview(data), ends, decoded)
    for first, last, kind in _cut(kinds):
        outcomes = _READERS[kind](stretch, first, last)
        if len(outcomes):
            strange = _check_keys(stretch, first, last, outcomes)
            decoded.runs.append(Run(outcomes, messages.offsets[last - 1] + 1, last, *strange))
    decoded.runs = list(_join(decoded.runs, rows))
    return decoded


def _join(runs: list[Run], rows: int) -> Iterator[Run]:
    """Return `runs`, neighbours as one while they have no more than `rows` outcomes together."""
    start = 0
    while start < len(runs):
        stop, size = start + 1, len(runs[start].outcomes)
        while stop < len(runs) and size + len(runs[stop].outcomes) <= rows:
            size += len(runs[stop].outcomes)
            stop += 1
        own, last = runs[start:stop], runs[stop - 1]
        misplaced, unkeyed = sum(run.misplaced for run in own), sum(run.unkeyed for run in own)
        yield Run(join([run.outcomes for run in own]), last.offset, last.taken, misplaced, unkeyed)
        start = stop


def _find_strangers(headers: Sequence[Headers | None]) -> Iterator[int]:
    """Return the messages whose header names a schema version that is not ours."""
    for i, own in enumerate(headers):
        if own and _find_version(own) not in (None, str(VERSION).encode()):
            yield i


def _find_version(headers: Headers) -> bytes | None:
    return next((value or b"" for name, value in headers if name == VERSION_HEADER), None)


def _cut(kinds: Bytes) -> Iterator[tuple[int, int, int]]:
    """Return runs of messages that are decoded in one call, as bounds and kind; each frame is one of its own.

    Short runs of events in different shapes are one of kind `_MIXED`: a call for each would cost more than a message.
    """
    edges = np.flatnonzero((kinds[1:] != kinds[:-1]) | (kinds[1:] == FRAME_MAP)) + 1
    waiting = -1  # where a mixed run began, if one did
    for first, last in pairwise([0, *edges.tolist(), kinds.size]):
        kind = int(kinds[first])
        if last - first < _FEW and kind in _SINGLES:
            waiting = first if waiting < 0 else waiting
            continue
        if waiting >= 0:
            yield waiting, first, _MIXED
        waiting = -1
        yield first, last, kind
    if waiting >= 0:
        yield waiting, kinds.size, _MIXED


class _Stretch(NamedTuple):
    """Messages, their values one after the other, where each ends, and where faults are written down."""

    messages: Messages
    data: memoryview
    ends: Ints
    decoded: Decoded

    def each(self, first: int, last: int) -> dict[int, bytes]:
        """Return the values by offset."""
        return {self.messages.offsets[i]: self.messages.values[i] or b"" for i in range(first, last)}


def _read_maps(stretch: _Stretch, first: int, last: int) -> OutcomeBatch:
    outcomes = _MAPS.decode_run(stretch.data[stretch.ends[first] : stretch.ends[last]], last - first)
    return _sift(stretch, first, last) if outcomes is None else outcomes


def _sift(stretch: _Stretch, first: int, last: int) -> OutcomeBatch:
    return parse_valid(stretch.each(first, last), _parse, to_columns, stretch.decoded)


def _parse(raw: bytes) -> Event:
    """Return the event in a message; raises ParseError."""
    kind = FIRST_BYTE[raw[0]] if raw else EMPTY
    if kind == MAP:
        return _MAPS.parse(raw)
    if kind == JSON:
        return _LINES.parse_line(raw)
    raise ParseError(
        RecordProblem("record", "expected a map, as JSON or msgpack", describe(raw) if raw else "no value")
    )


def _read_one_frame(stretch: _Stretch, first: int, last: int) -> OutcomeBatch:
    raw = stretch.data[stretch.ends[first] : stretch.ends[last]]
    return read_frame(raw, stretch.messages.offsets[first], stretch.decoded)


def _read_json(stretch: _Stretch, first: int, last: int) -> OutcomeBatch:
    ends = np.diff(stretch.ends[first : last + 1]).cumsum() + np.arange(last - first)
    chunk = LineChunk(b"\n".join(stretch.messages.values[first:last]), 1, ends, 0)  # type: ignore[arg-type]  # none is None
    outcomes = _LINES.decode_whole(chunk)
    if outcomes is not None and not outcomes.problems():
        return outcomes
    return _sift(stretch, first, last)


def _refuse_versions(stretch: _Stretch, first: int, last: int) -> OutcomeBatch:
    raws = stretch.each(first, last)
    for (offset, raw), own in zip(raws.items(), stretch.messages.headers[first:last], strict=True):
        fault = RecordProblem(
            VERSION_HEADER, f"expected schema version {VERSION}", describe(_find_version(own or ()) or b"")
        )
        stretch.decoded.reject(offset, fault, raw)
    return _NONE


_NONE: Final = OutcomeBatch([], [])
_READERS: Final[dict[int, Callable[[_Stretch, int, int], OutcomeBatch]]] = {
    BROKEN: _sift,
    EMPTY: _sift,
    FRAME_MAP: _read_one_frame,
    JSON: _read_json,
    MAP: _read_maps,
    OTHER: _sift,
    _MIXED: _sift,
    _REFUSED: _refuse_versions,
}


def _check_keys(stretch: _Stretch, first: int, last: int, outcomes: OutcomeBatch) -> tuple[int, int]:
    """Return how many outcomes of a run have a key that is not their host, and how many have none."""
    keys = stretch.messages.keys[first:last]
    if not any(keys):
        return 0, len(outcomes)
    if last - first == 1:
        keys *= len(outcomes)  # a frame's
    elif len(keys) != len(outcomes):
        faulty = {faulty.offset for faulty in stretch.decoded.faults}
        offsets = stretch.messages.offsets[first:last]
        keys = [key for key, offset in zip(keys, offsets, strict=True) if offset not in faulty]
    given = np.fromiter(map(bool, keys), np.bool_, len(keys))
    strange = differ(host_keys(outcomes.urls), pack_bytes([key or b"" for key in keys]))
    return int(np.count_nonzero(strange & given)), int(np.count_nonzero(~given))
