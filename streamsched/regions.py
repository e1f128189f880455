"""Regions: pages whose people wake and sleep together, told by the top-level domains of their hosts (SPEC 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from types import MappingProxyType
from typing import Any, Final, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from streamsched.errors import SettingsError
from streamsched.packed import hash_bytes
from streamsched.tables import Calendar

__all__ = ["REGIONS", "Region", "check_regions", "make_calendar"]

_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS: Final = 130  # of a zone's switches that are looked up: beyond, its clock stays as it is then
_LOOK: Final = timedelta(days=7)  # no zone turned its clock forth and back within less
_QUARTER_S: Final = 900
_MOST: Final = 64


@dataclass(frozen=True, slots=True)
class Region:
    """Hosts whose names end in one of `domains`, such as ``"jp"``, and the `zone` their clocks go by; None for UTC.

    `zone`: a name of the IANA's time zones, such as ``"Asia/Tokyo"``, or whole quarters of an hour east of UTC, as
    hours: 5.75. With it, hours of the week are local ones, also when clocks are put forward or back. Raises
    SettingsError where a value cannot work.

    >>> Region(("JP", "kr"), "Asia/Tokyo").domains
    ('jp', 'kr')
    """

    domains: tuple[str, ...]
    zone: str | float | None = None

    def __post_init__(self) -> None:
        names = tuple(str(domain).lower().removeprefix(".") for domain in self.domains)
        if isinstance(self.domains, str) or not names or any(not name or "." in name for name in names):
            raise SettingsError("regions", self.domains, "top-level domains, such as ('fr', 'it')")
        object.__setattr__(self, "domains", names)
        _find_zone(self.zone)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {"domains": list(self.domains), "zone": self.zone}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        """Return the region that `to_json` told."""
        return cls(tuple(told["domains"]), told["zone"])


def check_regions(regions: object) -> dict[str, Region]:
    """Return regions by name as a dict; raises SettingsError where they cannot work."""
    if not isinstance(regions, Mapping) or not all(isinstance(one, Region) for one in regions.values()):
        raise SettingsError("regions", regions, "a mapping of names to Region")
    domains = [domain for region in regions.values() for domain in region.domains]
    twice = sorted({domain for domain in domains if domains.count(domain) > 1})
    if twice:
        raise SettingsError("regions", twice[0], "each domain in one region")
    if len(regions) > _MOST:
        raise SettingsError("regions", len(regions), f"at most {_MOST}")
    return {str(name): region for name, region in regions.items()}


def make_calendar(regions: Mapping[str, Region]) -> Calendar:
    """Return what kernels need of `regions`, numbered from 1 in their order. O(years)."""
    named = [(domain, i) for i, region in enumerate(regions.values(), 1) for domain in region.domains]
    hashes = [hash_bytes(np.frombuffer(domain.encode(), np.uint8), 0, len(domain.encode())) for domain, _ in named]
    switches = [[(-np.inf, 0)], *(list(_find_switches(_find_zone(region.zone))) for region in regions.values())]
    flat = [switch for own in switches for switch in own]
    return Calendar(
        np.array(hashes, np.uint64),
        np.array([i for _, i in named], np.int64),
        np.cumsum([0, *map(len, switches)]),
        np.array([at_s for at_s, _ in flat]),
        np.array([quarters for _, quarters in flat], np.int64),
    )


def _find_zone(zone: str | float | None) -> tzinfo | int:
    """Return the zone of that name, or how many quarters of an hour a fixed one is east of UTC."""
    if isinstance(zone, str):
        try:
            return ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise SettingsError("zone", zone, "a time zone that this system knows, such as Asia/Tokyo") from error
    quarters = 4 * float(zone or 0.0)
    if not (quarters.is_integer() and -56 <= quarters <= 56):
        raise SettingsError("zone", zone, "the name of a time zone, or quarters of an hour from -14 to 14 hours")
    return int(quarters)


def _find_switches(zone: tzinfo | int) -> Iterator[tuple[float, int]]:
    """Yield from when on the clock is how many quarters before UTC, ascending, from ever before."""
    if isinstance(zone, int):
        yield -np.inf, zone
        return
    at, before = _FIRST, _quarters(zone, _FIRST)
    yield -np.inf, before
    for _ in range(_YEARS * 365 // _LOOK.days):
        then = at + _LOOK
        if _quarters(zone, then) != before:
            while then - at > timedelta(seconds=1):
                middle = at + timedelta(seconds=(then - at) // timedelta(seconds=2))
                at, then = (middle, then) if _quarters(zone, middle) == before else (at, middle)
            before = _quarters(zone, then)
            yield then.timestamp(), before
            at = then - timedelta(seconds=1)
        at += _LOOK


def _quarters(zone: tzinfo, at: datetime) -> int:
    """Return a zone's offset in whole quarters of an hour: all are, since 1972."""
    offset = at.astimezone(zone).utcoffset() or timedelta()
    return round(offset.total_seconds() / _QUARTER_S)


REGIONS: Final[Mapping[str, Region]] = MappingProxyType(
    {"CJK": Region(("cn", "jp", "kr", "tw", "hk")), "FIGS": Region(("fr", "it", "de", "es"))}
)
"""The regions of Grimes & O'Brien (2008), section 3, by UTC."""
