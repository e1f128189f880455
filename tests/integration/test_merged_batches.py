"""Merged batches of four schedulers against those of one that has all pages, for formulas of the page's own record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamsched import OutcomeBatch, Politeness, Scheduler
from streamsched.cluster.merged_batch import Asked, Chosen, Owed, merge_offers, part_of, whole
from streamsched.connectors.kafka.message_keys import choose_partitions, host_keys
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.scheduler.batches.batch_requests import BatchRequest
from streamsched.scheduler.reading.views import view_offer
from tests.support.handout import drawing

SHARDS, PAGES, K = 4, 12_000, 300
NOW = 1_700_000_000.0
DAY_S = 86_400.0
URLS = [f"https://h{number % 400}.example/p{number}" for number in range(PAGES)]
PARTS = choose_partitions(host_keys(PackedUrls.pack(URLS)), SHARDS)
VISITED = np.random.default_rng(0).random(PAGES) < 0.9
AGE, CHANGE_GAIN = "t", "1 - exp(-X/n*t)"


def fill(scheduler: Scheduler, numbers: np.ndarray[Any, Any]) -> None:
    """Report three visits of each page that was ever visited, and discover the others."""
    seen, new = numbers[VISITED[numbers]], numbers[~VISITED[numbers]]
    for day in (9, 6, 2):
        at, changed = NOW - day * DAY_S + seen % 3_600, (seen * (day + 7)) % 11 < 4
        scheduler.observe(OutcomeBatch([URLS[number] for number in seen], at, changed=changed))
    scheduler.discover([URLS[number] for number in new], now=NOW - DAY_S)


class Cluster:
    """Schedulers that are asked as one."""

    def __init__(self, shards: list[Scheduler]) -> None:
        self.shards = shards
        self.owed = Owed()
        self.rounds = 0

    def next_batch(self, k: int, now: float) -> list[Chosen]:
        asked = {shard: self._ask(shard, part_of(k, 1 / SHARDS), now) for shard in range(SHARDS)}
        merged = merge_offers(k, asked, self.owed)
        self.rounds += bool(merged.unsure)
        asked |= {shard: self._ask(shard, whole(k), now) for shard in merged.unsure}
        merged = merge_offers(k, asked, self.owed)
        assert not merged.unsure
        self.owed = merged.owed
        for shard, scheduler in enumerate(self.shards):
            urls = [one.page.url for one in merged.pages if one.shard == shard]
            assert not scheduler.grant(urls, now=now, lease=600.0).refused
        return merged.pages

    def _ask(self, shard: int, k: int, now: float) -> Asked:
        request = BatchRequest.checked(k, now, lease=600.0, hosts=None, per_host=None)
        return Asked(k, view_offer(self.shards[shard].core, request, []))


def make_pair(**settings: Any) -> tuple[Scheduler, Cluster]:
    settings = {"host_share": None, **settings}
    one = Scheduler(threads=1, **settings)
    fill(one, np.arange(PAGES))
    shards = [Scheduler(threads=1, **settings) for _ in range(SHARDS)]
    for shard, scheduler in enumerate(shards):
        fill(scheduler, np.flatnonzero(shard == PARTS))
    return one, Cluster(shards)


@pytest.mark.parametrize(
    "settings",
    [
        {"formula": AGE, "new_share": 0.0},
        {"formula": CHANGE_GAIN, "new_share": 0.0},
        {"formula": CHANGE_GAIN, "new_share": 0.0, "politeness": Politeness(delay="2s")},
        {"formula": CHANGE_GAIN, "new_share": 0.0, "politeness": Politeness(max_revisit="9d")},
        {"formula": CHANGE_GAIN, "new_share": 0.1},
        {"formula": AGE, "new_share": 0.0, "politeness": Politeness(per_batch=1)},
    ],
    ids=["age", "cg", "delay", "overdue", "new", "per batch"],
)
@pytest.mark.parametrize("k", [K, 7])
def test_the_same_pages_as_one_scheduler(settings: dict[str, Any], k: int) -> None:
    one, cluster = make_pair(**settings)
    for shard in (one, *cluster.shards):
        shard.ask([url for url in URLS[:20] if shard.page(url, now=NOW) is not None], now=NOW)
    for step in range(6):
        now = NOW + 30.0 * step
        want = one.next_batch(k, now=now, lease=600.0)
        found = cluster.next_batch(k, now)
        assert {page.page.url for page in found} == set(want.urls)
        assert [page.page.tier for page in found] == want.tiers.tolist()
        whys = dict(zip(want.urls, want.reasons, strict=True))
        assert {page.page.url: page.page.why for page in found} == whys
    assert cluster.rounds <= 2


def test_the_panel_has_its_places_and_the_others_are_the_best() -> None:
    """The members differ, as rows do; so the others are compared with the ranking without them."""
    one, cluster = make_pair(formula=AGE, new_share=0.0, panel=0.05)
    handed = members = 0
    for step in range(12):
        now = NOW + step * DAY_S / 4.0  # panels are sized by the cycle before
        found = cluster.next_batch(K, now)
        panel = {page.page.url for page in found if page.page.why == "in_batch_panel"}
        assert [page.page.url in panel for page in found] == sorted([page.page.url in panel for page in found])[::-1]
        best = one.rank(2 * K, now=now).urls
        rest = [url for url in best if url not in panel][: K - len(panel)]
        assert {page.page.url for page in found} == panel | set(rest)
        one.grant([page.page.url for page in found], now=now, lease=600.0)
        handed, members = handed + (K if step >= 4 else 0), members + (len(panel) if step >= 4 else 0)
    assert 0.04 * handed <= members <= 0.05 * handed + SHARDS


@pytest.mark.parametrize("k", [K, 10, 1])
def test_shares_are_kept_over_many_batches(k: int) -> None:
    """Random pages and never-visited ones have their shares also in batches that are smaller than a page of them."""
    _, cluster = make_pair(formula=AGE, new_share=0.07)
    for scheduler in cluster.shards:
        drawing(0.05, scheduler)
    steps = 6 if k == K else 100
    pages = [page.page for step in range(steps) for page in cluster.next_batch(k, NOW + step)]
    assert len(pages) == len({page.url for page in pages}) == k * steps
    drawn = sum(page.why == "in_batch_exploration" for page in pages)
    assert abs(drawn - 0.05 * len(pages)) <= 1.0
    new = sum(page.new and page.why != "in_batch_exploration" for page in pages)
    assert abs(new - 0.07 * len(pages)) <= 1.0


def test_a_shard_with_all_the_best_pages_is_asked_again() -> None:
    """Hosts of one shard have the oldest visits."""
    one, cluster = make_pair(formula=AGE, new_share=0.1, politeness=Politeness(per_batch=100))
    mine = [URLS[number] for number in np.flatnonzero((PARTS == 1) & VISITED)]
    others = [URLS[number] for number in np.flatnonzero((PARTS != 1) & VISITED)]
    for url_list, at in ((mine, NOW - 1.9 * DAY_S), (others, NOW - 60.0)):
        one.observe(OutcomeBatch(url_list, at + np.arange(len(url_list)) / 1e3))
        for shard, scheduler in enumerate(cluster.shards):
            own = [place for place, url in enumerate(url_list) if shard == PARTS[URLS.index(url)]]
            if own:
                times = at + np.array(own) / 1e3
                scheduler.observe(OutcomeBatch([url_list[place] for place in own], times))
    for step in range(3):
        want = one.next_batch(K, now=NOW + step, lease=600.0)
        assert {page.page.url for page in cluster.next_batch(K, NOW + step)} == set(want.urls)
    assert cluster.rounds > 0
