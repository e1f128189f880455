"""Synthetic pages for benchmarks: URLs of 60 characters on many hosts, and outcomes of visits to them."""

from __future__ import annotations

import numpy as np

from streamsched import OutcomeBatch, PackedUrls

__all__ = ["DAY_S", "make_urls", "visit_all"]

DAY_S = 86_400.0
_TEMPLATE = b"https://www.host0000000.example/section00/page-0000000000.htm"[:60]
_PAGES_PER_HOST = 200
_DIGITS = ((16, 7, _PAGES_PER_HOST), (39, 2, 20), (47, 10, 1))  # column, digits, pages that share the number


def make_urls(pages: int) -> PackedUrls:
    """Return `pages` distinct URLs of 60 characters: 200 on a host, in sections of 20."""
    text = np.tile(np.frombuffer(_TEMPLATE, np.uint8), (pages, 1))
    for column, digits, share in _DIGITS:
        number = np.arange(pages) // share
        for place in range(digits):
            text[:, column + digits - 1 - place] = 48 + number % 10
            number //= 10
    return PackedUrls(text.ravel(), np.arange(pages + 1) * len(_TEMPLATE))


def visit_all(urls: PackedUrls, day: int, rng: np.random.Generator) -> OutcomeBatch:
    """Return one visit to each of `urls` at a random time of `day`; a tenth of the visits see a change."""
    times = (day + rng.random(len(urls))) * DAY_S
    return OutcomeBatch(urls, times, changed=rng.random(len(urls)) < 0.1)
