"""Slow reference of significances: all changes of known significance kept in lists, and every mean taken anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PAGE_STRENGTH, HOST_STRENGTH = 2, 8
PAGE_MEMORY, HOST_MEMORY = 15, 1024


@dataclass
class PageSignificance:
    """What a page expects, in steps of 1/4095, and its changes of known significance."""

    expected: float = 1.0
    changes: list[float] = field(default_factory=list)


@dataclass
class Significances:
    """The changes of known significance of all pages and of each host."""

    changes: list[float] = field(default_factory=list)
    by_host: dict[str, list[float]] = field(default_factory=dict)

    def refresh(self, page: PageSignificance, host: str) -> None:
        """Let a page without such changes expect its host's mean."""
        if self.changes and not page.changes:
            page.expected = in_steps(self.host_mean(host))

    def learn(self, page: PageSignificance, host: str, significance: float) -> None:
        """Count a change."""
        self.changes.append(significance)
        self.by_host.setdefault(host, []).append(significance)
        if not page.changes:
            page.expected = self.host_mean(host)
        weight = 1.0 / (PAGE_STRENGTH + min(len(page.changes), PAGE_MEMORY) + 1)
        page.changes.append(significance)
        page.expected = in_steps((1.0 - weight) * page.expected + weight * significance)

    def host_mean(self, host: str) -> float:
        """The mean of a host's changes and of eight more with the mean of all pages."""
        own = self.by_host.get(host, [])
        count = min(len(own), HOST_MEMORY)
        return (HOST_STRENGTH * fading_mean(self.changes) + count * fading_mean(own)) / (HOST_STRENGTH + count)


def fading_mean(values: Sequence[float]) -> float:
    """The mean of the first `HOST_MEMORY` values, of which each later one replaces an equal part."""
    mean = sum(values[:HOST_MEMORY]) / max(len(values[:HOST_MEMORY]), 1)
    for value in values[HOST_MEMORY:]:
        mean = mean * (1 - 1 / HOST_MEMORY) + value / HOST_MEMORY
    return mean


def in_steps(value: float) -> float:
    """The nearest multiple of 1/4095."""
    return round(value * 4095) / 4095


def significance_of(visit: dict[str, Any], page: dict[str, Any], told: float | None) -> float | None:
    """How much of a page changed by a visit, as told or by the fingerprints of two successes; None if unknown."""
    if told is not None:
        return told
    status = visit.get("status", 200)
    if not page["success"] or "fingerprint" not in page or "fingerprint" not in visit or status >= 400 or status == 304:
        return None
    bits, before = (f"{one['fingerprint']:064b}" for one in (visit, page))
    return sum(a != b for a, b in zip(bits, before, strict=True)) / 64
