"""The slow, obvious twin of `politeness.domain_shares`: visits of the newest day, counted by domain in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from fractions import Fraction

from tests.reference.shard import names_of

DAY_S = 86_400.0


class DomainShares:
    """How many pages of each domain a batch may have. ``share``: the setting `host_share`."""

    def __init__(self, share: float | None) -> None:
        self.share = share
        self.day = -math.inf
        self.visits: Counter[str] = Counter()

    def count(self, urls: Iterable[str], now: float) -> None:
        """Pages are handed out."""
        day = math.floor(now / DAY_S)
        if day > self.day:
            self.day, self.visits = day, Counter()
        self.visits.update(map(domain_of, urls))

    def take_back(self, urls: Iterable[str]) -> None:
        """Leased pages are given back unvisited."""
        for domain in map(domain_of, urls):
            self.visits[domain] = max(self.visits[domain] - 1, 0)

    def rooms(self, known: Collection[str], k: int, now: float) -> dict[str, float]:
        """How many pages of each domain a batch of `k` of the `known` pages may have."""
        visits = Counter() if math.floor(now / DAY_S) > self.day else self.visits
        total = sum(visits.values()) + min(k, len(known))
        rooms: dict[str, float] = {}
        for domain, pages in Counter(map(domain_of, known)).items():
            if self.share is None or self.share >= 1 or 2 * pages >= len(known):
                rooms[domain] = math.inf
            else:
                share = max(Fraction(str(self.share)), Fraction(2 * pages, len(known)))
                rooms[domain] = max(math.floor(share * total), 1) - visits[domain]
        return rooms


def domain_of(url: str) -> str:
    """The registrable domain of hosts as tests name them, with suffixes of one label."""
    host = names_of(url)[0]
    return host.partition("]")[0] if host.startswith("[") else ".".join(host.partition(":")[0].split(".")[-2:])
