"""Whether an encoded body has more values than are to be decoded, found without decoding any.

A byte of msgpack can be a list: 8 MB of them are a gigabyte of Python objects, and take seconds in which nothing else
runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Final

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|([,:\[{])', re.DOTALL)  # possessive: linear whatever it is given
_FIXED: Final[Mapping[int, int]] = {  # bytes after the first byte
    0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
_SIZED: Final[Mapping[int, tuple[int, int]]] = {  # bytes of a length, and bytes beside what it counts
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),
    0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),
}  # fmt: skip
_CONTAINERS: Final[Mapping[int, tuple[int, int]]] = {  # bytes of a length, and values for each that it counts
    0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2),
}  # fmt: skip


def has_more_values(body: bytes, most: int, *, is_msgpack: bool) -> bool:
    """Return whether `body` has more than `most` values; keys of objects are values. O(bytes), of msgpack O(`most`).

    What is malformed may have any number.

    >>> has_more_values(b'{"a,b": [1, 2]}', 5, is_msgpack=False), has_more_values(b"[1, 2, 3]", 3, is_msgpack=False)
    (False, True)
    >>> has_more_values(bytes([0x93, 1, 2, 3]), 4, is_msgpack=True), has_more_values(bytes(2), 0, is_msgpack=True)
    (False, True)
    """
    if len(body) <= most:
        return False
    return _walk(body, most) if is_msgpack else _count_json(body, most)


def _count_json(body: bytes, most: int) -> bool:
    """Count what stands before a value or a key, outside of texts; an empty list or object counts as two."""
    before = (token for token in _TOKEN.finditer(body) if token.lastindex)
    return next(islice(before, most - 1, None), None) is not None if most else True


def _walk(body: bytes, most: int) -> bool:
    """Go from value to value of msgpack until the last, the end of `body`, or more than `most`."""
    at, left = 0, 1
    for _ in range(most):
        if not left or at >= len(body):
            return False
        first = body[at]
        at += 1
        left -= 1
        if first < 0x80 or first >= 0xE0:
            continue
        if first < 0x90:
            left += 2 * (first & 0xF)
        elif first < 0xA0:
            left += first & 0xF
        elif first < 0xC0:
            at += first & 0x1F
        elif first in _CONTAINERS:
            size, each = _CONTAINERS[first]
            left += each * int.from_bytes(body[at : at + size], "big")
            at += size
        elif first in _SIZED:
            size, more = _SIZED[first]
            at += size + more + int.from_bytes(body[at : at + size], "big")
        else:
            at += _FIXED.get(first, 0)
    return left > 0 and at < len(body)
