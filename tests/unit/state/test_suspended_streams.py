"""Suspended streams: no page of their hosts is handed out, in the ranking, in explanations and after a restart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsched import DurableScheduler, Outcome, OutcomeBatch, Politeness, ReasonCode, Scheduler
from streamsched.persistence.image_writer import SavePlan

DAY = 86_400.0
FIRST, SECOND = "kafka://outcomes/0", "kafka://outcomes/1"
URLS = {FIRST: ["https://a.example/1", "https://a.example/2"], SECOND: ["https://b.example/1"]}
FOUND = "https://found.example/"


def outcomes(urls: Iterable[str], at_s: float) -> OutcomeBatch:
    return OutcomeBatch.from_outcomes([Outcome(url, at_s, changed=True) for url in urls])


def reread(path: str, position: Any) -> Iterator[OutcomeBatch]:
    """The stream again, a day a message."""
    for day in range(0 if position is None else position, 3):
        yield outcomes(URLS[path], day * DAY)


def open_again(folder: Path) -> DurableScheduler:
    return DurableScheduler.open(folder, reread=reread, plan=SavePlan(every=1e9))


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[DurableScheduler]:
    with open_again(tmp_path / "state") as opened:
        for path, urls in URLS.items():
            opened.take(outcomes(urls, 1.0), path, 1)
        opened.discover([FOUND], now=0.0)
        yield opened


def handed_out(scheduler: Scheduler | DurableScheduler, now: float = 5 * DAY) -> set[str]:
    urls = set(scheduler.rank(9, now=now).urls)
    assert urls == {url for url in [*URLS[FIRST], *URLS[SECOND], FOUND] if scheduler.explain(url, now=now).eligible}
    return urls


def test_pages_of_suspended_streams_are_not_handed_out(scheduler: DurableScheduler) -> None:
    assert scheduler.suspend_streams({SECOND, "kafka://outcomes/7"}) == 1
    assert handed_out(scheduler) == {*URLS[FIRST], FOUND}
    assert scheduler.suspend_streams([FIRST]) == 2  # in place of the second
    assert set(scheduler.next_batch(9, now=5 * DAY).urls) == {*URLS[SECOND], FOUND}
    assert scheduler.suspend_streams([]) == 0
    assert set(scheduler.next_batch(9, now=5 * DAY).urls) == set(URLS[FIRST])  # the others are leased


def test_it_is_a_reason(scheduler: DurableScheduler) -> None:
    scheduler.suspend_streams([FIRST])
    explanation = scheduler.explain(URLS[FIRST][0], now=5 * DAY)
    assert (explanation.eligible, explanation.eligible_from_s, explanation.in_batch) == (False, None, False)
    assert explanation.reasons[0].code is ReasonCode.STREAM_SUSPENDED
    assert explanation.reasons[0].fields == {"host": "a.example", "stream": FIRST}
    codes = [reason.code for reason in scheduler.explain(URLS[SECOND][0], now=5 * DAY).reasons]
    assert ReasonCode.STREAM_SUSPENDED not in codes


def test_neither_a_request_nor_new_politeness_overrides_it(scheduler: DurableScheduler) -> None:
    scheduler.suspend_streams([FIRST])
    scheduler.ask([*URLS[FIRST], "https://a.example/new"], now=DAY)
    scheduler.set_politeness(Politeness(delay=0))
    scheduler.release(URLS[FIRST])
    assert handed_out(scheduler) == {*URLS[SECOND], FOUND}


def test_a_host_belongs_to_the_stream_that_delivered_it_last(scheduler: DurableScheduler) -> None:
    scheduler.suspend_streams([FIRST])
    scheduler.take(outcomes(URLS[FIRST][:1], DAY), SECOND, 2)  # a wrong key
    assert handed_out(scheduler) == {*URLS[FIRST], *URLS[SECOND], FOUND}
    scheduler.take(outcomes(URLS[SECOND], 2 * DAY), FIRST, 2)
    assert handed_out(scheduler) == {*URLS[FIRST], FOUND}
    scheduler.observe(outcomes(URLS[SECOND], 3 * DAY))  # a call belongs to no stream
    assert handed_out(scheduler) == {*URLS[FIRST], FOUND}


def test_it_is_saved(scheduler: DurableScheduler, tmp_path: Path) -> None:
    scheduler.suspend_streams([FIRST])
    scheduler.save(tmp_path / "copy")
    assert handed_out(Scheduler.load(tmp_path / "copy")) == {*URLS[SECOND], FOUND}
    scheduler.snapshot()
    scheduler.suspend_streams([SECOND])
    scheduler.snapshot()  # an increment
    scheduler.close()
    with open_again(tmp_path / "state") as opened:
        assert handed_out(opened) == {*URLS[FIRST], FOUND}
        opened.take(outcomes(URLS[FIRST], DAY), FIRST, 2)
        opened.suspend_streams([FIRST])
        assert handed_out(opened) == {*URLS[SECOND], FOUND}


def test_it_is_recovered_from_the_log(scheduler: DurableScheduler, tmp_path: Path) -> None:
    scheduler.snapshot()
    scheduler.take(outcomes(URLS[SECOND], DAY), SECOND, 2)
    scheduler.suspend_streams([SECOND])
    digest = scheduler.digest()
    scheduler.close(save=False)  # as a crash leaves it
    with open_again(tmp_path / "state") as opened:
        assert opened.digest() == digest
        assert handed_out(opened) == {*URLS[FIRST], FOUND}
        opened.suspend_streams([])
        assert handed_out(opened) == {*URLS[FIRST], *URLS[SECOND], FOUND}
