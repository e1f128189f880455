"""Why the next batch has a page or not, and that asking leaves no trace."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import HostRule, OutcomeBatch, Politeness, Rule, Scheduler
from streamsched.errors import SettingsError

DAY = 86_400.0
NOW = 10 * DAY


def crawled(**settings: object) -> Scheduler:
    """Twenty pages on each of two hosts, the lower the number the more important; and ten pages never visited."""
    scheduler = Scheduler(**{"formula": "importance", "politeness": Politeness(), **settings})  # type: ignore[arg-type]
    urls = [f"https://{'ab'[i % 2]}.example/{i}" for i in range(40)]
    scheduler.observe(OutcomeBatch(urls, np.zeros(40), importance=100.0 - np.arange(40)))
    scheduler.discover([f"https://c.example/{i}" for i in range(10)], now=0.0, importance=np.full(10, 0.5))
    return scheduler


def first_word(scheduler: Scheduler, url: str, k: int = 10, now: float = NOW, lease: str = "10m") -> str:
    told = scheduler.explain(url, now=now, k=k, lease=lease)
    batch = scheduler.next_batch(k, now=now, lease=lease)  # of which the words speak
    assert told.in_batch == (url in batch.urls)
    scheduler.release(batch.urls)
    return told.reasons[0]


def test_by_its_score() -> None:
    scheduler = crawled()
    assert first_word(scheduler, "https://a.example/2") == "in the next batch of 10: by its score, at place 3"
    word = first_word(scheduler, "https://b.example/39")
    assert word == "not in the next batch of 10: it scores less than the last page of it, 92"  # by its score


def test_in_the_share_of_pages_never_visited() -> None:
    scheduler = crawled()
    shared = [f"https://c.example/{i}" for i in range(10)]
    words = [first_word(scheduler, url) for url in shared]
    assert words.count("in the next batch of 10: in the share of pages never visited") == 1
    assert words.count("not in the next batch of 10: it scores less than the last page of it, 92") == 9
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


def with_panel(share: float) -> Scheduler:
    """Crawled for four days more, so that the panel has members."""
    scheduler = crawled(panel=share, new_share=0.0)
    for day in range(4):
        scheduler.next_batch(20, now=NOW + day * DAY)
    return scheduler


def words_of_all(scheduler: Scheduler, k: int) -> set[str]:
    now = NOW + 5 * DAY
    return {scheduler.explain(url, now=now, k=k).reasons[0] for url in scheduler.rank(50, now=now).urls}


def test_as_a_member_of_the_panel() -> None:
    words = words_of_all(with_panel(0.5), k=10)
    assert "in the next batch of 10: as a member of the panel" in words


def test_what_was_asked_for_and_what_is_overdue() -> None:
    """They are before all others, in the place that is told, too; where they take all places, that is said."""
    scheduler = crawled(new_share=0.0)
    asked, overdue = "https://a.example/38", "https://b.example/37"
    scheduler.ask([asked], now=NOW)
    scheduler.set_rule(overdue, Rule(max_revisit="1d"))
    assert first_word(scheduler, asked) == "in the next batch of 10: because it was asked for"
    assert first_word(scheduler, overdue) == "in the next batch of 10: because it is overdue"
    assert first_word(scheduler, "https://a.example/0") == "in the next batch of 10: by its score, at place 3"
    order = scheduler.rank(50, now=NOW).urls
    assert set(order[:2]) == {asked, overdue}
    assert [scheduler.explain(url, now=NOW).position for url in order] == list(range(1, 51))
    word = first_word(scheduler, "https://b.example/9")
    assert word == "not in the next batch of 10: it scores less than the last page of it, 93"
    word = first_word(scheduler, "https://a.example/0", 2)
    assert word == "not in the next batch of 2: all its places go to 1 page asked for, 1 overdue page"
    word = first_word(scheduler, order[1], 1)
    first = "1 page asked for" if order[0] == asked else "1 overdue page"
    assert word == f"not in the next batch of 1: all its places go to {first}, and this cycle's lot put it behind"


def test_of_equal_scores() -> None:
    scheduler = crawled(formula="1", new_share=0.0)
    order = scheduler.rank(50, now=NOW).urls
    word = "it scores the same as the last page of it, and this cycle's lot put it behind"
    assert first_word(scheduler, order[10]) == f"not in the next batch of 10: {word}"
    scheduler = crawled(formula="1", new_share=0.0, per_host=1)
    batch = scheduler.next_batch(10, now=NOW, lease=1.0).urls
    word = "a.example gives no more than 1 page to it: 1 page of the same score, and this cycle's lot put it behind"
    other = next(url for url in order if "a.example" in url and url not in batch)
    assert first_word(scheduler, other, now=NOW + 2.0) == f"not in the next batch of 10: {word}"


def test_whom_a_full_host_gave_its_places() -> None:
    scheduler = crawled(per_host=3)
    scheduler.ask(["https://a.example/38"], now=NOW)
    scheduler.set_rule("https://a.example/36", Rule(max_revisit="1d"))
    word = first_word(scheduler, "https://a.example/2")
    gives = "a.example gives no more than 3 pages to it: 1 better page, 1 page asked for, 1 overdue page"
    assert word == f"not in the next batch of 10: {gives}"
    scheduler = crawled(per_host=1, explore_share=0.99, new_share=0.0)
    scheduler.next_batch(1, now=NOW, lease=1.0)
    batch = scheduler.next_batch(3, now=NOW + 2.0, lease=1.0)
    (drawn,) = (url for url in batch.urls if "a.example" in url)
    scheduler = crawled(per_host=1, explore_share=0.99, new_share=0.0)
    scheduler.next_batch(1, now=NOW, lease=1.0)
    assert drawn not in ("https://a.example/0", "https://a.example/2")
    word = scheduler.explain("https://a.example/2", now=NOW + 2.0, k=3).reasons[0]
    assert word == "not in the next batch of 3: a.example gives no more than 1 page to it: 1 page drawn by lot"


def test_where_the_panel_has_all_places() -> None:
    words = words_of_all(with_panel(0.9), k=1)
    assert words == {
        "in the next batch of 1: as a member of the panel",
        "not in the next batch of 1: all its places go to 1 member of the panel",
    }


def test_for_a_batch_of_another_lease() -> None:
    """Hosts with a delay give as many pages as can be visited within the lease."""
    for lease, pages in (("2m", "2 better pages"), ("5m", "5 better pages")):
        scheduler = crawled(politeness=Politeness(delay="1m"), new_share=0.0)
        word = first_word(scheduler, "https://b.example/39", 20, lease=lease)
        assert word == f"not in the next batch of 20: b.example gives no more than {pages} to it"
    with pytest.raises(SettingsError):
        scheduler.explain("https://b.example/39", now=NOW, lease="long")


def test_what_is_not_eligible_says_only_that() -> None:
    scheduler = crawled()
    scheduler.next_batch(1, now=NOW)
    told = scheduler.explain("https://a.example/0", now=NOW, k=10)
    assert not told.in_batch
    assert not any("next batch" in reason for reason in told.reasons)


def test_an_empty_batch() -> None:
    assert first_word(crawled(), "https://a.example/0", 0) == "not in the next batch of 0: it has no places"


def test_asking_begins_no_cycle_of_the_panel() -> None:
    scheduler = crawled(panel=0.5, new_share=0.0)
    scheduler.next_batch(20, now=NOW)
    digest = scheduler.digest()
    for day in (1, 9):
        scheduler.explain("https://a.example/2", now=NOW + day * DAY, k=10)
    assert scheduler.digest() == digest


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_asking_leaves_no_trace(share: float) -> None:
    """Even for a time at which leases have run out: they have not, for whoever asks for the next batch before."""
    scheduler = crawled(explore_share=share, politeness=Politeness(in_flight=12))
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
