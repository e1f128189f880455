"""Open-addressing hash tables whose slots are uint64: the upper half of a key's hash and a number.

The hash must be keyed (`keyed_hash`): otherwise anybody who chooses the keys can make all of them collide.
"""

from __future__ import annotations

import numpy as np

from streamsched.numerics.arrays import Hashes
from streamsched.numerics.jit import bare_kernel


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


@bare_kernel
def move_slots(old: Hashes, slots: Hashes, start: int, stop: int) -> None:
    """Insert what ``old[start:stop]`` holds into the larger table `slots`. O(stop - start)."""
    for i in range(start, stop):
        if old[i] != 0:
            place_slot(slots, old[i] >> np.uint64(32), np.int64(old[i] & np.uint64(0xFFFFFFFF)) - 1)
