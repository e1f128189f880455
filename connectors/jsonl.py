"""JSON Lines: one map per event on a line of its own, with the fields of SPEC 2.

Blank lines are passed over. A file that names a map's field twice means its last value.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
import numpy as np

from streamsched.connectors.columns import to_columns
from streamsched.connectors.events import UNREADABLE, Event, explain, read_fingerprint
from streamsched.connectors.ledger import describe
from streamsched.connectors.lines import LineChunk, LineFormat
from streamsched.connectors.sieve import Malformed
from streamsched.outcomes import OutcomeBatch

__all__ = ["JSON_LINES"]

_DECODER: Final = msgspec.json.Decoder(Event)


def _decode_whole(chunk: LineChunk) -> OutcomeBatch | None:
    """Return the lines as columns at once, None where they want a closer look. About 1 µs an event."""
    if not _has_map_per_line(chunk):
        return None
    try:
        events = _DECODER.decode_lines(chunk.data)
        return to_columns(events) if len(events) == len(chunk) else None
    except (*UNREADABLE, OverflowError):
        return None


def _has_map_per_line(chunk: LineChunk) -> bool:
    """True where every line but the last ends a map and the next begins one, white space apart from CR refused.

    `decode_lines` passes over newlines within a map and takes several maps on a line; here a line is one map.
    """
    view = np.frombuffer(chunk.data, np.uint8)
    newlines = chunk.ends[:-1]
    last = view[newlines - 1]
    last = np.where(last == ord("\r"), view[newlines - 2], last)
    return bool(np.all(last == ord("}")) and np.all(view[newlines + 1] == ord("{")))


def _parse_line(line: bytes) -> Event:
    """Return the event on `line`; raises Malformed. O(bytes)."""
    try:
        event = _DECODER.decode(line)
    except UNREADABLE as error:
        raise Malformed(explain(error, partial(msgspec.json.decode, line), describe(line))) from error
    if event.fingerprint is not None:
        event.fingerprint = read_fingerprint(event.fingerprint)
    return event


JSON_LINES: Final = LineFormat(_decode_whole, _parse_line, to_columns)
