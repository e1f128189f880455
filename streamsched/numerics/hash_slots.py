"""Insertion into open-addressing hash tables whose slots are uint64: the upper half of a key's hash and a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsched.numerics.jit import bare_kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes

__all__ = ["place_slot"]


@bare_kernel
def place_slot(slots: Hashes, tag: int, number: int) -> None:
    """Insert `number` into ``slots``: uint64[2^k], 0 if free, by linear probing from `tag`. O(1) on average.

    `tag`: the upper half of the hash, as uint64; `number`: 0 to 2**32 - 2. The slot becomes tag << 32 | number + 1.
    At least one slot must be free.
    """
    mask = np.uint64(slots.size - 1)
    position = tag & mask
    while slots[position] != 0:
        position = (position + np.uint64(1)) & mask
    slots[position] = (tag << np.uint64(32)) | np.uint64(number + 1)
