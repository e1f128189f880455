"""Which pages go into a batch: the best ones, in order, as far as their hosts have free slots.

Taking pages from the best down and skipping those whose host is full gives the batch with the greatest sum of scores,
and in each place a page no worse than any other batch has there: sets with a limited number of pages per host are the
independent sets of a partition matroid, on which the greedy choice is optimal (Edmonds 1971).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, Ints, Record
from streamsched.numerics.growable_array import GrowableArray
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import Limits, host_capacity
from streamsched.records.schema import ShardArrays

Singles = npt.NDArray[np.float32]

HIGHER_TIER_LEVEL: Final = 2.0**100  # of pages of higher tiers and of greater scores; none of their bounds is lower
_RESERVED_GROUPS: Final = 1 << 24


class HostUsage(NamedTuple):
    """How many slots of each host the batch under construction uses, by group, as kernels read it."""

    used: npt.NDArray[np.int32]  # int32[groups]: slots in use
    least: Singles  # float32[groups]: the score of the last page in a slot, rounded down


class SlotLimits(NamedTuple):
    """What limits the slots of hosts: settings and rules, the time, and how long pages will be out."""

    limits: Limits
    now: float
    lease_s: float


class HostSlots:
    """The slots of one batch. For one call at a time; takes 8 bytes of memory for each host that it meets."""

    def __init__(self) -> None:
        self._used = GrowableArray(np.int32, _RESERVED_GROUPS)
        self._least = GrowableArray(np.float32, _RESERVED_GROUPS)
        self._groups = 0
        self._selected = np.empty(0, np.int64)

    @property
    def usage(self) -> HostUsage:
        """The slots in use, valid until the next call."""
        return HostUsage(self._used.array, self._least.array)

    def fill(self, shard: ShardArrays, slot_limits: SlotLimits, rows: Ints, scores: Floats, k: int) -> Ints:
        """Fill slots with the first `k` of ``rows``: int64[m] whose hosts have any left; return their indices:
        int64[n]. O(m).

        `scores`: float64[m], best first; inf for the first pages, HIGHER_TIER_LEVEL for pages of higher tiers. Slots
        filled before are freed.
        """
        self.clear(shard)
        kept = np.empty(min(k, rows.size), np.int64)
        count = _fill(shard, slot_limits, rows, scores, self.usage, kept)
        self._selected = rows[kept[:count]]
        return kept[:count]

    def clear(self, shard: ShardArrays) -> None:
        """Free all slots and make room for new hosts. O(k)."""
        self.cover(shard)
        self._used.array[shard.groups.records["host"][shard.pages.records["group"][self._selected]]] = 0
        self._selected = self._selected[:0]

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return sum(array.resident_bytes(self._groups) for array in (self._used, self._least))

    def cover(self, shard: ShardArrays) -> None:
        """Make room for new hosts. O(new hosts)."""
        groups = int(shard.corpus["groups"][0])
        if groups > self._groups:
            for region in (self._used, self._least):
                region.ensure(groups)
            self._groups = groups


@inlined_kernel
def host_slots_beat(shard: ShardArrays, slot_limits: SlotLimits, host: int, bound: float, usage: HostUsage) -> bool:
    """Return whether better pages than one that scores `bound` take all slots of a host. O(1)."""
    if usage.used[host] == 0 or not bound < usage.least[host]:
        return False
    return bool(
        usage.used[host]
        >= host_capacity(shard.groups.records[host], slot_limits.limits, slot_limits.now, slot_limits.lease_s)
    )


@inlined_kernel
def _round_down(score: float) -> np.float32:
    """Return the greatest float32 that is not above `score`. O(1)."""
    single = np.float32(score)
    return np.nextafter(single, np.float32(-np.inf)) if single > score else single


@bare_kernel
def _fill(shard: ShardArrays, slot_limits: SlotLimits, rows: Ints, scores: Floats, usage: HostUsage, kept: Ints) -> int:
    count = 0
    for i in range(rows.size):
        if count == kept.size:
            break
        page: Record = shard.pages.records[rows[i]]
        group: Record = shard.groups.records[page.group]
        if usage.used[group.host] < host_capacity(
            shard.groups.records[group.host], slot_limits.limits, slot_limits.now, slot_limits.lease_s
        ):
            usage.used[group.host] += 1
            usage.least[group.host] = _round_down(scores[i])
            kept[count] = i
            count += 1
    return count
