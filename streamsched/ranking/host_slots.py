"""Which pages go into a batch: the best, in their order, as far as their hosts have usage for them.

Taking pages from the best down and passing over those whose host is full gives the batch of the greatest sum of scores,
and in each place a page no worse than any other batch has there: pages of which each host gives so many at the most are
the independent sets of a partition matroid, on which the greedy choice is best (Edmonds 1971).
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

__all__ = ["HostSlots", "HostUsage", "SlotLimits", "host_slots_beat"]

Singles = npt.NDArray[np.float32]

_RESERVED_GROUPS: Final = 1 << 24
_MARGIN: Final = 0.25  # of what lies between the best and the last of a full host's pages


class HostUsage(NamedTuple):
    """How full hosts are in the batch that is being made, by group, as kernels take it."""

    used: npt.NDArray[np.int32]  # int32[groups]: pages selected
    least: Singles  # float32[groups]: of the last of them, where there are any, its score, or a little less
    floor: Singles  # float32[groups]: what pages of a host that was full have scored at least; -inf where it was not


class SlotLimits(NamedTuple):
    """What hosts have usage for: by which limits, when, and for how long pages will be out."""

    limits: Limits
    now: float
    lease_s: float


class HostSlots:
    """The places of one batch. For one call at a time; takes 12 bytes of memory for each host that it meets."""

    def __init__(self) -> None:
        self._used = GrowableArray(np.int32, _RESERVED_GROUPS)
        self._least = GrowableArray(np.float32, _RESERVED_GROUPS)
        self._floor = GrowableArray(np.float32, _RESERVED_GROUPS)
        self._groups = 0
        self._selected = np.empty(0, np.int64)

    @property
    def usage(self) -> HostUsage:
        """How full hosts are, valid until the next call."""
        return HostUsage(self._used.array, self._least.array, self._floor.array)

    def fill(self, shard: ShardArrays, slot_limits: SlotLimits, rows: Ints, scores: Floats, k: int) -> Ints:
        """Seat the first `k` of ``rows``: int64[m] whose hosts have usage; return their places in it: int64[n]. O(m).

        `scores`: float64[m], descending; inf for pages that are to come first. What was selected before is forgotten.
        """
        self.clear(shard)
        kept = np.empty(min(k, rows.size), np.int64)
        count = _fill(shard, slot_limits, rows, scores, self.usage, kept)
        self._selected = rows[kept[:count]]
        return kept[:count]

    def clear(self, shard: ShardArrays) -> None:
        """Forget who is selected, and make usage for hosts that are new. O(k)."""
        self.cover(shard)
        self._used.array[shard.groups.records["host"][shard.pages.records["group"][self._selected]]] = 0
        self._selected = self._selected[:0]

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return 12 * self._groups

    def cover(self, shard: ShardArrays) -> None:
        """Make usage for hosts that are new. O(new hosts)."""
        groups = int(shard.corpus["groups"][0])
        if groups > self._groups:
            for region in (self._used, self._least, self._floor):
                region.ensure(groups)
            self._floor.array[self._groups : groups] = -np.inf
            self._groups = groups

    def remember(self, shard: ShardArrays, slot_limits: SlotLimits, scores: Floats) -> None:
        """Note for each host with pages selected what they scored: float64[selected], if it is full with them. O(k)."""
        _remember(shard, slot_limits, self._selected, scores, self.usage)


@inlined_kernel
def host_slots_beat(shard: ShardArrays, slot_limits: SlotLimits, host: int, bound: float, usage: HostUsage) -> bool:
    """Return whether a host's host_slots are all taken, by better pages than such as score `bound` at the most. O(1)."""
    if usage.used[host] == 0 or not bound < usage.least[host]:
        return False
    return bool(
        usage.used[host]
        >= host_capacity(shard.groups.records[host], slot_limits.limits, slot_limits.now, slot_limits.lease_s)
    )


@bare_kernel
def _remember(shard: ShardArrays, slot_limits: SlotLimits, rows: Ints, scores: Floats, usage: HostUsage) -> None:
    for i in range(rows.size):  # from the worst of a host up to its best, which decides
        row = rows[rows.size - 1 - i]
        page: Record = shard.pages.records[row]
        group: Record = shard.groups.records[page.group]
        host = group.host
        best, least = scores[rows.size - 1 - i], usage.least[host]
        full = usage.used[host] >= host_capacity(
            shard.groups.records[host], slot_limits.limits, slot_limits.now, slot_limits.lease_s
        )
        known = full and np.isfinite(least) and np.isfinite(best)
        usage.floor[host] = least - _MARGIN * (best - least) if known else -np.inf


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
