"""Hosts and URL prefixes of a synthetic corpus, and the kind of pages below each prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.packed_urls import PackedUrls
from streamsched.replay.synthetic.synthetic_settings import KINDS, SyntheticSettings

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes, Ints

__all__ = ["Sites", "draw_sites", "make_urls"]

_WORDS: Final = b"newsblogshopdocsteamwikilisttags"  # words of prefixes, all of ...
_WORD_BYTES: Final = 4  # ... equal length, so that all URLs have equal length


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """Sites of n pages: neighbouring pages share p prefixes, neighbouring prefixes share h hosts.

    ``prefix``: int64[n], the prefix of each page, ascending; ``offsets``: int64[p + 1], the pages of prefix i are
    ``offsets[i]`` to ``offsets[i + 1]``; ``host``: int64[p], the host of each prefix, ascending; ``kind``: int64[p],
    the index in `KINDS` of its pages.
    """

    prefix: Ints
    offsets: Ints
    host: Ints
    kind: Ints

    def kinds(self) -> Ints:
        """Return the kind of each page: int64[n]. O(n)."""
        return self.kind[self.prefix]

    def pages(self, kind: str) -> Ints:
        """Return the pages of a kind: int64[k], ascending. O(n)."""
        return np.flatnonzero(self.kinds() == KINDS.index(kind))


def draw_sites(settings: SyntheticSettings, rng: np.random.Generator) -> Sites:
    """Return hosts with Pareto distributed sizes, divided into prefixes with one kind each. O(pages)."""
    begins_host = np.zeros(settings.pages, np.bool_)
    begins_host[_first_pages(settings, rng)] = True
    begins = begins_host | (rng.random(settings.pages) < 1 / settings.pages_per_prefix)
    starts = np.flatnonzero(begins)
    host = np.cumsum(begins_host)[starts] - 1
    offsets = np.append(starts, settings.pages)
    return Sites(np.cumsum(begins) - 1, offsets, host, _assign_kinds(settings, offsets, host, rng))


def _first_pages(settings: SyntheticSettings, rng: np.random.Generator) -> Ints:
    """Return the first page of each host: int64[h]; every host has at least one page."""
    hosts = min(settings.hosts, settings.pages)
    weights = (1 - rng.random(hosts)) ** (-1 / settings.host_tail)
    ends = np.cumsum(weights) / weights.sum()
    return np.asarray(np.arange(hosts) + np.floor(np.append(0.0, ends[:-1]) * (settings.pages - hosts)), np.int64)


def _assign_kinds(settings: SyntheticSettings, offsets: Ints, host: Ints, rng: np.random.Generator) -> Ints:
    """Return a kind for each prefix: int64[p]. O(p log p).

    Prefixes are put in random order, and their pages are divided by the shares of the kinds, which are exact to within
    a prefix. Prefixes that follow their host are adjacent and so have one kind.
    """
    own = rng.random(host.size)
    place = np.where(rng.random(host.size) < settings.host_accord, rng.random(settings.pages)[host], own)
    line = np.argsort(place, kind="stable")
    sizes = np.diff(offsets)[line]
    middles = (np.cumsum(sizes) - sizes / 2) / settings.pages
    kind = np.empty(host.size, np.int64)
    kind[line] = np.minimum(np.searchsorted(np.cumsum(settings.shares), middles, "right"), _last_kind(settings))
    return kind


def _last_kind(settings: SyntheticSettings) -> int:
    """Return the last kind with a share, which gets the rest if rounding leaves the sum of the shares below 1."""
    return max(place for place, share in enumerate(settings.shares) if share > 0)


def make_urls(settings: SyntheticSettings, sites: Sites, rng: np.random.Generator) -> PackedUrls:
    """Return the pages' URLs, such as ``https://site0000.example/news-00/0000.html``, all of one length. O(bytes).

    Numbers count hosts, the prefixes of a host and the pages of a prefix.
    """
    pages = np.arange(settings.pages)
    host = sites.host[sites.prefix]
    prefixes = np.arange(sites.host.size) - np.searchsorted(sites.host, sites.host)
    words = np.frombuffer(_WORDS, np.uint8).reshape(-1, _WORD_BYTES)
    columns = (
        _repeat(b"https://site", settings.pages),
        _format_digits(host),
        _repeat(f".{settings.domain}/".encode(), settings.pages),
        words[rng.integers(0, len(words), sites.host.size)][sites.prefix],
        _repeat(b"-", settings.pages),
        _format_digits(prefixes)[sites.prefix],
        _repeat(b"/", settings.pages),
        _format_digits(pages - sites.offsets[sites.prefix]),
        _repeat(b".html", settings.pages),
    )
    text = np.concatenate(columns, axis=1)
    return PackedUrls(text.ravel(), np.arange(settings.pages + 1) * text.shape[1])


def _repeat(text: bytes, count: int) -> Bytes:
    """Return `text` in each of `count` rows: uint8[count, bytes]."""
    return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))


def _format_digits(numbers: Ints) -> Bytes:
    """Return whole numbers from 0 in decimal, padded to the length of the largest: uint8[n, digits].

    >>> _format_digits(np.array([7, 120])).tobytes()
    b'007120'
    """
    width = len(str(int(numbers.max())))
    return (48 + numbers[:, None] // 10 ** np.arange(width - 1, -1, -1) % 10).astype(np.uint8)
