"""Where the maps of a msgpack stream begin and end, and the way back to one after bytes that are none.

Only structure is looked at, so that a run of events can be decoded in one call and a hostile header costs nothing:
whatever a header declares, no memory is taken for it, and a search through n bytes visits O(n) tokens.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.numerics.arrays import Bytes, Ints
from streamsched.numerics.jit import kernel

__all__ = [
    "ANONYMOUS",
    "EVENT",
    "FRAME",
    "INCOMPLETE",
    "MALFORMED",
    "MAX_DEPTH",
    "find_map",
    "measure_map",
    "walk_maps",
]

# What a map is, by the value of its key "url": text or other, packed bytes or a list, no such key.
EVENT: Final = 1
FRAME: Final = 2
ANONYMOUS: Final = 3

# In place of a map's end.
MALFORMED: Final = -1
INCOMPLETE: Final = -2

MAX_DEPTH: Final = 16  # of lists and maps within each other; events and frames need 2
_TOKENS_PER_BYTE: Final = 16  # a search visits at most these per byte: 50 ns on hostile input


def _tabulate() -> Bytes:
    """Return for each first byte of a token: its shape, bytes of its size field, bytes after that of fixed length."""
    table = np.zeros((256, 3), np.uint8)

    def put(first: int, last: int, shape: int, width: int = 0, fixed: int = 0) -> None:
        table[first : last + 1] = shape, width, fixed

    put(0x00, 0x7F, _SCALAR)  # numbers up to 127
    put(0x80, 0x8F, _MAP)
    put(0x90, 0x9F, _LIST)
    put(0xA0, 0xBF, _TEXT)
    put(0xC0, 0xC3, _SCALAR)  # nil, false, true
    put(0xC1, 0xC1, _NEVER)
    for power in range(3):
        put(0xC4 + power, 0xC4 + power, _BLOB, 1 << power)
        put(0xC7 + power, 0xC7 + power, _SCALAR, 1 << power, 1)  # an extension and its type byte
        put(0xD9 + power, 0xD9 + power, _TEXT, 1 << power)
    put(0xCA, 0xCA, _SCALAR, 0, 4)  # floats
    put(0xCB, 0xCB, _SCALAR, 0, 8)
    for power in range(4):
        put(0xCC + power, 0xCC + power, _SCALAR, 0, 1 << power)  # unsigned and signed numbers
        put(0xD0 + power, 0xD0 + power, _SCALAR, 0, 1 << power)
    for power in range(5):
        put(0xD4 + power, 0xD4 + power, _SCALAR, 0, 1 + (1 << power))  # extensions of 1 to 16 bytes
    for power in range(2):
        put(0xDC + power, 0xDC + power, _LIST, 2 << power)
        put(0xDE + power, 0xDE + power, _MAP, 2 << power)
    put(0xE0, 0xFF, _SCALAR)  # numbers from -32
    return table


_NEVER: Final = 0
_SCALAR: Final = 1
_TEXT: Final = 2
_BLOB: Final = 3
_LIST: Final = 4
_MAP: Final = 5

_TOKENS: Final = _tabulate()


@kernel
def _read_token(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Return the end of the token at `at`, the length of its payload before that, and how many values are its children.

    Where the size field reaches beyond `stop`, returns its end, no payload and no children.
    """
    shape, width = _TOKENS[data[at], 0], int(_TOKENS[data[at], 1])
    end = at + 1 + width
    if end > stop:
        return end, 0, 0
    size = int(data[at]) & (15 if shape >= _LIST else 31)
    if width > 0:
        size = 0
        for i in range(at + 1, end):
            size = size * 256 + int(data[i])
    if shape >= _LIST:
        return end, 0, 2 * size if shape == _MAP else size
    payload = int(_TOKENS[data[at], 2]) + (size if width > 0 or shape == _TEXT else 0)
    return end + payload, payload, 0


@kernel
def measure_map(data: Bytes, start: int, limit: int, left: Ints) -> tuple[int, int, int]:
    """Return the end of the map at `start`, its kind, and the tokens visited to tell. O(tokens): payloads are skipped.

    The end is INCOMPLETE where ``data[start:]`` may still become a map of at most `limit` bytes, and MALFORMED where
    it cannot: no map, a key that is no text, nesting beyond 16, a byte that msgpack never uses. `left`: int64[16] is
    scratch: values still to come at each depth.
    """
    stop = data.size
    if start < stop and _TOKENS[data[start], 0] != _MAP:
        return MALFORMED, ANONYMOUS, 1
    at, depth, tokens, kind, names_url = start, -1, 0, ANONYMOUS, False
    while depth != 0 or left[0] > 0:
        if depth > 0 and left[depth] == 0:
            depth -= 1
            continue
        if at >= stop:
            return (INCOMPLETE if stop - start < limit else MALFORMED), kind, tokens
        shape = _TOKENS[data[at], 0]
        is_key = depth == 0 and left[0] % 2 == 0
        end, payload, children = _read_token(data, at, stop)
        tokens += 1
        too_deep = children > 0 and depth + 1 == MAX_DEPTH
        if shape == _NEVER or (is_key and shape != _TEXT) or too_deep or end + children - start > limit:
            return MALFORMED, kind, tokens
        if end > stop:
            return INCOMPLETE, kind, tokens
        if is_key:
            names_url = payload == 3 and data[end - 3] == 0x75 and data[end - 2] == 0x72 and data[end - 1] == 0x6C
        elif depth == 0 and names_url:
            kind = FRAME if shape in (_BLOB, _LIST) else EVENT
        if depth >= 0:
            left[depth] -= 1
        if children > 0 or depth < 0:
            depth += 1
            left[depth] = children
        at = end
    return at, kind, tokens


@kernel
def walk_maps(data: Bytes, start: int, limit: int, ends: Ints, kinds: Ints) -> tuple[int, int]:
    """Fill `ends`: int64[m] and `kinds`: int64[m] with the maps that follow each other from `start`. O(bytes).

    Returns how many there are, and INCOMPLETE or MALFORMED for what follows them, 0 where `ends` is full.
    """
    left = np.empty(MAX_DEPTH, np.int64)
    for count in range(ends.size):
        end, kind, _ = measure_map(data, start, limit, left)
        if end < 0:
            return count, end
        ends[count] = end
        kinds[count] = kind
        start = end
    return ends.size, 0


@kernel
def find_map(data: Bytes, start: int, limit: int, final: bool) -> tuple[int, bool]:
    """Return where the next whole map with a key "url" begins at or after `start`, and True.

    Where there is none, returns how far the search is settled, and False: to the end, or unless `final` to a map that
    the bytes after `data` may complete. Visits at most 16 tokens a byte: a false start that took long to refute is
    charged to the bytes after it, which are then not searched.
    """
    left = np.empty(MAX_DEPTH, np.int64)
    at = start
    while at < data.size:
        end, kind, tokens = measure_map(data, at, limit, left)
        if end > 0 and kind != ANONYMOUS:
            return at, True
        if end == INCOMPLETE and not final:
            return at, False
        at += 1 + tokens // _TOKENS_PER_BYTE
    return data.size, False
