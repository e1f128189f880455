"""The memory of a shard's seasonality: links, schedules and profiles, which grow as pages and groups are added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from streamsched.estimation.seasonality.page_schedules import most_schedules
from streamsched.estimation.seasonality.profile_assignment import assign_profiles, init_profiles, most_profiles
from streamsched.estimation.seasonality.regions import TimeRegion, make_region_clocks
from streamsched.numerics.growable_array import GrowableArray
from streamsched.records.seasonality_schema import (
    POOLED,
    PROFILE,
    SCHEDULE,
    SEASONAL_LINK,
    SEASONALITY,
    WEEK_HOURS,
    SeasonalityArrays,
)

if TYPE_CHECKING:
    from streamsched.records.group_schema import GroupArrays

__all__ = ["SeasonalityTables"]


class SeasonalityTables:
    """The seasonality of one shard.

    10 bytes a page; 192 for each page with a schedule of its own, at most 3 of 64 and 4,096 more; 12 kB for each group
    with a profile, at most one for 2,048 pages and 64 more: 25 bytes a page in all.
    """

    def __init__(self, regions: Mapping[str, TimeRegion] | None, reserved: int) -> None:
        """Create tables without pages. `regions`: whose seasonality to learn, None for none; `reserved`: pages."""
        self.regions = regions
        self._calendar = make_region_clocks(regions or {})
        self._links = GrowableArray(SEASONAL_LINK, reserved)
        self._schedules = GrowableArray(SCHEDULE, 1 + int(most_schedules(reserved)))
        self._profiles = GrowableArray(PROFILE, int(most_profiles(reserved)))
        self._pooled = GrowableArray(POOLED, int(most_profiles(reserved)))
        self._of_group = GrowableArray(np.uint32, reserved // 8)
        self._work = np.zeros(2 * WEEK_HOURS)
        self._state = np.zeros(1, SEASONALITY)
        self._state["off"] = regions is None
        self.reserve(0, 0)
        init_profiles(self.arrays, len(regions or {}))

    @property
    def arrays(self) -> SeasonalityArrays:
        """The arrays for kernels, valid until the next `reserve`."""
        return SeasonalityArrays(
            self._links.array,
            self._schedules.array,
            self._profiles.array,
            self._pooled.array,
            self._work,
            self._of_group.array,
            self._state,
            self._calendar,
        )

    def reserve(self, pages: int, groups: int) -> None:
        """Make room for that many pages and groups in all."""
        self._links.ensure(pages)
        self._schedules.ensure(1 + int(most_schedules(pages)))
        profiles = 1 + len(self.regions or {}) + int(most_profiles(pages))
        self._profiles.ensure(profiles)
        self._pooled.ensure(profiles)
        self._of_group.ensure(groups)

    def rebuild(self, groups: GroupArrays, count: int) -> None:
        """Assign profiles to the first `count` groups, after the records were loaded. O(groups)."""
        self._state["off"] = self.regions is None
        assign_profiles(self.arrays, groups, count)

    def to_json(self) -> dict[str, Any] | None:
        """Return the regions for JSON; None if no seasonality is learned."""
        return None if self.regions is None else {name: region.to_json() for name, region in self.regions.items()}

    def nbytes(self, pages: int, groups: int) -> int:
        """Return the bytes of memory that the tables take for that many pages and groups."""
        profiles, schedules = int(self._state["profiles"][0]), int(self._state["schedules"][0])
        return (
            self._links.resident_bytes(pages)
            + self._schedules.resident_bytes(schedules)
            + self._profiles.resident_bytes(profiles)
            + self._pooled.resident_bytes(profiles)
            + self._of_group.resident_bytes(groups)
        )
