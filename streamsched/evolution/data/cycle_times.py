"""Times of a history's cycles and its pages' profiles by hour of the week, for `tau`, `rhythm` and `due`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from streamsched.estimation.seasonality.group_profiles import weighted_hours
from streamsched.estimation.seasonality.local_time import HOUR_S, local_hours, quarters_at
from streamsched.records.seasonality_schema import DAY_SETS, PROFILE, WEEK_HOURS, SeasonalityArrays

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints, Records, Rows

__all__ = ["CycleTimes", "copy_cycle_times", "cycle_activity"]

_VERSION_LENGTHS = {  # length of one version, for fields that hold two published versions
    "cumulative": WEEK_HOURS + 1,
    "odds": 1,
    "sets_rarity": DAY_SETS,
    "hours_rarity": 24,
}


@dataclass(frozen=True, slots=True, eq=False)
class CycleTimes:
    """The times of c cycles from ``start_s`` on, and the k profiles that n pages use.

    ``profiles``: PROFILE[k]; their version 0 is read. ``quarters``: int64[k, c + 1], quarter hours that each
    profile's local time is before UTC at the start of each cycle and at the end of the last. ``profile``: int64[n],
    each page's.
    """

    start_s: float
    cycle_s: float
    profiles: Records
    quarters: Ints
    profile: Ints

    def __post_init__(self) -> None:
        if self.profiles.dtype != PROFILE or self.quarters.shape[:1] != self.profiles.shape:
            raise ValueError(f"timing: expected UTC offsets for each profile, found {self.quarters.shape}")
        if self.profile.size and not 0 <= self.profile.min() <= self.profile.max() < self.profiles.size:
            raise ValueError(f"timing: expected pages of {self.profiles.size} profiles, found others")
        if not self.cycle_s > 0.0 or not np.isfinite(self.start_s):
            raise ValueError(f"timing: expected a time and a length above 0, found {self.start_s}, {self.cycle_s}")

    @property
    def cycles(self) -> int:
        """Number of cycles."""
        return int(self.quarters.shape[1]) - 1

    def take(self, rows: Rows) -> CycleTimes:
        """Return the timing of the pages ``rows``: intp[m]. O(m)."""
        return replace(self, profile=self.profile[rows])

    def span(self, first: int, cycles: int) -> CycleTimes:
        """Return the timing of `cycles` cycles from number `first`: a view. O(1)."""
        quarters = self.quarters[:, first : first + cycles + 1]
        return replace(self, start_s=self.start_s + first * self.cycle_s, quarters=quarters)


def copy_cycle_times(
    seasonality: SeasonalityArrays, groups: Ints, age: int, start_s: float, cycle_s: float, cycles: int
) -> CycleTimes | None:
    """Return the profiles published as of `age` for pages of ``groups``: int64[n]; None if seasonality is off.

    O(n + profiles · cycles).
    """
    if seasonality.state["off"][0]:
        return None
    numbers, profile = np.unique(seasonality.of_group[groups], return_inverse=True)
    profiles = seasonality.profiles[numbers]
    for name, length in _VERSION_LENGTHS.items():
        profiles[name][:, :length] = profiles[name][:, age * length : (age + 1) * length].copy()
    edges = [start_s + cycle * cycle_s for cycle in range(cycles + 1)]
    regions = profiles["region"].tolist()
    quarters = [[quarters_at(seasonality.calendar, region, at) for at in edges] for region in regions]
    return CycleTimes(
        start_s, cycle_s, profiles, np.array(quarters, np.int64).reshape(-1, cycles + 1), profile.astype(np.int64)
    )


def cycle_activity(timing: CycleTimes) -> Floats:
    """Return the activity of each cycle by profile, float64[k, cycles]; the average hour of a week has activity 1.

    O(k cycles).
    """
    activity = np.ones((timing.profiles.size, timing.cycles))
    for i, profile in enumerate(timing.profiles):
        for cycle, quarters in enumerate(timing.quarters[i, :-1].tolist()):
            start_s = timing.start_s + cycle * timing.cycle_s
            start, end = local_hours(start_s, quarters), local_hours(start_s + timing.cycle_s, quarters)
            activity[i, cycle] = weighted_hours(profile, 0, start, end) * (HOUR_S / timing.cycle_s)
    return activity
