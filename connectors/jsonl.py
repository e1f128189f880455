"""JSON Lines: one map per event on a line of its own, with the fields of SPEC 2.

Blank lines are passed over. A file that names a map's field twice means its last value.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from streamsched.connectors.columns import to_columns
from streamsched.connectors.events import UNREADABLE, Event, explain, read_fingerprint
from streamsched.connectors.ledger import describe
from streamsched.connectors.lines import LineFormat
from streamsched.connectors.sieve import Malformed
from streamsched.outcomes import OutcomeBatch

__all__ = ["JSON_LINES"]

_DECODER: Final = msgspec.json.Decoder(Event)


def _decode_whole(data: bytes, count: int) -> OutcomeBatch | None:
    """Return `count` lines as columns at once, None where they want a closer look. Some 0.5 µs an event."""
    # decode_lines passes over newlines inside a map, and several maps on a line; a line is one map here.
    if data.count(b"}\n{") + data.count(b"}\r\n{") != count - 1:
        return None
    try:
        events = _DECODER.decode_lines(data)
        return to_columns(events) if len(events) == count else None
    except (*UNREADABLE, OverflowError):
        return None


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
