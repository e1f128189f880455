"""Hosts of URLs as message keys, and the partition that Kafka's own clients choose for a key."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.numerics.arrays import Bools, Bytes, Ints
from streamsched.numerics.jit import kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.url_syntax import default_port, find_authority

_SEED: Final = 0x9747B28C  # of the murmur2 variant that all Kafka clients share
_FACTOR: Final = 0x5BD1E995
_LOW: Final = 0xFFFFFFFF


def host_keys(urls: PackedUrls) -> PackedUrls:
    """Return the host of each of `urls` in lower case, with its port unless it is the scheme's default. O(bytes).

    >>> list(host_keys(PackedUrls.pack(["https://A.example:443/x", "http://b.example:8080"])))
    ['a.example', 'b.example:8080']
    """
    blob = np.empty(int(urls.offsets[-1] - urls.offsets[0]), np.uint8)
    offsets = np.zeros(len(urls) + 1, np.int64)
    size = _write_hosts(urls.blob, urls.offsets, blob, offsets)
    return PackedUrls(blob[:size], offsets)


def not_equal(left: PackedUrls, right: PackedUrls) -> Bools:
    """Return whether the strings of two lists of equal length differ: bool[n]. O(bytes).

    >>> not_equal(PackedUrls.pack(["a", "b"]), PackedUrls.pack(["a", "bc"])).tolist()
    [False, True]
    """
    return _not_equal(left.blob, left.offsets, right.blob, right.offsets)


def choose_partitions(keys: PackedUrls, count: int) -> Ints:
    """Return the partition of each of `keys` among `count`: int64[n], by murmur2 as Kafka's clients do. O(bytes).

    >>> choose_partitions(PackedUrls.pack(["a.example", "b.example"]), 12).tolist()
    [2, 5]
    """
    return _murmur2_partitions(keys.blob, keys.offsets, count)


@kernel
def _write_hosts(text: Bytes, offsets: Ints, blob: Bytes, ends: Ints) -> int:
    """Write the host of each URL to `blob` and its end to `ends`: int64[n + 1]; return the number of bytes written."""
    at = 0
    for i in range(offsets.size - 1):
        first, last, scheme = find_authority(text, offsets[i], offsets[i + 1])
        start = at
        for j in range(first, last):
            byte = text[j]
            blob[at] = byte + 32 if 65 <= byte <= 90 else byte  # host names ignore case
            at += 1
        at -= default_port(blob[start:at], at - start, scheme)
        ends[i + 1] = at
    return at


@kernel
def _not_equal(left: Bytes, left_offsets: Ints, right: Bytes, right_offsets: Ints) -> Bools:
    found = np.zeros(left_offsets.size - 1, np.bool_)
    for i in range(found.size):
        start, other = left_offsets[i], right_offsets[i]
        size = left_offsets[i + 1] - start
        if right_offsets[i + 1] - other != size:
            found[i] = True
            continue
        for j in range(size):
            if left[start + j] != right[other + j]:
                found[i] = True
                break
    return found


@kernel
def _murmur2_partitions(keys: Bytes, offsets: Ints, count: int) -> Ints:
    chosen = np.empty(offsets.size - 1, np.int64)
    for i in range(chosen.size):
        start, size = offsets[i], offsets[i + 1] - offsets[i]
        state = _SEED ^ size
        whole = size & ~3
        for j in range(start, start + whole, 4):
            word = int(keys[j]) | int(keys[j + 1]) << 8 | int(keys[j + 2]) << 16 | int(keys[j + 3]) << 24
            word = (word * _FACTOR) & _LOW
            word = ((word ^ (word >> 24)) * _FACTOR) & _LOW
            state = ((state * _FACTOR) & _LOW) ^ word
        if size > whole:
            for j in range(size - whole):
                state ^= int(keys[start + whole + j]) << (8 * j)
            state = (state * _FACTOR) & _LOW
        state = ((state ^ (state >> 13)) * _FACTOR) & _LOW
        chosen[i] = ((state ^ (state >> 15)) & 0x7FFFFFFF) % count
    return chosen
