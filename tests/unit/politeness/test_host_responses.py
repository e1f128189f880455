"""One page of a host probes after a rest, and the others follow once a visit has not failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamsched import Outcome, Politeness, Scheduler
from streamsched.persistence.image_writer import SavePlan
from streamsched.politeness.politeness_settings import HostRule
from streamsched.reasons import ReasonCode
from streamsched.scheduler.durable import DurableScheduler
from tests.support.handout import drawing

HOUR = 3_600.0
URLS = [f"https://a.example/{i}" for i in range(6)]


def resting(until_s: float = 100.0, pages: int = 6, **settings: object) -> Scheduler:
    """A host whose first page has said how long to wait."""
    scheduler = Scheduler(politeness=Politeness(backoff=0, **settings), formula="t", new_share=0.0)  # type: ignore[arg-type]
    scheduler.discover(URLS[:pages], now=0.0)
    scheduler.observe(Outcome(URLS[0], 10.0, 429, retry_after=until_s - 10.0))
    return scheduler


def take(scheduler: Scheduler, now: float, lease: float = 60.0) -> list[str]:
    return scheduler.next_batch(6, now=now, lease=lease).urls


def test_one_page_probes_and_the_others_follow() -> None:
    scheduler = resting()
    assert take(scheduler, 99.0) == []
    assert len(scheduler.rank(6, now=100.0)) == 1
    probe = take(scheduler, 100.0)
    assert len(probe) == 1
    assert take(scheduler, 159.0) == []
    assert len(scheduler.rank(6, now=159.0)) == 0
    scheduler.observe(Outcome(probe[0], 101.0))
    assert len(scheduler.rank(6, now=102.0)) == 6
    assert len(take(scheduler, 102.0)) == 6


@pytest.mark.parametrize("how", ["expired", "released", "failed", "no answer"])
def test_a_probe_without_a_good_answer_is_followed_by_the_next(how: str) -> None:
    scheduler = resting()
    for now in (100.0, 200.0, 300.0):
        probe = take(scheduler, now)
        assert len(probe) == 1
        if how == "expired":
            assert take(scheduler, now + 59.0) == []
        elif how == "released":
            scheduler.release(probe)
        else:
            scheduler.observe(Outcome(probe[0], now + 1.0, 500 if how == "failed" else 0))
        assert len(scheduler.rank(6, now=now + 60.0)) == 1


def test_a_probe_may_demand_another_rest() -> None:
    scheduler = resting()
    scheduler.observe(Outcome(take(scheduler, 100.0)[0], 101.0, 429, retry_after=50.0))
    assert take(scheduler, 150.0) == []
    assert len(take(scheduler, 151.0)) == 1


def test_rests_after_bad_probes_grow() -> None:
    scheduler = Scheduler(politeness=Politeness(backoff="1h"), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    scheduler.observe(Outcome(URLS[0], 10.0, 429))
    for hours, more in ((1, 3), (3, 7), (7, 15)):
        now = 10.0 + hours * HOUR
        scheduler.observe(Outcome(take(scheduler, now)[0], now, 429))
        assert take(scheduler, 9.0 + more * HOUR) == []
    assert len(take(scheduler, 10.0 + 15 * HOUR)) == 1


def test_only_the_probe_decides_while_it_is_leased() -> None:
    scheduler = Scheduler(politeness=Politeness(backoff=0), formula="t", new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    out = take(scheduler, 0.0, lease=1_000.0)
    scheduler.release(out[3:])
    scheduler.observe(Outcome(out[0], 10.0, 429, retry_after=90.0))
    scheduler.observe(Outcome(out[1], 50.0))  # under way before the rest
    probe = take(scheduler, 100.0)
    assert len(probe) == 1
    scheduler.observe(Outcome(out[2], 110.0))
    assert take(scheduler, 111.0) == []
    scheduler.observe(Outcome(probe[0], 105.0))
    assert len(take(scheduler, 112.0)) == 6


def test_a_visit_after_the_rest_frees_a_host_without_a_lease() -> None:
    """Outcomes of a stream, whose crawler plans its visits itself."""
    scheduler = resting()
    scheduler.observe(Outcome(URLS[1], 99.0))
    assert len(scheduler.rank(6, now=100.0)) == 1
    scheduler.observe(Outcome(URLS[2], 100.0))
    assert len(scheduler.rank(6, now=101.0)) == 6


def test_a_rest_demanded_while_the_probe_is_out_has_its_own_probe() -> None:
    scheduler = Scheduler(politeness=Politeness(backoff=0), formula="t", new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    out = take(scheduler, 0.0, lease=1_000.0)
    scheduler.release(out[2:])
    scheduler.observe(Outcome(out[0], 10.0, 429, retry_after=90.0))
    probe = take(scheduler, 100.0)
    scheduler.observe(Outcome(out[1], 101.0, 429, retry_after=90.0))
    scheduler.observe(Outcome(probe[0], 102.0))
    assert take(scheduler, 190.0) == []
    assert len(take(scheduler, 191.0)) == 1


@pytest.mark.parametrize("pages", [1, 2])
def test_a_host_of_few_pages(pages: int) -> None:
    scheduler = resting(pages=pages)
    probe = take(scheduler, 100.0)
    assert len(probe) == 1
    scheduler.observe(Outcome(probe[0], 101.0))
    assert len(take(scheduler, 102.0)) == pages


def test_blocks_and_delays_are_no_rests_that_a_host_demands() -> None:
    scheduler = Scheduler(politeness=Politeness(delay=10), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    scheduler.release(take(scheduler, 0.0))
    assert len(take(scheduler, 60.0)) == 6
    blocked = Scheduler(new_share=0.0)
    blocked.discover(URLS, now=0.0)
    blocked.block("a.example", 50.0)
    assert len(take(blocked, 50.0)) == 6


def test_a_block_ends_probing() -> None:
    scheduler = resting()
    probe = take(scheduler, 100.0)
    scheduler.block("a.example", 110.0)
    assert take(scheduler, 109.0) == []
    assert len(take(scheduler, 110.0)) == 5
    scheduler.observe(Outcome(probe[0], 111.0))
    assert scheduler.core.pages.faults() == []


def test_with_a_delay_the_probe_rests_its_host_for_it() -> None:
    scheduler = resting()
    scheduler.set_rule("a.example", HostRule(delay=30))
    probe = take(scheduler, 100.0)
    scheduler.observe(Outcome(probe[0], 101.0))
    assert take(scheduler, 129.0) == []
    assert len(take(scheduler, 130.0)) == 2


def test_clocks_may_differ() -> None:
    """The crawler's is behind: by its time the probe was visited before the end of the rest."""
    scheduler = resting()
    scheduler.observe(Outcome(take(scheduler, 100.0)[0], 98.0))
    assert len(take(scheduler, 101.0)) == 6


def test_an_answer_after_the_lease_of_the_probe_counts() -> None:
    scheduler = resting()
    scheduler.set_rule("a.example", HostRule(delay=30))
    scheduler.observe(Outcome(take(scheduler, 100.0, lease=10.0)[0], 105.0))
    assert len(scheduler.rank(6, now=130.0)) == 6


def test_limits_of_hosts_hold_for_probes() -> None:
    scheduler = resting(in_flight=1)
    probe = take(scheduler, 100.0)
    assert len(probe) == 1
    scheduler.observe(Outcome(probe[0], 101.0))
    assert len(take(scheduler, 102.0)) == 1


def test_pages_of_other_hosts_take_the_places() -> None:
    scheduler = resting()
    scheduler.discover([f"https://b.example/{i}" for i in range(3)], now=50.0)
    assert len(take(scheduler, 100.0)) == 4


@pytest.mark.parametrize("share", ["panel", "new_share", "drawn"])
def test_shares_of_a_batch_obey_the_probe(share: str) -> None:
    shares: dict[str, Any] = {"new_share": 0.0} | ({} if share == "drawn" else {share: 0.5})
    scheduler = Scheduler(politeness=Politeness(backoff=0), formula="t", **shares)
    drawing(0.5 if share == "drawn" else 0.0, scheduler)
    scheduler.discover(URLS, now=0.0)
    scheduler.observe([Outcome(url, 1.0) for url in URLS[:3]])
    scheduler.observe(Outcome(URLS[0], 10.0, 429, retry_after=90.0))
    for now in (100.0, 200.0, 300.0):
        assert len(take(scheduler, now)) == 1
        assert take(scheduler, now + 1.0) == []


def test_pages_asked_for_obey_the_probe() -> None:
    scheduler = resting()
    scheduler.ask(URLS, now=20.0)
    probe = take(scheduler, 100.0)
    assert len(probe) == 1
    scheduler.ask(probe, now=101.0)
    assert take(scheduler, 101.0) == []


def test_explanations_name_the_probe() -> None:
    scheduler = resting(pages=2)
    first = scheduler.explain(URLS[0], now=100.0, k=2), scheduler.explain(URLS[1], now=100.0, k=2)
    codes = sorted(str(found.reasons[0].code) for found in first)
    assert codes == ["host_share_used", "in_batch_by_score"]
    shared = next(found.reasons[0] for found in first if found.reasons[0].code == ReasonCode.HOST_SHARE_USED)
    assert shared.fields["probing"]
    probe = take(scheduler, 100.0)[0]
    other = next(url for url in URLS[:2] if url != probe)
    found = scheduler.explain(other, now=110.0)
    assert (found.eligible, found.eligible_from_s) == (False, 160.0)
    assert found.reasons[0].code == ReasonCode.HOST_PROBING
    assert found.reasons[0].fields == {"host": "a.example", "probe": probe, "until_s": 160.0, "wait_s": 50.0}
    assert [reason.code for reason in scheduler.explain(probe, now=110.0).reasons][:1] == [ReasonCode.LEASED]
    assert scheduler.explain(other, now=160.0).eligible


def test_a_saved_state_awaits_its_probe(tmp_path: Path) -> None:
    scheduler = resting()
    probe = take(scheduler, 100.0)
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == scheduler.digest()
    assert take(loaded, 101.0) == []
    loaded.observe(Outcome(probe[0], 101.0))
    assert len(take(loaded, 102.0)) == 6


def test_a_log_of_calls_awaits_its_probe(tmp_path: Path) -> None:
    settings = {"politeness": Politeness(backoff=0), "formula": "t", "new_share": 0.0}
    scheduler = DurableScheduler.open(tmp_path, settings, plan=SavePlan(every=1e9))
    scheduler.discover(URLS, now=0.0)
    scheduler.observe(Outcome(URLS[0], 10.0, 429, retry_after=90.0))
    probe = scheduler.next_batch(6, now=100.0, lease=60).urls
    digest = scheduler.digest()
    scheduler.close(save=False)
    with DurableScheduler.open(tmp_path) as again:
        assert again.digest() == digest
        assert again.next_batch(6, now=101.0).urls == []
        again.observe(Outcome(probe[0], 102.0))
        assert len(again.next_batch(6, now=103.0)) == 6


def test_a_page_counts_once_in_a_row_of_503() -> None:
    scheduler = Scheduler(politeness=Politeness(backoff=0), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    for now, page in enumerate((0, 0, 0, 1, 0, 1, 1), 1):
        scheduler.observe(Outcome(URLS[page], float(now), 503))
    assert len(scheduler.rank(6, now=10.0)) == 6
    scheduler.observe(Outcome(URLS[2], 11.0, 503, retry_after=90.0))
    assert len(scheduler.rank(6, now=12.0)) == 0
    assert len(scheduler.rank(6, now=101.0)) == 1
    scheduler.observe(Outcome(URLS[0], 102.0, 503, retry_after=90.0))  # the row goes on until another answer
    assert len(scheduler.rank(6, now=191.0)) == 0


def test_a_good_answer_starts_the_row_anew() -> None:
    scheduler = Scheduler(politeness=Politeness(backoff=0, host_backoff_503=2), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    scheduler.observe([Outcome(URLS[0], 1.0, 503), Outcome(URLS[1], 2.0), Outcome(URLS[0], 3.0, 503, retry_after=9.0)])
    assert len(scheduler.rank(6, now=4.0)) == 5
    scheduler.observe(Outcome(URLS[1], 5.0, 503, retry_after=9.0))
    assert len(scheduler.rank(6, now=13.0)) == 0


@pytest.mark.parametrize("status", [429, 503])
def test_hosts_that_never_rest_for_a_status(status: int) -> None:
    scheduler = Scheduler(politeness=Politeness(host_backoff_429=None, host_backoff_503=None), new_share=0.0)
    scheduler.discover(URLS, now=0.0)
    scheduler.observe([Outcome(url, 1.0, status, retry_after=2 * HOUR) for url in URLS[:5]])
    assert scheduler.rank(6, now=2 * HOUR).urls == [URLS[5]]
    assert len(scheduler.rank(6, now=2 * HOUR + 1.0)) == 6
