"""Decoding of msgpack maps whose boundaries are known: events and columnar frames."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
import numpy as np
from msgspec import structs

from streamsched.connectors.formats.columns import to_columns
from streamsched.connectors.formats.events import (
    UNREADABLE,
    Event,
    Refuse,
    accept_all,
    describe_error,
    explain,
    read_fingerprint,
)
from streamsched.connectors.formats.msgpack_frames import FrameColumns, decode_frame, encode_frame
from streamsched.connectors.reading.rejections import RecordProblem, RejectionSink
from streamsched.connectors.reading.validation import ParseError, keep_valid
from streamsched.errors import InvalidOutcome
from streamsched.outcomes import OutcomeBatch

__all__ = ["EventMaps", "read_frame", "show_bytes"]

_ARRAY_32: Final = b"\xdd"
_SHOWN: Final = 24  # bytes of binary data in a report
_NONE: Final = OutcomeBatch([], [])
_FRAME: Final = msgspec.msgpack.Decoder(FrameColumns)


class EventMaps:
    """Decodes maps that are one event each, of the type `kind`; `refuse` may reject some that decode."""

    def __init__(self, kind: type[Event] = Event, refuse: Refuse = accept_all) -> None:
        self._one = msgspec.msgpack.Decoder(kind)
        self._many = msgspec.msgpack.Decoder(list[kind])  # type: ignore[valid-type]  # a type, if not one known before
        self._refuse = refuse

    def decode_run(self, run: bytes | memoryview, count: int) -> OutcomeBatch | None:
        """Return the `count` maps that make up `run` as columns; None unless all are valid. 0.7 µs a map."""
        try:
            events = self._many.decode(b"".join((_ARRAY_32, count.to_bytes(4, "big"), run)))
            if self._refuse(events) is not None:
                return None
            outcomes = to_columns(events)
        except (*UNREADABLE, OverflowError):
            return None
        return None if outcomes.problems() else outcomes

    def parse(self, raw: bytes) -> Event:
        """Return the event in `raw`; raises ParseError. O(bytes)."""
        try:
            event = self._one.decode(raw)
        except UNREADABLE as error:
            raise ParseError(explain(error, partial(msgspec.msgpack.decode, raw), show_bytes(raw))) from error
        if event.fingerprint is not None:
            event.fingerprint = read_fingerprint(event.fingerprint)
        problem = self._refuse([event])
        if problem is not None:
            raise ParseError(problem)
        return event


def read_frame(raw: memoryview, offset: int, rejections: RejectionSink) -> OutcomeBatch:
    """Return the valid records of the frame `raw` at `offset`; an inconsistent frame is one rejection.

    A record that breaks the event format is a rejection of its own, its frame of one row the raw bytes.
    """
    try:
        outcomes = decode_frame(structs.asdict(_FRAME.decode(raw)))
    except InvalidOutcome as problem:
        rejections.reject(offset, RecordProblem.of(problem), bytes(raw))
        return _NONE
    except UNREADABLE as error:
        rejections.reject(offset, describe_error(error, show_bytes(raw)), bytes(raw))
        return _NONE

    def reject(record: int, problem: RecordProblem) -> None:
        row = np.array([record], np.intp)
        in_frame = RecordProblem(problem.field, f"{problem.reason}, in row {record} of the frame", problem.found)
        rejections.reject(offset, in_frame, encode_frame(outcomes.take(row)))

    return keep_valid(outcomes, reject)


def show_bytes(raw: bytes | memoryview) -> str:
    r"""Return the beginning of `raw`, which is binary, as hexadecimal digits for a report.

    >>> show_bytes(b"\x81\xa3url")
    '81 a3 75 72 6c'
    """
    return bytes(raw[:_SHOWN]).hex(" ")
