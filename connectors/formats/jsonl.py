"""JSON Lines: one map per event on a line of its own.

Blank lines are passed over. A file that names a map's field twice means its last value. Fields that no event has are
not read; they are counted, and each is named once in the log.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import numpy as np

from streamsched.connectors.reading.lines import LineChunk, LineFormat
from streamsched.connectors.reading.rejections import describe
from streamsched.connectors.records import OTHERS, EventDecoder
from streamsched.connectors.source import Records


def make_json_lines(events: EventDecoder[Records]) -> LineFormat[Any, Records]:
    """Return the format whose lines are `events`."""
    decoder = msgspec.json.Decoder(events.kind)
    strict = msgspec.json.Decoder(events.kind_without_others())
    maps = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def decode_whole(chunk: LineChunk) -> Records | None:
        """Return the lines as columns at once, None where they want a closer look. About 1 µs an event.

        Another µs if maps have fields that no event has: they are counted then.
        """
        if not _has_map_per_line(chunk):
            return None
        records = events.decode_all(partial(strict.decode_lines, chunk.data), len(chunk))
        if records is None:
            records = events.decode_all(partial(decoder.decode_lines, chunk.data), len(chunk))
            if records is not None and not records.problems():  # else each line is parsed, and its fields counted then
                try:
                    events.count_unknown(maps.decode_lines(chunk.data))
                except UnicodeDecodeError:
                    return None
        return records

    def parse_line(line: bytes) -> Any:
        """Return the event on `line`; raises ParseError. O(bytes)."""
        event = events.decode_one(partial(decoder.decode, line), partial(msgspec.json.decode, line), describe(line))
        try:
            events.count_unknown([maps.decode(line)])
        except UnicodeDecodeError:  # names of fields that are not read are not checked
            events.count_unknown([{OTHERS: None}])
        return event

    return LineFormat(decode_whole, parse_line, events.records.batch.from_events, events.report_unknown)


def _has_map_per_line(chunk: LineChunk) -> bool:
    """Return whether every line but the last ends a map and the next begins one, white space apart from CR refused.

    `decode_lines` passes over newlines within a map and takes several maps on a line; here a line is one map.
    """
    view = np.frombuffer(chunk.data, np.uint8)
    newlines = chunk.ends[:-1]
    last = view[newlines - 1]
    last = np.where(last == ord("\r"), view[newlines - 2], last)
    return bool(np.all(last == ord("}")) and np.all(view[newlines + 1] == ord("{")))
