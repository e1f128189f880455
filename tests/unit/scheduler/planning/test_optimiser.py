"""An optimiser beside a scheduler: what it plans, when, and that plans survive whatever happens to a state."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from streamsched import (
    DurableScheduler,
    HostRule,
    Optimiser,
    OptimiserSettings,
    Outcome,
    OutcomeBatch,
    Politeness,
    ReasonCode,
    Rule,
    Scheduler,
    SignalBatch,
    SnapshotError,
)
from streamsched.optimal import binary_crawl, lambda_crawl
from streamsched.persistence.image_writer import SavePlan
from streamsched.scheduler.planning.optimiser import PLAN_FORMULA
from streamsched.scheduler.planning.planned_rates import plan_rates

DAY = 86_400.0
NOW = 1_000 * DAY
PAGES = 60
URLS = [f"https://h{i % 3}.example/{i}" for i in range(PAGES)]
SOLVER = "streamsched.scheduler.planning.optimiser.plan_rates"


def teach(scheduler: Scheduler, days: int = 9, end_s: float = NOW) -> None:
    """Visit all pages daily until a day before the end; the importance and the rates of changes differ."""
    rng = np.random.default_rng(3)
    importance, often = rng.integers(1, 9, PAGES).astype(float), rng.random(PAGES)
    for day in range(days, 0, -1):
        changed = rng.random(PAGES) < often
        scheduler.observe(OutcomeBatch(URLS, np.full(PAGES, end_s - day * DAY), changed=changed, importance=importance))


@pytest.fixture
def scheduler() -> Scheduler:
    scheduler = Scheduler()
    teach(scheduler)
    return scheduler


def rates_of(scheduler: Scheduler) -> npt.NDArray[Any]:
    return scheduler.core.pages.arrays.pages.traces["crawl_rate"][: len(scheduler)].copy()


def terminals(scheduler: Scheduler, name: str) -> list[float]:
    return [scheduler.explain(url, now=NOW).terminals[name] for url in URLS]


def test_lambdacrawl_is_the_solver_on_what_was_learned(scheduler: Scheduler) -> None:
    plan = Optimiser(scheduler, OptimiserSettings(budget="30%")).plan_now(NOW)
    columns = terminals(scheduler, "importance"), terminals(scheduler, "rate")
    expected = lambda_crawl(*columns, budget=0.3 * PAGES).visit_rate
    np.testing.assert_allclose(rates_of(scheduler), expected, rtol=1e-6)
    assert (plan.number, plan.policy, plan.planned_at_s, plan.pages) == (1, "lambdacrawl", NOW, PAGES)
    assert plan.visits_per_s == pytest.approx(0.3 * PAGES / DAY, rel=1e-15)


@pytest.mark.parametrize("floor", [0.0, 0.4, 1.0])
def test_binary_is_the_solver_with_its_floor(scheduler: Scheduler, floor: float) -> None:
    Optimiser(scheduler, OptimiserSettings(policy="binary", budget=18 / DAY, floor=floor)).plan_now(NOW)
    columns = terminals(scheduler, "importance"), terminals(scheduler, "rate")
    np.testing.assert_allclose(
        rates_of(scheduler), binary_crawl(*columns, budget=18, floor=floor).visit_rate, rtol=1e-6
    )


def test_polite_keeps_to_the_delays_of_hosts(scheduler: Scheduler) -> None:
    scheduler.set_rules({"h1.example": HostRule(delay=DAY / 2), "h2.example": HostRule(delay=1.0)})
    Optimiser(scheduler, OptimiserSettings(policy="polite", budget="30%")).plan_now(NOW)
    rates = rates_of(scheduler)
    assert rates[1::3].sum() == pytest.approx(2.0, rel=1e-6)
    assert rates.sum() == pytest.approx(0.3 * PAGES, rel=1e-6)


def test_a_budget_beyond_all_hosts_is_what_they_take() -> None:
    scheduler = Scheduler(politeness=Politeness(delay=DAY / 4))
    teach(scheduler)
    Optimiser(scheduler, OptimiserSettings(policy="polite", budget=1e6)).plan_now(NOW)
    rates = rates_of(scheduler)
    assert [rates[host::3].sum() for host in range(3)] == pytest.approx([4.0] * 3, rel=1e-6)


@pytest.mark.parametrize("budget", [1e-12, 1e12])
@pytest.mark.parametrize("policy", ["lambdacrawl", "polite", "binary"])
def test_extreme_budgets(scheduler: Scheduler, policy: str, budget: float) -> None:
    Optimiser(scheduler, OptimiserSettings(policy=policy, budget=budget)).plan_now(NOW)
    assert rates_of(scheduler).sum(dtype=np.float64) == pytest.approx(budget * DAY, rel=1e-6)
    assert scheduler.core.pages.faults() == []


def test_pages_that_cannot_be_visited_take_no_part(scheduler: Scheduler) -> None:
    scheduler.set_rules({URLS[0]: Rule(never=True)})
    scheduler.observe(Outcome(URLS[4], NOW - 60.0, "robots_denied"))
    scheduler.block("h2.example", NOW + 9 * DAY)
    scheduler.block("h1.example", NOW + 3_600.0)  # free again before the next plan
    scheduler.discover([URLS[1]], now=NOW - 60.0, importance=[0.0])
    Optimiser(scheduler, OptimiserSettings(budget="30%")).plan_now(NOW)
    rates = rates_of(scheduler)
    assert not rates[[0, 1, 4]].any()
    assert not rates[2::3].any()
    assert rates[7::3].all()
    assert rates.sum() == pytest.approx(0.3 * PAGES, rel=1e-6)


def test_pages_never_visited_are_planned_by_their_priors(scheduler: Scheduler) -> None:
    scheduler.discover(["https://h0.example/new"], now=NOW - DAY)
    Optimiser(scheduler).plan_now(NOW)
    assert 0.0 < rates_of(scheduler)[PAGES] < 1.0


def test_no_page_may_be_visited(scheduler: Scheduler) -> None:
    scheduler.block("*.example", NOW + 9 * DAY)
    assert Optimiser(scheduler).plan_now(NOW).pages == PAGES
    assert not rates_of(scheduler).any()


def test_no_pages() -> None:
    optimiser = Optimiser(Scheduler())
    assert not optimiser.due(NOW)
    assert optimiser.plan_now(NOW).pages == 0


def announced(*, truly: bool) -> Scheduler:
    """Daily visits; a sitemap announced each change an hour before, or as many changes that never came."""
    scheduler, rng = Scheduler(), np.random.default_rng(1)
    for day in range(200, 0, -1):
        at, changed = NOW - day * DAY, rng.random(PAGES) < 0.1
        told = np.flatnonzero(changed if truly else np.roll(changed, 7) & ~changed)
        scheduler.notice(SignalBatch([URLS[i] for i in told], np.full(told.size, at - 3_600.0), "sitemap"))
        scheduler.observe(OutcomeBatch(URLS, np.full(PAGES, at), changed=changed))
    return scheduler


def test_pages_of_a_trusted_source_wait_for_its_signals() -> None:
    trusted, false = announced(truly=True), announced(truly=False)
    for scheduler in (trusted, false):
        Optimiser(scheduler, OptimiserSettings(budget="30%", complete_from=0.9)).plan_now(NOW)
    silent = rates_of(trusted) / np.array(terminals(trusted, "rate"))
    assert (silent > 0.0).all()
    assert (silent < 0.1).all()  # visits for what the source leaves out
    assert rates_of(false).sum() == pytest.approx(0.3 * PAGES, rel=1e-6)


def test_a_signal_of_a_trusted_source_makes_a_page_due() -> None:
    scheduler = announced(truly=True)
    Optimiser(scheduler, OptimiserSettings(budget="30%", complete_from=0.9)).plan_now(NOW)
    scheduler.notice(SignalBatch(URLS[:1], [NOW - 60.0], "sitemap"))
    told, silent = scheduler.score([URLS[0], URLS[3]], now=NOW)
    assert told > 1.0 > silent


def test_the_first_plan_sets_the_formula_and_later_ones_leave_it(scheduler: Scheduler) -> None:
    optimiser = Optimiser(scheduler)
    optimiser.plan_now(NOW)
    assert scheduler.formula.text == PLAN_FORMULA
    scheduler.use("t * X")
    optimiser.plan_now(NOW + DAY)
    assert scheduler.formula.text == "t * X"


def test_a_formula_that_reads_crawl_rates_stays() -> None:
    scheduler = Scheduler(formula="crawl_rate * t", host_share=None)
    teach(scheduler)
    Optimiser(scheduler).plan_now(NOW)
    assert scheduler.formula.text == "crawl_rate * t"
    batch = scheduler.next_batch(5, now=NOW)
    elapsed = terminals(scheduler, "t")
    assert sorted(batch.scores.tolist()) == sorted((rates_of(scheduler) * elapsed).tolist())[-5:]


def test_when_a_plan_is_due(scheduler: Scheduler) -> None:
    optimiser = Optimiser(scheduler, OptimiserSettings(every="12h"))
    assert optimiser.due(NOW)
    optimiser.plan_now(NOW)
    assert [optimiser.due(NOW + hours * 3_600.0) for hours in (0, 11.9, 12, -1)] == [False, False, True, True]
    assert not Optimiser(scheduler, OptimiserSettings(every="12h", floor=0.1)).due(NOW)
    assert Optimiser(scheduler, OptimiserSettings(every="12h", policy="binary")).due(NOW)
    assert Optimiser(scheduler, OptimiserSettings(every="12h", budget="6%")).due(NOW)


def test_ticks_plan_beside(scheduler: Scheduler) -> None:
    with Optimiser(scheduler) as optimiser:
        assert optimiser.tick(NOW) is None
        assert optimiser.running
        assert optimiser._thread is not None
        optimiser._thread.join()
        plan = optimiser.tick(NOW)
        assert plan is not None
        assert plan == optimiser.plan
        assert not optimiser.running
        assert optimiser.tick(NOW + 60.0) is None
        assert not optimiser.running


def test_the_lock_is_free_while_the_solver_runs(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, leave = threading.Event(), threading.Event()

    def wait(*arguments: Any) -> Any:
        entered.set()
        assert leave.wait(60.0)
        return plan_rates(*arguments)

    monkeypatch.setattr(SOLVER, wait)
    with Optimiser(scheduler) as optimiser:
        optimiser.tick(NOW)
        assert entered.wait(60.0)
        new = ["https://h9.example/new"]
        assert scheduler.discover(new, now=NOW).added == 1  # known after the snapshot
        assert scheduler.next_batch(3, now=NOW).urls
        leave.set()
    assert optimiser.plan is not None
    assert optimiser.plan.pages == PAGES
    reason = next(one for one in scheduler.explain(new[0], now=NOW).reasons if one.code == ReasonCode.PLANNED)
    assert (reason.fields["known"], reason.fields["every_s"]) == (False, None)


def test_an_error_beside_is_raised_by_the_next_tick(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise SnapshotError("the log", "cannot be written")

    monkeypatch.setattr(SOLVER, fail)
    optimiser = Optimiser(scheduler)
    optimiser.tick(NOW)
    assert optimiser._thread is not None
    optimiser._thread.join()
    with pytest.raises(SnapshotError):
        optimiser.tick(NOW)
    assert optimiser.plan is None
    assert optimiser.due(NOW)


def test_explanations_say_what_is_planned(scheduler: Scheduler) -> None:
    Optimiser(scheduler).plan_now(NOW)
    explanation = scheduler.explain(URLS[0], now=NOW + DAY)
    reason = next(one for one in explanation.reasons if one.code == ReasonCode.PLANNED)
    rate = float(rates_of(scheduler)[0])
    assert reason.fields == {
        "policy": "lambdacrawl", "planned_at_s": NOW, "known": True,
        "visits_per_cycle": rate, "every_s": DAY / rate,
    }  # fmt: skip
    assert explanation.terminals["crawl_rate"] == rate


def test_equal_states_have_equal_plans(scheduler: Scheduler) -> None:
    other = Scheduler()
    teach(other)
    for one in (scheduler, other):
        Optimiser(one, OptimiserSettings(policy="binary")).plan_now(NOW)
    assert scheduler.digest() == other.digest()


def test_plans_survive_saves_and_loads(scheduler: Scheduler, tmp_path: Path) -> None:
    optimiser = Optimiser(scheduler)
    optimiser.plan_now(NOW)
    scheduler.use("t * X", wait=True)
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == scheduler.digest()
    assert Optimiser(loaded).plan == optimiser.plan
    assert not Optimiser(loaded).due(NOW)
    loaded.use(PLAN_FORMULA, wait=True)
    scheduler.use(PLAN_FORMULA, wait=True)
    assert loaded.next_batch(9, now=NOW).urls == scheduler.next_batch(9, now=NOW).urls


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[DurableScheduler]:
    with DurableScheduler.open(tmp_path / "state", plan=SavePlan(every=1e9)) as scheduler:
        teach(scheduler)
        yield scheduler


def test_plans_are_logged(durable: DurableScheduler) -> None:
    optimiser = Optimiser(durable)
    optimiser.plan_now(NOW)
    durable.snapshot()
    teach(durable, days=2)
    optimiser.plan_now(NOW + DAY)
    digest, plan, directory = durable.digest(), optimiser.plan, durable.directory
    durable.close(save=False)
    with DurableScheduler.open(directory) as again:
        assert again.digest() == digest
        assert Optimiser(again).plan == plan
        assert again.core.pages.faults() == []


def test_increments_hold_the_pages_whose_rates_moved(durable: DurableScheduler) -> None:
    optimiser = Optimiser(durable, OptimiserSettings(policy="binary"))
    optimiser.plan_now(NOW)
    durable.snapshot(full=True)
    durable.discover([URLS[0]], now=NOW, importance=[100.0])
    optimiser.plan_now(NOW + DAY)
    durable.snapshot()
    assert Scheduler.load(durable.directory).digest() == durable.digest()


def test_a_log_that_cannot_be_written_leaves_the_plan_before(
    durable: DurableScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimiser = Optimiser(durable)
    optimiser.plan_now(NOW)
    before = rates_of(durable)
    durable.discover([URLS[0]], now=NOW, importance=[100.0])

    def refuse() -> None:
        raise SnapshotError("the log", "cannot be written")

    with monkeypatch.context() as patch:
        patch.setattr(durable._log, "check", refuse)
        with pytest.raises(SnapshotError):
            optimiser.plan_now(NOW + DAY)
    assert np.array_equal(rates_of(durable), before)
    assert optimiser.plan is not None
    assert optimiser.plan.number == 1


def test_rates_are_as_large_as_the_record_holds() -> None:
    one = Scheduler()
    one.observe([Outcome(URLS[0], NOW - 2 * DAY), Outcome(URLS[0], NOW - DAY, changed=True)])
    Optimiser(one, OptimiserSettings(budget=1e12)).plan_now(NOW)
    assert math.isfinite(rates_of(one)[0])
    assert np.isfinite(one.scores(now=NOW)).all()


def test_ticks_of_several_threads_begin_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread is held between making a plan's thread and starting it; another must not take that for ended."""
    held, go = threading.Event(), threading.Event()
    start = threading.Thread.start

    def start_late(thread: threading.Thread) -> None:
        if thread.name == "streamsched optimiser":
            held.set()
            go.wait(10.0)
        start(thread)

    scheduler = Scheduler()
    scheduler.discover([f"https://a.example/{i}" for i in range(5)], now=0.0)
    with Optimiser(scheduler, OptimiserSettings(budget="30%")) as optimiser:
        monkeypatch.setattr(threading.Thread, "start", start_late)
        first = threading.Thread(target=optimiser.tick, args=(DAY,), name="first")
        first.start()
        assert held.wait(10.0)
        found: list[object] = []
        second = threading.Thread(target=lambda: found.append(optimiser.tick(DAY)), name="second")
        second.start()
        second.join(0.2)
        go.set()
        first.join()
        second.join()
        assert len(found) == 1  # it raised AssertionError
