"""A scheduler with incremental ranking however few its pages, and its slow twin: same calls, same answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from streamsched import Batch, Scheduler
from streamsched.estimation.seasonality.regions import REGIONS, TimeRegion
from streamsched.formula import Formula
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.reasons import ReasonCode
from streamsched.scheduler.selection_reasons import ComposedBatch
from streamsched.signals import SignalBatch
from tests.reference import politeness
from tests.reference.domain_shares import DomainShares
from tests.reference.ranking import World, fill_hosts
from tests.reference.shard import names_of
from tests.support.guarded_memory import fenced, small_rankings, small_reserve
from tests.support.handout import by_probability
from tests.support.outcome_streams import DAY

START_S = 1_000 * DAY
DEFAULTS = Politeness()


@contextmanager
def small_shards(bits: int = 5, most_opened: int = 1) -> Iterator[None]:
    """Schedulers created in this block keep bounds of any number of pages, in fenced memory."""
    with small_reserve(), fenced(), small_rankings(bits, most_opened):
        yield


class Twins:
    """Both of them, and their clock."""

    def __init__(
        self,
        formula: Formula | str,
        politeness: Politeness = DEFAULTS,
        *,
        per_host: int | None = None,
        seed: int = 5,
        eager: bool = True,
        regions: Mapping[str, TimeRegion] | None = REGIONS,
        host_share: float | None = None,
    ) -> None:
        self.scheduler = Scheduler(
            politeness=politeness if per_host is None else replace(politeness, per_batch=per_host),
            formula=formula,
            seed=seed,
            new_share=0.0,
            host_share=host_share,
            max_ahead=None,
            threads=1,
            regions=regions,
        )
        self.world = World(DAY, politeness, seed)
        self.world.per_batch = per_host
        self.world.shares = DomainShares(host_share)
        self.now = START_S
        self.eager = eager
        self.is_current = True  # whether the ranking has processed all changes of pages

    # --- the same changes
    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self.scheduler.observe(OutcomeBatch.from_outcomes(outcomes))
        self.world.observe(outcomes)
        self.is_current = True

    def notice(self, urls: Sequence[str], kind: str, ago_s: float) -> None:
        noticed = self.scheduler.notice(SignalBatch(urls, np.full(len(urls), self.now - ago_s), kind))
        known = set(self.world.shard.pages)
        for url in urls:
            self.world.add(url, self.now - ago_s)
        fates = [self.world.shard.notice(url, kind, self.now - ago_s) for url in urls if url in known]
        assert noticed.applied == fates.count("applied")
        assert noticed.discovered == len(set(urls) - known)
        self.is_current = True

    def discover(self, urls: Sequence[str], importance: float | Sequence[float] | None = None) -> None:
        self.scheduler.discover(urls, now=self.now, importance=importance)
        for url in urls:
            self.world.add(url, self.now)
        self.world.forget(self.now)
        if self.eager:
            self.scheduler.core.formula_switch.keep_up()
        else:
            self.is_current = False

    def release(self, urls: Sequence[str]) -> None:
        self.scheduler.release(urls)
        pages = self.world.shard.pages
        self.world.shares.take_back(url for url in {*urls} & {*pages} if pages[url].lease_until_s is not None)
        self.world.release(urls)
        self.is_current = True

    def forget(self, urls: Sequence[str], host: str | None = None) -> None:
        """Forget pages, or all of a host."""
        if host is not None:
            urls = [url for url in self.world.shard.pages if politeness.fits_host(names_of(url)[0], host)]
        known = set(urls) & set(self.world.shard.pages)
        count = self.scheduler.forget(urls) if host is None else self.scheduler.forget(host=host)
        assert count == len(known)
        self.world.forget_pages(urls)
        assert len(self.scheduler) == len(self.world.shard.pages)
        assert not any(url in self.scheduler for url in urls)
        self.is_current = True

    def ask(self, urls: Sequence[str]) -> None:
        self.scheduler.ask(urls, now=self.now)
        for url in urls:
            self.world.add(url, self.now)
            self.world.urgent.add(url)
        self.world.forget(self.now)
        self.is_current = True

    def block(self, pattern: str, until_s: float) -> None:
        blocked = [host for name, host in self.world.hosts.items() if politeness.fits_host(name, pattern)]
        self.world.blocks.append((pattern, until_s))
        assert self.scheduler.block(pattern, until_s) == len(blocked)
        for host in blocked:
            host.block(until_s)
        self.is_current = True

    def set_rule(self, target: str, rule: Rule | HostRule | None) -> None:
        self.scheduler.set_rule(target, rule)
        self.world.set_rule(target, rule)
        self.is_current = True

    def limit_batches(self, per_host: int | None) -> None:
        self.scheduler.set_politeness(replace(self.scheduler.politeness, per_batch=per_host))
        self.world.per_batch = per_host

    def reload(self, folder: Path) -> None:
        """Save the scheduler and continue with the loaded one."""
        self.scheduler.save(folder)
        loaded = Scheduler.load(folder, threads=1)
        assert not loaded or loaded.digest() == self.scheduler.digest()  # fenced memory does not exist before its use
        self.scheduler = loaded
        self.is_current = True

    # --- the same questions
    def take(
        self, k: int, lease_s: float = 600.0, hosts: Sequence[str] | None = None, per_host: int | None = None
    ) -> list[str]:
        self.world.forget(self.now)
        expected = self._hand_out(self.expect(k, lease_s, hosts=hosts, per_host=per_host, shared=True))
        batch = self.scheduler.next_batch(k, now=self.now, lease=lease_s, hosts=hosts, per_host=per_host)
        compare(batch, expected)
        self.world.lease(batch.urls, self.now, lease_s)
        self.is_current = True
        return batch.urls

    def grant(self, urls: Sequence[str], lease_s: float = 600.0) -> list[str]:
        """Pages are leased in the order in which they are named, as far as hosts have capacity."""
        self.world.forget(self.now)
        self.world.leases.expire(self.now)
        capacities = self.world.capacities(self.now, lease_s)
        known = [url for url in dict.fromkeys(urls) if url in self.world.shard.pages]
        rested = [url for url in known if self.world.is_rested(url, self.now)]
        granted = self.scheduler.grant(urls, now=self.now, lease=lease_s)
        assert granted.batch.urls == fill_hosts(rested, capacities, len(rested))
        assert set(granted.batch.urls).isdisjoint(granted.refused)
        assert {*granted.batch.urls, *granted.refused} == set(urls)
        unknown = {url for url, code in granted.refused.items() if code == ReasonCode.UNKNOWN}
        assert unknown == set(urls) - set(known)
        self.world.lease(granted.batch.urls, self.now, lease_s)
        self.is_current = True
        return granted.batch.urls

    def _hand_out(self, chosen: list[tuple[str, float, int]]) -> list[tuple[str, float, int]]:
        """The pages of a batch in the order of handing out: those with priority first, then the likeliest to change."""
        ahead = [page for page in chosen if page[2]]
        others = {page[0]: page for page in chosen if not page[2]}
        return ahead + [others[url] for url in by_probability(self.scheduler, list(others), self.now)]

    def rank(self, k: int) -> list[str]:
        leases = dict(self.world.leases.until_s)
        expected = self.expect(k, math.inf)
        self.world.leases.until_s = leases  # a preview ends none
        batch = self.scheduler.rank(k, now=self.now)
        compare(batch, expected)
        self.is_current = True
        return batch.urls

    def rank_new(self, k: int) -> list[str]:
        expected = self.expect(k, math.inf, only_new=True)
        formula_switch, shard = self.scheduler.core.formula_switch, self.scheduler.core.pages.arrays
        formula_switch.keep_up(self.scheduler.core.politeness_policy.leases.expire(shard, self.now))  # as for a batch
        builder = self.scheduler.core.batch_builder
        query = builder.query(k, self.now, math.inf)
        formula_switch.rank(query)
        ranked = formula_switch.rank_new(query)
        batch = builder.name_pages(ComposedBatch(query, ranked, ranked))
        compare(batch, expected)
        self.is_current = True
        return batch.urls

    def scores(self) -> dict[str, float]:
        urls = list(self.world.shard.pages)
        return dict(zip(urls, self.scheduler.score(urls, now=self.now).tolist(), strict=True))

    def expect(
        self,
        k: int,
        lease_s: float,
        *,
        only_new: bool = False,
        hosts: Sequence[str] | None = None,
        per_host: int | None = None,
        shared: bool = False,
    ) -> list[tuple[str, float, int]]:
        scores = {
            url: score
            for url, score in self.scores().items()
            if hosts is None or any(politeness.fits_host(names_of(url)[0], host) for host in hosts)
        }
        most = math.inf if per_host is None else per_host
        return self.world.rank(scores, k, self.now, lease_s, only_new=only_new, per_host=most, shared=shared)

    def check(self) -> None:
        """The invariants of the scheduler's tables and rankings hold."""
        pages, formula_switch = self.scheduler.core.pages, self.scheduler.core.formula_switch
        assert pages.faults() == []
        if pages.touched is not None and self.is_current:
            for standing in (formula_switch.current, formula_switch._next, formula_switch._new):
                assert standing is None or standing.check(pages.arrays) == []


def compare(batch: Batch, expected: list[tuple[str, float, int]]) -> None:
    assert batch.urls == [url for url, _, _ in expected]
    np.testing.assert_array_equal(batch.scores, [score for _, score, _ in expected])
    assert batch.tiers.tolist() == [tier for _, _, tier in expected]
