"""A trial of a formula is a replay of it: evolution's simulated crawls do what the real Scheduler would have done."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import pytest

from streamsched.arrays import Bools, Floats
from streamsched.evolution.evaluator import Evaluator
from streamsched.evolution.history import ChangeHistory
from streamsched.evolution.trials import Trial
from streamsched.formula import Formula
from streamsched.packed import PackedUrls
from streamsched.replay.policies import FORMULAS, make_policy
from streamsched.replay.simulator import DAY_S, Schedule, simulate
from streamsched.replay.truth import Window

PAGES: Final = 300
CYCLES: Final = 40
WARMUP: Final = 3
BUDGET: Final = 0.07

# What tells any two pages apart, too little to count otherwise: the two order pages of equal score differently.
IMPORTANCE: Final[Floats] = np.random.default_rng(5).permutation(PAGES).astype(np.float64) * 2.0**-30


@pytest.fixture(scope="module")
def changed() -> Bools:
    """Pages of all paces: a third never change, some do in almost every cycle."""
    rng = np.random.default_rng(11)
    rates = np.where(np.arange(PAGES) % 3 == 0, 0.0, rng.gamma(0.4, 1.0, PAGES))
    return rng.random((PAGES, CYCLES)) < -np.expm1(-rates)[:, None]


def make_window(changed: Bools) -> Window:
    """The same changes as a log has them, each at noon; one day a cycle."""
    pages, cycles = np.nonzero(changed)
    offsets = np.searchsorted(pages, np.arange(PAGES + 1)).astype(np.int64)
    urls = PackedUrls.pack([f"https://a.example/{page}" for page in range(PAGES)])
    appears_s = np.full(PAGES, -np.inf)
    times_s = (cycles.astype(np.float64) + 0.5) * DAY_S
    return Window(urls, times_s, offsets, appears_s, IMPORTANCE, 0.0, DAY_S, CYCLES)


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
