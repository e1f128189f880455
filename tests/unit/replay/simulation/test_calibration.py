"""Calibration: which scores are probabilities, what is foretold at the moment of choice, and worlds that are known."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, PackedUrls, Scheduler
from streamsched.formula.objectives import CHANGED
from streamsched.numerics.arrays import Floats, Rows
from streamsched.reasons import ReasonCode
from streamsched.replay.simulation.calibration import Calibration, Forecast
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.policy_names import foretells_changes
from streamsched.replay.simulation.scheduler_policy import ScheduledPolicy
from streamsched.replay.simulation.simulator import PolicyQuery, Schedule, simulate
from streamsched.replay.truth.ground_truth import ChangeLog, Window

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

    def foretell(self, rows: Rows, now: float) -> Forecast:  # noqa: ARG002  the same at any time
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
    assert foretells_changes(policy) is expected


def test_the_error_of_a_constant_is_its_distance_from_the_share_that_came() -> None:
    window = make_window(30, 0.3)
    policy = Certain(0.9)
    trace = simulate(
        window, policy, Schedule(0.5, 2, "since_visit", 10), np.zeros(PAGES, np.int64), None, policy.foretell
    )
    found = trace.calibration
    assert found is not None
    assert policy.asked == [PAGES // 2] * 20  # measured cycles only
    came = trace.change_rate.mean()
    assert found.all_visits.share_came == pytest.approx(came)
    assert found.all_visits.mean_foretold == pytest.approx(0.9)
    assert found.all_visits.error == pytest.approx(0.9 - came)
    assert found.without_surge.total + found.with_surge.total == 20 * PAGES // 2
    assert found.with_surge.total > 0


def test_a_first_visit_is_not_judged() -> None:
    window = make_window(12, 0.3, later=20)
    policy = Certain(0.5)
    trace = simulate(window, policy, Schedule(1.0, 1, "since_visit"), np.zeros(PAGES, np.int64), None, policy.foretell)
    assert trace.visits.tolist() == [40] * 4 + [60] * 7
    assert policy.asked == [40] * 5 + [60] * 6


def test_without_visits_there_is_no_calibration() -> None:
    nothing = Calibration.empty().all_visits
    assert (nothing.total, nothing.mean_foretold, nothing.share_came, nothing.error) == (0, None, None, None)


@pytest.mark.parametrize("name", ["default", "posterior", "nad"])
def test_what_is_foretold_is_the_score_before_the_outcome_is_known(name: str) -> None:
    policy = make_policy(name, DAY, seed=1)
    assert isinstance(policy, ScheduledPolicy)
    urls = PackedUrls.pack([f"https://site.example/{page}" for page in range(PAGES)])
    policy.discover(urls, now=0.0)
    for cycle in range(4):
        rows = np.arange(PAGES)
        changed = np.random.default_rng(cycle).random(PAGES) < 0.3
        policy.observe(OutcomeBatch(urls, np.full(PAGES, (cycle + 1) * DAY), changed=changed[rows]))
    rows, now = policy.rank(PolicyQuery(10, PAGES, 4, 6 * DAY, np.zeros(PAGES, bool))), 6 * DAY
    foretold = policy.foretell(rows, now).probabilities.tolist()
    if name == "default":
        policy.scheduler.use(CHANGED, wait=True)  # its own score is less, the expected gain
    scores: Floats = policy.scheduler.scores(now=now)[rows]
    assert foretold == scores.tolist()


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
    shown = policy.foretell(np.arange(len(urls)), now).surge_shown
    named = [
        any(reason.code == ReasonCode.SURGE_SHOWN for reason in policy.scheduler.explain(url, now=now).reasons)
        for url in urls
    ]
    assert shown.tolist() == named
    assert shown[20:40].all()
    assert not shown[40:].any()
