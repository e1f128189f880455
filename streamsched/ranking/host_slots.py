"""Which pages go into a batch: the best ones, in order, as far as their hosts and domains have free slots.

Taking pages from the best down and skipping those whose host or domain is full gives the batch with the greatest sum of
scores, and in each place a page no worse than any other batch has there: sets with a limited number of pages per host,
and per domain of hosts, are the independent sets of a laminar matroid, on which the greedy choice is optimal (Edmonds
1971). Exempt pages use slots of their domains, but do not wait for them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bools, Floats, Ints, Record
from streamsched.numerics.growable_array import GrowableArray
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.domain_shares import NO_DOMAIN_LIMITS, DomainLimits, domain_capacity
from streamsched.politeness.limits import Limits, host_capacity
from streamsched.records.schema import ShardArrays

Singles = npt.NDArray[np.float32]

HIGHER_TIER_LEVEL: Final = 2.0**100  # of pages of higher tiers and of greater scores; none of their bounds is lower
_RESERVED_GROUPS: Final = 1 << 24


class HostUsage(NamedTuple):
    """How many slots of each host and domain the batch under construction uses, as kernels read it."""

    used: npt.NDArray[np.int32]  # int32[groups]: slots of hosts in use
    least: Singles  # float32[groups]: the score of the last page in a slot, rounded down
    domain_used: npt.NDArray[np.int32]  # int32[domains]: likewise of domains
    domain_least: Singles  # float32[domains]


class SlotLimits(NamedTuple):
    """What limits the slots of hosts and domains: settings and rules, the time, how long pages will be out, and shares
    of the day's visits.
    """

    limits: Limits
    now: float
    lease_s: float
    domains: DomainLimits = NO_DOMAIN_LIMITS


class Candidates(NamedTuple):
    """Pages that may get slots, best first."""

    rows: Ints  # int64[m]
    levels: Floats  # float64[m]: inf for a query's first pages, HIGHER_TIER_LEVEL for pages of higher tiers, or scores
    exempt: Bools  # bool[m]: those that need no slot of their domain


class HostSlots:
    """The slots of one batch. For one call at a time; takes 8 bytes of memory for each host and each domain met."""

    def __init__(self) -> None:
        self._used = GrowableArray(np.int32, _RESERVED_GROUPS)
        self._least = GrowableArray(np.float32, _RESERVED_GROUPS)
        self._domain_used = GrowableArray(np.int32, _RESERVED_GROUPS)
        self._domain_least = GrowableArray(np.float32, _RESERVED_GROUPS)
        self._groups = 0
        self._selected = np.empty(0, np.int64)

    @property
    def usage(self) -> HostUsage:
        """The slots in use, valid until the next call."""
        return HostUsage(self._used.array, self._least.array, self._domain_used.array, self._domain_least.array)

    def fill(self, shard: ShardArrays, slot_limits: SlotLimits, candidates: Candidates, k: int) -> Ints:
        """Fill slots with the first `k` of m candidates whose hosts and domains have any left; return their indices:
        int64[n]. O(m). Slots filled before are freed.
        """
        self.clear(shard)
        rows = candidates.rows
        kept = np.empty(min(k, rows.size), np.int64)
        count = _fill(shard, slot_limits, candidates, self.usage, kept)
        self._selected = rows[kept[:count]]
        return kept[:count]

    def clear(self, shard: ShardArrays) -> None:
        """Free all slots and make room for new hosts. O(k)."""
        self.cover(shard)
        groups = shard.pages.records["group"][self._selected]
        self._used.array[shard.groups.records["host"][groups]] = 0
        self._domain_used.array[shard.groups.domain_of[groups]] = 0
        self._selected = self._selected[:0]

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return sum(array.resident_bytes(self._groups) for array in self._arrays)

    def cover(self, shard: ShardArrays) -> None:
        """Make room for new hosts. O(new hosts)."""
        groups = int(shard.corpus["groups"][0])
        if groups > self._groups:
            for region in self._arrays:
                region.ensure(groups)  # there are no more domains than groups
            self._groups = groups

    @property
    def _arrays(self) -> tuple[GrowableArray, ...]:
        return self._used, self._least, self._domain_used, self._domain_least


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
def domain_level(shard: ShardArrays, slot_limits: SlotLimits, host: int, usage: HostUsage) -> float:
    """Return the level from which on a page may have a slot of its host's domain: -inf while some are free. O(1).

    Pages of higher tiers have one in any case. A page without a score, NaN, in the last slot beats no other.
    """
    if slot_limits.domains.share >= 1.0:
        return -np.inf
    number = np.int64(shard.groups.domain_of[host])
    capacity = domain_capacity(shard.groups.domains[number], slot_limits.domains)
    if usage.domain_used[number] < capacity:
        return -np.inf
    least = float(usage.domain_least[number]) if usage.domain_used[number] > 0 < capacity else np.inf
    return -np.inf if np.isnan(least) else min(least, HIGHER_TIER_LEVEL)


@inlined_kernel
def _round_down(score: float) -> np.float32:
    """Return the greatest float32 that is not above `score`. O(1)."""
    single = np.float32(score)
    return np.nextafter(single, np.float32(-np.inf)) if single > score else single


@bare_kernel
def _fill(shard: ShardArrays, slot_limits: SlotLimits, candidates: Candidates, usage: HostUsage, kept: Ints) -> int:
    count, bounded = 0, slot_limits.domains.share < 1.0
    rows, levels, exempt = candidates
    for i in range(rows.size):
        if count == kept.size:
            break
        page: Record = shard.pages.records[rows[i]]
        group: Record = shard.groups.records[page.group]
        if usage.used[group.host] >= host_capacity(
            shard.groups.records[group.host], slot_limits.limits, slot_limits.now, slot_limits.lease_s
        ):
            continue
        level = _round_down(levels[i])
        if bounded:
            number = np.int64(shard.groups.domain_of[page.group])
            capacity = domain_capacity(shard.groups.domains[number], slot_limits.domains)
            if usage.domain_used[number] >= capacity and not exempt[i]:
                continue
            usage.domain_used[number] += 1
            usage.domain_least[number] = level
        usage.used[group.host] += 1
        usage.least[group.host] = level
        kept[count] = i
        count += 1
    return count
