"""Regions and time zones of an analysis, and the region of each page by the top-level domain of its host.

Regions are those of `streamsched.estimation.seasonality.regions`; here each domain may have its own time zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from streamsched.errors import SettingsError
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion
from streamsched.numerics.arrays import Bytes, Hashes, Ints, frozen
from streamsched.numerics.jit import kernel
from streamsched.numerics.packed_urls import PackedUrls, hash_bytes
from streamsched.numerics.url_syntax import find_authority, find_domain

__all__ = ["OTHERS", "ZONES", "GivenRegion", "find_domains", "merge_regions", "parse_region"]

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
