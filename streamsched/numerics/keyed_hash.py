"""The keyed hash of index slots: SipHash-1-3, whose collisions nobody can construct without the key.

Source: Aumasson & Bernstein, "SipHash: a fast short-input PRF" (2012), with one round a word and three at the end, as
in the hash tables of Python and Rust.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from streamsched.numerics.arrays import Bytes, Hashes
from streamsched.numerics.compilation.machine_operations import load_word
from streamsched.numerics.jit import bare_kernel, inlined_kernel

_KEY_BYTES: Final = 16
_V0: Final = np.uint64(0x736F6D6570736575)  # "somepseudorandomlygeneratedbytes"
_V1: Final = np.uint64(0x646F72616E646F6D)
_V2: Final = np.uint64(0x6C7967656E657261)
_V3: Final = np.uint64(0x7465646279746573)


def draw_key() -> Hashes:
    """Return a new key, uint64[2], from the operating system's random source. O(1)."""
    return read_key(os.urandom(_KEY_BYTES).hex())


def read_key(text: str) -> Hashes:
    """Return the key, uint64[2], that `write_key` returned as `text`. O(1)."""
    return np.frombuffer(bytes.fromhex(text), "<u8").astype(np.uint64)


def write_key(key: Hashes) -> str:
    """Return ``key``: uint64[2] as hexadecimal text. O(1).

    >>> write_key(np.array([1, 2], np.uint64))
    '01000000000000000200000000000000'
    """
    return key.astype("<u8").tobytes().hex()


@bare_kernel
def keyed_hash(key: Hashes, blob: Bytes, start: int, stop: int) -> np.uint64:
    """Return the SipHash-1-3 of ``blob[start:stop]`` under ``key``: uint64[2]. O(bytes)."""
    v0, v1, v2, v3 = key[0] ^ _V0, key[1] ^ _V1, key[0] ^ _V2, key[1] ^ _V3
    at = start
    while stop - at >= 8:
        word = load_word(blob, at)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
        at += 8
    last = np.uint64(0)
    if at > start and stop > at:  # the word that ends with the last byte, without the bytes hashed already
        last = load_word(blob, stop - 8) >> np.uint64(8 * (8 - (stop - at)))
    else:
        for i in range(stop - 1, at - 1, -1):
            last = (last << np.uint64(8)) | np.uint64(blob[i])
    last |= np.uint64(stop - start) << np.uint64(56)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ last)
    v0, v1, v2, v3 = _round(v0 ^ last, v1, v2 ^ np.uint64(0xFF), v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inlined_kernel
def _round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the state after one SipRound."""
    v0 += v1
    v2 += v3
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32) + v3
    v2 += v1
    v3 = _rotate(v3, 21) ^ v0
    v1 = _rotate(v1, 17) ^ v2
    return v0, v1, _rotate(v2, 32), v3


@inlined_kernel
def _rotate(word: np.uint64, bits: int) -> np.uint64:
    """Return the uint64 `word` rotated left by `bits`."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))
