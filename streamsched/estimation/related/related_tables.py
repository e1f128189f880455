"""The memory of a shard's related pages: keys, their chances and members, which grow as pages are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.related.key_members import place_keys, sighting_space
from streamsched.numerics.growable_array import GrowableArray
from streamsched.records.related.related_schema import (
    MOST_MEMBERS,
    RELATED_CHANCE,
    RELATED_KEY,
    RELATED_MEMBER,
    RELATED_STATE,
    RelatedArrays,
)
from streamsched.records.seasonality_schema import KEY_KINDS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes

__all__ = ["RelatedTables"]

_FEWEST_SLOTS: Final = 1 << 10


class RelatedTables:
    """The related pages of one shard.

    2 to 4 bytes a page, 24 if it is a member of a key, and 32 to 40 for each key.
    """

    def __init__(self, key: Hashes, reserved: int) -> None:
        """Create tables without pages. `key`: uint64[2], of the indexes' hash; `reserved`: pages."""
        self._key = key
        keys = KEY_KINDS * reserved // 2  # each has two pages or more
        self._keys = GrowableArray(RELATED_KEY, keys)
        self._chances = GrowableArray(RELATED_CHANCE, keys)
        self._members = GrowableArray(RELATED_MEMBER, reserved)
        self._slots = np.zeros(_FEWEST_SLOTS, np.uint32)
        self._sightings = GrowableArray(np.uint32, max(reserved, int(sighting_space(0))))
        self._state = np.zeros(1, RELATED_STATE)
        self._state["places"] = sighting_space(0)
        self._work = np.zeros(MOST_MEMBERS, np.int64)
        self.reserve(0)

    @property
    def arrays(self) -> RelatedArrays:
        """The arrays for kernels, valid until the next `reserve` or `make_room`."""
        return RelatedArrays(
            self._keys.array,
            self._chances.array,
            self._members.array,
            self._slots,
            self._sightings.array,
            self._key,
            self._state,
            self._work,
        )

    def reserve(self, pages: int) -> None:
        """Make room for `pages` pages in all, besides what `make_room` does."""
        self._keys.ensure(KEY_KINDS * pages // 2)
        self._chances.ensure(KEY_KINDS * pages // 2)
        self._members.ensure(pages)
        self._sightings.ensure(int(sighting_space(pages)))

    def make_room(self, new: int) -> None:
        """Make room in the index for the keys of `new` more pages, at half its slots or fewer. O(keys) if it grows."""
        keys = int(self._state["keys"][0]) + KEY_KINDS * new
        if 2 * keys > self._slots.size:
            self._slots = np.zeros(1 << (2 * keys - 1).bit_length(), np.uint32)
            place_keys(self.arrays)

    def clear(self) -> None:
        """Forget all keys and members; evidence is kept. O(members, table of sightings)."""
        self._members.array[: int(self._state["linked"][0])] = 0
        self._sightings.array[: int(self._state["places"][0])] = 0
        self._state["keys"] = self._state["linked"] = 0
        self._state["places"] = sighting_space(0)
        self._slots = np.zeros(_FEWEST_SLOTS, np.uint32)

    def nbytes(self, pages: int) -> int:
        """Return the bytes of memory that the tables take for that many pages."""
        keys, linked = int(self._state["keys"][0]), int(self._state["linked"][0])
        return (
            self._keys.resident_bytes(keys)
            + self._chances.resident_bytes(keys)
            + self._members.resident_bytes(linked)
            + self._sightings.resident_bytes(int(sighting_space(pages)))
            + self._slots.nbytes
        )
