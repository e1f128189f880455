"""A trial of a formula is a replay of it: simulated crawls make the same visits as the real Scheduler."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pytest

from streamsched import OutcomeBatch
from streamsched.evolution.data.change_history import ChangeHistory, copy_cycle_times
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.evolution.simulation.trials import Trial
from streamsched.formula import Formula
from streamsched.numerics.arrays import Bools, Floats
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.replay.ground_truth import Window
from streamsched.replay.simulation.policies import FORMULAS, make_policy
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.simulator import DAY_S, Schedule, simulate
from streamsched.scheduler.evolver import Evolver
from streamsched.scheduler.scheduler import Scheduler

PAGES: Final = 300
CYCLES: Final = 40
WARMUP: Final = 3
BUDGET: Final = 0.07

# What tells any two pages apart, too little to count otherwise: the two order pages of equal score differently.
IMPORTANCE: Final[Floats] = np.random.default_rng(5).permutation(PAGES).astype(np.float64) * 2.0**-30


@pytest.fixture(scope="module")
def changed() -> Bools:
    """Pages with all rates: a third never change, some change in almost every cycle."""
    rng = np.random.default_rng(11)
    rates = np.where(np.arange(PAGES) % 3 == 0, 0.0, rng.gamma(0.4, 1.0, PAGES))
    return rng.random((PAGES, CYCLES)) < -np.expm1(-rates)[:, None]


def make_window(changed: Bools, cycle_s: float = DAY_S, importance: Floats = IMPORTANCE) -> Window:
    """The same changes as a change log, each in the middle of its cycle."""
    pages, cycles = np.nonzero(changed)
    offsets = np.searchsorted(pages, np.arange(len(changed) + 1)).astype(np.int64)
    urls = PackedUrls.pack([f"https://a.example/{page}" for page in range(len(changed))])
    appears_s = np.full(len(changed), -np.inf)
    times_s = (cycles.astype(np.float64) + 0.5) * cycle_s
    return Window(urls, times_s, offsets, appears_s, importance, 0.0, cycle_s, changed.shape[1])


@pytest.mark.parametrize("reading", ["since_visit", "that_day"])
@pytest.mark.parametrize("name", ["age", "cg", "nad", "sad", "aad", "gad"])
def test_trials_are_replays(changed: Bools, name: str, reading: Literal["since_visit", "that_day"]) -> None:
    formula = Formula.parse(f"{FORMULAS[name]} + importance")
    window = make_window(changed)
    schedule = Schedule(BUDGET, WARMUP, reading)
    trace = simulate(window, make_policy(str(formula), DAY_S, 0), schedule, np.zeros(PAGES, np.int64))
    history = ChangeHistory.of(changed, importance=IMPORTANCE)
    trial = Trial(history, warmup=WARMUP, budget=BUDGET, reading=reading)
    series = Evaluator([trial], workers=1).series(formula)[0][0]
    assert series.change_rate.tolist() == trace.change_rate.tolist()
    np.testing.assert_allclose(series.ndcg, trace.ndcg, rtol=0, atol=1e-12)
    assert series.counted.tolist() == trace.counted.tolist()
    assert [series.visits] * (CYCLES - WARMUP) == trace.visits.tolist()
    assert 0.05 < trace.change_rate.mean() < 1.0


def endless_days(cycle_s: float) -> float:
    """A half-life so long that nothing fades, and that rounds nothing: all of the past counts as 2^900 cycles."""
    days = 2.0**900 * cycle_s * math.log(2.0) / DAY_S
    assert days * (DAY_S / math.log(2.0) / cycle_s) == 2.0**900
    return days


@pytest.mark.parametrize("cycle_s", [DAY_S, DAY_S / 4, 3_600.0])
@pytest.mark.parametrize("text", ["due", "1 - exp(-rate * tau)", "rhythm * posterior"])
def test_schedules_are_learned_as_the_scheduler_learns_them(text: str, cycle_s: float) -> None:
    """Few pages matter, and all are too many for a sweep to be round: priors and profiles stay as they begin."""
    pages, cycles, some = 4_000, 60, 40
    rng = np.random.default_rng(3)
    period = np.array([round(DAY_S / cycle_s), 7 * round(DAY_S / cycle_s)])[np.arange(some) % 2]
    changed = np.zeros((pages, cycles), np.bool_)
    changed[:some] = (np.arange(cycles) + np.arange(some)[:, None]) % period[:, None] == 0
    changed[:some] |= rng.random((some, cycles)) < 0.1
    importance = np.where(np.arange(pages) < some, 1.0, 2.0**-20) * (1.0 + rng.permutation(pages) * 2.0**-12)
    formula = Formula.parse(f"({text}) * importance")
    window = make_window(changed, cycle_s, np.asarray(importance, np.float64))
    scheduler = Scheduler(cycle=cycle_s, surges=False, formula=formula)
    shard = scheduler.core.pages.arrays
    shard.corpus["swept_pages"] = pages  # as if a sweep had learned the mean: first intervals do not move it
    shard.corpus["shape_information"] = 1e300  # nor do visits move the shape
    shard.corpus["half_life"] = endless_days(cycle_s)  # simulated crawls do not forget
    timing = copy_cycle_times(shard.seasonality, np.zeros(pages, np.int64), 0, 0.0, cycle_s, cycles)
    prior = float(shard.corpus["shape"][0]), float(shard.corpus["first_mean"][0])
    schedule = Schedule(16 / pages, 1, "since_visit")
    trace = simulate(window, ScheduledPolicy(scheduler), schedule, np.zeros(pages, np.int64))
    assert scheduler.core.pages.arrays.corpus["sweep"][0] == 0
    assert 3 < scheduler.core.pages.arrays.seasonality.state["schedules"][0] <= some
    history = ChangeHistory.of(changed, prior_shape=prior[0], prior_mean=prior[1], importance=importance, timing=timing)
    series = Evaluator([Trial(history, warmup=1, budget=16 / pages)], workers=1).series(formula)[0][0]
    assert series.change_rate.tolist() == trace.change_rate.tolist()
    np.testing.assert_allclose(series.ndcg, trace.ndcg, rtol=0, atol=1e-12)
    untimed = Evaluator([Trial(replace(history, timing=None), warmup=1, budget=16 / pages)], workers=1)
    assert untimed.series(formula)[0][0].change_rate.tolist() != trace.change_rate.tolist()


def by_the_clock() -> Scheduler:
    """480 pages, all visited hourly for weeks; each of a third changes at its own hour of the day, the others at
    random.
    """
    scheduler = Scheduler(cycle="1h", formula="posterior")
    rng = np.random.default_rng(0)
    urls = [f"https://a.example/{page}" for page in range(480)]
    hours = rng.integers(0, 24, 480)
    for hour in range(24 * 14):
        changed = np.where(np.arange(480) % 3 == 0, hours == hour % 24, rng.random(480) < 0.01)
        scheduler.observe(OutcomeBatch(urls, np.full(480, (hour + 1) * 3_600.0), changed=changed))
    return scheduler


def test_what_evolution_finds_of_rhythms_serves(tmp_path: Path) -> None:
    """The champion uses seasonality, is explained, saved and loaded with it; equal seeds give equal records."""
    now = 24 * 14 * 3_600.0
    plan = EvolutionPlan(
        history=240,
        drift=None,
        trial=False,
        objective="ndcg",
        settings=replace(REEVOLUTION_SETTINGS, population=40, generations=2, workers=1),
    )
    scheduler, other = by_the_clock(), by_the_clock()
    with Evolver(scheduler, plan, tmp_path / "0", clock=lambda: 0.0) as evolver:
        record = evolver.evolve_now(now)
    with Evolver(other, plan, tmp_path / "1", clock=lambda: 0.0) as evolver:
        assert evolver.evolve_now(now).to_json() == record.to_json()
    assert record.decision == "promoted"
    read = set(scheduler.champion.formula.terminals) & {"tau", "rhythm", "due"}
    assert read
    explanation = scheduler.explain("https://a.example/0", now=now + 1_800.0)
    assert read <= set(explanation.terminals)
    assert explanation.formula == record.champion_after.formula.text
    ranked = scheduler.rank(50, now=now + 1_800.0)
    scheduler.save(tmp_path / "state")
    loaded = Scheduler.load(tmp_path / "state")
    assert loaded.champion == scheduler.champion
    assert loaded.rank(50, now=now + 1_800.0).rows.tolist() == ranked.rows.tolist()
    scheduler.use("posterior")
    assert scheduler.rank(50, now=now + 1_800.0).rows.tolist() != ranked.rows.tolist()
    scheduler.use(record.champion_after, wait=True)
    assert scheduler.rank(50, now=now + 1_800.0).rows.tolist() == ranked.rows.tolist()
