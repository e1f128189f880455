"""Visits that say that a page was fetched, and nothing about a change."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, ReasonCode, Scheduler, Signal

DAY = 86_400.0
URL = "https://a.example/1"


def daily(days: int, **fields: object) -> list[Outcome]:
    return [Outcome(URL, day * DAY + 1.0, **fields) for day in range(days)]  # type: ignore[arg-type]


def rate(scheduler: Scheduler, day: float) -> float:
    return scheduler.explain(URL, now=day * DAY).terminals["rate"]


@pytest.mark.parametrize("fields", [{}, {"status": 200}, {"status": 301, "moved_to": "https://a.example/2"}])
def test_status_alone_leaves_the_rate_of_a_page_as_it_was(fields: dict[str, object]) -> None:
    """It used to teach that nothing ever changes."""
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(daily(1, **fields))
    before = rate(scheduler, 1)
    result = scheduler.observe(daily(60, **fields)[1:])
    assert (result.applied, result.unproven, result.changed, result.served) == (59, 59, 0, 0)
    assert rate(scheduler, 60) == before
    page = scheduler.page(URL, now=60 * DAY)
    assert page is not None
    assert (page.visits, page.last_visit_s) == (0, 59 * DAY + 1.0)


@pytest.mark.parametrize("fields", [{"changed": False}, {"status": 304}, {"status": 404}, {"fingerprint": 7}])
def test_evidence_of_no_change_lowers_the_rate(fields: dict[str, object]) -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(daily(1, **fields))
    before = rate(scheduler, 1)
    assert scheduler.observe(daily(60, **fields)[1:]).unproven == 0
    assert scheduler.unproven_share is None  # too few visits
    assert rate(scheduler, 60) < before


def test_copy_is_fresh_after_a_visit_without_evidence() -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(daily(10, changed=True))
    stale = scheduler.explain(URL, now=20 * DAY).terminals["posterior"]
    scheduler.observe(Outcome(URL, 20 * DAY, status=200))
    assert scheduler.explain(URL, now=20 * DAY).terminals["posterior"] == 0.0 < stale


def test_fingerprints_are_compared_within_the_interval_that_they_show() -> None:
    """A change before a visit without evidence must not count as one after it."""
    scheduler = Scheduler(max_ahead=None)
    visits = [(1.0, 0), (2.0, None), (3.0, 2**64 - 1), (4.0, 2**64 - 1), (5.0, 0)]
    found = [scheduler.observe(Outcome(URL, day * DAY, fingerprint=print_)) for day, print_ in visits]
    assert [one.unproven for one in found] == [0, 1, 1, 0, 0]
    assert [one.changed for one in found] == [0, 0, 0, 0, 1]


def test_signals_are_neither_right_nor_wrong() -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(daily(1, changed=True))
    scheduler.notice(Signal(URL, 0.5 * DAY, "sitemap"))
    scheduler.observe(Outcome(URL, DAY, status=200))
    (source,) = [one for one in scheduler.sources() if one.host]
    assert (source.signals, source.checked) == (1, 0.0)
    codes = [reason.code for reason in scheduler.explain(URL, now=DAY).reasons]
    assert ReasonCode.ANNOUNCED not in codes


def test_many_visits_without_evidence_give_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler(max_ahead=None)
    urls = [f"https://a.example/{n}" for n in range(50)]
    with caplog.at_level(logging.WARNING, "streamsched.evidence"):
        for day in range(5):
            scheduler.observe(OutcomeBatch(urls, np.full(50, day * DAY + 1.0), status=np.full(50, 200, np.int32)))
        assert len(caplog.records) == 1
        assert scheduler.unproven_share == 1.0
        reasons = scheduler.explain(urls[0], now=5 * DAY).reasons
        assert [reason.fields for reason in reasons if reason.code == ReasonCode.NO_EVIDENCE] == [{"share": 1.0}]
        for day in range(5, 15):
            scheduler.observe(OutcomeBatch(urls, np.full(50, day * DAY + 1.0), changed=np.zeros(50, np.bool_)))
    assert scheduler.unproven_share == pytest.approx(200 / 700)
    assert len(caplog.records) == 1
    reasons = scheduler.explain(urls[0], now=15 * DAY).reasons
    assert ReasonCode.NO_EVIDENCE not in [reason.code for reason in reasons]


def test_share_survives_a_restart(tmp_path: object) -> None:
    scheduler = Scheduler(max_ahead=None)
    scheduler.observe(daily(201, status=200))
    scheduler.save(f"{tmp_path}/state")
    assert Scheduler.load(f"{tmp_path}/state").unproven_share == scheduler.unproven_share == 1.0
