"""Which profile a group has: its own, else its parent's, else that of its region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.estimation.seasonality.group_profiles import FIRST_ODDS, UNIT
from streamsched.estimation.seasonality.page_schedules import FIRST_SETS
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.packed_urls import hash_bytes
from streamsched.numerics.url_syntax import find_domain
from streamsched.records.seasonality_schema import DAY_SETS, MOST_PROFILES, NO_GROUP, WEEK_HOURS, SeasonalityArrays

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record
    from streamsched.records.group_schema import GroupArrays
    from streamsched.records.seasonality_schema import RegionClocks

__all__ = [
    "assign_profiles",
    "begin_profile",
    "inherit_profile",
    "init_profiles",
    "most_profiles",
    "region_of_name",
]

PAGES_PER_PROFILE: Final = 2_048  # one profile for each, at most: 6 bytes a page
FEWEST_PROFILES: Final = 64  # ... in addition to these
MOST_GROUPS: Final = MOST_PROFILES // 2  # groups with one; the others are for regions and for all pages


@bare_kernel
def most_profiles(pages: int) -> int:
    """Return how many groups may have a profile of their own in a shard of that many pages. O(1)."""
    return min(FEWEST_PROFILES + pages // PAGES_PER_PROFILE, MOST_GROUPS)


@bare_kernel
def init_profiles(seasonality: SeasonalityArrays, regions: int) -> None:
    """Create the uniform profiles of all pages and of each region."""
    state = seasonality.state[0]
    state.regions = regions
    state.profiles = 0
    state.spare = 1
    state.newest_s = state.published_s = -np.inf
    for region in range(regions + 1):
        begin_profile(seasonality, NO_GROUP, region)


@inlined_kernel
def begin_profile(seasonality: SeasonalityArrays, group: int, region: int) -> None:
    """Add a uniform profile of `group`, NO_GROUP for that of a region or of all pages. O(168)."""
    state = seasonality.state[0]
    profile: Record = seasonality.profiles[state.profiles]
    profile.group = group
    profile.region = region
    for version in range(2):
        profile.odds[version] = FIRST_ODDS
        for hour in range(WEEK_HOURS + 1):
            profile.cumulative[version * (WEEK_HOURS + 1) + hour] = int(UNIT) * hour
        for days in range(DAY_SETS):
            profile.sets_rarity[version * DAY_SETS + days] = FIRST_SETS[days]
    state.profiles += 1


@bare_kernel
def assign_profiles(seasonality: SeasonalityArrays, groups: GroupArrays, count: int) -> None:
    """Set the profile of each of the first `count` groups: its own, else its parent's, else its region's. O(groups).

    The assignment follows from the profiles' groups, so it is not saved.
    """
    for group in range(count):
        inherit_profile(seasonality, groups, group)
    for number in range(seasonality.state[0].profiles):
        owner = seasonality.profiles[number].group
        if owner != NO_GROUP:
            seasonality.of_group[owner] = number
    for group in range(count):  # parents have lower numbers
        followed: Record = seasonality.profiles[seasonality.of_group[group]]
        if groups.records[group].depth > 0 and followed.group != group:
            seasonality.of_group[group] = seasonality.of_group[groups.records[group].parent]


@bare_kernel
def inherit_profile(seasonality: SeasonalityArrays, groups: GroupArrays, group: int) -> None:
    """Assign to a new group its parent's profile, to a new host that of its region. O(1), O(name) for a host."""
    record: Record = groups.records[group]
    if record.depth > 0:
        seasonality.of_group[group] = seasonality.of_group[record.parent]
    else:
        seasonality.of_group[group] = region_of_name(seasonality.calendar, groups, group)


@bare_kernel
def region_of_name(calendar: RegionClocks, groups: GroupArrays, group: int) -> int:
    """Return the region of the host `group` by the last label of its name; 0 if no region has it. O(name)."""
    span = groups.records[group].name_span
    start = int(np.int64(span >> np.uint64(16)))
    first, stop = find_domain(groups.names, start, start + int(np.int64(span & np.uint64(0xFFFF))))
    key = hash_bytes(groups.names, first, stop)
    for i in range(calendar.domains.size):
        if calendar.domains[i] == key:
            return int(calendar.regions[i])
    return 0
