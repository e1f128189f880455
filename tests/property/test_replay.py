"""The simulator against a replay by hand, page by page; ground truth against a second look at every record."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, PackedUrls
from streamsched.connectors import Delivery, Position
from streamsched.estimation.change_detection import CHANGES
from streamsched.numerics.arrays import Rows
from streamsched.replay import ChangeLog, Window
from streamsched.replay.log_reader import read_outcomes
from streamsched.replay.simulation.metrics import WAITS_DAYS
from streamsched.replay.simulation.simulator import PolicyQuery, Reading, Schedule, simulate
from tests.reference import replay

CYCLE_S = 10.0

# Whole seconds, so that changes fall on the edges of cycles and on one another.
records = st.lists(
    st.tuples(
        st.integers(-15, 95).map(float), st.sampled_from("AMMMD"), st.sampled_from("abcdef").map("https://{0}/".format)
    ),
    min_size=1,
    max_size=60,
)
rules = st.tuples(
    st.sampled_from(["0.01", "0.29", "0.5", "1", "2", "5"]),
    st.integers(0, 3),
    st.sampled_from(get_args(Reading)),
    st.integers(0, 4),
)


class Scripted:
    """Visits what a throw of dice that the test can repeat says; keeps what its visits reported."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.urls: list[str] = []
        self.reports: list[list[tuple[str, bool]]] = []

    def choose(self, cycle: int, known: int, k: int) -> Sequence[int]:
        return random.Random(f"{self.seed} {cycle}").sample(range(known), k)

    def discover(self, urls: PackedUrls, now: float) -> None:
        assert now % CYCLE_S == 0
        self.urls += urls

    def rank(self, query: PolicyQuery) -> Rows:
        assert query.known == len(self.urls)
        return np.array(self.choose(query.cycle, query.known, query.k), np.intp)

    def observe(self, outcomes: OutcomeBatch) -> None:
        self.reports.append(list(zip(outcomes.urls, outcomes.changed.tolist(), strict=True)))


def collect(log: Sequence[replay.Record], *, weighed: bool = False) -> ChangeLog:
    urls = list(dict.fromkeys(url for _, _, url in log))
    significance = np.array([replay.significance_at(when) for when, _, _ in log]) if weighed else None
    return ChangeLog.collect(
        PackedUrls.pack(urls),
        np.array([urls.index(url) for _, _, url in log]),
        np.array([when for when, _, _ in log]),
        np.array([op == "D" for _, op, _ in log]),
        significance,
    )


@given(records, rules, st.integers(5, 8), st.booleans(), st.booleans(), st.integers(0, 99))
def test_the_simulator_is_the_replay_by_hand(
    log: list[replay.Record], rules: tuple[str, int, Reading, int], cycles: int, later: bool, weighed: bool, seed: int
) -> None:
    budget, warmup, reading, learned = rules
    measured = min(learned, cycles - 1) * CYCLE_S
    pages = replay.pages_of(log, 0.0, cycles * CYCLE_S, measured=measured, later=later)
    if not any(page.appears < 0 for page in pages):
        return  # a cycle without any page to visit is no replay: the unit tests have the error
    for page in pages:
        page.weighed = weighed
    window: Window = collect(log, weighed=weighed).window(0.0, CYCLE_S, cycles, measured_s=measured, later_pages=later)
    assert list(window.urls) == [page.url for page in pages]
    policy = Scripted(seed)
    schedule = Schedule(float(budget), warmup, reading, learned)
    found = simulate(window, policy, schedule, np.zeros(window.pages, np.int64))
    expected = replay.replay(pages, 0.0, CYCLE_S, cycles, rules, policy.choose)
    assert policy.reports == expected.reports
    assert found.counted.tolist() == expected.counted
    assert found.visits.tolist() == expected.visits
    assert found.delay_cycles.tolist() == expected.delay_cycles
    assert found.delays_days.tolist() == pytest.approx(expected.delays_days)
    for metric in ("change_rate", "ndcg", "freshness"):
        assert getattr(found, metric).tolist() == pytest.approx(getattr(expected, metric)), metric
    assert found.seen.tolist() == [sum(wait <= limit for wait in expected.waits_days) for limit in WAITS_DAYS]
    assert (found.undetected, found.stale_pages) == (expected.undetected, expected.stale_pages)
    assert found.decile_visits.sum() == sum(expected.visits)


@given(records, st.lists(st.integers(-20, 100).map(float), min_size=1, max_size=8))
def test_versions_and_life_are_what_the_records_say(log: list[replay.Record], moments: list[float]) -> None:
    truth = collect(log)
    for moment in moments:
        alive = []
        for page, url in enumerate(truth.urls):
            events = sorted(((when, op) for when, op, name in log if name == url), key=lambda event: event[0])
            past = [op for when, op in events if when <= moment]
            assert truth.versions(np.array([page]), np.array([moment])).tolist() == [len(past)]
            if past and past[-1] != "D":
                alive.append(page)
        assert truth.alive(moment).tolist() == alive


words = st.sampled_from([0, 0b111, 0b111111, 2**64 - 1, 2**63])
outcomes = st.fixed_dictionaries(
    {"url": st.sampled_from(["https://a/", "https://b/"]), "fetched_at": st.integers(0, 30).map(float)},
    optional={
        "status": st.sampled_from([0, 200, 301, 304, 404, 410, 429, 503]),
        "fingerprint": words,
        "changed": st.booleans(),
        "content": st.sampled_from([0, 1, 2**64 - 1]),
    },
)


@given(st.lists(outcomes, min_size=1, max_size=40), st.integers(1, 64), st.integers(1, 40), st.sampled_from(CHANGES))
def test_changes_are_placed_at_the_visits_that_saw_them(
    log: list[dict[str, Any]], bits: int, batch: int, changes: str
) -> None:
    """However the log is cut into deliveries."""
    verdicts = zip(log, replay.sift(log, bits, changes), strict=True)
    expected = [(outcome["url"], outcome["fetched_at"]) for outcome, verdict in verdicts if verdict == "change"]
    if not expected:
        return  # a log without changes is an error, which the unit tests have
    deliveries = (_deliver(log[at : at + batch]) for at in range(0, len(log), batch))
    truth = read_outcomes(deliveries, bits, changes=changes)
    spread = np.repeat(list(truth.urls), np.diff(truth.offsets))
    pairs = list(zip(spread.tolist(), truth.times_s.tolist(), strict=True))
    assert sorted(pair for pair in pairs if np.isfinite(pair[1])) == sorted(expected)
    assert truth.alive(-1.0).tolist() == list(range(len(truth.urls)))


def _deliver(outcomes: list[dict[str, Any]]) -> Delivery[OutcomeBatch]:
    names = "status", "fingerprint", "changed", "content"
    optional = {field: [outcome.get(field) for outcome in outcomes] for field in names}
    columns = {field: values for field, values in optional.items() if any(value is not None for value in values)}
    urls, times = [outcome["url"] for outcome in outcomes], [outcome["fetched_at"] for outcome in outcomes]
    return Delivery(OutcomeBatch(urls, times, **columns), Position("jsonl", "/log", 0, 0))
