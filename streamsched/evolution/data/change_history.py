"""Change histories: the cycles in which each page changed, and the page attributes that score functions read.

For `tau`, `rhythm` and `due`, a history has the times of its cycles and its pages' profiles by hour of the week.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.estimation.seasonality.group_profiles import weighted_hours
from streamsched.estimation.seasonality.regions import HOUR_S, local_hours, quarters_at
from streamsched.formula.terminal_table import OWN
from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints, Records, Rows
from streamsched.records.seasonality_schema import DAY_SETS, PROFILE, WEEK_HOURS, SeasonalityArrays

_VERSION_LENGTHS = {  # length of one version, for fields that hold two published versions
    "cumulative": WEEK_HOURS + 1,
    "odds": 1,
    "sets_rarity": DAY_SETS,
    "hours_rarity": 24,
}
DEFAULTS: Final[Mapping[str, float]] = MappingProxyType(
    {"prior_mean": 0.1, "significance": 1.0, **{name: own.default for name, own in OWN.items()}}
)
"""The columns of numbers, one a page, and what `ChangeHistory.of` gives pages without them."""

_DROPPED_BITS: Final = np.uint64(48)  # of the 52 mantissa bits of a float64; 4 are kept


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

    @classmethod
    def join(cls, parts: Sequence[CycleTimes]) -> CycleTimes:
        """Return the timing of the pages of all ``parts``, of the same cycles. O(n).

        Raises ValueError if the cycles differ.
        """
        first = parts[0]
        if len({(part.start_s, part.cycle_s, part.cycles) for part in parts}) > 1:
            raise ValueError("timing: expected parts of the same cycles, found others")
        starts = np.cumsum([0, *(part.profiles.size for part in parts[:-1])]).tolist()
        return cls(
            first.start_s,
            first.cycle_s,
            np.concatenate([part.profiles for part in parts]),
            np.concatenate([part.quarters for part in parts]),
            np.concatenate([part.profile + start for part, start in zip(parts, starts, strict=True)]),
        )

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


@dataclass(frozen=True, slots=True, eq=False)
class ChangeHistory:
    """The cycles, of c, in which each of n pages changed, independent of any visit schedule.

    - ``changed``: bool[n, c];
    - ``hashes``: uint64[n], the pages' own, used to order ties and to split pages into folds;
    - ``groups``: int64[n], equal for pages of one group;
    - ``prior_shape``: of the Gamma prior of every page's rate per cycle;
    - ``columns``: float64[n] for each name of `DEFAULTS`: ``prior_mean``, the mean of that prior; ``significance``,
      what the page's changes are expected to have, 0 to 1; and the page's own values, see `formula.terminal_table.OWN`;
    - ``timing``: times of the cycles and published profiles; None if all hours are treated alike;
    - ``half_life``: cycles in which half of what a page's own visits taught is forgotten, inf for never.
    """

    changed: Bools
    hashes: Hashes
    groups: Ints
    prior_shape: float
    columns: Mapping[str, Floats]
    timing: CycleTimes | None = None
    half_life: float = math.inf

    def __post_init__(self) -> None:
        pages = self.changed.shape[0]
        if self.changed.ndim != 2 or self.changed.dtype != np.bool_:
            raise ValueError(f"changed: expected bool[pages, cycles], found {self.changed.dtype}{self.changed.shape}")
        if self.columns.keys() != DEFAULTS.keys():
            raise ValueError(f"columns: expected {', '.join(DEFAULTS)}, found {', '.join(self.columns)}")
        for name, column in {"hashes": self.hashes, "groups": self.groups, **self.columns}.items():
            if column.shape != (pages,):
                raise ValueError(f"{name}: expected one for each of {pages} pages, found {column.shape}")
        if self.timing is not None and (self.timing.profile.size, self.timing.cycles) != self.changed.shape:
            raise ValueError(
                f"timing: expected the timing of {self.changed.shape}, found {self.timing.profile.size} pages"
            )
        if not self.prior_shape > 0.0 or not np.all(self.columns["prior_mean"] > 0.0):
            raise ValueError("priors: expected a shape and means above 0")
        if not self.half_life > 0.0:
            raise ValueError(f"half_life: expected cycles above 0, found {self.half_life}")

    @classmethod
    def of(
        cls,
        changed: npt.ArrayLike,
        *,
        hashes: Hashes | None = None,
        groups: Ints | None = None,
        prior_shape: float = 1.0,
        timing: CycleTimes | None = None,
        half_life: float = math.inf,
        **columns: npt.ArrayLike,
    ) -> ChangeHistory:
        """Return a history with defaults filled in: scalars are broadcast over all pages, hashes count up. O(n c).

        Without `groups`, each page is its own group. `columns`: any of `DEFAULTS`.
        """
        matrix = np.asarray(changed, np.bool_)
        pages = matrix.shape[0]
        values = {
            name: np.broadcast_to(np.asarray(value, np.float64), pages)
            for name, value in {**DEFAULTS, **columns}.items()
        }
        ids = np.arange(pages, dtype=np.uint64) if hashes is None else hashes
        group_ids = np.arange(pages) if groups is None else groups
        return cls(matrix, ids, group_ids, prior_shape, values, timing, half_life)

    @property
    def pages(self) -> int:
        """Number of pages."""
        return int(self.changed.shape[0])

    @property
    def cycles(self) -> int:
        """Number of cycles."""
        return int(self.changed.shape[1])

    @classmethod
    def join(cls, parts: Sequence[ChangeHistory]) -> ChangeHistory:
        """Return one history of the pages of all ``parts``, of the same cycles. O(n c).

        Groups of different parts are different groups. The prior's shape and the speed of forgetting are means over all
        pages; there is timing only if each part has it. Raises ValueError if the cycles differ, or there is no part.
        """
        first, pages = parts[0], np.array([part.pages for part in parts], np.float64)
        weights = pages / pages.sum() if pages.any() else np.full(len(parts), 1.0 / len(parts))
        starts = np.cumsum([0, *(int(part.groups.max(initial=-1)) + 1 for part in parts[:-1])]).tolist()
        forgetting = float(weights @ [1.0 / part.half_life for part in parts])
        timings = [part.timing for part in parts if part.timing is not None]
        return cls(
            np.concatenate([part.changed for part in parts]),
            np.concatenate([part.hashes for part in parts]),
            np.concatenate([part.groups + start for part, start in zip(parts, starts, strict=True)]),
            float(weights @ [part.prior_shape for part in parts]),
            {name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns},
            CycleTimes.join(timings) if len(timings) == len(parts) else None,
            1.0 / forgetting if forgetting else math.inf,
        )

    def take(self, rows: Rows) -> ChangeHistory:
        """Return the history of the pages ``rows``: intp[m]. O(m c)."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        timing = None if self.timing is None else self.timing.take(rows)
        taken = (self.changed[rows], self.hashes[rows], self.groups[rows])
        return ChangeHistory(*taken, self.prior_shape, columns, timing, self.half_life)

    def span(self, first: int, cycles: int) -> ChangeHistory:
        """Return the history of `cycles` cycles from number `first`: a view. O(1)."""
        if not 0 <= first <= first + cycles <= self.cycles:
            raise ValueError(f"span: expected cycles within {self.cycles}, found {first} to {first + cycles}")
        timing = None if self.timing is None else self.timing.span(first, cycles)
        return replace(self, changed=self.changed[:, first : first + cycles], timing=timing)

    def coarsen(self) -> ChangeHistory:
        """Return the history with what pages have of their own rounded to 16 values per octave. O(n).

        The rounding error is at most 3 %, less than the uncertainty of these values. Pages with nearly equal values
        become equal, so crawls score them as one class. With a prior per host, that is ten times faster.

        >>> ChangeHistory.of([[True]] * 4, prior_mean=[0.5, 0.51, 0.52, 0.6]).coarsen().columns["prior_mean"].tolist()
        [0.5, 0.5, 0.53125, 0.59375]
        """
        return replace(self, columns={name: _round_mantissa(column) for name, column in self.columns.items()})


def _round_mantissa(values: Floats) -> Floats:
    """Return the nearest values with 4 bits after the leading one; 0 stays 0. O(n)."""
    half = np.uint64(1) << (_DROPPED_BITS - np.uint64(1))
    return np.asarray(((values.copy().view(np.uint64) + half) >> _DROPPED_BITS << _DROPPED_BITS).view(np.float64))
