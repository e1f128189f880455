"""Sites that try to hurt the crawl by links, times and answers: pages of other hosts are visited as without them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, Scheduler
from tests.soak.orderly import patience
from tests.support.colliding_urls import colliding_urls
from tests.support.outcome_streams import DAY

START_S = 20_000 * DAY
DAYS = 20
ALL = 1 << 30  # pages of a batch: everything that may be visited
OTHERS = [f"https://h{i % 4}.example/{'ab'[i % 2]}/{i}" for i in range(40)]
EVIL = "https://evil.example/"
HOSTILE_TIMES = [0.0, -5.0, 1.7e12, 1.7e15, 1.7e18, 1e11, 3e38, 1e300, np.inf, np.nan, -np.inf]

Site = Callable[["Crawl", float, random.Random], None]
"""What a site does to a crawl in a day, at a time."""


class Crawl:
    """Visits every day all pages of others that it is given, and notes them; and whatever a site makes it do."""

    def __init__(self, formula: str, politeness_seed: int) -> None:
        self.scheduler = Scheduler(formula=formula, seed=politeness_seed, threads=1)
        self.visited: list[list[str]] = []
        self.given: list[str] = []  # of the site, in the day's batch

    def live(self, site: Site | None, rng: random.Random) -> None:
        self.scheduler.discover(OTHERS, now=START_S)
        for day in range(DAYS):
            now = START_S + day * DAY
            batch = self.scheduler.next_batch(ALL, now=now, lease="1h")
            ours = [url for url in batch.urls if url in OTHERS]
            self.given = [url for url in batch.urls if url not in OTHERS]
            if site is not None and rng.random() < 0.5:
                site(self, now, rng)
                site = site if rng.random() < 0.9 else None
            self.observe([Outcome(url, now + i, changed=(day + i) % 5 == 0) for i, url in enumerate(sorted(ours))])
            self.visited.append(ours)

    def observe(self, outcomes: list[Outcome]) -> None:
        observed = self.scheduler.observe(outcomes)
        assert observed.applied == len(outcomes)

    def observe_whatever(self, urls: list[str], times: list[float], **columns: object) -> int:
        """Observe what may break the format; return how many of them were rejected."""
        observed = self.scheduler.observe(OutcomeBatch(urls, times, **columns))  # type: ignore[arg-type]
        return observed.rejected


def tell_impossible_times(crawl: Crawl, now: float, rng: random.Random) -> None:
    """Milliseconds, and one of the far future between honest ones: such outcomes change nothing."""
    times = [rng.choice([now + 400 * DAY, now + 30_000 * DAY]), *(rng.choice(HOSTILE_TIMES) for _ in range(8))]
    urls = [rng.choice([*OTHERS, EVIL, f"{EVIL}{i}"]) for i in range(9)]
    before = crawl.scheduler.digest()
    rejected = crawl.observe_whatever(urls, times, status=[rng.choice([200, 429, 503, 404]) for _ in range(9)])
    assert rejected == 9
    if crawl.scheduler.digest() != before:  # counts of rejections may be part of the state
        assert not any(url in crawl.scheduler for url in urls if url not in OTHERS)


def tell_times_ahead(crawl: Crawl, now: float, rng: random.Random) -> None:
    """Ahead by less than a day, from one page after another."""
    for i in range(30):
        crawl.observe_whatever([f"{EVIL}{i}"], [now + (i + 1) * rng.choice([0.3, 0.9]) * DAY], changed=[True])


def tell_times_behind(crawl: Crawl, now: float, rng: random.Random) -> None:
    times = [rng.choice([1.0, -1e9, -1e300, now - 9 * DAY]) for _ in range(9)]
    crawl.observe_whatever([f"{EVIL}{i}" for i in range(9)], times, changed=[rng.random() < 0.5 for _ in range(9)])


def demand_rests(crawl: Crawl, now: float, rng: random.Random) -> None:
    waits = [rng.choice([1e30, 3e38, 1e9, 0.0]) for _ in range(9)]
    urls = [f"{EVIL}{i}" for i in range(9)]
    crawl.observe_whatever(urls, [now] * 9, status=[rng.choice([429, 503, 500]) for _ in urls], retry_after=waits)


def answer_anything(crawl: Crawl, now: float, rng: random.Random) -> None:
    urls = [rng.choice([EVIL, f"{EVIL}{i}"]) for i in range(50)]
    fingerprints = [rng.getrandbits(64) for _ in urls]
    weights = [rng.choice([0.0, 5e-324, 1.0, 3e38]) for _ in urls]
    statuses = [rng.randrange(1_000) for _ in urls]
    crawl.observe_whatever(
        urls, [now + i for i in range(50)], status=statuses, fingerprint=fingerprints, importance=weights, cost=weights
    )


def link_to_many(crawl: Crawl, now: float, rng: random.Random) -> None:
    """Deep paths, many directories, long and strange URLs, many hosts; what is no absolute URL is refused."""
    kinds: list[Callable[[int], str]] = [
        lambda i: EVIL + "/".join(f"d{i}-{j}" for j in range(rng.randrange(40))),
        lambda i: EVIL + "/" * rng.randrange(3_000) + str(i),
        lambda i: EVIL + "x" * rng.randrange(8_000) + str(i),
        lambda i: f"https://h{i}.evil.example/",
        lambda i: f"https://evil.example:{i}/?{'&' * i}#/{i}",
        lambda i: f"{EVIL}\x00\n\x1b[2J\u202e{i}%00%2f..%5c../\ue000\U0001f600",
        lambda i: f"javascript:{i}//h1.example/a/",
        lambda i: f"//{i}@h1.example.evil.example/%",
        lambda i: f"https://[::{i:x}]:99999/",
        lambda i: f"http://h1.example.:80{i}/",
    ]
    urls = [rng.choice(kinds)(i) for i in range(rng.choice([50, 400]))]
    importance = rng.choice([None, 3e38])
    known = len(crawl.scheduler)
    found = crawl.scheduler.discover(urls, now=now, importance=importance)
    assert len(crawl.scheduler) == known + found.added


def link_to_collisions(crawl: Crawl, now: float, rng: random.Random) -> None:
    """URLs with one public hash: all are kept apart."""
    urls = colliding_urls(rng.choice([300, 3_000]), rng.choice(["https://a", "https://b"]))
    new = sum(url not in crawl.scheduler for url in urls)
    assert crawl.scheduler.discover(urls, now=now).added == new
    assert crawl.scheduler.discover(urls, now=now).added == 0
    some = rng.sample(urls, 50)
    crawl.observe_whatever(some, [now] * 50, changed=[True] * 50)


SITES: list[Site] = [
    tell_impossible_times, tell_times_ahead, tell_times_behind, demand_rests, answer_anything, link_to_many,
    link_to_collisions,
]  # fmt: skip


@pytest.mark.cases(ordinary=14, whole=140)
def test_hostile_site(rng: random.Random, case: int, tmp_path: Path) -> None:
    """Pages of others are chosen at the same times; their order within a batch is that of probabilities."""
    formula = "t" if case % 2 else "1 - (1 - due) * (1 - surge)"
    alone, beset = Crawl(formula, case % 3), Crawl(formula, case % 3)
    with patience():
        alone.live(None, rng)
        beset.live(SITES[case // 2 % len(SITES)], rng)
    assert list(map(sorted, beset.visited)) == list(map(sorted, alone.visited))
    assert beset.scheduler.core.pages.faults() == []
    beset.scheduler.save(tmp_path / "state")
    assert Scheduler.load(tmp_path / "state").digest() == beset.scheduler.digest()


@pytest.mark.cases(ordinary=2, whole=40)
def test_host_that_demands_rest_is_asked_again_within_two_days(rng: random.Random) -> None:
    """Whatever it demands: rests have a cap, and one page finds out whether the host answers again."""
    scheduler = Scheduler(threads=1)
    urls = [f"{EVIL}{i}" for i in range(20)]
    scheduler.observe([Outcome(url, START_S - DAY) for url in urls])
    waits = [rng.choice([1e30, 3e38, 1e9]) for _ in range(rng.randrange(1, 20))]
    status = rng.choice([429, 503])
    for url, wait in zip(urls, waits, strict=False):
        scheduler.observe(Outcome(url, START_S, status, retry_after=wait))
    assert scheduler.next_batch(ALL, now=START_S + 2 * DAY).urls
