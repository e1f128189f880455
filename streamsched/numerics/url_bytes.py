"""Kernels over the bytes of URLs and other texts: hash, compare, copy."""

from __future__ import annotations

import itertools

import numpy as np

from streamsched.numerics.arrays import Bytes, Hashes, Ints
from streamsched.numerics.compilation.machine_operations import fold_multiply, load_word, prefetch
from streamsched.numerics.jit import bare_kernel, kernel

_PREFETCH_AHEAD = 8  # texts
_LINE_FEED = 10
_K0 = np.uint64(0xA0761D6478BD642F)
_K1 = np.uint64(0xE7037ED1A0B428DB)
_K2 = np.uint64(0x8EBC6AF09C88C6E3)


@bare_kernel
def hash_bytes(blob: Bytes, start: int, stop: int) -> np.uint64:
    """Return the 64-bit hash of ``blob[start:stop]``: 16 bytes a step, each folded through a 128-bit product.

    Not cryptographic: anybody who chooses URLs can construct collisions, so equal hashes never prove equal URLs.
    O(bytes).
    """
    length = stop - start
    state = _K0 ^ np.uint64(length)
    position = start
    while stop - position >= 16:
        state = fold_multiply(load_word(blob, position) ^ _K1, load_word(blob, position + 8) ^ state)
        position += 16
    if length >= 16:
        head, tail = load_word(blob, stop - 16), load_word(blob, stop - 8)
    elif length >= 8:
        head, tail = load_word(blob, start), load_word(blob, stop - 8)
    else:
        head, tail = np.uint64(0), np.uint64(0)
        for i in range(start, stop):
            head = (head << np.uint64(8)) | np.uint64(blob[i])
    return fold_multiply(fold_multiply(head ^ _K1, tail ^ state) ^ _K2, np.uint64(length) ^ _K1)


@bare_kernel
def same_bytes(left: Bytes, left_start: int, right: Bytes, right_start: int, length: int) -> bool:
    """Return whether `length` bytes of `left` from `left_start` equal those of `right` at `right_start`. O(length)."""
    if length < 8:
        for i in range(length):
            if left[left_start + i] != right[right_start + i]:
                return False
        return True
    for i in range(0, length - 8, 8):
        if load_word(left, left_start + i) != load_word(right, right_start + i):
            return False
    return bool(load_word(left, left_start + length - 8) == load_word(right, right_start + length - 8))


def decode_spans(text: Bytes, spans: Hashes) -> list[str]:
    """Return the texts at `spans`: uint64[m], each its start in `text` << 16 | its length. O(total length).

    >>> decode_spans(np.frombuffer(b"onetwo", np.uint8), np.array([3 << 16 | 3, 3], np.uint64))
    ['two', 'one']
    """
    ends = np.cumsum((spans & np.uint64(0xFFFF)).astype(np.int64) + 1)  # each with a separator
    blob = np.empty(int(ends[-1]) if spans.size else 0, np.uint8)
    _copy_spans(text, np.ascontiguousarray(spans), blob)
    return split_texts(blob, ends)


def split_texts(blob: Bytes, ends: Ints) -> list[str]:
    """Return the texts in `blob`, each followed by a line feed: ``ends``: int64[m], where they end. O(bytes)."""
    raw = blob.tobytes()
    if raw.isascii():
        texts = raw.decode("ascii").split("\n")
        if len(texts) == ends.size + 1:  # none contains the separator
            return texts[:-1]
    begins = [0, *ends.tolist()]
    return [raw[begin : end - 1].decode("utf-8", "replace") for begin, end in itertools.pairwise(begins)]


@bare_kernel
def copy_bytes(source: Bytes, start: int, out: Bytes, at: int, length: int) -> None:
    """Copy `length` bytes of `source` from `start` to `out` from `at` on. O(length)."""
    for i in range(length):
        out[at + i] = source[start + i]


@bare_kernel
def _copy_spans(text: Bytes, spans: Hashes, out: Bytes) -> None:
    """Copy the texts at `spans` to `out`, each followed by a line feed."""
    at = 0
    for i in range(spans.size):
        if i + _PREFETCH_AHEAD < spans.size:
            ahead = np.int64(spans[i + _PREFETCH_AHEAD] >> np.uint64(16))
            prefetch(text, ahead)
            prefetch(text, ahead + 64)
        size = np.int64(spans[i] & np.uint64(0xFFFF))
        copy_bytes(text, np.int64(spans[i] >> np.uint64(16)), out, at, size)
        at += int(size)
        out[at] = _LINE_FEED
        at += 1


@kernel
def gather(blob: Bytes, offsets: Ints, rows: Ints, out: Bytes) -> None:
    """Copy the texts at `rows` to `out`, one after another. O(bytes copied)."""
    at = 0
    for row in rows:
        for i in range(offsets[row], offsets[row + 1]):
            out[at] = blob[i]
            at += 1
