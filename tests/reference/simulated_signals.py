"""The slow, obvious twin of simulated sources: page by page and signal by signal, from one stream of random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.reference.url_hash import hash_of

Signal = tuple[float, int, bool]  # when, page, whether it announces a change
Settings = tuple[str, float, float, float, float, float, float | None]  # kind, share, recall, precision, late ...


def simulate(
    urls: Sequence[str],
    changes: Sequence[Sequence[float]],
    appears: Sequence[float],
    cycles: tuple[float, float, int],
    settings: Settings,
    seed: int,
) -> list[Signal]:
    """The signals of one source in time order; `cycles`: start, length and number."""
    kind, share, recall, precision, late, begin, flood = settings
    start, length, count = cycles
    rng = np.random.default_rng([seed, *kind.encode()])
    salt = int(rng.integers(2**63))
    covered = [page for page, url in enumerate(urls) if mix(hash_of(url.encode()) ^ salt) < share * 2**64]
    known = [_known_since(when, cycles) for when in appears]
    end, begin = start + length * count, start + begin
    signals: list[Signal] = []
    if flood is not None:
        rounds = max(0, math.ceil((end - begin) / flood))
        signals = [(begin + turn * flood, page, False) for turn in range(rounds) for page in covered]
    else:
        events = [(page, when) for page in covered for when in changes[page] if when >= begin]
        told = [event for event in events if rng.random() < recall]
        signals = [(when + rng.exponential(late), page, True) for page, when in told]
        spans = [max(0.0, end - max(known[page], begin)) for page in covered]
        false = recall * len(events) * (1 / precision - 1)
        if sum(spans):
            numbers = [rng.poisson(false * span / np.sum(spans)) for span in spans]
            for page, span, number in zip(covered, spans, numbers, strict=True):
                signals += [(max(known[page], begin) + rng.random() * span, page, False) for _ in range(number)]
    return sorted((one for one in signals if known[one[1]] <= one[0] < end), key=lambda one: one[0])


def mix(word: int) -> int:
    """A hash of 64 bits: the upper and the lower half of a product, folded."""
    product = (word ^ 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93
    return (product >> 64) ^ product % 2**64


def _known_since(appears: float, cycles: tuple[float, float, int]) -> float:
    """The first edge after the appearance: until then no crawler knows the page."""
    start, length, count = cycles
    return next((start + cycle * length for cycle in range(count + 1) if appears < start + cycle * length), math.inf)
