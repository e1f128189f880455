"""Slow reference implementation of the hash of URLs and names."""

from __future__ import annotations

import functools


@functools.lru_cache(1 << 14)
def hash_of(raw: bytes) -> int:
    """The 64-bit hash of some bytes, in Python's integers."""
    k0, k1, k2 = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3

    def fold(left: int, right: int) -> int:
        return (left * right >> 64) ^ (left * right & (1 << 64) - 1)

    def word(start: int) -> int:
        return int.from_bytes(raw[start : start + 8], "little")

    state = k0 ^ len(raw)
    for start in range(0, len(raw) // 16 * 16, 16):
        state = fold(word(start) ^ k1, word(start + 8) ^ state)
    head, tail = int.from_bytes(raw, "big"), 0
    if len(raw) >= 8:
        head, tail = word(0 if len(raw) < 16 else len(raw) - 16), word(len(raw) - 8)
    return fold(fold(head ^ k1, tail ^ state) ^ k2, len(raw) ^ k1)
