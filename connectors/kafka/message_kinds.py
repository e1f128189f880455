"""The kind of each message of a topic, from its first bytes and its structure, before anything is decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.connectors.formats.msgpack_boundaries import FRAME, MapScanner, is_event

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes

__all__ = ["BROKEN", "EMPTY", "FIRST_BYTE", "FRAME_MAP", "JSON", "MAP", "OTHER", "classify_messages"]

EMPTY: Final = 0  # no value: a tombstone
MAP: Final = 1  # one msgpack map, an event
FRAME_MAP: Final = 2  # one msgpack map, a frame
JSON: Final = 3
BROKEN: Final = 4  # begins like a msgpack map, but is not one
OTHER: Final = 5


def _tabulate() -> list[int]:
    table = np.full(256, OTHER, np.uint8)
    table[0x80:0x90] = table[0xDE:0xE0] = MAP
    table[[ord(byte) for byte in "{ \t\r\n"]] = JSON
    return table.tolist()


FIRST_BYTE: Final = _tabulate()


def classify_messages(values: Sequence[bytes], limit: int) -> Bytes:
    """Return the kind of each of `values`: uint8[n]. Linear in the bytes; 0.3 µs an event, 4 µs a frame."""
    kinds = np.array([FIRST_BYTE[value[0]] if value else EMPTY for value in values], np.uint8)
    for i in np.flatnonzero(kinds == MAP).tolist():
        if not is_event(values[i]):
            end, kind = MapScanner(values[i], limit, final=True).measure(0)
            kinds[i] = BROKEN if end != len(values[i]) else FRAME_MAP if kind == FRAME else MAP
    return kinds
