"""Logged calls: each kind replays to the state it led to, and calls that do not fit are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import HostRule, Optimiser, Outcome, OutcomeBatch, Politeness, Rule, Scheduler, Signal, SnapshotError
from streamsched.persistence.call_codec import decode_call, encode_call, pack_batch, unpack_batch
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.log_reader import LoggedCalls, newest_log
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.logged_calls import LOGGED_CALLS
from streamsched.scheduler.planning.optimiser import PLAN_FORMULA
from streamsched.scheduler.recovered_state import replay

NEVER = SavePlan(every=1e9)
URLS = [f"https://a.example/{i}" for i in range(9)]


TWO: Any = np.uint8(2)  # numbers as NumPy has them
UNTIL: Any = np.float32(99.0)


def set_max_ahead(scheduler: Scheduler) -> None:
    scheduler.max_ahead = "9d"


def set_bound(scheduler: Scheduler) -> None:
    scheduler.max_pages_per_host = TWO


ACTS: dict[str, Callable[[Scheduler], object]] = {
    "observe": lambda scheduler: scheduler.observe([Outcome(url, 5.0) for url in URLS]),
    "notice": lambda scheduler: scheduler.notice([Signal(url, 5.5, "feed") for url in URLS]),
    "discover": lambda scheduler: scheduler.discover([*URLS[3:], "https://b.example/"], now=6, importance=2.5),
    "next_batch": lambda scheduler: scheduler.next_batch(4, now=9e5, lease="1h"),
    "grant": lambda scheduler: scheduler.grant(URLS, now=5, lease=1, key="granted"),
    "release": lambda scheduler: scheduler.release(URLS),
    "forget": lambda scheduler: scheduler.forget(["https://b.example/", URLS[1]]),
    "ask": lambda scheduler: scheduler.ask(["https://c.example/"], now=7),
    "block": lambda scheduler: scheduler.block("*.example", UNTIL),
    "set_rules": lambda scheduler: scheduler.set_rules({"a.example": HostRule(delay=2), URLS[0]: Rule(never=True)}),
    "set_politeness": lambda scheduler: scheduler.set_politeness(Politeness(in_flight=3)),
    "limit_ahead": set_max_ahead,
    "set_bounds": set_bound,
    "use": lambda scheduler: scheduler.use("t * crawl_rate"),
    "begin_trial": lambda scheduler: scheduler.begin_trial("tau", now=8e5),
    "end_trial": lambda scheduler: scheduler.end_trial(),
    "follow_plan": lambda scheduler: Optimiser(scheduler).plan_now(1e6),
}


def logged(directory: Path) -> list[tuple[int, bytes]]:
    return list(LoggedCalls(directory, 0, newest_log(directory)[1]))


def test_every_kind_is_logged_and_replayed(tmp_path: Path) -> None:
    assert set(ACTS) == set(LOGGED_CALLS)
    with DurableScheduler.open(tmp_path, {"panel": 0.5}, plan=NEVER) as scheduler:
        for act in ACTS.values():
            act(scheduler)
        digest = scheduler.digest()
        scheduler.close(save=False)
    assert [decode_call(payload)[0]["call"] for _, payload in logged(tmp_path)] == list(ACTS)
    again = Scheduler(panel=0.5)
    assert list(replay(again.core, logged(tmp_path), "log")) == list(range(1, len(ACTS) + 1))
    assert again.digest() == digest


def test_outcomes_that_change_nothing_are_not_logged(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        scheduler.observe(Outcome(URLS[0], 5.0))
        scheduler.observe(Outcome(URLS[0], 5.0))
        scheduler.close(save=False)
    assert len(logged(tmp_path)) == 1


def test_calls_of_another_state_are_refused(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        scheduler.discover(URLS, now=0.0)
        scheduler.next_batch(3, now=5.0)
        scheduler.close(save=False)
    other = Scheduler()
    other.discover([f"{url}/other" for url in URLS], now=0.0)
    for some in (Scheduler(), other):
        with pytest.raises(SnapshotError, match="call 2 leased pages that the state does not have") as caught:
            list(replay(some.core, logged(tmp_path)[1:], "the log"))
        assert caught.value.path == "the log"


def test_a_first_plan_and_its_formula_are_one_call(tmp_path: Path) -> None:
    """While the ranking is in use, too; a later plan leaves the formula as it is."""
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        scheduler.discover(URLS, now=0.0)
        scheduler.rank(3, now=5.0)
        scheduler.begin_trial("tau", now=5.0)
        for now in (5.0, 6.0):
            Optimiser(scheduler).plan_now(now)
            assert scheduler.formula.text == PLAN_FORMULA
        assert scheduler.trial() is None
        digest, ranked = scheduler.digest(), scheduler.rank(9, now=1e6)
        scheduler.close(save=False)
    calls = [decode_call(payload)[0] for _, payload in logged(tmp_path)]
    assert [(call["call"], bool(call.get("champion"))) for call in calls[2:]] == [
        ("follow_plan", True),
        ("follow_plan", False),
    ]
    again = Scheduler.load(tmp_path)
    assert (again.digest(), again.rank(9, now=1e6).urls) == (digest, ranked.urls)


def test_a_plan_of_more_pages_is_refused(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, {"formula": "crawl_rate"}, plan=NEVER) as scheduler:
        scheduler.discover(URLS, now=0.0)
        Optimiser(scheduler).plan_now(5.0)
        scheduler.close(save=False)
    with pytest.raises(SnapshotError, match="call 2 a plan of more pages than the state has"):
        list(replay(Scheduler().core, logged(tmp_path)[1:], "the log"))


@pytest.mark.parametrize(
    "optional",
    [
        {},
        {"changed": [True, None]},
        {"status": [304, "robots_denied"], "moved_to": [None, URLS[2]], "etag": ['"a"', None]},
    ],
)
def test_a_batch_is_logged_without_absent_columns(optional: dict[str, Any]) -> None:
    batch = OutcomeBatch(URLS[:2], [1.0, 2.0], **optional)
    fields, arrays = decode_call(encode_call({}, pack_batch(batch)))
    columns = {name.removesuffix("_blob").removesuffix("_offsets") for name in arrays}
    assert columns == {"given", "urls", "fetched_at", *optional}
    assert (fields, list(unpack_batch(arrays))) == ({}, list(batch))


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(SnapshotError, match="call 7 has a kind that this release does not know: 'dance'"):
        list(replay(Scheduler().core, [(7, encode_call({"call": "dance"}))], "the log"))
