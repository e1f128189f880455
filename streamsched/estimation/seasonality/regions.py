"""Regions: pages whose authors share a day and a night, found by the top-level domains of their hosts; and local time
in them, as hours of the week counted from Monday.

A time is converted to local hours with the UTC offset at the page's last visit. So the hours of an interval rise with
its end without a jump, even if clocks change within it; an error of an hour lasts until the next visit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self
from zoneinfo import ZoneInfo

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.arrays import Floats, frozen
from streamsched.numerics.jit import inlined_kernel
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.records.seasonality_schema import WEEK_HOURS, RegionClocks

_DAY_S: Final = 86_400
_LOOK_S: Final = 3 * _DAY_S  # no zone changed its clock twice within less: Recife did within a week in 2000
_FIRST_S: Final = -62_135_510_400  # the second day of year 1
_LAST_S: Final = 253_402_214_400  # the last day of year 9999 but one: Python's dates, less a day for UTC offsets
_OFFSET: Final = re.compile(r"(?:UTC)?([+-])(\d{1,2})(?::?(00|15|30|45))?")
_EXPECTED: Final = (
    "a zone such as Europe/Paris, UTC or +08:00, or quarters of an hour from -14 to 14 hours "
    "(names need the time zone database: package tzdata)"
)
_MOST_HOURS: Final = 14  # east or west of UTC
_UNTIL_S: Final = 4.1e9  # 2099: clock changes from 1970 until then are used; later times have the last offset
_QUARTER_S: Final = 900.0  # seconds; all UTC offsets since 1972 are multiples
_MOST: Final = 64
HOUR_S: Final = 3_600.0
DAY_HOURS: Final = 24
_MONDAY_HOURS: Final = 72.0  # from the Monday before 1970-01-01, a Thursday
_FAR_S: Final = 1e14  # three million years: times are clipped to this, so that hours keep their fractions


class ZoneOffsets(NamedTuple):
    """A zone's offsets: ``offsets_s``: float64[k], seconds to add to UTC from ``starts_s``: float64[k] on.

    The first starts at minus infinity.
    """

    starts_s: Floats
    offsets_s: Floats

    def read(self, times_s: Floats) -> Floats:
        """Return local times of epoch seconds, as seconds since the local 1970: float64[n]. O(n log k)."""
        place = np.searchsorted(self.starts_s, times_s, "right") - 1
        return np.asarray(times_s + self.offsets_s[np.maximum(place, 0)])


def find_zone(zone: str | float | None) -> tzinfo:
    """Return the zone of that name or offset, such as ``+08:00``, or of that many hours east of UTC; None is UTC.

    Raises SettingsError if there is no such zone, or the offset is not a multiple of a quarter of an hour.
    """
    if zone is None:
        return UTC
    if not isinstance(zone, str):
        is_number = isinstance(zone, int | float | np.integer | np.floating) and not isinstance(zone, bool)
        return _find_fixed(zone, float(zone) if is_number and abs(zone) <= _MOST_HOURS else math.nan)
    if zone.upper() in ("UTC", "Z"):
        return UTC
    if matched := _OFFSET.fullmatch(zone):
        east = int(matched[2]) + int(matched[3] or 0) / 60
        return _find_fixed(zone, east if matched[1] == "+" else -east)
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:  # an unknown key, no valid key, a folder
        raise SettingsError("zone", zone, _EXPECTED) from error


def _find_fixed(zone: str | float, hours: float) -> timezone:
    if not ((4 * hours).is_integer() and abs(hours) <= _MOST_HOURS):
        raise SettingsError("zone", zone, _EXPECTED)
    return timezone(timedelta(hours=hours))


@lru_cache
def offsets_between(zone: str | float | None, first_s: float, last_s: float) -> ZoneOffsets:
    """Return a zone's offsets, valid from `first_s` to `last_s`. O(days). Raises SettingsError.

    >>> clock = offsets_between("Europe/Paris", 1_743_200_000.0, 1_743_300_000.0)  # summer time from 01:00 UTC on
    >>> clock.starts_s.tolist(), (clock.offsets_s / 3600).tolist()
    ([-inf, 1743296400.0], [1.0, 2.0])
    """
    found = find_zone(zone)

    def offset(at_s: int) -> float:
        when = datetime.fromtimestamp(min(max(at_s, _FIRST_S), _LAST_S), found)
        return (when.utcoffset() or timedelta(0)).total_seconds()

    at_s = int(np.floor(first_s))
    starts, offsets = [-np.inf], [offset(at_s)]
    while at_s < last_s and not isinstance(found, timezone):
        if offset(at_s + _LOOK_S) == offsets[-1]:
            at_s += _LOOK_S
        else:
            at_s = _find_switch(offset, at_s, at_s + _LOOK_S)
            starts.append(float(at_s))
            offsets.append(offset(at_s))
    return ZoneOffsets(frozen(np.array(starts)), frozen(np.array(offsets)))


def _find_switch(offset: Callable[[int], float], low: int, high: int) -> int:
    """Return the first second after `low`, up to `high`, at which the offset differs from that at `low`."""
    shown = offset(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == shown else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class TimeRegion:
    """Hosts whose names end in one of `domains`, such as ``"jp"``, and their time `zone`; None for UTC.

    `zone`: an IANA name such as ``"Asia/Tokyo"``, or whole quarters of an hour east of UTC, as ``"+05:45"`` or as
    hours: 5.75. With it, hours of the week are local ones, with daylight saving time. Raises SettingsError for an
    invalid value.

    >>> TimeRegion(("JP", "kr"), "Asia/Tokyo").domains
    ('jp', 'kr')
    """

    domains: tuple[str, ...]
    zone: str | float | None = None

    def __post_init__(self) -> None:
        expected = "top-level domains, such as ('fr', 'it')"
        try:
            domains = read_items("domains", self.domains, expected)
        except TypeError:
            domains = []
        if not domains or not all(isinstance(domain, str) for domain in domains):
            raise SettingsError("domains", self.domains, expected)
        names = tuple(domain.lower().removeprefix(".") for domain in domains)
        if any(not name or "." in name for name in names):
            raise SettingsError("domains", self.domains, expected)
        object.__setattr__(self, "domains", names)
        find_zone(self.zone)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"domains": list(self.domains), "zone": self.zone}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """Return the region from the `fields` that its `to_json` returned."""
        return cls(tuple(fields["domains"]), fields["zone"])


def check_regions(regions: object) -> dict[str, TimeRegion]:
    """Return regions by name as a dict. Raises SettingsError for invalid ones."""
    if not isinstance(regions, Mapping) or not all(isinstance(one, TimeRegion) for one in regions.values()):
        raise SettingsError("regions", regions, "a mapping of names to TimeRegion")
    domains = [domain for region in regions.values() for domain in region.domains]
    twice = sorted({domain for domain in domains if domains.count(domain) > 1})
    if twice:
        raise SettingsError("regions", twice[0], "each domain in one region")
    if len(regions) > _MOST:
        raise SettingsError("regions", len(regions), f"at most {_MOST}")
    return {str(name): region for name, region in regions.items()}


def make_region_clocks(regions: Mapping[str, TimeRegion]) -> RegionClocks:
    """Return the domains and clock changes of `regions` for kernels, numbered from 1 in their order. O(years)."""
    named = [(domain, i) for i, region in enumerate(regions.values(), 1) for domain in region.domains]
    hashes = [hash_bytes(np.frombuffer(domain.encode(), np.uint8), 0, len(domain.encode())) for domain, _ in named]
    clocks = [offsets_between(zone, 0.0, _UNTIL_S) for zone in (None, *(region.zone for region in regions.values()))]
    return RegionClocks(
        np.array(hashes, np.uint64),
        np.array([i for _, i in named], np.int64),
        np.cumsum([0, *(clock.starts_s.size for clock in clocks)]),
        np.concatenate([clock.starts_s for clock in clocks]),
        np.rint(np.concatenate([clock.offsets_s for clock in clocks]) / _QUARTER_S).astype(np.int64),
    )


REGIONS: Final[Mapping[str, TimeRegion]] = MappingProxyType(
    {"CJK": TimeRegion(("cn", "jp", "kr", "tw", "hk")), "FIGS": TimeRegion(("fr", "it", "de", "es"))}
)
"""The regions of Grimes & O'Brien (2008), section 3, by UTC."""


@inlined_kernel
def local_hours(at_s: float, quarters: int) -> float:
    """Return the hours from a Monday's midnight to `at_s`, with a UTC offset of `quarters` of an hour. O(1).

    Monotone in `at_s` also after rounding.
    """
    return (min(max(at_s, -_FAR_S), _FAR_S) + _QUARTER_S * quarters) / HOUR_S + _MONDAY_HOURS


@inlined_kernel
def week_of(hours: float) -> float:
    """Return the number of the week of local `hours`. O(1)."""
    return float(np.floor(hours / WEEK_HOURS))


@inlined_kernel
def hour_in_week(hours: float, week: float) -> float:
    """Return how many hours of their `week` have passed, 0 to 168. O(1)."""
    return min(max(hours - WEEK_HOURS * week, 0.0), float(WEEK_HOURS))


@inlined_kernel
def quarters_at(calendar: RegionClocks, region: int, at_s: float) -> int:
    """Return a region's UTC offset at `at_s`, in quarters of an hour. O(log switches)."""
    low, high = calendar.first[region], calendar.first[region + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if calendar.switch_s[middle] <= at_s:
            low = middle
        else:
            high = middle
    return int(calendar.quarters[low])
