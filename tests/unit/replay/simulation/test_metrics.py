"""The metrics at the edges that their doctests leave out."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, PackedUrls, Scheduler
from streamsched.numerics.arrays import Floats, Rows
from streamsched.reasons import ReasonCode
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.simulation.metrics import (
    Calibration,
    Forecast,
    assign_deciles,
    change_rate,
    discounts,
    freshness,
    moving_mean,
    ndcg,
    stale_seconds,
)
from streamsched.replay.simulation.policies import make_policy, predicts_changes
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import PolicyQuery, Schedule, simulate


def test_the_first_two_ranks_are_not_discounted_and_the_third_is_by_its_logarithm() -> None:
    assert discounts(5).tolist() == pytest.approx([1.0, 1.0, 1 / np.log(3), 1 / np.log(4), 1 / np.log(5)])
    with pytest.raises(ValueError, match="read-only"):
        discounts(5)[0] = 2.0


def test_ndcg_is_cut_at_k_and_knows_pages_that_were_not_visited() -> None:
    everything, half = np.array([True, True, True]), np.array([True, False, False])
    assert ndcg(everything, relevant=50) == 1.0
    assert ndcg(half, relevant=1) == 1.0
    assert ndcg(half, relevant=2) == 0.5
    assert ndcg(~everything, relevant=9) == 0.0
    assert ndcg(np.array([True]), relevant=1) == change_rate(np.array([True])) == 1.0


def test_staleness_stays_within_the_span() -> None:
    moments = np.array([-np.inf, 0.0, 100.0, 150.0, 200.0, 999.0, np.inf])
    assert stale_seconds(moments, 100.0, 200.0).tolist() == [100.0, 100.0, 100.0, 50.0, 0.0, 0.0, 0.0]
    assert freshness(moments, 100.0, 200.0) == pytest.approx(1 - 350 / 700)


def test_freshness_weighs_pages_by_importance_and_may_leave_some_out() -> None:
    moments = np.array([np.inf, 0.0])
    assert freshness(moments, 0.0, 10.0, np.array([0.0, 5.0])) == 0.0
    assert freshness(moments, 0.0, 10.0, np.array([1.0, 3.0])) == 0.25


def test_deciles_are_tenths_in_order_of_changes_with_equals_split_by_lot() -> None:
    changes = np.repeat([0, 3], [90, 10])
    deciles = assign_deciles(changes, np.arange(100, dtype=np.uint64)[::-1])
    assert np.bincount(deciles).tolist() == [10] * 10
    assert set(deciles[90:]) == {9}
    assert deciles[0] == 8
    assert deciles[89] == 0
    assert assign_deciles(np.array([4]), np.zeros(1, np.uint64)).tolist() == [0]


def test_a_moving_mean_is_of_what_counts() -> None:
    counted = np.array([False, True, True, False, False, False])
    found = moving_mean(np.array([9.0, 1.0, 3.0, 9.0, 9.0, 9.0]), counted, 3)
    assert found.tolist() == pytest.approx([np.nan, 1.0, 2.0, 2.0, 3.0, np.nan], nan_ok=True)


DAY = 86_400.0
PAGES = 60


def make_window(cycles: int, rate: float, later: int = 0) -> Window:
    """Pages that change at times of a Poisson process; the last `later` appear on day 5."""
    rng = np.random.default_rng(1)
    urls = PackedUrls.pack([f"https://site.example/{page}" for page in range(PAGES)])
    born = np.where(np.arange(PAGES) < PAGES - later, 0.0, 4.5 * DAY)
    pages, times = [np.arange(PAGES)], [born]
    for page in range(PAGES):
        changes = np.sort(rng.uniform(0.0, cycles * DAY, rng.poisson(rate * cycles)))
        times.append(changes[changes > born[page]])
        pages.append(np.full(times[-1].size, page))
    joined = np.concatenate(times)
    log = ChangeLog.collect(urls, np.concatenate(pages), joined, np.zeros(joined.size, bool))
    return log.window(0.0, DAY, cycles, later_pages=later > 0)


class Certain(ScheduledPolicy):
    """Visits pages in turn and is asked for forecasts before it learns."""

    def __init__(self, probability: float) -> None:
        super().__init__(Scheduler(formula="t"))
        self.probability = probability
        self.asked: list[int] = []

    def predict(self, rows: Rows, now: float) -> Forecast:  # noqa: ARG002  the same at any time
        self.asked.append(rows.size)
        return Forecast(np.full(rows.size, self.probability), rows % 2 == 0)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("default", True),
        ("posterior", True),
        ("gad", True),
        ("1 - (1 - due) * exp(-rate * tau) * (1 - surge)", True),
        ("due * 0.5", True),
        ("age", False),
        ("cg", False),
        ("freshness", True),
        ("balanced(0.3)", True),
        ("due * importance", False),
        ("due - surge", False),
        ("1.5 * due", False),
        ("pow(due, 2)", False),
        ("rand", False),
        ("oracle", False),
        ("gp4c", False),
    ],
)
def test_a_probability_is_a_score_that_never_leaves_0_to_1(policy: str, expected: bool) -> None:
    assert predicts_changes(policy) is expected


def test_the_error_of_a_constant_is_its_distance_from_the_share_that_came() -> None:
    window = make_window(30, 0.3)
    policy = Certain(0.9)
    trace = simulate(
        window, policy, Schedule(0.5, 2, "since_visit", 10), np.zeros(PAGES, np.int64), None, policy.predict
    )
    found = trace.calibration
    assert found is not None
    assert policy.asked == [PAGES // 2] * 20  # measured cycles only
    observed = trace.change_rate.mean()
    assert found.all_visits.share_observed == pytest.approx(observed)
    assert found.all_visits.mean_predicted == pytest.approx(0.9)
    assert found.all_visits.error == pytest.approx(0.9 - observed)
    assert found.without_surge.total + found.with_surge.total == 20 * PAGES // 2
    assert found.with_surge.total > 0


def test_a_first_visit_is_not_judged() -> None:
    window = make_window(12, 0.3, later=20)
    policy = Certain(0.5)
    trace = simulate(window, policy, Schedule(1.0, 1, "since_visit"), np.zeros(PAGES, np.int64), None, policy.predict)
    assert trace.visits.tolist() == [40] * 4 + [60] * 7
    assert policy.asked == [40] * 5 + [60] * 6


def test_without_visits_there_is_no_calibration() -> None:
    nothing = Calibration.empty().all_visits
    assert (nothing.total, nothing.mean_predicted, nothing.share_observed, nothing.error) == (0, None, None, None)


@pytest.mark.parametrize("name", ["default", "posterior", "nad"])
def test_what_is_predicted_is_the_score_before_the_outcome_is_known(name: str) -> None:
    policy = make_policy(name, DAY, seed=1)
    assert isinstance(policy, ScheduledPolicy)
    urls = PackedUrls.pack([f"https://site.example/{page}" for page in range(PAGES)])
    policy.discover(urls, now=0.0)
    for cycle in range(4):
        rows = np.arange(PAGES)
        changed = np.random.default_rng(cycle).random(PAGES) < 0.3
        policy.observe(OutcomeBatch(urls, np.full(PAGES, (cycle + 1) * DAY), changed=changed[rows]))
    rows, now = policy.rank(PolicyQuery(10, PAGES, 4, 6 * DAY, np.zeros(PAGES, bool))), 6 * DAY
    predicted = policy.predict(rows, now).probabilities.tolist()
    scores: Floats = policy.scheduler.scores(now=now)[rows]
    if name == "default":  # its own score is less, the expected gain
        scores = policy.scheduler.core.batch_builder.change_probabilities(now, rows)
    assert predicted == scores.tolist()


def test_a_surge_is_shown_where_the_explanation_names_it() -> None:
    policy = make_policy("default", DAY, seed=0)
    assert isinstance(policy, ScheduledPolicy)
    urls = [f"https://{host}.example/docs/{page}" for host in ("bulk", "quiet") for page in range(40)]
    policy.discover(PackedUrls.pack(urls), now=0.0)
    for day in range(1, 30):
        policy.observe(OutcomeBatch(urls, np.full(len(urls), day * DAY), changed=np.zeros(len(urls), bool)))
    seen = [Outcome(url, 30 * DAY + 3600.0, changed=url.startswith("https://bulk")) for url in urls[:20] + urls[40:60]]
    policy.scheduler.observe(seen)
    now = 31 * DAY
    shown = policy.predict(np.arange(len(urls)), now).surge_shown
    named = [
        any(reason.code == ReasonCode.SURGE_SHOWN for reason in policy.scheduler.explain(url, now=now).reasons)
        for url in urls
    ]
    assert shown.tolist() == named
    assert shown[20:40].all()
    assert not shown[40:].any()
