"""The kind of each message of a topic, from its first bytes and its structure, before anything is decoded."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.connectors.formats.msgpack_scan import FRAME, MAX_DEPTH, measure_map
from streamsched.numerics.arrays import Bytes, Ints
from streamsched.numerics.jit import kernel

__all__ = ["BROKEN", "EMPTY", "FIRST_BYTE", "FRAME_MAP", "JSON", "MAP", "OTHER", "classify_messages"]

EMPTY: Final = 0  # no value: a tombstone
MAP: Final = 1  # one msgpack map, an event
FRAME_MAP: Final = 2  # one msgpack map, a frame
JSON: Final = 3
BROKEN: Final = 4  # begins like a msgpack map, but is not one
OTHER: Final = 5


def _tabulate() -> Bytes:
    table = np.full(256, OTHER, np.uint8)
    table[0x80:0x90] = table[0xDE:0xE0] = MAP
    table[[ord(byte) for byte in "{ \t\r\n"]] = JSON
    return table


FIRST_BYTE: Final = _tabulate()


@kernel
def classify_messages(data: Bytes, ends: Ints, limit: int) -> Bytes:
    """Return the kind of each message ``data[ends[i]:ends[i + 1]]``: uint8[n]. O(tokens), also for hostile input."""
    kinds = np.zeros(ends.size - 1, np.uint8)
    left = np.empty(MAX_DEPTH, np.int64)
    for i in range(kinds.size):
        start, stop = ends[i], ends[i + 1]
        if start == stop:
            continue
        kinds[i] = FIRST_BYTE[data[start]]
        if kinds[i] == MAP:
            end, kind, _ = measure_map(data[:stop], start, limit, left)
            kinds[i] = BROKEN if end != stop else FRAME_MAP if kind == FRAME else MAP
    return kinds
