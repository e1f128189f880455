"""Blocks of hosts that have no known page yet: kept until such hosts appear, dropped once their time has passed."""

from __future__ import annotations

import math

import numpy as np

from streamsched.numerics.arrays import Ints
from streamsched.politeness.limits import ON_REQUEST
from streamsched.politeness.rule_targets import Target, parse_target
from streamsched.records.dirty_tracking import mark_dirty_groups
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_names


class PendingHostBlocks:
    """Until when future hosts are blocked, by host or pattern; of those that match a host, the one set last applies.

    For one call at a time.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[Target, float]] = {}  # in the order set
        self._patterns: dict[str, None] = {}  # the keys of patterns
        self._first_expiry = math.inf  # no block expires before
        self._groups = 0  # already checked

    def add(self, target: Target, until_s: float) -> None:
        """Block future hosts that match `target`, in place of an earlier block of the same target. O(1)."""
        self._blocks.pop(target.key, None)
        self._blocks[target.key] = (target, until_s)
        if "*" in target.host:
            self._patterns[target.key] = None
        self._first_expiry = min(self._first_expiry, until_s)

    def reach(self, shard: ShardArrays) -> None:
        """Block hosts that are new since the last call. O(new groups)."""
        groups = int(shard.corpus["groups"][0])
        if self._blocks and groups > self._groups:
            new = np.arange(self._groups, groups)
            self._block_hosts(shard, new[shard.groups.records["depth"][new] == 0])
        self._groups = groups

    def forget(self, now: float) -> None:
        """Drop the blocks that have expired by `now`, except those that are exceptions from earlier, unexpired ones.

        O(1) if none has expired since the last call, else O(blocks) times the patterns that have not expired.
        """
        if now < self._first_expiry:
            return
        blocks, self._blocks, self._patterns, self._first_expiry = self._blocks, {}, {}, math.inf
        lasting: list[Target] = []  # unexpired
        for target, until_s in blocks.values():
            if until_s > now:
                self.add(target, until_s)
                lasting.append(target)
            elif lasting and (
                "*" in target.host or any("*" in one.host and one.matches(target.host) for one in lasting)
            ):
                first_expiry = self._first_expiry
                self.add(target, until_s)
                self._first_expiry = first_expiry

    def to_json(self) -> list[list[object]]:
        """Return what `restore` needs, as JSON values."""
        return [[key, until_s] for key, (_, until_s) in self._blocks.items()]

    def restore(self, state: list[list[object]], shard: ShardArrays) -> None:
        """Restore what `to_json` returned, with a shard to which these blocks have been applied."""
        for host, until_s in state:
            self.add(parse_target(host), float(until_s))  # type: ignore[arg-type]
        self._groups = int(shard.corpus["groups"][0])

    def _block_hosts(self, shard: ShardArrays, hosts: Ints) -> None:
        places = {key: place for place, key in enumerate(self._blocks)} if self._patterns else {}
        for host, name in zip(hosts.tolist(), group_names(shard.groups, hosts), strict=True):
            met = [key for key in self._patterns if self._blocks[key][0].matches(name)]
            met += [name] if name in self._blocks else []
            if met:
                until_s = self._blocks[max(met, key=lambda key: places.get(key, 0))][1]
                record = shard.groups.records[host]
                if until_s > record["ready_s"]:  # its first outcome may have set a longer rest
                    mark_dirty_groups(shard.dirty, shard.groups.records, np.array([host]))
                    record["ready_s"], record["wait_reason"] = until_s, ON_REQUEST
            self._blocks.pop(name, None)
