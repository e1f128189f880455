"""JSON Lines: one map per event on a line of its own, with the fields of SPEC 2.

Blank lines are passed over. A file that names a map's field twice means its last value.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from streamsched.connectors.formats.columns import to_columns
from streamsched.connectors.formats.events import UNREADABLE, Event, Refuse, accept_all, explain, read_fingerprint
from streamsched.connectors.reading.lines import LineChunk, LineFormat
from streamsched.connectors.reading.rejections import describe
from streamsched.connectors.reading.validation import ParseError

if TYPE_CHECKING:
    from streamsched.outcomes import OutcomeBatch

__all__ = ["JSON_LINES", "make_json_lines"]


def make_json_lines(kind: type[Event] = Event, refuse: Refuse = accept_all) -> LineFormat[Event]:
    """Return the format whose events are of the type `kind`, those that `refuse` has something against rejected."""
    decoder = msgspec.json.Decoder(kind)

    def decode_whole(chunk: LineChunk) -> OutcomeBatch | None:
        """Return the lines as columns at once, None where they want a closer look. About 1 µs an event."""
        if not _has_map_per_line(chunk):
            return None
        try:
            events = decoder.decode_lines(chunk.data)
            return None if len(events) != len(chunk) or refuse(events) else to_columns(events)
        except (*UNREADABLE, OverflowError):
            return None

    def parse_line(line: bytes) -> Event:
        """Return the event on `line`; raises ParseError. O(bytes)."""
        try:
            event = decoder.decode(line)
        except UNREADABLE as error:
            raise ParseError(explain(error, partial(msgspec.json.decode, line), describe(line))) from error
        if event.fingerprint is not None:
            event.fingerprint = read_fingerprint(event.fingerprint)
        problem = refuse([event])
        if problem is not None:
            raise ParseError(problem)
        return event

    return LineFormat(decode_whole, parse_line, to_columns)


def _has_map_per_line(chunk: LineChunk) -> bool:
    """Return whether every line but the last ends a map and the next begins one, white space apart from CR refused.

    `decode_lines` passes over newlines within a map and takes several maps on a line; here a line is one map.
    """
    view = np.frombuffer(chunk.data, np.uint8)
    newlines = chunk.ends[:-1]
    last = view[newlines - 1]
    last = np.where(last == ord("\r"), view[newlines - 2], last)
    return bool(np.all(last == ord("}")) and np.all(view[newlines + 1] == ord("{")))


JSON_LINES: Final = make_json_lines()
