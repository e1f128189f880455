"""Which region of the world a page is of, by the top-level domain of its host (Grimes & O'Brien, section 3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from streamsched.arrays import Bytes, Hashes, Ints, frozen
from streamsched.errors import SettingsError
from streamsched.groups import find_authority
from streamsched.jit import kernel
from streamsched.packed import PackedUrls, hash_bytes

__all__ = ["REGIONS", "Region", "find_domains", "merge_regions", "parse_region"]

_MAX_LABEL: Final = 63  # bytes of a domain's name; a longer one is none
_DOT, _COLON, _BRACKET = ord("."), ord(":"), ord("]")
_NAME: Final = re.compile(r"[^\s=,@<>&\"']{1,20}")


@dataclass(frozen=True, slots=True)
class Region:
    """A group of top-level domains: ``name``, and each domain with the zone of its clocks, None where none is known."""

    name: str
    domains: tuple[tuple[str, str | None], ...]


_CHINA: Final = "Asia/Shanghai"
REGIONS: Final = (
    Region(
        "CJK",
        (("cn", _CHINA), ("jp", "Asia/Tokyo"), ("kr", "Asia/Seoul"), ("tw", "Asia/Taipei"), ("hk", "Asia/Hong_Kong")),
    ),
    Region(
        "FIGS",
        (("fr", "Europe/Paris"), ("it", "Europe/Rome"), ("de", "Europe/Berlin"), ("es", "Europe/Madrid")),
    ),
)
"""The paper's two; it prints CJK's domains as cn, jk and ko."""


def parse_region(text: str) -> Region:
    """Return the region that `text` spells: ``NAME=DOMAIN,…``, each domain with ``@ZONE`` or without.

    Raises SettingsError where it spells none.

    >>> parse_region("UK=uk@Europe/London,ie")
    Region(name='UK', domains=(('uk', 'Europe/London'), ('ie', None)))
    """
    name, _, rest = text.partition("=")
    domains = [part.partition("@") for part in rest.split(",")]
    labels = [domain.strip().lstrip(".").lower() for domain, _, _ in domains]
    zoned = [not at or bool(zone) for _, at, zone in domains]
    if not (_NAME.fullmatch(name) and all(map(_NAME.fullmatch, labels)) and all(zoned)):
        raise SettingsError("region", text, "NAME=DOMAIN,DOMAIN@ZONE such as UK=uk@Europe/London,ie")
    return Region(name, tuple((label, zone or None) for label, (_, _, zone) in zip(labels, domains, strict=True)))


def merge_regions(given: Sequence[Region]) -> tuple[Region, ...]:
    """Return the paper's regions and those `given`, which replace one of their name and take the domains they name.

    >>> [region.name for region in merge_regions([parse_region("Iberia=es,pt")])]
    ['CJK', 'FIGS', 'Iberia']
    """
    names = {region.name for region in given}
    taken = {domain for region in given for domain, _ in region.domains}
    kept = (
        Region(region.name, tuple(domain for domain in region.domains if domain[0] not in taken))
        for region in REGIONS
        if region.name not in names
    )
    return (*(region for region in kept if region.domains), *given)


def find_domains(urls: PackedUrls, domains: Sequence[str]) -> Ints:
    """Return the place in `domains` of each page's top-level domain, their number where it is none: int64[n].

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
    """Return a hash of the last label of each host, 0 where a host has one label or is an address of IPv6. O(bytes)."""
    hashes = np.zeros(offsets.size - 1, np.uint64)
    label = np.zeros(_MAX_LABEL, np.uint8)
    for i in range(hashes.size):
        first, last, _ = find_authority(blob, offsets[i], offsets[i + 1])
        stop = last
        for at in range(last - 1, first - 1, -1):
            if blob[at] == _BRACKET:
                break
            if blob[at] == _COLON:
                stop = at
                break
        if stop > first and blob[stop - 1] == _DOT:
            stop -= 1
        start = stop
        while start > first and blob[start - 1] != _DOT:
            start -= 1
        if start in (first, stop) or stop - start > _MAX_LABEL:
            continue
        for at in range(start, stop):
            label[at - start] = blob[at] + 32 if 65 <= blob[at] <= 90 else blob[at]
        hashes[i] = hash_bytes(label, 0, stop - start)
    return hashes
