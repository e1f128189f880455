"""Outcomes that are no visits: robots.txt forbids a page, a leased page was not attempted, a page has moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamsched import DurableScheduler, HostRule, Observed, Outcome, OutcomeBatch, Politeness, ReasonCode, Scheduler
from streamsched.outcomes import StatusWord
from streamsched.records.url_index import LOOKUP_CHUNK
from tests.support.handout import drawing

DAY = 86_400.0
URL, OTHER, NEW = "https://a.example/1", "https://a.example/2", "https://b.example/new"


def crawled(*times: float, url: str = URL, **settings: Any) -> Scheduler:
    """A scheduler of two pages; `url` was visited at `times`."""
    scheduler = Scheduler(**settings)
    scheduler.discover([URL, OTHER], now=0.0)
    scheduler.observe([Outcome(url, at, changed=True) for at in times])
    return scheduler


def codes(scheduler: Scheduler, now: float, url: str = URL) -> list[str]:
    return [reason.code for reason in scheduler.explain(url, now=now).reasons]


def knowledge(scheduler: Scheduler, url: str = URL) -> tuple[Any, ...]:
    """All that is known of a page's changes and failures."""
    row = scheduler.core.find_known([url])[0]
    page, trace = scheduler.core.pages.arrays.pages.records[row], scheduler.core.pages.arrays.pages.traces[row]
    names = ("last_visit_s", "own_shape", "own_exposure", "visits", "changes", "failures", "gone", "importance", "cost")
    return (*(page[name].item() for name in names), trace["history"].item(), trace["last_attempt_s"].item())


@pytest.mark.parametrize("word", ["robots_denied", "not_attempted"])
def test_words_end_the_lease_and_are_no_observation(word: StatusWord) -> None:
    scheduler = crawled(DAY, 2 * DAY)
    assert URL in scheduler.next_batch(2, now=3 * DAY, lease="10d").urls
    before = knowledge(scheduler)
    observed = scheduler.observe(Outcome(URL, 3.5 * DAY, word, importance=5.0, cost=7.0, retry_after=1e6))
    denied = word == "robots_denied"
    assert observed == Observed(applied=1, robots_denied=int(denied), not_attempted=int(not denied))
    assert knowledge(scheduler) == before
    explanation = scheduler.explain(URL, now=3.6 * DAY)
    assert (explanation.leased_until_s, explanation.last_outcome_s) == (None, 3.5 * DAY)


def test_page_that_was_not_attempted_is_handed_out_again_at_once() -> None:
    scheduler = crawled(DAY)
    assert set(scheduler.next_batch(2, now=2 * DAY).urls) == {URL, OTHER}
    scheduler.observe(Outcome(URL, 2 * DAY + 1, "not_attempted"))
    assert scheduler.next_batch(2, now=2 * DAY + 2).urls == [URL]


def test_host_slot_of_a_page_that_was_not_attempted_is_free() -> None:
    scheduler = crawled(DAY)
    scheduler.set_rule("a.example", HostRule(in_flight=1))
    first = scheduler.next_batch(2, now=2 * DAY).urls
    assert len(first) == 1
    assert scheduler.next_batch(2, now=2 * DAY).urls == []
    scheduler.observe(Outcome(first[0], 2 * DAY + 1, "not_attempted"))
    assert len(scheduler.next_batch(2, now=2 * DAY + 2)) == 1


def test_page_asked_for_and_not_attempted_is_still_asked_for() -> None:
    scheduler = crawled(DAY)
    scheduler.ask([URL], now=DAY)
    scheduler.next_batch(1, now=2 * DAY)
    scheduler.observe(Outcome(URL, 2 * DAY + 1, "not_attempted"))
    batch = scheduler.next_batch(1, now=2 * DAY + 2)
    assert (batch.urls, batch.reasons) == ([URL], [ReasonCode.IN_BATCH_ASKED_FOR])


@pytest.mark.parametrize("status", [503, 404])
def test_waits_do_not_begin_again_after_a_page_was_not_attempted(status: int) -> None:
    politeness = Politeness(backoff="1h", retire_after=1, probe_every="10d")
    scheduler = crawled(DAY, politeness=politeness)
    scheduler.observe(Outcome(URL, 2 * DAY, status))
    over = 20 * DAY
    assert URL in scheduler.next_batch(2, now=over).urls
    scheduler.observe(Outcome(URL, over + 1, "not_attempted"))
    assert URL in scheduler.next_batch(2, now=over + 2).urls


def test_panel_visits_a_page_that_was_not_attempted_in_the_same_cycle() -> None:
    scheduler = Scheduler(panel=0.5, new_share=0.0, formula="-n")
    urls = [f"https://a.example/{i}" for i in range(50)]
    scheduler.observe([Outcome(url, 1.0) for url in urls])
    scheduler.next_batch(40, now=DAY)  # sizes the panel of the next cycle
    scheduler.observe([Outcome(url, 1.5 * DAY) for url in urls])
    batch = scheduler.next_batch(20, now=2 * DAY)
    members = batch.urls[: batch.panel]
    assert members
    scheduler.observe([Outcome(url, 2 * DAY + 1, "not_attempted") for url in batch.urls])
    again = scheduler.next_batch(40, now=2 * DAY + 2)
    assert members[0] in again.urls[: again.panel]


def test_repeated_words_are_duplicates_and_do_not_end_a_newer_lease() -> None:
    scheduler = crawled(DAY)
    outcome = Outcome(URL, 2 * DAY, "not_attempted")
    scheduler.observe(outcome)
    scheduler.next_batch(2, now=3 * DAY, lease="1d")
    digest = scheduler.digest()
    assert scheduler.observe(outcome) == Observed(duplicates=1)
    assert scheduler.observe(Outcome(URL, 1.5 * DAY, "robots_denied")) == Observed(late=1)
    assert scheduler.digest() == digest


def test_denied_page_is_in_no_batch_of_any_kind() -> None:
    """By score, new, at random, for the panel, as a surge probe, overdue."""
    scheduler = Scheduler(panel=0.3, new_share=0.3, politeness=Politeness(max_revisit="1h"), formula="surge + t")
    drawing(0.3, scheduler)
    urls = [f"https://a.example/docs/{i}" for i in range(40)]
    scheduler.discover([*urls, NEW], now=0.0)
    scheduler.observe([Outcome(url, DAY, changed=True) for url in urls])
    scheduler.observe([Outcome(url, 2 * DAY, "robots_denied") for url in [*urls[::2], NEW]])
    allowed = set(urls[1::2])
    for day in range(3, 12):
        assert set(scheduler.next_batch(41, now=day * DAY, lease=1.0).urls) <= allowed
        assert set(scheduler.rank(41, now=day * DAY + 10, surge_probes=True).urls) == allowed


def test_denied_page_returns_after_any_other_outcome() -> None:
    for status in (200, 404, 503, None):
        scheduler = crawled(DAY, politeness=Politeness(backoff=0, retire_after=None))
        scheduler.observe(Outcome(URL, 2 * DAY, "robots_denied"))
        assert scheduler.next_batch(2, now=3 * DAY, lease=1.0).urls == [OTHER]
        assert scheduler.observe(Outcome(URL, 4 * DAY, "not_attempted")).applied == 1
        assert scheduler.next_batch(2, now=5 * DAY, lease=1.0).urls == [OTHER]
        scheduler.observe(Outcome(URL, 6 * DAY, status))
        assert URL in scheduler.next_batch(2, now=7 * DAY).urls


def test_asking_for_a_denied_page_gives_it_one_visit() -> None:
    scheduler = crawled(DAY)
    scheduler.observe(Outcome(URL, 2 * DAY, "robots_denied"))
    scheduler.ask([URL], now=3 * DAY)
    assert scheduler.next_batch(1, now=3 * DAY).urls == [URL]
    scheduler.observe(Outcome(URL, 3 * DAY + 1, "robots_denied"))
    assert scheduler.next_batch(2, now=4 * DAY).urls == [OTHER]
    scheduler.ask([URL], now=5 * DAY)
    scheduler.next_batch(1, now=5 * DAY)
    scheduler.observe(Outcome(URL, 5 * DAY + 1, 200))
    assert URL in scheduler.next_batch(2, now=6 * DAY).urls


def test_explanation_names_the_denial() -> None:
    scheduler = crawled(DAY)
    scheduler.observe(Outcome(URL, 2 * DAY, "robots_denied"))
    explanation = scheduler.explain(URL, now=3 * DAY)
    assert (explanation.eligible, explanation.eligible_from_s, explanation.in_batch) == (False, None, False)
    assert codes(scheduler, 3 * DAY)[0] == ReasonCode.ROBOTS_DENIED
    assert "robots.txt" in explanation.as_dict()["reasons"][0]["text"]
    scheduler.ask([URL], now=3 * DAY)
    assert ReasonCode.ROBOTS_DENIED not in codes(scheduler, 3 * DAY)
    assert scheduler.explain(URL, now=3 * DAY).eligible


def test_moved_page_discovers_its_target() -> None:
    scheduler = crawled()
    observed = scheduler.observe(Outcome(URL, DAY, 301, moved_to=NEW))
    assert observed == Observed(applied=1, first_visits=1, moved=1)
    explanation = scheduler.explain(NEW, now=3 * DAY)
    assert (explanation.first_visited, explanation.host) == (False, "b.example")
    assert explanation.terminals["t"] == 2.0
    assert NEW in scheduler.next_batch(3, now=3 * DAY).urls


def test_known_target_is_left_as_it_is() -> None:
    scheduler = crawled(DAY, url=OTHER)
    before = knowledge(scheduler, OTHER)
    assert scheduler.observe(Outcome(URL, 2 * DAY, 308, moved_to=OTHER)).moved == 1
    assert knowledge(scheduler, OTHER) == before
    assert len(scheduler) == 2


def test_late_outcomes_discover_nothing() -> None:
    scheduler = crawled(2 * DAY)
    late = [Outcome(URL, DAY, 301, moved_to=NEW), Outcome(URL, 2 * DAY, 301, moved_to=NEW)]
    assert scheduler.observe(late) == Observed(duplicates=1, late=1)
    assert NEW not in scheduler


def test_rules_and_blocks_apply_to_a_target() -> None:
    scheduler = crawled()
    scheduler.block("b.example", 10 * DAY)
    scheduler.observe(Outcome(URL, DAY, 301, moved_to=NEW))
    assert NEW not in scheduler.next_batch(3, now=3 * DAY).urls


def test_state_does_not_depend_on_how_moves_were_cut() -> None:
    """Targets get their rows before later URLs of the stream, also those of the same block of look-ups."""
    outcomes = [
        Outcome(
            f"https://h{i % 7}.example/{i % 900}", 1.0 + i, moved_to=f"https://t.example/{i}" if i % 50 == 3 else None
        )
        for i in range(LOOKUP_CHUNK + 500)
    ]
    whole, halves, single = Scheduler(), Scheduler(), Scheduler()
    whole.observe(outcomes)
    for part in (outcomes[:1_001], outcomes[1_001:]):
        halves.observe(OutcomeBatch.from_outcomes(part))
    for outcome in outcomes:
        single.observe(outcome)
    assert whole.digest() == halves.digest() == single.digest()
    assert whole.core.pages.faults() == []


def test_words_and_moves_survive_a_save_and_a_replay_of_the_log(tmp_path: Path) -> None:
    outcomes = [
        Outcome(URL, DAY, "robots_denied"),
        Outcome(OTHER, DAY, 301, moved_to="https://b.example/ä"),
        Outcome(NEW, DAY, "not_attempted"),
    ]
    durable = DurableScheduler.open(tmp_path / "durable")
    durable.observe(outcomes)
    assert Scheduler.load(tmp_path / "durable").digest() == durable.digest()  # from the log: nothing was saved since
    durable.close()
    scheduler = Scheduler()
    scheduler.observe(outcomes)
    scheduler.save(tmp_path / "saved")
    restored = Scheduler.load(tmp_path / "saved")
    assert restored.digest() == scheduler.digest() == durable.digest()
    assert URL not in restored.next_batch(9, now=2 * DAY).urls
    assert "https://b.example/ä" in restored
