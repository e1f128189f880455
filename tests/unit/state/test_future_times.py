"""Times in the future are found wherever a state holds them, and mended so that its invariants hold."""

from __future__ import annotations

import numpy as np

from streamsched import Outcome, Scheduler, Signal
from streamsched.scheduler.recovered_state import mend_state
from streamsched.state.future_times import describe_future, describe_future_pages

DAY = 86_400.0
T = 1.7e9
URLS = [f"https://h{i % 2}.example/docs/{i}" for i in range(60)]


def poisoned() -> Scheduler:
    """Good outcomes of 30 days, then some of pages of each kind in the year 4821."""
    scheduler = Scheduler(max_ahead=None, panel=0.1, new_share=0.0)
    for day in range(30):
        scheduler.observe([Outcome(url, T + day * DAY + i, changed=i % 2 == 0) for i, url in enumerate(URLS)])
    scheduler.observe([Outcome(url, 9e10 + i, changed=True) for i, url in enumerate(URLS[:4])])
    scheduler.observe([Outcome(URLS[0], 9e10 + 9_000.0, changed=True), Outcome(URLS[5], 9e10, status=500)])
    scheduler.observe([Outcome(URLS[7], 9e10, status=429), Outcome("https://h3.example/", 9e10)])
    scheduler.notice(Signal(URLS[1], 9e10 + 60.0, "feed"))
    scheduler.next_batch(3, now=9e10 + DAY, lease="1d", key="later")
    scheduler.discover(["https://new.example/"], now=9e10)
    return scheduler


def test_everything_is_mended() -> None:
    scheduler = poisoned()
    arrays = scheduler.core.pages.arrays
    text = describe_future_pages(arrays, T + 31 * DAY)
    assert text is not None
    assert f"8 of {len(scheduler)} pages" in text
    assert URLS[0] in text
    changed = mend_state(scheduler.core, T + 31 * DAY)
    assert changed["pages"] == 8
    assert {name for name, count in changed.items() if count == 0} == set()
    arrays = scheduler.core.pages.arrays
    assert describe_future_pages(arrays, T + 31 * DAY) is None
    assert scheduler.core.pages.faults() == []
    count = len(scheduler)
    for times in (
        arrays.pages.records["last_visit_s"][:count],
        arrays.pages.traces["last_outcome_s"][:count],
        arrays.groups.records["ready_s"],
        arrays.groups.records["open_s"],
        arrays.groups.records["kept_s"],
        arrays.journal["at_s"][: int(arrays.corpus["journaled"][0])],
        arrays.seasonality.state["newest_s"],
        arrays.seasonality.state["published_s"],
        arrays.seasonality.schedules["last_change_s"],
    ):
        assert np.all(times <= T + 31 * DAY)
    assert scheduler.core.clock.newest_s <= T + 31 * DAY
    assert not any(mend_state(scheduler.core, T + 31 * DAY).values())


def test_mended_pages_are_visited_and_learned_again() -> None:
    scheduler = poisoned()
    scheduler.max_ahead = "100d"
    scheduler.use("t", wait=True)
    mend_state(scheduler.core, T + 31 * DAY)
    seen: set[str] = set()
    for day in range(31, 60):
        batch = scheduler.next_batch(10, now=T + day * DAY, lease="1h")
        seen |= set(batch.urls)
        done = [Outcome(url, T + day * DAY + i + 1, changed=i % 2 == 0) for i, url in enumerate(batch.urls)]
        assert scheduler.observe(done).applied == len(done)
    assert seen == {*URLS, "https://h3.example/", "https://new.example/"}
    assert scheduler.core.pages.faults() == []


def test_leases_from_the_future_are_found_and_end() -> None:
    """A clock ten years ahead, put right while the pages are out: leases of the present stay."""
    scheduler = Scheduler()
    scheduler.observe([Outcome(url, T) for url in URLS])
    scheduler.next_batch(30, now=T + 3_650 * DAY, lease="10m")
    scheduler.next_batch(9, now=T + 60.0, lease="99d")
    text = describe_future(scheduler.core.pages.arrays, T + DAY)
    assert text is not None
    assert text.startswith("30 pages have leases that began in the future and end by 2033-11-")
    assert mend_state(scheduler.core, T + DAY)["leases"] == 30
    assert describe_future(scheduler.core.pages.arrays, T + DAY) is None
    assert len(scheduler.next_batch(99, now=T + 61.0)) == len(URLS) - 9


def test_blocks_stay() -> None:
    scheduler = Scheduler()
    scheduler.observe([Outcome(url, T) for url in URLS])
    scheduler.block("h0.example", T + 900 * DAY)
    scheduler.block("later.example", T + 900 * DAY)
    assert not any(mend_state(scheduler.core, T + DAY).values())
    assert {url[:10] for url in scheduler.next_batch(99, now=T + DAY).urls} == {"https://h1"}


def test_a_state_with_nothing_but_the_future() -> None:
    scheduler = Scheduler()
    scheduler.observe([Outcome(URLS[0], 9e10), Outcome(URLS[0], 9e10 + 1, changed=True)])
    assert mend_state(scheduler.core, T)["pages"] == 1
    assert scheduler.core.pages.faults() == []
    assert scheduler.next_batch(1, now=T + DAY).urls == [URLS[0]]
