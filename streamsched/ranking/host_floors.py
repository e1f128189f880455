"""Floors of hosts: levels above which a limited host has more pages than it can give, so that the others can wait.

If a host may give one page a batch, thousands of its pages may score above the last page of a batch, and each query
would examine them all. Below its host's floor a page gets a certificate and stays out of the pool. A query that needs
these pages lowers the floor.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bytes, Floats, Ints, Record
from streamsched.numerics.growable_array import GrowableArray
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import host_capacity
from streamsched.ranking.certificates import BELOW_FLOOR, Certificates
from streamsched.ranking.host_slots import HostUsage, Singles, SlotLimits, domain_level
from streamsched.records.schema import ShardArrays

_FEWEST: Final = 32  # pages above a host's floor at first, and four for each that the host gives
_RESERVED_GROUPS: Final = 1 << 24  # address space only


class HostFloors:
    """The floors of one ranking. 8 bytes a host; for one call at a time."""

    def __init__(self) -> None:
        self._floor = GrowableArray(np.float32, _RESERVED_GROUPS)
        self._room = GrowableArray(np.int32, _RESERVED_GROUPS)  # pages above a host's floor when it is lowered next
        self._groups = 0
        self.hosts = np.empty(0, np.int64)  # that have floors

    @property
    def levels(self) -> Singles:
        """The floors by group: float32[groups], -inf for none; empty if no host has one."""
        return self._floor.array[: self._groups if self.hosts.size else 0]

    def clear(self, groups: int) -> None:
        """Remove all floors. O(groups)."""
        for region in (self._floor, self._room):
            region.ensure(groups)
        self._floor.array[:groups], self._room.array[:groups] = -np.inf, _FEWEST
        self._groups, self.hosts = groups, self.hosts[:0]

    def cover(self, groups: int) -> None:
        """Make room for new hosts. O(new hosts)."""
        if groups > self._groups:
            for region in (self._floor, self._room):
                region.ensure(groups)
            self._floor.array[self._groups : groups], self._room.array[self._groups : groups] = -np.inf, _FEWEST
            self._groups = groups

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return sum(array.resident_bytes(self._groups) for array in (self._floor, self._room))

    def lift(self, owners: Ints, hosts: Ints, levels: Floats, used: npt.NDArray[np.int32]) -> None:
        """Set the floors of hosts if their owners, these hosts themselves or their domains, have too many pages.

        ``owners``, ``hosts``: int64[m], of pages in the pool that the last batch would have had if they had slots;
        ``levels``: float64[m]; ``used``: int32[owners], their slots in that batch. O(m log m).
        """
        order = np.lexsort((-levels, owners))
        for own in np.split(order, np.flatnonzero(np.diff(owners[order])) + 1) if order.size else []:
            room = _FEWEST + 4 * int(used[owners[own[0]]])
            if own.size > 2 * room:
                floor = float(levels[own[room]])
                for host in np.unique(hosts[own[room:]]).tolist():
                    self._room.array[host] = room
                    self._set(host, max(floor, float(self._floor.array[host])))

    def find_short(self, shard: ShardArrays, slot_limits: SlotLimits, usage: HostUsage, bar: float) -> Ints:
        """Return the hosts whose pages below floors a batch that ends at `bar` may need: int64[m]."""
        if not self.hosts.size:
            return self.hosts
        out = np.empty(self.hosts.size, np.int64)
        return out[: _find_short(shard, slot_limits, usage, self.hosts, self.levels, bar, out)]

    def lower(self, shard: ShardArrays, certificates: Certificates, short: Ints) -> Ints:
        """Lower the floors of hosts, and return the pages that are above them then: int64[m].

        O(groups + pages of these hosts).
        """
        wanted = np.zeros(self._groups, np.uint8)
        wanted[short] = 1
        out = np.empty(certificates.tick.size, np.int64)
        rows = out[: _list_below_floors(shard, certificates, wanted, out)]
        hosts, bounds = shard.groups.records["host"][shard.pages.records["group"][rows]], certificates.bound[rows]
        above = np.zeros(rows.size, np.bool_)
        for host in short.tolist():
            own = np.flatnonzero(hosts == host)
            room = self._room.array[host] = min(2 * int(self._room.array[host]), 1 << 20)
            if own.size > room:
                floor = np.partition(bounds[own], own.size - room)[own.size - room]
                above[own] = bounds[own] >= floor
                with np.errstate(over="ignore"):
                    below = float(np.nextafter(floor, np.float32(-np.inf)))
                self._set(host, below)
            else:
                above[own] = True
                self._set(host, -np.inf)
        return rows[above]

    def _set(self, host: int, floor: float) -> None:
        had = self._floor.array[host] > -np.inf
        with np.errstate(over="ignore"):  # a level below every float32 is no floor
            self._floor.array[host] = floor
        has = self._floor.array[host] > -np.inf
        if has and not had:
            self.hosts = np.append(self.hosts, host)
        elif had and not has:
            self.hosts = self.hosts[self.hosts != host]


@inlined_kernel
def _need(shard: ShardArrays, slot_limits: SlotLimits, usage: HostUsage, host: int, bar: float) -> float:
    """Return the level from which on a further page of a host would belong to a batch that ends at `bar`. O(1)."""
    record: Record = shard.groups.records[host]
    capacity = host_capacity(record, slot_limits.limits, slot_limits.now, slot_limits.lease_s)
    if capacity <= 0:
        return np.inf
    level = max(bar, domain_level(shard, slot_limits, host, usage))
    return max(level, float(usage.least[host])) if usage.used[host] >= capacity else level


@bare_kernel
def needed_level(shard: ShardArrays, slot_limits: SlotLimits, usage: HostUsage) -> float:
    """Return the level from which on a further page could belong to a batch that is not full. O(groups)."""
    least = np.inf
    for group in range(shard.corpus[0].groups):
        if np.int64(shard.groups.records[group].host) == group:
            least = min(least, _need(shard, slot_limits, usage, group, -np.inf))
    return least


@bare_kernel
def list_needed(
    shard: ShardArrays, certificates: Certificates, usage: HostUsage, slot_limits: SlotLimits, rows: Ints, level: float
) -> int:
    """Move those of ``rows``: int64[m] that may reach `level` and whose hosts have slots for them to the front.

    Returns their number. O(m).
    """
    count = 0
    for i in range(rows.size):
        page: Record = shard.pages.records[rows[i]]
        group: Record = shard.groups.records[page.group]
        if certificates.bound[rows[i]] >= _need(shard, slot_limits, usage, np.int64(group.host), level):
            rows[count] = rows[i]
            count += 1
    return count


@bare_kernel
def _find_short(  # noqa: PLR0913, PLR0917  a kernel
    shard: ShardArrays,
    slot_limits: SlotLimits,
    usage: HostUsage,
    hosts: Ints,
    floors: Singles,
    bar: float,
    out: Ints,
) -> int:
    count = 0
    for i in range(hosts.size):
        if floors[hosts[i]] >= _need(shard, slot_limits, usage, hosts[i], bar):
            out[count] = hosts[i]
            count += 1
    return count


@bare_kernel
def _list_below_floors(shard: ShardArrays, certificates: Certificates, wanted: Bytes, out: Ints) -> int:
    """Write the pages below the floors of the hosts that are `wanted`: uint8[groups] to `out`; return their number."""
    groups, tick, count = shard.groups, certificates.tick, 0
    for group in range(shard.corpus[0].groups):
        if wanted[np.int64(groups.records[group].host)]:
            row = np.int64(groups.first_members[group]) - 1
            while row >= 0:
                if tick[row] & BELOW_FLOOR:
                    out[count] = row
                    count += 1
                row = np.int64(groups.member_links[row].after) - 1
    return count
