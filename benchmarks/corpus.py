"""Synthetic pages for benchmarks: URLs of 60 characters on many hosts, and outcomes of visits to them."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched import OutcomeBatch, PackedUrls
from streamsched.numerics.arrays import Ints

__all__ = ["DAY_S", "make_urls", "name_pages", "visit_all"]

DAY_S = 86_400.0
_TEMPLATE: Final = b"https://www.host0000000.example/section00/page-0000000000.htm"[:60]
_PAGES_PER_HOST: Final = 200
_PLACES: Final = ((16, 7), (39, 2), (47, 10))  # column and digits of the numbers of host, section and page


def make_urls(pages: int) -> PackedUrls:
    """Return `pages` distinct URLs of 60 characters: 200 on a host, in sections of 20."""
    numbers = np.arange(pages)
    return name_pages(numbers, numbers // _PAGES_PER_HOST, numbers // 20)


def name_pages(pages: Ints, hosts: Ints, sections: Ints) -> PackedUrls:
    """Return URLs of 60 characters from the numbers of ``pages``, ``hosts``, ``sections``: int64[m]."""
    text = np.tile(np.frombuffer(_TEMPLATE, np.uint8), (pages.size, 1))
    for (column, digits), numbers in zip(_PLACES, (hosts, sections, pages), strict=True):
        left = numbers.copy()
        for place in range(digits):
            text[:, column + digits - 1 - place] = 48 + left % 10
            left //= 10
    return PackedUrls(text.ravel(), np.arange(pages.size + 1) * len(_TEMPLATE))


def visit_all(urls: PackedUrls, day: int, rng: np.random.Generator) -> OutcomeBatch:
    """Return one visit to each of `urls` at a random time of `day`; a tenth of the visits see a change."""
    times = (day + rng.random(len(urls))) * DAY_S
    return OutcomeBatch(urls, times, changed=rng.random(len(urls)) < 0.1)
