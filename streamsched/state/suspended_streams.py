"""Streams and their hosts: a host belongs to the stream that last delivered an outcome of one of its pages.

While a stream is suspended because another process reads it, no batch has a page of its hosts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from streamsched.records.dirty_tracking import mark_dirty_groups

if TYPE_CHECKING:
    from streamsched.records.schema import ShardArrays

__all__ = ["SuspendedStreams"]


class SuspendedStreams:
    """The numbers of streams in GROUP.stream, and which streams are suspended. For one call at a time.

    ``names``: stream number i + 1 at place i; ``suspended``: their names, perhaps of streams without a number.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.suspended: frozenset[str] = frozenset()
        self._numbers: dict[str, int] = {}

    def number(self, stream: str | None) -> int:
        """Return the number of `stream`, negative while it is suspended, 0 for None; a new one gets the next. O(1)."""
        if stream is None:
            return 0
        if stream not in self._numbers:
            self.names.append(stream)
            self._numbers[stream] = len(self.names)
        return self._numbers[stream] * (-1 if stream in self.suspended else 1)

    def suspend(self, shard: ShardArrays, streams: Collection[str]) -> tuple[int, bool]:
        """Suspend `streams` and no others. O(groups).

        Returns how many pages their hosts have, and whether the hosts of a stream were released.
        """
        self.suspended = frozenset(streams)
        marks = np.array([0, *map(self.number, self.names)], np.int32)
        groups = shard.groups.records[: int(shard.corpus["groups"][0])]
        wanted = marks[np.abs(groups["stream"])]
        changed = np.flatnonzero(groups["stream"] != wanted)
        is_released = bool(np.any(wanted[changed] > 0))
        mark_dirty_groups(shard.dirty, shard.groups.records, changed)
        groups["stream"][changed] = wanted[changed]
        return int(groups["pages"][groups["stream"][groups["host"]] < 0].sum()), is_released

    def to_json(self) -> dict[str, list[str]]:
        """Return what `restore` needs, as JSON values."""
        return {"names": list(self.names), "suspended": sorted(self.suspended)}

    def restore(self, state: Mapping[str, list[str]]) -> None:
        """Continue from what `to_json` returned, with a shard of the same instant."""
        self.names[:] = state["names"]
        self._numbers = {name: number for number, name in enumerate(self.names, 1)}
        self.suspended = frozenset(state["suspended"])
