"""Surges under way: groups of pages that visits have shown to be changing in bulk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamsched.api.views import SurgeView
from streamsched.numerics.arrays import Floats, Ints, Records
from streamsched.records.group_schema import GroupArrays
from streamsched.records.url_patterns import group_name


class FoundSurges(NamedTuple):
    """Windows of groups with a surge that pages wait for. ``kept``: 1 for the kept window, 0 for the open one."""

    groups: Ints
    kept: Ints
    waiting: Floats  # expected pages that the surge has changed and no visit has seen

    @classmethod
    def none(cls) -> FoundSurges:
        """Return no surges."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def joined(self, other: FoundSurges) -> FoundSurges:
        """Return the surges of both."""
        groups, kept = np.concatenate([self.groups, other.groups]), np.concatenate([self.kept, other.kept])
        return FoundSurges(groups, kept, np.concatenate([self.waiting, other.waiting]))

    def first(self, most: int) -> FoundSurges:
        """Return the `most` windows with the most waiting pages; of equals, the lower group comes first."""
        order = np.lexsort((self.kept, self.groups, -self.waiting))[:most]
        return FoundSurges(self.groups[order], self.kept[order], self.waiting[order])


def find_surges(groups: Records, start: int) -> FoundSurges:
    """Return the surges among ``groups``: GROUP[m], the first one is number `start`. O(m)."""
    waiting = np.stack([groups[f"{kind}_share"] * groups[f"{kind}_unvisited"] for kind in ("open", "kept")], axis=1)
    found, kept = np.nonzero(waiting > 0.0)
    return FoundSurges(found + start, kept, waiting[found, kept].astype(np.float64))


def view_surge(groups: GroupArrays, group: int, *, kept: bool) -> SurgeView:
    """Return the surge in the open or the kept window of `group`. O(length of its name)."""
    record, kind = groups.records[group], "kept" if kept else "open"
    return SurgeView(
        group=group_name(groups, group),
        pages=int(record["pages"]),
        since_s=float(record[f"{kind}_s"]),
        share=float(record[f"{kind}_share"]),
        unvisited=int(record[f"{kind}_unvisited"]),
    )
