"""Why the next batch has a page or not, and that asking leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import HostRule, Manners, OutcomeBatch, Scheduler

DAY = 86_400.0
NOW = 10 * DAY


def crawled(**settings: object) -> Scheduler:
    """Twenty pages on each of two hosts, the lower the number the more important; and ten pages never visited."""
    scheduler = Scheduler(**{"formula": "importance", "manners": Manners(), **settings})  # type: ignore[arg-type]
    urls = [f"https://{'ab'[i % 2]}.example/{i}" for i in range(40)]
    scheduler.observe(OutcomeBatch(urls, np.zeros(40), importance=100.0 - np.arange(40)))
    scheduler.discover([f"https://c.example/{i}" for i in range(10)], now=0.0, importance=np.full(10, 0.5))
    return scheduler


def first_word(scheduler: Scheduler, url: str, k: int = 10, now: float = NOW) -> str:
    told = scheduler.explain(url, now=now, k=k)
    batch = scheduler.next_batch(k, now=now)  # of which the words speak
    assert told.in_batch == (url in batch.urls)
    scheduler.release(batch.urls)
    return told.reasons[0]


def test_by_its_score() -> None:
    scheduler = crawled()
    assert first_word(scheduler, "https://a.example/2") == "in the next batch of 10: by its score, at place 3"
    word = first_word(scheduler, "https://b.example/39")
    assert word == "not in the next batch of 10: it scores less than the last page of it, 91"


def test_in_the_share_of_pages_never_visited() -> None:
    scheduler = crawled()
    shared = [f"https://c.example/{i}" for i in range(10)]
    words = [first_word(scheduler, url) for url in shared]
    assert words.count("in the next batch of 10: in the share of pages never visited") == 1
    assert words.count("not in the next batch of 10: it scores less than the last page of it, 91") == 9
    pushed = first_word(scheduler, "https://b.example/9")
    assert pushed == (
        "not in the next batch of 10: its score would do, but its place goes to the shares of pages never visited "
        "or drawn by lot"
    )


def test_drawn_by_lot() -> None:
    batch = crawled(explore_share=0.3, new_share=0.0).next_batch(10, now=NOW)
    drawn = [url for url, score in zip(batch.urls, batch.scores, strict=True) if score < 94.0]
    assert len(drawn) == 3
    scheduler = crawled(explore_share=0.3, new_share=0.0)
    words = {scheduler.explain(url, now=NOW, k=10).reasons[0] for url in drawn}
    assert words == {"in the next batch of 10: drawn by lot, in the share for exploration"}


def test_where_its_host_has_no_room() -> None:
    scheduler = crawled(per_host=2)
    word = first_word(scheduler, "https://a.example/4")
    assert word == "not in the next batch of 10: a.example gives no more than 2 better pages to it"
    scheduler.set_rule("b.example", HostRule(per_batch=1))
    word = first_word(scheduler, "https://b.example/3")
    assert word == "not in the next batch of 10: b.example gives no more than 1 better page to it"


def test_as_a_member_of_the_panel() -> None:
    scheduler = crawled(panel=0.5, new_share=0.0)
    for day in range(4):
        scheduler.next_batch(20, now=NOW + day * DAY)
    now = NOW + 5 * DAY
    urls = scheduler.rank(50, now=now).urls
    words = [scheduler.explain(url, now=now, k=10).reasons[0] for url in urls]
    assert "in the next batch of 10: as a member of the panel" in words


def test_what_is_not_eligible_says_only_that() -> None:
    scheduler = crawled()
    scheduler.next_batch(1, now=NOW)
    told = scheduler.explain("https://a.example/0", now=NOW, k=10)
    assert not told.in_batch
    assert not any("next batch" in reason for reason in told.reasons)


def test_an_empty_batch() -> None:
    assert first_word(crawled(), "https://a.example/0", 0) == "not in the next batch of 0: it has no places"


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_asking_leaves_no_trace(share: float) -> None:
    """Even for a time at which leases have run out: they have not, for whoever asks for the next batch before."""
    scheduler = crawled(explore_share=share, manners=Manners(in_flight=12))
    handed = scheduler.next_batch(10, now=NOW).urls
    digest = scheduler.digest()
    later = NOW + 30 * DAY
    assert scheduler.explain(handed[0], now=later).eligible
    if share == 0.0:
        assert set(handed) <= set(scheduler.rank(50, now=later).urls)
    assert scheduler.digest() == digest
    again = scheduler.next_batch(50, now=NOW + 1.0).urls
    assert not set(again) & set(handed)
    hosts = [url.split("/")[2] for url in handed + again]
    assert max(hosts.count(host) for host in set(hosts)) <= 12
