"""Surges under way: groups of pages that visits have shown to be changing in bulk."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Ints, Records
from streamsched.records.group_schema import GroupArrays
from streamsched.records.url_patterns import group_name


@dataclass(frozen=True, slots=True)
class SurgeView:
    """A bulk change of a group of pages.

    ``group``: a host or a URL pattern; ``pages``: how many belong to it and to no longer pattern; ``since_s``: when the
    window began in which the surge was found, UTC epoch seconds; ``share``: of these pages, that the surge has changed,
    as an estimate; ``unvisited``: those not visited since, whose scores the share raises.
    """

    group: str
    pages: int
    since_s: float
    share: float
    unvisited: int

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        return asdict(self)


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
