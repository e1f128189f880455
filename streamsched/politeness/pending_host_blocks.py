"""Blocks of hosts of which no page is known yet: kept until such hosts appear, forgotten once their time has passed."""

from __future__ import annotations

import math

import numpy as np

from streamsched.numerics.arrays import Ints
from streamsched.politeness.limits import ON_REQUEST
from streamsched.politeness.rule_targets import Target, parse_target
from streamsched.records.dirty_tracking import mark_dirty_groups
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_names

__all__ = ["PendingHostBlocks"]


class PendingHostBlocks:
    """Until when hosts to come are blocked, by host or pattern; of those that fit a host the last set decides.

    For one call at a time.
    """

    def __init__(self) -> None:
        self._blocks: dict[str, tuple[Target, float]] = {}  # in the order in which they were set
        self._starred: dict[str, None] = {}  # those of them that are patterns
        self._soonest = math.inf  # before this time none has passed
        self._groups = 0  # that have been looked at

    def add(self, target: Target, until_s: float) -> None:
        """Block the hosts to come that `target` meets, in place of what was said of it before. O(1)."""
        self._blocks.pop(target.key, None)
        self._blocks[target.key] = (target, until_s)
        if "*" in target.host:
            self._starred[target.key] = None
        self._soonest = min(self._soonest, until_s)

    def reach(self, shard: ShardArrays) -> None:
        """Let hosts that came since the last call rest as long as they are blocked. O(new groups)."""
        groups = int(shard.corpus["groups"][0])
        if self._blocks and groups > self._groups:
            new = np.arange(self._groups, groups)
            self._close(shard, new[shard.groups.records["depth"][new] == 0])
        self._groups = groups

    def forget(self, now: float) -> None:
        """Forget the blocks that have passed by `now`, but such as make exceptions from earlier ones that have not.

        O(1) where none has passed since the last call, O(blocks) else, times the patterns that have not passed.
        """
        if now < self._soonest:
            return
        blocks, self._blocks, self._starred, self._soonest = self._blocks, {}, {}, math.inf
        lasting: list[Target] = []  # those that have not passed
        for target, until_s in blocks.values():
            if until_s > now:
                self.add(target, until_s)
                lasting.append(target)
            elif lasting and ("*" in target.host or any("*" in one.host and one.meets(target.host) for one in lasting)):
                soonest = self._soonest
                self.add(target, until_s)
                self._soonest = soonest

    def to_json(self) -> list[list[object]]:
        """Return what `restore` needs, as JSON can hold it."""
        return [[key, until_s] for key, (_, until_s) in self._blocks.items()]

    def restore(self, told: list[list[object]], shard: ShardArrays) -> None:
        """Go on from what `to_json` told once, with tables that these blocks have reached."""
        for host, until_s in told:
            self.add(parse_target(host), float(until_s))  # type: ignore[arg-type]
        self._groups = int(shard.corpus["groups"][0])

    def _close(self, shard: ShardArrays, hosts: Ints) -> None:
        places = {key: place for place, key in enumerate(self._blocks)} if self._starred else {}
        for host, name in zip(hosts.tolist(), group_names(shard.groups, hosts), strict=True):
            met = [key for key in self._starred if self._blocks[key][0].meets(name)]
            met += [name] if name in self._blocks else []
            if met:
                until_s = self._blocks[max(met, key=lambda key: places.get(key, 0))][1]
                record = shard.groups.records[host]
                if until_s > record["ready_s"]:  # its first outcome may have asked for longer
                    mark_dirty_groups(shard.dirty, shard.groups.records, np.array([host]))
                    record["ready_s"], record["wait_reason"] = until_s, ON_REQUEST
            self._blocks.pop(name, None)
