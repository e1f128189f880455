"""Decodes messages into outcomes: many small messages in one call, each fault assigned to its message.

A message is one event, as JSON or as a msgpack map, or one columnar frame; the three may be mixed. The schema version
is 1 unless the header ``schema-version`` (digits) or the field ``v`` (required in a frame) names another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.connectors.formats.columns import join, pack_bytes, to_columns
from streamsched.connectors.formats.events import Event
from streamsched.connectors.formats.jsonl import make_json_lines
from streamsched.connectors.formats.msgpack_frames import VERSION
from streamsched.connectors.formats.msgpack_maps import EventMaps, read_frame
from streamsched.connectors.formats.msgpack_stream import MAX_MAP_BYTES
from streamsched.connectors.kafka.message_keys import host_keys, not_equal
from streamsched.connectors.kafka.message_kinds import (
    BROKEN,
    EMPTY,
    FIRST_BYTE,
    FRAME_MAP,
    JSON,
    MAP,
    OTHER,
    classify_messages,
)
from streamsched.connectors.reading.lines import LineChunk
from streamsched.connectors.reading.rejections import MAX_RAW_BYTES, RecordProblem, describe
from streamsched.connectors.reading.validation import ParseError, parse_valid
from streamsched.errors import shorten
from streamsched.outcomes import OutcomeBatch

if TYPE_CHECKING:
    from streamsched.connectors.kafka.clients.protocol import Headers, Messages
    from streamsched.numerics.arrays import Bytes, Ints

__all__ = ["VERSION_HEADER", "DecodedBatch", "DecodingResult", "RejectedMessage", "decode_messages"]

VERSION_HEADER: Final = "schema-version"
_VERSION_FIELDS: Final = ("v", VERSION_HEADER)  # the fields of faults that mean an unknown schema version
_MIN_BLOCK: Final = 8  # messages of one kind from which a call for them costs less than decoding each among others
_SINGLES: Final = (BROKEN, EMPTY, JSON, MAP, OTHER)
_OTHER_VERSION: Final = 6  # beside the kinds of `message_kinds`: the headers name an unknown schema version
_MIXED: Final = 7


class VersionedEvent(Event):
    """An event with an optional schema version."""

    v: int | None = None


def _refuse_version(events: Sequence[VersionedEvent]) -> RecordProblem | None:
    unknown = set(map(attrgetter("v"), events)) - {None, VERSION}
    return RecordProblem("v", f"expected schema version {VERSION}", shorten(min(unknown))) if unknown else None


_LINES: Final = make_json_lines(VersionedEvent, _refuse_version)
_MAPS: Final = EventMaps(VersionedEvent, _refuse_version)


class RejectedMessage(NamedTuple):
    """A fault of the message at `offset`, or of a row of its frame; `size` is the length of the value, which is cut."""

    offset: int
    fault: RecordProblem
    raw: bytes
    size: int


class DecodedBatch(NamedTuple):
    """Valid outcomes, at least one; ``offset``: the next one after them; ``messages``: read since the block began.

    ``misplaced``, ``unkeyed``: how many outcomes have a message key other than their host, or no key.
    """

    outcomes: OutcomeBatch
    offset: int
    messages: int
    misplaced: int
    unkeyed: int


@dataclass(slots=True)
class DecodingResult:
    """Outcomes in batches, and rejected messages, those of a batch in order of offset."""

    batches: list[DecodedBatch] = field(default_factory=list)
    rejected: list[RejectedMessage] = field(default_factory=list)

    def reject(self, offset: int, fault: RecordProblem, raw: bytes, *, size: int | None = None) -> None:
        """Add a rejected message; see `streamsched.connectors.reading.rejections.RejectionSink`."""
        self.rejected.append(RejectedMessage(offset, fault, raw[:MAX_RAW_BYTES], len(raw) if size is None else size))

    def first_unknown_version(self) -> RejectedMessage | None:
        """Return the first message that was rejected for its schema version, None if there is none."""
        return min((one for one in self.rejected if one.fault.field in _VERSION_FIELDS), default=None)


def decode_messages(messages: Messages, rows: int = 1) -> DecodingResult:
    """Return the outcomes in `messages`; neighbouring batches are merged up to `rows` outcomes.

    O(bytes); about 1.5 µs for a small message, 25 µs for a frame of 1,000.
    """
    result = DecodingResult()
    if not len(messages):
        return result
    values = [value or b"" for value in messages.values]
    data = b"".join(values)
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])
    kinds = classify_messages(values, MAX_MAP_BYTES)
    for i in _find_other_versions(messages.headers):
        kinds[i] = _OTHER_VERSION
    block = _MessageBlock(messages, memoryview(data), ends, result)
    for first, last, kind in _split_by_kind(kinds):
        outcomes = _DECODERS[kind](block, first, last)
        if len(outcomes):
            misplaced, unkeyed = _check_keys(block, first, last, outcomes)
            result.batches.append(DecodedBatch(outcomes, messages.offsets[last - 1] + 1, last, misplaced, unkeyed))
    result.batches = list(_merge_small(result.batches, rows))
    return result


def _merge_small(batches: list[DecodedBatch], rows: int) -> Iterator[DecodedBatch]:
    """Yield `batches`, neighbours merged while they have at most `rows` outcomes together."""
    start = 0
    while start < len(batches):
        stop, size = start + 1, len(batches[start].outcomes)
        while stop < len(batches) and size + len(batches[stop].outcomes) <= rows:
            size += len(batches[stop].outcomes)
            stop += 1
        merged, last = batches[start:stop], batches[stop - 1]
        misplaced, unkeyed = sum(one.misplaced for one in merged), sum(one.unkeyed for one in merged)
        yield DecodedBatch(join([one.outcomes for one in merged]), last.offset, last.messages, misplaced, unkeyed)
        start = stop


def _find_other_versions(headers: Sequence[Headers | None]) -> Iterator[int]:
    """Yield the indices of messages whose header names another schema version."""
    for i, own in enumerate(headers):
        if own and _find_version(own) not in (None, str(VERSION).encode()):
            yield i


def _find_version(headers: Headers) -> bytes | None:
    return next((value or b"" for name, value in headers if name == VERSION_HEADER), None)


def _split_by_kind(kinds: Bytes) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of messages that one call decodes, as bounds and kind; each frame is a range of its own.

    Short ranges of different kinds are merged into one of kind `_MIXED`.
    """
    edges = np.flatnonzero((kinds[1:] != kinds[:-1]) | (kinds[1:] == FRAME_MAP)) + 1
    mixed_since = -1  # start of the current mixed range, if there is one
    for first, last in pairwise([0, *edges.tolist(), kinds.size]):
        kind = int(kinds[first])
        if last - first < _MIN_BLOCK and kind in _SINGLES:
            mixed_since = first if mixed_since < 0 else mixed_since
            continue
        if mixed_since >= 0:
            yield mixed_since, first, _MIXED
        mixed_since = -1
        yield first, last, kind
    if mixed_since >= 0:
        yield mixed_since, kinds.size, _MIXED


class _MessageBlock(NamedTuple):
    """Messages, their concatenated values, the end of each value, and the result to add rejections to."""

    messages: Messages
    data: memoryview
    ends: Ints
    result: DecodingResult

    def values_by_offset(self, first: int, last: int) -> dict[int, bytes]:
        return {self.messages.offsets[i]: self.messages.values[i] or b"" for i in range(first, last)}


def _decode_maps(block: _MessageBlock, first: int, last: int) -> OutcomeBatch:
    outcomes = _MAPS.decode_run(block.data[block.ends[first] : block.ends[last]], last - first)
    return _decode_each(block, first, last) if outcomes is None else outcomes


def _decode_each(block: _MessageBlock, first: int, last: int) -> OutcomeBatch:
    return parse_valid(block.values_by_offset(first, last), _parse, to_columns, block.result)


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


def _decode_frame(block: _MessageBlock, first: int, last: int) -> OutcomeBatch:
    raw = block.data[block.ends[first] : block.ends[last]]
    return read_frame(raw, block.messages.offsets[first], block.result)


def _decode_json(block: _MessageBlock, first: int, last: int) -> OutcomeBatch:
    ends = np.diff(block.ends[first : last + 1]).cumsum() + np.arange(last - first)
    lines = b"\n".join(block.messages.values[first:last])  # type: ignore[arg-type]  # none of them is None
    outcomes = _LINES.decode_whole(LineChunk(lines, 1, ends, 0))
    if outcomes is not None and not outcomes.problems():
        return outcomes
    return _decode_each(block, first, last)


def _reject_versions(block: _MessageBlock, first: int, last: int) -> OutcomeBatch:
    values = block.values_by_offset(first, last)
    for (offset, raw), own in zip(values.items(), block.messages.headers[first:last], strict=True):
        found = describe(_find_version(own or ()) or b"")
        block.result.reject(offset, RecordProblem(VERSION_HEADER, f"expected schema version {VERSION}", found), raw)
    return _NONE


_NONE: Final = OutcomeBatch([], [])
_DECODERS: Final[dict[int, Callable[[_MessageBlock, int, int], OutcomeBatch]]] = {
    BROKEN: _decode_each,
    EMPTY: _decode_each,
    FRAME_MAP: _decode_frame,
    JSON: _decode_json,
    MAP: _decode_maps,
    OTHER: _decode_each,
    _MIXED: _decode_each,
    _OTHER_VERSION: _reject_versions,
}


def _check_keys(block: _MessageBlock, first: int, last: int, outcomes: OutcomeBatch) -> tuple[int, int]:
    """Return how many of `outcomes` have a key other than their host, and how many have none."""
    keys = block.messages.keys[first:last]
    if not any(keys):
        return 0, len(outcomes)
    if last - first == 1:
        keys *= len(outcomes)  # a frame's key is that of all its rows
    elif len(keys) != len(outcomes):
        rejected = {message.offset for message in block.result.rejected}
        offsets = block.messages.offsets[first:last]
        keys = [key for key, offset in zip(keys, offsets, strict=True) if offset not in rejected]
    has_key = np.fromiter(map(bool, keys), np.bool_, len(keys))
    differs = not_equal(host_keys(outcomes.urls), pack_bytes([key or b"" for key in keys]))
    return int(np.count_nonzero(differs & has_key)), int(np.count_nonzero(~has_key))
