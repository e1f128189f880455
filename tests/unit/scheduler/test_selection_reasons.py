"""Why the next batch has a page or not, and that explaining changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import HostRule, Outcome, OutcomeBatch, Politeness, Rule, Scheduler
from streamsched.errors import SettingsError
from streamsched.reasons import Reason, ReasonCode
from tests.support.handout import drawing

DAY = 86_400.0
NOW = 10 * DAY


def crawled(**settings: object) -> Scheduler:
    """Twenty pages on each of two hosts, the lower the number the more important; and ten pages never visited."""
    scheduler = Scheduler(**{"formula": "importance", "politeness": Politeness(), **settings})  # type: ignore[arg-type]
    urls = [f"https://{'ab'[i % 2]}.example/{i}" for i in range(40)]
    scheduler.observe(OutcomeBatch(urls, np.ones(40), importance=100.0 - np.arange(40)))
    scheduler.discover([f"https://c.example/{i}" for i in range(10)], now=1.0, importance=np.full(10, 0.5))
    return scheduler


def why(scheduler: Scheduler, url: str, k: int = 10, now: float = NOW, lease: str = "10m") -> Reason:
    """The first reason of a page, which is that of the batch; the batch itself says the same of its pages."""
    explanation = scheduler.explain(url, now=now, k=k, lease=lease)
    batch = scheduler.next_batch(k, now=now, lease=lease)
    assert explanation.in_batch == (url in batch.urls)
    reason = explanation.reasons[0]
    assert reason.fields["k"] == k
    if explanation.in_batch:
        place = batch.urls.index(url)
        assert (batch.reasons[place], place + 1) == (reason.code, reason.fields["place"])
    scheduler.release(batch.urls)
    return reason


def outranked(score: float, lowest_score: float) -> Reason:
    return Reason(ReasonCode.OUTRANKED, {"k": 10, "score": score, "lowest_score": lowest_score})


def batch_full(k: int, taken_by: dict[str, int], *, tie_lost: bool = False) -> Reason:
    return Reason(ReasonCode.BATCH_FULL, {"k": k, "taken_by": taken_by, "tie_lost": tie_lost})


def host_used(host: str, taken_by: dict[str, int], *, k: int = 10, tie_lost: bool = False) -> Reason:
    fields = {"k": k, "host": host, "taken_by": taken_by, "tie_lost": tie_lost, "probing": False}
    return Reason(ReasonCode.HOST_SHARE_USED, fields)


def test_by_its_score() -> None:
    scheduler = crawled()
    in_batch = Reason(ReasonCode.IN_BATCH_BY_SCORE, {"k": 10, "place": 3})
    assert why(scheduler, "https://a.example/2") == in_batch
    assert why(scheduler, "https://b.example/39") == outranked(61.0, 92.0)


def test_in_the_share_of_pages_never_visited() -> None:
    scheduler = crawled()
    shared = [f"https://c.example/{i}" for i in range(10)]
    reasons = [why(scheduler, url) for url in shared]
    assert reasons.count(Reason(ReasonCode.IN_BATCH_NEW_SHARE, {"k": 10, "place": 10})) == 1
    assert reasons.count(outranked(0.5, 92.0)) == 9
    pushed = why(scheduler, "https://b.example/9")
    assert pushed == Reason(ReasonCode.DISPLACED, {"k": 10, "merit": "score", "surge_probes": 0})


def test_drawn_at_random() -> None:
    batch = drawing(0.3, crawled(new_share=0.0)).next_batch(10, now=NOW)
    drawn = [url for url, score in zip(batch.urls, batch.scores, strict=True) if score < 94.0]
    assert len(drawn) == 3
    scheduler = drawing(0.3, crawled(new_share=0.0))
    assert {batch.reasons[batch.urls.index(url)] for url in drawn} == {ReasonCode.IN_BATCH_EXPLORATION}
    codes = {scheduler.explain(url, now=NOW, k=10).reasons[0].code for url in drawn}
    assert codes == {ReasonCode.IN_BATCH_EXPLORATION}


def test_when_its_host_has_no_capacity() -> None:
    scheduler = crawled(politeness=Politeness(per_batch=2))
    assert why(scheduler, "https://a.example/4") == host_used("a.example", {"higher_score": 2})
    scheduler.set_rule("b.example", HostRule(per_batch=1))
    assert why(scheduler, "https://b.example/3") == host_used("b.example", {"higher_score": 1})


def with_panel(share: float) -> Scheduler:
    """Crawled for four days more, so that the panel has members."""
    scheduler = crawled(panel=share, new_share=0.0)
    for day in range(4):
        scheduler.next_batch(20, now=NOW + day * DAY)
    return scheduler


def reasons_of_all(scheduler: Scheduler, k: int) -> list[Reason]:
    now = NOW + 5 * DAY
    return [scheduler.explain(url, now=now, k=k).reasons[0] for url in scheduler.rank(50, now=now).urls]


def test_as_a_member_of_the_panel() -> None:
    scheduler = with_panel(0.5)
    codes = [reason.code for reason in reasons_of_all(scheduler, k=10)]
    batch = scheduler.next_batch(10, now=NOW + 5 * DAY)
    assert codes.count(ReasonCode.IN_BATCH_PANEL) == batch.panel > 0
    assert batch.reasons[: batch.panel] == [ReasonCode.IN_BATCH_PANEL] * batch.panel
    assert ReasonCode.IN_BATCH_PANEL not in batch.reasons[batch.panel :]


def test_what_was_asked_for_and_what_is_overdue() -> None:
    """They rank before all others, also in the position; if they take all places, the reason says so."""
    scheduler = crawled(new_share=0.0)
    asked, overdue = "https://a.example/38", "https://b.example/37"
    scheduler.ask([asked], now=NOW)
    scheduler.set_rule(overdue, Rule(max_revisit="1d"))
    assert why(scheduler, asked).code == ReasonCode.IN_BATCH_ASKED_FOR
    assert why(scheduler, overdue).code == ReasonCode.IN_BATCH_OVERDUE
    assert why(scheduler, "https://a.example/0") == Reason(ReasonCode.IN_BATCH_BY_SCORE, {"k": 10, "place": 3})
    order = scheduler.rank(50, now=NOW).urls
    assert set(order[:2]) == {asked, overdue}
    assert [scheduler.explain(url, now=NOW).position for url in order] == list(range(1, 51))
    assert why(scheduler, "https://b.example/9") == outranked(91.0, 93.0)
    assert why(scheduler, "https://a.example/0", 2) == batch_full(2, {"asked_for": 1, "overdue": 1})
    first = "asked_for" if order[0] == asked else "overdue"
    assert why(scheduler, order[1], 1) == batch_full(1, {first: 1}, tie_lost=True)


def test_reasons_of_a_ranking() -> None:
    scheduler = crawled()
    scheduler.ask(["https://a.example/38"], now=NOW)
    scheduler.set_rule("https://b.example/37", Rule(max_revisit="1d"))
    batch = scheduler.rank(3, now=NOW)
    assert dict(zip(batch.urls, batch.reasons, strict=True)) == {
        "https://a.example/38": ReasonCode.IN_BATCH_ASKED_FOR,
        "https://b.example/37": ReasonCode.IN_BATCH_OVERDUE,
        "https://a.example/0": ReasonCode.IN_BATCH_BY_SCORE,
    }


def test_reasons_of_a_batch_are_those_of_its_time() -> None:
    """They are computed when first read, whatever was observed and set since."""
    reasons = []
    for late in (False, True):
        scheduler = crawled(new_share=0.5)
        scheduler.ask(["https://a.example/38"], now=NOW)
        scheduler.set_rule("https://b.example/37", Rule(max_revisit="1d"))
        batch = scheduler.next_batch(10, now=NOW)
        if late:
            scheduler.observe([Outcome(url, NOW + 1.0) for url in batch.urls])
            scheduler.set_rules({"b.example/*": Rule(max_revisit="1h"), "https://b.example/37": None})
        reasons.append(batch.reasons)
    assert reasons[0] == reasons[1]
    assert len(set(reasons[0])) == 4


def test_of_equal_scores() -> None:
    scheduler = crawled(formula="1", new_share=0.0)
    order = scheduler.rank(50, now=NOW).urls
    assert why(scheduler, order[10]) == Reason(ReasonCode.TIE_LOST, {"k": 10, "score": 1.0})
    scheduler = crawled(formula="1", new_share=0.0, politeness=Politeness(per_batch=1))
    batch = scheduler.next_batch(10, now=NOW, lease=1.0).urls
    other = next(url for url in order if "a.example" in url and url not in batch)
    assert why(scheduler, other, now=NOW + 2.0) == host_used("a.example", {"equal_score": 1}, tie_lost=True)


def test_which_pages_took_the_places_of_a_host() -> None:
    scheduler = crawled(politeness=Politeness(per_batch=3))
    scheduler.ask(["https://a.example/38"], now=NOW)
    scheduler.set_rule("https://a.example/36", Rule(max_revisit="1d"))
    taken_by = {"higher_score": 1, "asked_for": 1, "overdue": 1}
    assert why(scheduler, "https://a.example/2") == host_used("a.example", taken_by)
    scheduler = drawing(0.99, crawled(politeness=Politeness(per_batch=1), new_share=0.0))
    scheduler.next_batch(1, now=NOW, lease=1.0)
    batch = scheduler.next_batch(3, now=NOW + 2.0, lease=1.0)
    (drawn,) = (url for url in batch.urls if "a.example" in url)
    scheduler = drawing(0.99, crawled(politeness=Politeness(per_batch=1), new_share=0.0))
    scheduler.next_batch(1, now=NOW, lease=1.0)
    assert drawn not in ("https://a.example/0", "https://a.example/2")
    reason = scheduler.explain("https://a.example/2", now=NOW + 2.0, k=3).reasons[0]
    assert reason == host_used("a.example", {"exploration": 1}, k=3)


def test_when_the_panel_has_all_places() -> None:
    reasons = reasons_of_all(with_panel(0.9), k=1)
    in_panel = Reason(ReasonCode.IN_BATCH_PANEL, {"k": 1, "place": 1})
    full = batch_full(1, {"panel": 1})
    assert reasons.count(in_panel) == 1
    assert reasons.count(full) == len(reasons) - 1 > 0


def test_for_a_batch_of_another_lease() -> None:
    """A batch has as many pages of a host with a delay as can be visited within the lease."""
    for lease, pages in (("2m", 2), ("5m", 5)):
        scheduler = crawled(politeness=Politeness(delay="1m"), new_share=0.0)
        reason = why(scheduler, "https://b.example/39", 20, lease=lease)
        assert reason == host_used("b.example", {"higher_score": pages}, k=20)
    with pytest.raises(SettingsError):
        scheduler.explain("https://b.example/39", now=NOW, lease="long")


def test_a_page_that_is_not_eligible_has_no_reason_of_the_batch() -> None:
    scheduler = crawled()
    scheduler.next_batch(1, now=NOW)
    explanation = scheduler.explain("https://a.example/0", now=NOW, k=10)
    assert not explanation.in_batch
    assert not any("k" in reason.fields for reason in explanation.reasons)


def test_an_empty_batch() -> None:
    scheduler = crawled()
    assert scheduler.next_batch(0, now=NOW).reasons == []


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
    scheduler = drawing(share, crawled(politeness=Politeness(in_flight=12)))
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
