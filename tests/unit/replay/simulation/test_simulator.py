"""The simulator at the edges: one page, every page, nothing changes, weights, pages that die and come back."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import PackedUrls
from streamsched.numerics.arrays import Rows
from streamsched.replay import ChangeLog, Trace
from streamsched.replay.ground_truth import Window
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.simulator import PolicyQuery, Reading, Schedule, simulate

DAY = 86_400.0


def make_window(changes: dict[str, list[float]], days: int, importance: list[float] | None = None) -> Window:
    """Pages that appear at the start and change some days later."""
    events = [(page, DAY * day) for page, days in enumerate(changes.values()) for day in (0.0, *days)]
    pages, times = (np.array(column) for column in zip(*events, strict=True))
    log = ChangeLog.collect(PackedUrls.pack(list(changes)), pages, times, np.zeros(times.size, bool))
    weights = None if importance is None else np.array(importance)
    weighed = ChangeLog(log.urls, log.times_s, log.offsets, log.gone, weights, log.first_s, log.last_s)
    return weighed.window(0.0, DAY, days)


def run(window: Window, policy: str, budget: float = 0.5, warmup: int = 1, reading: Reading = "since_visit") -> Trace:
    schedule = Schedule(budget, warmup, reading)
    return simulate(window, make_policy(policy, DAY, 0), schedule, np.zeros(window.pages, np.int64))


def test_one_page_is_visited_every_cycle_whatever_the_budget() -> None:
    trace = run(make_window({"https://a/": [1.25, 3.5, 3.75]}, 5), "posterior", budget=0.001)
    assert trace.visits.tolist() == [1, 1, 1, 1]
    assert trace.counted.tolist() == [True, False, True, False]
    assert trace.change_rate.tolist() == trace.ndcg.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert trace.freshness.tolist() == [0.25, 1.0, 0.5, 1.0]
    assert trace.delays_days.tolist() == [0.75, 0.5]
    assert trace.delay_cycles.tolist() == [0, 2]
    assert trace.changes == 3
    assert (trace.undetected, trace.stale_pages) == (0, 0)


def test_a_budget_of_all_pages_or_more_visits_each_once() -> None:
    window = make_window({"https://a/": [1.5], "https://b/": [2.5], "https://c/": []}, 4)
    for budget in (1.0, 3.0, 7.0):
        trace = run(window, "age", budget)
        assert trace.visits.tolist() == [3, 3, 3]
        assert trace.change_rate.tolist() == pytest.approx([1 / 3, 1 / 3, 0.0])


def test_where_nothing_changes_there_is_nothing_to_count_and_all_is_fresh() -> None:
    trace = run(make_window({"https://a/": [0.5], "https://b/": []}, 4), "oracle")
    assert not trace.counted.any()
    assert trace.freshness.tolist() == [1.0, 1.0, 1.0]
    assert trace.delays_days.size == trace.changes == 0


def test_freshness_weighs_by_importance_unless_there_is_none_at_all() -> None:
    changes = {"https://a/": [1.5], "https://b/": []}
    assert run(make_window(changes, 2, [3.0, 1.0]), "age").freshness[0] == pytest.approx(1 - 0.5 * 3 / 4)
    assert run(make_window(changes, 2, [0.0, 0.0]), "age").freshness[0] == pytest.approx(1 - 0.5 / 2)


def test_visits_tell_the_scheduler_how_important_a_page_is() -> None:
    window = make_window({"https://a/": [], "https://b/": [], "https://c/": []}, 3, [1.0, 5.0, 2.0])
    policy = make_policy("importance", DAY, 0)
    rows: list[int] = []

    class Watched:
        discover, observe = policy.discover, policy.observe

        def rank(self, query: PolicyQuery) -> Rows:
            found = policy.rank(query)
            rows.extend(found.tolist())
            return found

    simulate(window, Watched(), Schedule(0.7, 1, "since_visit"), np.zeros(3, np.int64))
    assert rows == [1, 2, 1, 2]


def test_the_readings_differ_in_what_counts_and_not_in_freshness_and_delay() -> None:
    """Three pages in turn: the change of day 1 is found on day 3, when nothing happens."""
    window = make_window({"https://a/": [1.5], "https://b/": [1.5], "https://c/": [1.5]}, 4)
    since, that_day = run(window, "age", 0.34), run(window, "age", 0.34, reading="that_day")
    assert since.change_rate.tolist() == [1.0, 1.0, 1.0]
    assert that_day.change_rate.tolist() == [1.0, 0.0, 0.0]
    assert that_day.counted.tolist() == [True, False, False]
    assert since.freshness.tolist() == that_day.freshness.tolist() == pytest.approx([0.5, 1 / 3, 2 / 3])
    assert since.delays_days.tolist() == that_day.delays_days.tolist() == [0.5, 1.5, 2.5]


def test_going_and_coming_back_are_changes() -> None:
    """A page gone on day 2 and back on day 4, seen each day, then not seen between."""
    times = DAY * np.array([0.0, 2.5, 4.5])
    log = ChangeLog.collect(PackedUrls.pack(["https://a/"]), np.zeros(3, int), times, np.array([False, True, False]))
    daily = run(log.window(0.0, DAY, 6), "age")
    assert daily.counted.tolist() == [False, True, False, True, False]
    weekly = run(log.window(0.0, 3 * DAY, 2), "age")
    assert weekly.delays_days.tolist() == [1.5]


def test_each_cycle_is_ticked() -> None:
    ticks: list[int] = []
    window = make_window({"https://a/": [1.5]}, 4)
    tenths = np.zeros(1, np.int64)
    simulate(window, make_policy("age", DAY, 0), Schedule(0.5, 2, "since_visit"), tenths, lambda: ticks.append(1))
    assert len(ticks) == 4


@pytest.mark.parametrize(
    ("budget", "pages", "visits"),
    [
        *((0.05, 2425, 121), (0.29, 100, 29), (0.07, 100, 7), (1e-9, 5, 1), (1.0, 5, 5)),
        *((3.0, 5, 3), (3.0, 2, 2), (1e300, 2, 2)),
    ],
)
def test_the_visits_of_a_cycle(budget: float, pages: int, visits: int) -> None:
    assert Schedule(budget, 2, "since_visit").visits(pages) == visits


def test_a_budget_in_pages_is_a_share_of_all_of_them() -> None:
    shares = [Schedule(budget, 2, "since_visit", pages=200).share for budget in (0.25, 1.0, 50.0, 200.0, 1e300)]
    assert shares == [0.25, 1.0, 0.25, 1.0, 1.0]
