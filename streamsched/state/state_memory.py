"""The memory of a shard: the arrays of `ARRAYS`, which grow as pages are added, and what kernels need beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.estimation.related_members import AT_ONCE, place_keys, sighting_space
from streamsched.estimation.seasonality.regions import TimeRegion, make_region_clocks
from streamsched.numerics.arrays import Hashes
from streamsched.numerics.growable_array import GrowableArray
from streamsched.numerics.hash_slots import move_slots
from streamsched.numerics.packed_urls import MAX_URL_BYTES
from streamsched.records.group_schema import GroupArrays
from streamsched.records.page_schema import PageArrays
from streamsched.records.related_schema import MOST_MEMBERS, RelatedArrays
from streamsched.records.schema import DirtyArrays, ShardArrays
from streamsched.records.seasonality_schema import KEY_KINDS, WEEK_HOURS, SeasonalityArrays
from streamsched.records.signal_schema import SignalArrays
from streamsched.records.validators import WORK_BYTES, ValidatorArrays
from streamsched.state.state_arrays import ARRAYS, Array, Room

# Address space only; 134 M pages would be 16 GB of memory.
_RESERVED: Final = Room(1 << 27, 1 << 24, 1 << 33, 1 << 30, blocks=1 << 28)
_FEWEST_SLOTS: Final = 1 << 10
_NEW_KEYS: Final = 5  # of a new page at most: its own three, and two as one of the 64 pages of a name ...
_LENGTHENED: Final = 2 * MOST_MEMBERS  # ... more whenever such a name of known pages becomes common
_FULL: Final = 3 / 4  # of the index of keys in use at most


class StateMemory:
    """The arrays of one shard. They grow without moving, within the address space reserved: see `GrowableArray`.

    ``key``: uint64[2], of the indexes' hash; ``begun``: which of SIGNALS and CONTENTS the shard has, or may soon have.
    Arrays that begin with others are of length 0.
    """

    def __init__(self, key: Hashes, regions: Mapping[str, TimeRegion]) -> None:
        """Make room for no page. `regions`: those with profiles of their own."""
        self.begun: frozenset[str] = frozenset()
        self._arrays: ShardArrays | None = None  # those of the last call, until one of them moves
        self._room = Room(pages=-1)  # nothing yet
        self._has_begun = self.begun
        self._key = key
        self._regions = len(regions)
        self._memory = {array.name: self._begin(array) for array in ARRAYS}
        self._group_slots = np.zeros(_FEWEST_SLOTS, np.uint64)
        self._key_slots = np.zeros(_FEWEST_SLOTS, np.uint32)
        self._scratch = np.zeros(MAX_URL_BYTES, np.uint8)
        self._url = np.zeros(MAX_URL_BYTES, np.uint8)
        self._calendar = make_region_clocks(regions)
        self._seasonal_work = np.zeros(2 * WEEK_HOURS)
        self._hashes = np.zeros(AT_ONCE * KEY_KINDS, np.uint64)
        self._found = np.zeros(KEY_KINDS, np.int64)
        self._entries = np.zeros(WORK_BYTES, np.uint8)
        self._related_work = np.zeros(2 * MOST_MEMBERS, np.int64)
        self.reserve(Room())

    def arrays(self, dirty: DirtyArrays) -> ShardArrays:
        """Return all arrays, valid until the next call that makes room. O(1), O(arrays) after one of them moved."""
        if self._arrays is None or self._arrays.dirty is not dirty:
            self._arrays = self._collect(dirty)
        return self._arrays

    def _collect(self, dirty: DirtyArrays) -> ShardArrays:
        owned: dict[str, dict[str, npt.NDArray[Any]]] = {}
        for array in ARRAYS:
            owner, _, field = array.place.rpartition(".")
            owned.setdefault(owner, {})[field] = self._memory[array.name].array
        key = self._key
        return ShardArrays(
            pages=PageArrays(url=self._url, **owned["pages"]),
            groups=GroupArrays(key=key, slots=self._group_slots, scratch=self._scratch, **owned["groups"]),
            seasonality=SeasonalityArrays(work=self._seasonal_work, calendar=self._calendar, **owned["seasonality"]),
            related=RelatedArrays(
                slots=self._key_slots,
                key=key,
                hashes=self._hashes,
                found=self._found,
                work=self._related_work,
                **owned["related"],
            ),
            signals=SignalArrays(**owned["signals"]),
            validators=ValidatorArrays(work=self._entries, **owned["validators"]),
            dirty=dirty,
            **owned[""],
        )

    def reserve(self, room: Room) -> None:
        """Make room for that much in all, in arrays that have `begun`. O(1) if there is room, amortised otherwise."""
        room = Room(*map(max, room, self._room))._replace(regions=self._regions)
        if room == self._room and self._has_begun == self.begun:
            return
        self._arrays = None
        for array in ARRAYS:
            begun_by = array.places.begun_by
            if begun_by in self.begun and not self._memory[array.name].array.size:
                self._memory[array.name] = self._begin(array)
            if begun_by is None or begun_by in self.begun:
                self._memory[array.name].ensure(array.places.needed(room))
        self._room, self._has_begun = room, self.begun  # only now: memory may be refused

    def begin(self, part: str) -> None:
        """Let the next `reserve` make room in the arrays of `part`, SIGNALS or CONTENTS. O(1)."""
        self.begun |= {part}

    def release(self, part: str) -> None:
        """Release the arrays of `part`, SIGNALS or CONTENTS."""
        self.begun -= {part}
        self._has_begun -= {part}
        self._arrays = None
        self._memory |= {array.name: self._begin(array) for array in ARRAYS if array.places.begun_by == part}

    def make_slots(self, shard: ShardArrays, groups: int, new: int) -> None:
        """Make room in the hash indexes for `groups` groups in all and the keys of `new` more pages. O(1) amortised."""
        if 2 * groups > self._group_slots.size:
            before = self.clear_group_slots(groups)
            move_slots(before, self._group_slots, 0, before.size)
        state = shard.related.state[0]
        keys = int(state["keys"]) + _NEW_KEYS * new + _LENGTHENED * min(new, int(state["full"]))
        if keys > _FULL * self._key_slots.size:
            self._arrays = None
            self._key_slots = np.zeros(max(int(keys / _FULL) + 1, 3 * self._key_slots.size // 2), np.uint32)
            place_keys(shard.related._replace(slots=self._key_slots))

    def clear_group_slots(self, groups: int) -> Hashes:
        """Begin an empty index of groups with room for `groups` at half its slots or fewer; return the one before."""
        self._arrays = None
        before, size = self._group_slots, max(_FEWEST_SLOTS, 1 << (2 * groups - 1).bit_length())
        self._group_slots = np.zeros(size, np.uint64)
        return before

    def clear_keys(self, shard: ShardArrays) -> None:
        """Forget all keys of related pages and their members; evidence is kept. O(table of sightings)."""
        related = shard.related
        related.keys[: int(related.state["keys"][0])] = 0
        related.sightings[: int(related.state["places"][0])] = 0
        for name in ("joined", "keys", "full", "lists", "free"):
            related.state[name] = 0
        related.state["places"] = sighting_space(0)
        self._key_slots, self._arrays = np.zeros(_FEWEST_SLOTS, np.uint32), None

    def nbytes(self, shard: ShardArrays) -> dict[str, int]:
        """Return the bytes of memory that each part of `shard` takes, in whole pages where it grows. O(1)."""
        sizes = {array.memory: 0 for array in ARRAYS if array.memory is not None}
        for array in ARRAYS:
            if array.memory is not None:
                sizes[array.memory] += self._memory[array.name].resident_bytes(array.places.used(shard))
        sizes["groups"] += self._group_slots.nbytes
        sizes["related_pages"] += self._key_slots.nbytes
        return sizes

    def _begin(self, array: Array) -> GrowableArray:
        """Return the memory of an array that nothing uses."""
        reserved = _RESERVED._replace(regions=self._regions)
        begun = array.places.begun_by is None or array.places.begun_by in self.begun
        return GrowableArray(array.dtype, array.places.needed(reserved) if begun else 0)
