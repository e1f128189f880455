"""Regions: pages whose authors share a day and a night, found by the top-level domains of their hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np

from streamsched.errors import SettingsError
from streamsched.estimation.seasonality.timezones import find_zone, offsets_between
from streamsched.numerics.argument_checks import read_items
from streamsched.numerics.packed_urls import hash_bytes
from streamsched.records.seasonality_schema import RegionClocks

__all__ = ["REGIONS", "TimeRegion", "check_regions", "make_region_clocks"]

_UNTIL_S: Final = 4.1e9  # 2099: clock changes from 1970 until then are used; later times have the last offset
_QUARTER_S: Final = 900.0  # seconds; all UTC offsets since 1972 are multiples
_MOST: Final = 64


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
