"""The slow, obvious twin of a scheduler's ranking: all pages sorted, and hosts filled from the best down."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from streamsched.outcomes import Outcome
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from tests.reference import politeness as reference_politeness
from tests.reference import shard
from tests.reference.domain_shares import DomainShares, domain_of
from tests.reference.shard import names_of


class World:
    """The calls that a scheduler got and the pages that it leased, in plain Python."""

    def __init__(self, cycle_s: float, politeness: Politeness, seed: int) -> None:
        self.cycle_s = cycle_s
        self.politeness = politeness
        self.seed = seed
        self.per_batch = politeness.per_batch
        self.shard = shard.Shard(cycle_s, clock_skew_s=float(politeness.clock_skew))
        self.hosts: dict[str, reference_politeness.Host] = {}
        self.leases = reference_politeness.Leases()
        self.rules: dict[str, Rule] = {}
        self.urgent: set[str] = set()
        self.blocks: list[tuple[str, float]] = []
        self.unblocked: set[str] = set()  # hosts that blocks have not reached
        self.shares = DomainShares(None)

    def host(self, url: str) -> reference_politeness.Host:
        """The host of a page."""
        name = names_of(url)[0]
        if name not in self.hosts:
            self.hosts[name] = reference_politeness.Host(self.politeness)
            self.unblocked.add(name)
        return self.hosts[name]

    def reach(self) -> None:
        """Block new hosts as the last block that matches them says."""
        for name in self.unblocked:
            fitting = [until_s for pattern, until_s in self.blocks if reference_politeness.fits_host(name, pattern)]
            self.hosts[name].ready_s = max([self.hosts[name].ready_s, *fitting[-1:]])
        self.unblocked.clear()

    def forget(self, now: float) -> None:
        """Drop the blocks that have expired, unless they are exceptions from earlier ones that have not."""
        kept: dict[str, float] = {}
        newest: dict[str, float] = {}
        for pattern, until_s in self.blocks:
            newest.pop(pattern, None)
            newest[pattern] = until_s
        for pattern, until_s in newest.items():
            wider = [other for other, until in kept.items() if until > now]
            fits = any("*" in other and reference_politeness.fits_host(pattern, other) for other in wider)
            if until_s > now or (wider and ("*" in pattern or fits)):
                kept[pattern] = until_s
        self.blocks = list(kept.items())

    def add(self, url: str, now: float) -> None:
        """A page becomes known."""
        self.shard.page(url, now)
        self.host(url)
        self.reach()

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Apply outcomes in order."""
        for outcome in outcomes:
            answers, newest_s = self.shard.answers(outcome), self.shard.newest_s
            if self.shard.observe(outcome) not in ("duplicate", "late"):
                self.host(outcome.url).apply(outcome, answers=answers, newest_s=newest_s)
                if answers:
                    self.urgent.discard(outcome.url)
                    self.leases.until_s.pop(outcome.url, None)
        self.reach()

    def lease(self, urls: Sequence[str], now: float, lease_s: float) -> None:
        """Lease pages."""
        for name, of_host in itertools.groupby(sorted(urls, key=host_of), key=host_of):
            self.hosts[name].lease(list(of_host), now, now + lease_s)
        for url in urls:
            self.leases.until_s[url] = now + lease_s
            self.shard.pages[url].lease(now, now + lease_s)
        self.shares.count(urls, now)

    def release(self, urls: Sequence[str]) -> None:
        """Return pages unvisited."""
        for url in urls:
            self.leases.until_s.pop(url, None)
            if url in self.shard.pages:
                self.host(url).release(url)
                self.shard.pages[url].lease_until_s = None

    def forget_pages(self, urls: Sequence[str]) -> None:
        """Pages become unknown."""
        self.release(urls)
        for url in urls:
            if url in self.shard.pages:
                del self.shard.pages[url]
                self.host(url).retry_s.pop(url, None)
            self.urgent.discard(url)

    def set_rule(self, target: str, rule: Rule | HostRule | None) -> None:
        """Set a rule of one host, or of pages by pattern; None removes both."""
        if isinstance(rule, HostRule):
            self.hosts[target].rule = rule
            return
        if rule is None and target in self.hosts:
            self.hosts[target].rule = HostRule()
        self.rules.pop(target, None)
        if rule is not None:
            self.rules[target] = rule

    def is_rested(self, url: str, now: float) -> bool:
        """Whether a page may be visited, its host aside."""
        page = self.shard.pages[url]
        rule = reference_politeness.rule_of(url, self.rules)
        urgent, retry_s = url in self.urgent, self.host(url).retry_s.get(url, -math.inf)
        ready_s = reference_politeness.ready_at(page, rule, self.politeness, urgent=urgent, retry_s=retry_s)
        return ready_s <= now and (page.lease_until_s is None or page.lease_until_s <= now)

    def priority(self, url: str, now: float) -> tuple[int, float]:
        """A page's tier and, if it is overdue, since when: 2 for asked for, 1 for overdue, 0 for neither."""
        rule = reference_politeness.rule_of(url, self.rules)
        since_s = reference_politeness.overdue_at(
            self.shard.pages[url], rule, self.politeness, urgent=url in self.urgent
        )
        if since_s > now:
            return 0, 0.0
        return (2, 0.0) if since_s == -math.inf else (1, since_s)

    def capacities(self, now: float, lease_s: float) -> dict[str, float]:
        """How many pages of each host a batch may have."""
        out = Counter(names_of(url)[0] for url in self.leases.until_s)
        capacities = {}
        for name, host in self.hosts.items():
            host.out = {str(number) for number in range(out[name])}
            own = host.rule.per_batch
            per_batch = math.inf if own is not None or self.per_batch is None else self.per_batch
            capacities[name] = min(host.capacity(now, min(lease_s, 1e300)), per_batch)
        return capacities

    def rank(
        self,
        scores: Mapping[str, float],
        k: int,
        now: float,
        lease_s: float = math.inf,
        *,
        only_new: bool = False,
        per_host: float = math.inf,
        shared: bool = False,
    ) -> list[tuple[str, float, int]]:
        """The batch of `k` pages that should be handed out, of those with `scores`; the score and the tier of each.

        `shared`: domains have no more than their shares of the day's visits, while others have pages.
        """
        self.leases.expire(now)
        capacities = {name: min(room, per_host) for name, room in self.capacities(now, lease_s).items()}
        known = {
            url: self.priority(url, now)
            for url in scores
            if self.is_rested(url, now) and not (only_new and self.shard.pages[url].left is not None)
        }
        tiers = []
        for tier in (2, 1, 0):
            order_by = {url: -since_s if tier else scores[url] for url, (own, since_s) in known.items() if own == tier}
            tiers.append(shard.full_sort(order_by, self.seed, math.floor(now / self.cycle_s)))
        order = list(itertools.chain(*tiers))
        batch = fill_hosts(order, capacities, k)
        if shared:
            rooms = self.shares.rooms(self.shard.pages, k, now)
            first = fill_domains(order, capacities, rooms, {url for url, (tier, _) in known.items() if tier}, k)
            chosen = set(fill_hosts([*first, *(url for url in order if url not in first)], capacities, k))
            batch = [url for url in order if url in chosen]
        return [(url, scores[url], known[url][0]) for url in batch]


def host_of(url: str) -> str:
    """The name of a page's host."""
    return names_of(url)[0]


def fill_hosts(order: Sequence[str], capacities: Mapping[str, float], k: int) -> list[str]:
    """The first `k` whose hosts have capacity left."""
    taken: Counter[str] = Counter()
    batch: list[str] = []
    for url in order:
        name = names_of(url)[0]
        if len(batch) < k and taken[name] < capacities[name]:
            taken[name] += 1
            batch.append(url)
    return batch


def fill_domains(
    order: Sequence[str], capacities: Mapping[str, float], rooms: Mapping[str, float], exempt: Collection[str], k: int
) -> list[str]:
    """The first `k` whose hosts have capacity left, and whose domains have unless they are exempt."""
    taken: Counter[str] = Counter()
    batch: list[str] = []
    for url in order:
        domain = domain_of(url)
        if taken[domain] < rooms[domain] or url in exempt:
            before, batch = len(batch), fill_hosts([*batch, url], capacities, k)
            taken[domain] += len(batch) - before
    return batch


def best_batches(
    scores: Mapping[str, float], capacities: Mapping[str, float], k: int
) -> tuple[list[float], Collection[frozenset[str]]]:
    """Of all the largest batches that hosts allow: the scores of the one that comes first, best score first, and all
    batches with the greatest sum of scores.
    """
    size = min(k, sum(int(min(room, len(scores))) for room in capacities.values()), len(scores))
    allowed: list[frozenset[str]] = []
    while not allowed:
        allowed = [frozenset(urls) for urls in itertools.combinations(scores, size) if are_allowed(urls, capacities)]
        size -= 1
    sums = {urls: math.fsum(scores[url] for url in urls) for urls in allowed}
    in_order = max(sorted((scores[url] for url in urls), reverse=True) for urls in allowed)
    return in_order, [urls for urls, total in sums.items() if total == max(sums.values())]


def are_allowed(urls: Sequence[str], capacities: Mapping[str, float]) -> bool:
    """Whether hosts have capacity for all of a batch."""
    return all(count <= capacities[name] for name, count in Counter(names_of(url)[0] for url in urls).items())
