"""Settings of an analysis: the span of the log, and regions of pages by top-level domain, with their time zones.

Regions are those of `streamsched.estimation.seasonality.regions`; here each domain may have its own time zone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from streamsched.errors import ReplayError, SettingsError
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion, check_regions, find_zone
from streamsched.numerics.arrays import Bytes, Hashes, Ints, frozen
from streamsched.numerics.jit import kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.numerics.url_syntax import find_authority, find_domain
from streamsched.replay.ground_truth import ChangeLog
from streamsched.replay.replay_settings import format_time, is_dated

ZONES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cn": "Asia/Shanghai",
        "jp": "Asia/Tokyo",
        "kr": "Asia/Seoul",
        "tw": "Asia/Taipei",
        "hk": "Asia/Hong_Kong",
        "fr": "Europe/Paris",
        "it": "Europe/Rome",
        "de": "Europe/Berlin",
        "es": "Europe/Madrid",
    }
)
"""Time zones of the paper's domains; the paper prints three of them as cn, jk and ko."""

OTHERS: Final = "other"
"""Name of the region of all other pages."""

_MAX_LABEL: Final = 63  # bytes of a domain's label; longer ones are invalid
_NAME: Final = re.compile(r"[^\s=,@<>&\"']{1,20}")


class GivenRegion(NamedTuple):
    """A region given by the user, with the time zones of its domains that have one."""

    name: str
    region: TimeRegion
    zones: Mapping[str, str]


def parse_region(text: str) -> GivenRegion:
    """Parse a region, ``NAME=DOMAIN,…``, each domain optionally with ``@ZONE``.

    Raises SettingsError if `text` is not a region.

    >>> parse_region("UK=uk@Europe/London,ie")
    GivenRegion(name='UK', region=TimeRegion(domains=('uk', 'ie'), zone=None), zones={'uk': 'Europe/London'})
    """
    name, _, rest = text.partition("=")
    domains = [part.partition("@") for part in rest.split(",")]
    labels = [domain.strip().lstrip(".").lower() for domain, _, _ in domains]
    zoned = [not at or bool(zone) for _, at, zone in domains]
    if not (_NAME.fullmatch(name) and all(map(_NAME.fullmatch, labels)) and all(zoned) and name != OTHERS):
        raise SettingsError("region", text, "NAME=DOMAIN,DOMAIN@ZONE such as UK=uk@Europe/London,ie")
    zones = {label: zone for label, (_, _, zone) in zip(labels, domains, strict=True) if zone}
    return GivenRegion(name, TimeRegion(tuple(labels)), zones)


def merge_regions(given: Sequence[GivenRegion]) -> tuple[dict[str, TimeRegion], dict[str, str]]:
    """Return the paper's regions and those `given`, and the time zones of their domains.

    A given region replaces one of the same name and takes its domains from others. Raises SettingsError if two have the
    same name.

    >>> list(merge_regions([parse_region("Iberia=es,pt")])[0])
    ['CJK', 'FIGS', 'Iberia']
    """
    names = [one.name for one in given]
    if len(set(names)) < len(names):
        raise SettingsError("region", names, "each name once")
    taken = {domain for one in given for domain in one.region.domains}
    left = {
        name: tuple(domain for domain in region.domains if domain not in taken)
        for name, region in REGIONS.items()
        if name not in names
    }
    kept = {name: TimeRegion(domains) for name, domains in left.items() if domains}
    zones = {domain: zone for domain, zone in ZONES.items() if domain not in taken}
    for one in given:
        zones |= one.zones
    return {**kept, **{one.name: one.region for one in given}}, zones


def find_domains(urls: PackedUrls, domains: Sequence[str]) -> Ints:
    """Return the index in `domains` of each page's top-level domain, ``len(domains)`` for others: int64[n].

    O(bytes + n · domains).

    >>> find_domains(PackedUrls.pack(["https://a.JP:80/x", "b.example.fr", "jp"]), ["fr", "jp"]).tolist()
    [1, 0, 2]
    """
    found = _hash_domains(frozen(urls.blob), frozen(urls.offsets))
    wanted = PackedUrls.pack([f"http://a.{domain}/" for domain in domains])
    places = np.full(len(urls), len(domains), np.int64)
    for place, key in enumerate(_hash_domains(frozen(wanted.blob), frozen(wanted.offsets))):
        places[found == key] = place
    return places


@kernel
def _hash_domains(blob: Bytes, offsets: Ints) -> Hashes:
    """Return a hash of the last label of each host, ignoring case, 0 for hosts without a domain. O(bytes)."""
    hashes = np.zeros(offsets.size - 1, np.uint64)
    label = np.zeros(_MAX_LABEL, np.uint8)
    for i in range(hashes.size):
        first, last, _ = find_authority(blob, offsets[i], offsets[i + 1])
        start, stop = find_domain(blob, first, last)
        if start == stop or stop - start > _MAX_LABEL:
            continue
        for at in range(start, stop):
            label[at - start] = blob[at] + 32 if 65 <= blob[at] <= 90 else blob[at]
        hashes[i] = hash_bytes(label, 0, stop - start)
    return hashes


HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0
WEEK_S: Final = 604_800.0

Span = tuple[float, float]
"""Start and end (exclusive), epoch seconds."""


@dataclass(frozen=True, slots=True)
class AnalysisSettings:
    """One analysis: a log, a span of it, and how its changes are observed.

    - ``log``: file name for `read_truth`;
    - ``start_s`` and ``end_s``, exclusive: epoch seconds, by default the extent of the log;
    - ``step_s``: seconds between visits of a simulated crawl of a log of changes, by default an hour or the log's
      resolution, whichever is longer; a log of crawl outcomes has its own visits;
    - ``near_s``: mean interval of the pages compared with exponential intervals, by default a day or another mean with
      enough pages;
    - ``level``: the largest share of Poisson pages that may be misclassified;
    - ``regions``: groups of pages by top-level domain;
    - ``zone``: time zone of the hours of the week, a name of the time zone database or an offset such as ``+08:00``.
      With ``local``, pages use the zone that ``zones`` has for their domain, else that of their region.

    Raises SettingsError if a value is invalid.
    """

    log: str
    start_s: float | None = None
    end_s: float | None = None
    step_s: float | None = None
    near_s: float | None = None
    level: float = 0.01
    regions: Mapping[str, TimeRegion] = field(default_factory=lambda: REGIONS)
    zones: Mapping[str, str] = field(default_factory=lambda: ZONES)
    zone: str = "UTC"
    local: bool = False

    def __post_init__(self) -> None:
        for edge, time_s in (("from", self.start_s), ("to", self.end_s)):
            _require(time_s is None or is_dated(time_s), edge, time_s, "epoch seconds of the years 1 to 9999")
        if self.start_s is not None and self.end_s is not None:
            _require(self.start_s < self.end_s, "to", format_time(self.end_s), "a time after --from")
        _require(self.step_s is None or 1 <= self.step_s <= WEEK_S, "step", self.step_s, "a time from 1s to 1w")
        _require(self.near_s is None or HOUR_S <= self.near_s < math.inf, "near", self.near_s, "a time of 1h or more")
        _require(0 < self.level < 0.5, "level", self.level, "a share above 0 and below 0.5, such as 0.01")
        check_regions(self.regions)
        for zone in (self.zone, *self.zones.values()):
            find_zone(zone)

    def clock_of(self, domain: str, region: TimeRegion) -> str | float:
        """Return the time zone for the pages of a domain of `region`."""
        own = self.zones.get(domain, region.zone)
        return own if self.local and own is not None else self.zone


def choose_span(log: ChangeLog, settings: AnalysisSettings) -> Span:
    """Return the span of `log` that `settings` select. Raises ReplayError if the log holds nothing of it. O(1)."""
    if not (is_dated(log.first_s) and is_dated(log.last_s)):
        raise ReplayError(f"the log's times run from {log.first_s:.0f} to {log.last_s:.0f}: expected epoch seconds")
    start_s = log.first_s if settings.start_s is None else settings.start_s
    end_s = math.nextafter(log.last_s, math.inf) if settings.end_s is None else settings.end_s
    if start_s >= end_s or start_s > log.last_s or end_s <= log.first_s:
        asked = f"{format_time(start_s)} to {format_time(end_s)}"
        extent = f"{format_time(log.first_s)} to {format_time(log.last_s)}"
        raise ReplayError(f"nothing to analyze from {asked}: the log runs from {extent}")
    return max(start_s, log.first_s), min(end_s, math.nextafter(log.last_s, math.inf))


def _require(fits: bool, setting: str, found: object, expected: str) -> None:
    if not fits:
        raise SettingsError(setting, found, expected)
