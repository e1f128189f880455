"""`run` with an optimiser: plans where epochs of the stream begin, the same however the stream is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamsched import DurableScheduler, Optimiser, OptimiserSettings, OutcomeBatch, Scheduler
from streamsched.formula.champion import BY_PLAN
from streamsched.persistence.state_directory import has_state
from streamsched.scheduler.planning.optimiser import PLAN_FORMULA
from streamsched.service.stream_hooks import FilePlanning, LivePlanning
from tests.support.command_line import DAY, NOW, Command, crawl, write

PLANNED = ("--set", "optimiser.policy=binary", "--set", "optimiser.every=2d")


def test_a_file_is_planned_where_its_epochs_begin(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", crawl(days=7))
    answer = streamsched("run", "--source", source, "--state", tmp_path / "s", *PLANNED, "--json")
    assert answer.code == 0, answer.err
    scheduler = Scheduler.load(tmp_path / "s")
    plan = Optimiser(scheduler).plan
    assert plan is not None
    assert answer.json["plans"] == plan.number == 3
    assert (plan.policy, plan.planned_at_s % (2 * DAY)) == ("binary", 0.0)
    assert scheduler.formula.text == PLAN_FORMULA
    told = streamsched("explain", "https://h0.example/p0", "--state", tmp_path / "s", "--now", str(NOW))
    assert "by binary at 20" in told.out
    assert scheduler.champion.origin == BY_PLAN


def test_a_restart_goes_on_as_though_there_had_been_none(streamsched: Command, tmp_path: Path) -> None:
    lines = crawl(days=7)
    whole, part = write(tmp_path / "whole.jsonl", lines), write(tmp_path / "part.jsonl", lines[:30])
    assert streamsched("run", "--source", whole, "--state", tmp_path / "one", *PLANNED).code == 0
    assert streamsched("run", "--source", part, "--state", tmp_path / "two", *PLANNED).code == 0
    write(part, lines[30:], append=True)
    assert streamsched("run", "--source", part, "--state", tmp_path / "two", *PLANNED).code == 0
    assert Scheduler.load(tmp_path / "one").digest() == Scheduler.load(tmp_path / "two").digest()


@pytest.mark.parametrize("size", [1, 40, 1000])
def test_batches_may_be_cut_anywhere(size: int) -> None:
    days = np.repeat(np.arange(1, 11), 12) * DAY
    urls = [f"https://a.example/{i % 12}" for i in range(days.size)]
    scheduler = Scheduler()
    planning = FilePlanning(Optimiser(scheduler, OptimiserSettings(every="3d")))
    for start in range(0, days.size, size):
        batch = OutcomeBatch(urls[start : start + size], days[start : start + size])
        planning.observe(batch, lambda part, _: scheduler.observe(part))
    assert planning.counts() == {"plans": 3}
    plan = Optimiser(scheduler).plan
    assert plan is not None
    assert (plan.number, plan.planned_at_s) == (3, 9 * DAY)


def test_evolutions_and_plans_together(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", crawl(days=7))
    words = ("--evolve-every", "3", "--set", "optimiser.every=1d", "--json")
    answer = streamsched("run", "--source", source, "--state", tmp_path / "s", *words)
    assert (answer.json["evolutions"], answer.json["plans"]) == (2, 6)
    digest = Scheduler.load(tmp_path / "s").digest()
    assert streamsched("run", "--source", source, "--state", tmp_path / "s", *words).code == 0
    assert Scheduler.load(tmp_path / "s").digest() == digest  # the formula of the plan, though not of a record, stays


def plan_beside(planning: LivePlanning, optimiser: Optimiser) -> None:
    """Begin a plan and see it to its end."""
    planning.tick()
    assert optimiser._thread is not None
    optimiser._thread.join()
    planning.tick()


def test_a_live_stream_is_planned_beside(tmp_path: Path) -> None:
    now = NOW
    with DurableScheduler.open(tmp_path) as scheduler, Optimiser(scheduler) as optimiser:
        planning = LivePlanning(optimiser, lambda: now)
        planning.tick()
        assert not optimiser.running  # there are no pages
        batch = OutcomeBatch(["https://a.example/1"], [NOW - DAY])
        assert planning.observe(batch, lambda part, _: scheduler.observe(part)).applied == 1
        plan_beside(planning, optimiser)
        assert planning.counts() == {"plans": 1}
        now += 3_600.0
        planning.tick()
        assert not optimiser.running


def test_a_plan_that_fails_ends_no_live_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    now, scheduler = NOW, Scheduler()
    scheduler.discover(["https://a.example/1"], now=NOW)

    def fail(*_: object) -> None:
        raise MemoryError

    with Optimiser(scheduler) as optimiser:
        planning = LivePlanning(optimiser, lambda: now)
        with monkeypatch.context() as patch:
            patch.setattr(Optimiser, "plan_now", fail)
            plan_beside(planning, optimiser)
        planning.tick()
        assert not optimiser.running  # it waits a minute
        now += 60.0
        plan_beside(planning, optimiser)
    assert planning.counts() == {"plans": 1}


def test_an_optimiser_that_the_settings_do_not_allow_makes_no_state(streamsched: Command, tmp_path: Path) -> None:
    source, state = write(tmp_path / "outcomes.jsonl", crawl(days=3)), tmp_path / "s"
    words = ("run", "--source", source, "--state", state, "--set", "optimiser.policy=mirrorsync")
    answer = streamsched(*words, "--set", "scheduler.panel=0.9")
    assert (answer.code, has_state(state)) == (2, False)
    assert "policy: expected a policy that draws no pages at random" in answer.err
    assert streamsched(*words).code == 0  # the same state, mended as said


@pytest.mark.parametrize("chosen", ["objective=freshness", "formula=X*t"])
def test_a_formula_that_ignores_the_plan_is_refused(streamsched: Command, tmp_path: Path, chosen: str) -> None:
    """A plan would replace it once, and every later start would set it again."""
    source = write(tmp_path / "outcomes.jsonl", crawl(days=7))
    words = ("run", "--source", source, "--state", tmp_path / "s")
    assert streamsched(*words).code == 0
    answer = streamsched(*words, *PLANNED, "--set", f"scheduler.{chosen}")
    assert answer.code == 2
    assert f"scheduler.{chosen.partition('=')[0]}: expected a formula that reads crawl_rate" in answer.err


def test_a_given_formula_that_reads_the_plan_stays(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", crawl(days=7))
    words = ("run", "--source", source, "--state", tmp_path / "s", *PLANNED, "--formula", "crawl_rate * t")
    for _ in range(2):
        assert streamsched(*words).code == 0
        assert Scheduler.load(tmp_path / "s").formula.text == "crawl_rate * t"
