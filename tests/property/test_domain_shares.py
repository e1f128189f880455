"""Batches keep the shares of domains exactly, as the slow twin does, after each batch of a day."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, Scheduler
from streamsched.politeness.domain_shares import keep_within, limit_domains
from streamsched.politeness.politeness_settings import Politeness
from tests.reference.domain_shares import DomainShares, domain_of
from tests.support.cases import examples
from tests.support.outcome_streams import DAY
from tests.support.scheduler_twins import START_S, Twins, small_shards

BAD = ("a.bad.example", "b.bad.example", "c.bad.example:8080")
HOSTS = (*BAD, "good.example", "www.fine.example", "192.0.2.7", "[::1]")


class Step(NamedTuple):
    """Time passes, a page may be asked for, and a batch is taken, of which parts are visited and given back."""

    seconds: float
    k: int
    asked: int
    visited: int
    released: int


steps = st.builds(
    Step,
    seconds=st.sampled_from([0.0, 60.0, 3_600.0, DAY / 3, DAY]),
    k=st.sampled_from([0, 1, 1, 2, 3, 7, 20, 1000]),
    asked=st.sampled_from([-1, -1, -1, 0, 5]),
    visited=st.integers(0, 20),
    released=st.sampled_from([0, 0, 1, 5]),
)


@examples(ordinary=15, whole=50)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=len(HOSTS), max_size=len(HOSTS)),
    share=st.sampled_from([None, 0.001, 0.1, 0.29, 1.0]),
    per_host=st.sampled_from([None, None, 1, 4]),
    bits=st.sampled_from([5, 6, 16]),
    taken=st.lists(steps, max_size=12),
    max_revisit=st.sampled_from([None, None, "2d"]),
)
def test_batches_are_those_of_the_slow_twin(
    sizes: list[int], share: float | None, per_host: int | None, bits: int, taken: list[Step], max_revisit: str | None
) -> None:
    urls = [f"https://{host}/{i}" for host, size in zip(HOSTS, sizes, strict=True) for i in range(size)]
    with small_shards(bits):
        politeness = Politeness(max_revisit=max_revisit)
        twins = Twins("importance * t", politeness, per_host=per_host, seed=bits, host_share=share)
        twins.observe([Outcome(url, START_S - 60.0, importance=1.0 + (7 * i) % 31) for i, url in enumerate(urls)])
        for step in taken:
            twins.now += step.seconds
            if 0 <= step.asked < len(urls):
                twins.ask([urls[step.asked]])
            batch = twins.take(step.k)
            twins.observe([Outcome(url, twins.now + 1.0) for url in batch[: step.visited]])
            twins.release(batch[max(len(batch) - step.released, 0) :])
            twins.check()


@examples(ordinary=6, whole=20)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=4, max_size=4),
    share=st.sampled_from([0.1, 0.25]),
    batches=st.lists(st.integers(1, 25), min_size=1, max_size=12),
    new_share=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_no_domain_has_more_than_its_share_while_others_have_pages(
    sizes: list[int], share: float, batches: list[int], new_share: float
) -> None:
    """Whatever the sizes of the batches, after each of them; each is observed, so pages can be visited again."""
    urls = [f"https://h{i % 3}.d{number}.example/{i}" for number, size in enumerate(sizes) for i in range(size)]
    scheduler = Scheduler(formula="importance", host_share=share, new_share=new_share, threads=1)
    scheduler.discover(urls, now=START_S, importance=[10.0 ** (number % 3) for number in range(len(urls))])
    visits: Counter[str] = Counter()
    for number, k in enumerate(batches):
        now = START_S + 60.0 * number
        batch = scheduler.next_batch(k, now=now)
        visits.update(map(domain_of, batch.urls))
        scheduler.observe([Outcome(url, now + 1.0) for url in batch.urls])
        if len(batch) == min(k, len(urls)) < len(urls):
            for domain, pages in Counter(map(domain_of, urls)).items():
                most = max(Fraction(str(share)), Fraction(2 * pages, len(urls))) * sum(visits.values())
                others = len({url for url in urls if domain_of(url) != domain} - set(batch.urls))
                assert visits[domain] <= max(1, math.floor(most)) or not others


@examples(ordinary=6, whole=20)
@given(
    st.lists(st.integers(0, 39), unique=True), st.integers(0, 40), st.sampled_from([None, 0.1, 0.3]), st.integers(0, 9)
)
def test_what_can_be_added_is_what_the_slow_twin_adds(
    order: list[int], taken: int, share: float | None, handed: int
) -> None:
    urls = [f"https://{'aabcccddddeeefff'[i % 16]}.example/{i}" for i in range(40)]
    scheduler = Scheduler(threads=1)
    scheduler.discover(urls, now=START_S)
    scheduler.grant(urls[:handed], now=START_S, lease=1.0)
    shares = DomainShares(share)
    shares.count(urls[:handed], START_S)
    rooms, expected = shares.rooms(urls, len(order), START_S), []
    for place, row in enumerate(order):
        room = rooms[domain_of(urls[row])]
        expected.append(place < taken or room > 0)
        rooms[domain_of(urls[row])] -= expected[-1]
    shard, rows = scheduler.core.pages.arrays, np.array(order, np.int64)
    limits = limit_domains(shard.corpus, share, START_S, len(order))
    assert keep_within(shard, limits, rows[:taken], rows[taken:]).tolist() == expected[taken:]
