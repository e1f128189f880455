"""Policies that evolve: from the past alone, to the same bytes anywhere, and not before they know enough."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import Scheduler
from streamsched.evolution import pipeline
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS, EvolutionSettings
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.promotion import decide
from streamsched.evolution.records import RecordBook
from streamsched.numerics.arrays import Rows
from streamsched.replay import ChangeLog, ReplaySettings, experiment, replay_log, report_replay, to_json
from streamsched.replay.ground_truth import Window
from streamsched.replay.simulation import policies
from streamsched.replay.simulation.evolving_policies import (
    EvolvingPolicy,
    PaperPolicy,
    evolve_once,
    make_paper_settings,
    make_plan,
)
from streamsched.replay.simulation.policies import formula_of, make_policy
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import PolicyQuery, Schedule, Trace, simulate
from streamsched.scheduler.evolver import Evolver
from streamsched.scheduler.settings import DEFAULT_FORMULA
from tests.support.gp4c_logs import DAY, START, made_log

DAYS = 40
PAGES = 240  # a few more than breeding wants
SCHEDULE = Schedule(0.1, 2, "since_visit")
SMALL = replace(REEVOLUTION_SETTINGS, population=16, generations=2, elites=5, workers=1)
PLAN = replace(make_plan(SCHEDULE, 0, 1), trial=False, settings=replace(SMALL, budget=0.1), draws=3)
PUBLISHED = EvolutionSettings(population=12, generations=2, seeds=2, budget=0.1, workers=1)
POOR = "1 - posterior"  # of all, the least likely first: whatever evolves is better


@pytest.fixture(scope="module")
def log() -> ChangeLog:
    return made_log(PAGES, DAYS)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies by name evolve little."""
    monkeypatch.setattr(policies, "make_plan", lambda schedule, seed, workers: _with_workers(schedule, seed, workers))
    monkeypatch.setattr(policies, "make_paper_settings", lambda _, workers: replace(PUBLISHED, workers=workers))


def _with_workers(schedule: Schedule, seed: int, workers: int) -> EvolutionPlan:
    plan = make_plan(schedule, seed, workers)
    return replace(plan, trial=False, draws=3, settings=replace(SMALL, budget=schedule.share, workers=workers))


def evolving(formula: str = POOR) -> EvolvingPolicy:
    return EvolvingPolicy(Scheduler(cycle=DAY, formula=formula), PLAN)


def published() -> PaperPolicy:
    return PaperPolicy(Scheduler(cycle=DAY, formula="1 - exp(-NAD * t)"), PUBLISHED, 1)


def run(policy: ScheduledPolicy, log: ChangeLog, days: int = DAYS) -> tuple[Trace, list[list[int]]]:
    """Replay the log; return the trace and what was chosen in each ranked cycle."""
    window: Window = log.window(START, DAY, days)
    chosen: list[list[int]] = []
    rank = policy.rank

    def note(query: PolicyQuery) -> Rows:
        rows = rank(query)
        chosen.append(rows.tolist())
        return rows

    policy.rank = note  # type: ignore[method-assign]
    return simulate(window, policy, SCHEDULE, np.zeros(window.pages, np.int64)), chosen


def altered(log: ChangeLog, day: int) -> ChangeLog:
    """The same log up to `day`, from which on other pages change: those that seldom did, every day."""
    pages = np.repeat(np.arange(len(log.urls)), np.diff(log.offsets))
    before = log.times_s < START + day * DAY
    days = np.arange(day, DAYS)
    rare = np.arange(len(log.urls) // 2, len(log.urls))
    more_pages, more_days = (grid.ravel() for grid in np.meshgrid(rare, days, indexing="ij"))
    pages = np.concatenate([pages[before], more_pages, [0]])
    times = np.concatenate([log.times_s[before], START + more_days * DAY + 60.0, [START + DAYS * DAY]])
    return ChangeLog.collect(log.urls, pages, times, np.zeros(times.size, np.bool_))


@pytest.mark.parametrize(("make", "day"), [(evolving, 30), (evolving, 33), (published, 20)])
def test_nothing_is_known_of_the_future(log: ChangeLog, make: Callable[[], EvolvingPolicy], day: int) -> None:
    one, other = make(), make()
    _, chosen = run(one, log)
    _, differently = run(other, altered(log, day))
    ranked = day - SCHEDULE.warmup + 1  # visits of the cycle of `day` itself have no outcomes yet
    assert chosen[:ranked] == differently[:ranked]
    past = [evolution for evolution in one.evolutions if evolution.cycle <= day]
    assert past
    assert past == [evolution for evolution in other.evolutions if evolution.cycle <= day]
    assert chosen[ranked:] != differently[ranked:]


def test_a_better_formula_is_promoted_and_serves_from_then_on(log: ChangeLog) -> None:
    policy = evolving()
    trace, chosen = run(policy, log)
    first = next(evolution for evolution in policy.evolutions if evolution.promoted)
    _, unchanged = run(ScheduledPolicy(Scheduler(cycle=DAY, formula=POOR), by_probability=True), log)
    ranked = first.cycle - SCHEDULE.warmup
    assert chosen[:ranked] == unchanged[:ranked]
    assert chosen[ranked] != unchanged[ranked]
    assert first.champion == POOR
    assert first.gain is not None
    assert first.noise is not None
    assert first.gain > 2 * first.noise
    assert first.start_s == START + first.cycle * DAY  # the end of the cycle before
    assert policy.scheduler.champion.record is not None
    half = trace.ndcg.size // 2
    assert trace.ndcg[half:].mean() > trace.ndcg[:half].mean()


def test_evolutions_come_weekly_once_enough_is_known(log: ChangeLog) -> None:
    policy = evolving()
    run(policy, log)
    assert [evolution.cycle for evolution in policy.evolutions] == [16, 23, 30, 37]
    data = [record.data for record in policy.records]
    assert [one.cycles for one in data if one is not None] == [15, 22, 29, 36]  # all but that of the first visits
    assert all(one is not None and one.pages == PAGES and 0.0 < one.observed < 1.0 for one in data)


def test_what_has_no_data_never_changes_its_formula() -> None:
    policy = evolving("posterior")
    run(policy, made_log(30, DAYS))
    assert len(policy.evolutions) == 4
    assert not any(evolution.promoted or evolution.challenger for evolution in policy.evolutions)
    assert all("too little to learn from" in evolution.why for evolution in policy.evolutions)
    short = evolving()
    run(short, made_log(PAGES, DAYS), days=16)
    assert short.evolutions == []
    few = published()
    run(few, made_log(8, DAYS))
    assert few.scheduler.formula.text == "1 - exp(-NAD * t)"
    assert [evolution.promoted for evolution in few.evolutions] == [False]


def test_without_a_promotion_it_is_the_posterior_to_the_last_byte(
    log: ChangeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "decide", lambda old, new: replace(decide(old, new), promote=False))
    policy = evolving("posterior")
    trace, chosen = run(policy, log)
    assert any(evolution.challenger for evolution in policy.evolutions)
    plain, same = run(ScheduledPolicy(Scheduler(cycle=DAY, formula="posterior"), by_probability=True), log)
    assert chosen == same
    for one in fields(Trace):
        found, expected = getattr(trace, one.name), getattr(plain, one.name)
        assert found.tobytes() == expected.tobytes() if isinstance(found, np.ndarray) else found == expected


@pytest.mark.usefixtures("small")
def test_the_same_bytes_for_any_number_of_workers_and_other_policies_beside(
    log: ChangeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "WORTH_WORKERS_S", 0.0)
    names = ("age", "gp4c", "t * X", "gp4c-paper")

    def figures(workers: int, *names: str) -> str:
        settings = ReplaySettings("made", policies=names, budget=0.1, start_s=START, seeds=(3,), workers=workers)
        return to_json(report_replay(replay_log(log, settings)))

    alone = figures(1, *names)
    assert figures(2, *names) == alone
    assert _policy(figures(2, "gp4c"), "gp4c") == _policy(alone, "gp4c")


def _policy(figures: str, name: str) -> dict[str, Any]:
    """The figures of one policy, without its differences from another."""
    return {**json.loads(figures)["policies"][name], "against": None}


@pytest.mark.usefixtures("small")
def test_promotions_are_in_the_figures_and_progress_says_what_takes_long(log: ChangeLog) -> None:
    said: list[str] = []
    kept: list[tuple[str, int]] = []
    settings = ReplaySettings("made", policies=("age", "gp4c-paper"), budget=0.1, start_s=START, seeds=(3, 4))
    result = replay_log(
        log,
        settings,
        lambda done, total, policy: said.append(policy),
        lambda policy, seed, state: kept.append((policy, seed)),
    )
    assert said.count("gp4c-paper, evolving") == 2
    assert kept == [("gp4c-paper", 3), ("gp4c-paper", 4)]
    figures = _policy(to_json(report_replay(result)), "gp4c-paper")
    assert isinstance(figures, dict)
    assert figures["formula"] is None
    expected = {"cycle": 20, "date": "2024-10-24", "gain": None, "noise": None}
    for seed, promotion in zip((3, 4), figures["promotions"], strict=True):
        assert promotion == expected | {"seed": seed, "formula": promotion["formula"]}
        Scheduler().use(promotion["formula"])
    others = _policy(to_json(report_replay(result)), "age")
    assert isinstance(others, dict)
    assert others["promotions"] == []


def test_the_published_way_evolves_once_and_lets_its_best_serve(log: ChangeLog) -> None:
    policy = published()
    _, chosen = run(policy, log)
    (record,) = policy.records
    assert [evolution.cycle for evolution in policy.evolutions] == [20]
    assert record.data is not None
    assert (record.data.cycles, record.data.pages) == (19, PAGES)
    assert policy.scheduler.formula.text == record.challenger == record.candidates[0].formula
    validated = [candidate.validation for candidate in record.candidates]
    assert validated == sorted(validated, key=lambda fitness: -(fitness or 0.0))
    _, nad = run(ScheduledPolicy(Scheduler(cycle=DAY, formula="1 - exp(-NAD * t)")), log)
    assert chosen[:18] == nad[:18]
    assert chosen[18:] != nad[18:]


def test_published_settings_are_the_papers() -> None:
    settings = make_paper_settings(Schedule(2.0, 2, "that_day", pages=8), 3)
    assert settings == EvolutionSettings(budget=0.25, reading="that_day", workers=3)
    assert (settings.population, settings.generations, settings.seeds, settings.selection) == (300, 50, 5, "best")


def test_most_pages_train_and_the_rest_validate(log: ChangeLog) -> None:
    scheduler = Scheduler(cycle=DAY)
    run(ScheduledPolicy(scheduler), log)
    history = scheduler.training(19, now=START + DAYS * DAY).history
    found = evolve_once(history, PUBLISHED, 5)
    assert [one.formula for one in found] == [one.formula for one in evolve_once(history, PUBLISHED, 5)]
    assert len(found) > 1
    assert all(one.train is not None and one.validation is not None for one in found)
    assert found != evolve_once(history, PUBLISHED, 6)


@pytest.mark.parametrize("make", [evolving, published])
def test_what_is_saved_can_be_gone_on_with(log: ChangeLog, make: Callable[[], EvolvingPolicy], tmp_path: Path) -> None:
    policy = make()
    run(policy, log)
    policy.save(tmp_path)
    again = Scheduler.load(tmp_path)
    assert again.champion == policy.scheduler.champion
    assert again.digest() == policy.scheduler.digest()
    records, faults = RecordBook(tmp_path).read()
    assert records == policy.records
    assert not faults
    evolver = Evolver(again, PLAN, tmp_path)
    assert evolver.scheduler.champion == policy.scheduler.champion
    assert bool(evolver.archive) == (make is evolving)


def test_policies_by_name_evolve_for_the_schedule_they_are_replayed_by() -> None:
    assert formula_of("gp4c") is formula_of("gp4c-paper") is None
    policy = make_policy("gp4c", DAY, 7, Schedule(0.2, 2, "that_day"), workers=2)
    assert isinstance(policy, EvolvingPolicy)
    assert policy.scheduler.formula.text == DEFAULT_FORMULA
    plan = make_plan(Schedule(0.2, 2, "that_day"), 7, 2)
    assert (plan.settings.budget, plan.settings.reading, plan.settings.workers) == (0.2, "that_day", 2)
    assert plan.seed != make_plan(SCHEDULE, 8, 2).seed
    paper = make_policy("gp4c-paper", DAY, 2**64 - 1)
    assert isinstance(paper, PaperPolicy)
    assert paper.scheduler.formula.terminals == ("NAD", "t")


def test_the_published_way_waits_until_most_pages_are_known(log: ChangeLog) -> None:
    policy = published()
    window = log.window(START, DAY, DAYS)
    simulate(window, policy, Schedule(0.1, 0, "since_visit"), np.zeros(window.pages, np.int64))
    (evolution,) = policy.evolutions
    assert evolution.cycle > 20
    assert evolution.promoted
    data = policy.records[0].data
    assert data is not None
    assert data.pages >= data.newcomers > 0
