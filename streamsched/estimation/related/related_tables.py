"""The memory of a shard's related pages: keys, their chances and members, which grow as pages are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.related.key_members import AT_ONCE, place_keys, sighting_space
from streamsched.numerics.growable_array import GrowableArray
from streamsched.records.related.related_schema import (
    MOST_MEMBERS,
    RELATED_CHANCE,
    RELATED_KEY,
    RELATED_ROWS,
    RELATED_STATE,
    RelatedArrays,
)
from streamsched.records.seasonality_schema import KEY_KINDS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes

__all__ = ["RelatedTables"]

_FEWEST_SLOTS: Final = 1 << 10
_KEYS_OF_PAGE: Final = 5  # a name, a token, each also of two segments, and a directory; a key has two pages or more
_NEW_KEYS: Final = 5  # of a new page at most: its own three, and two as one of the 64 pages of a name ...
_LENGTHENED: Final = 2 * MOST_MEMBERS  # ... more whenever such a name of known pages becomes common
_FULL: Final = 3 / 4  # of the index in use at most


class RelatedTables:
    """The related pages of one shard.

    2 to 4 bytes a page, about 34 for each key, 2 to 5 for each member of a key beyond its newest.
    """

    def __init__(self, key: Hashes, reserved: int) -> None:
        """Create tables without pages. `key`: uint64[2], of the indexes' hash; `reserved`: pages."""
        self._key = key
        self._keys = GrowableArray(RELATED_KEY, _most_keys(reserved))
        self._chances = GrowableArray(RELATED_CHANCE, _most_keys(reserved))
        self._lists = GrowableArray(RELATED_ROWS, _most_lists(reserved))
        self._slots = np.zeros(_FEWEST_SLOTS, np.uint32)
        self._sightings = GrowableArray(np.uint32, max(reserved, int(sighting_space(0))))
        self._state = np.zeros(1, RELATED_STATE)
        self._state["places"] = sighting_space(0)
        self._hashes = np.zeros(AT_ONCE * KEY_KINDS, np.uint64)
        self._found = np.zeros(KEY_KINDS, np.int64)
        self._work = np.zeros(2 * MOST_MEMBERS, np.int64)
        self.reserve(0)

    @property
    def arrays(self) -> RelatedArrays:
        """The arrays for kernels, valid until the next `reserve` or `make_room`."""
        return RelatedArrays(
            self._keys.array,
            self._chances.array,
            self._lists.array,
            self._slots,
            self._sightings.array,
            self._key,
            self._state,
            self._hashes,
            self._found,
            self._work,
        )

    @property
    def joined(self) -> int:
        """The number of pages that are members of their keys."""
        return int(self._state["joined"][0])

    def reserve(self, pages: int) -> None:
        """Make room for `pages` pages in all, besides what `make_room` does."""
        self._keys.ensure(_most_keys(pages))
        self._chances.ensure(_most_keys(pages))
        self._lists.ensure(_most_lists(pages))
        self._sightings.ensure(int(sighting_space(pages)))

    def make_room(self, new: int) -> None:
        """Make room in the index for the keys of `new` more pages. O(keys) if it grows."""
        state = self._state[0]
        keys = int(state["keys"]) + _NEW_KEYS * new + _LENGTHENED * min(new, int(state["full"]))
        if keys > _FULL * self._slots.size:
            self._slots = np.zeros(max(int(keys / _FULL) + 1, 3 * self._slots.size // 2), np.uint32)
            place_keys(self.arrays)

    def clear(self) -> None:
        """Forget all keys and members; evidence is kept. O(table of sightings)."""
        self._keys.array[: int(self._state["keys"][0])] = 0
        self._sightings.array[: int(self._state["places"][0])] = 0
        for name in ("joined", "keys", "full", "lists", "free"):
            self._state[name] = 0
        self._state["places"] = sighting_space(0)
        self._slots = np.zeros(_FEWEST_SLOTS, np.uint32)

    def nbytes(self, pages: int) -> int:
        """Return the bytes of memory that the tables take for that many pages."""
        keys, lists = int(self._state["keys"][0]), int(self._state["lists"][0])
        return (
            self._keys.resident_bytes(keys)
            + self._chances.resident_bytes(keys)
            + self._lists.resident_bytes(lists)
            + self._sightings.resident_bytes(int(sighting_space(pages)))
            + self._slots.nbytes
        )


def _most_keys(pages: int) -> int:
    """Return how many keys that many pages may have at most."""
    return _KEYS_OF_PAGE * pages // 2


def _most_lists(pages: int) -> int:
    """Return how many lists of rows besides those in the keys' records: each has two rows or more."""
    return KEY_KINDS * pages // 2 + 1
