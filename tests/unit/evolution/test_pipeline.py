"""One evolution: its data split, its challenger, and its reproducibility."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsched.evolution import pipeline
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.gp.evolution_settings import REEVOLUTION_SETTINGS
from streamsched.evolution.pipeline import SEED_FORMULAS, run_evolution
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.formula import Formula

QUICK = replace(REEVOLUTION_SETTINGS, population=24, generations=2, elites=8)
POSTERIOR = Formula.parse("posterior")


def make_history(pages: int = 800, cycles: int = 40, seed: int = 1) -> ChangeHistory:
    """Pages with gamma-distributed rates that change as Poisson processes."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.4, 0.3, pages)
    changed = rng.random((pages, cycles)) < -np.expm1(-rates)[:, None]
    hashes = rng.integers(0, 1 << 63, pages).astype(np.uint64)
    return ChangeHistory.of(changed, hashes=hashes, prior_shape=0.4, prior_mean=0.12)


def test_a_bad_champion_is_replaced() -> None:
    bred = run_evolution([make_history()], Formula.parse("0 - posterior"), (), QUICK, seed=3)
    assert bred.verdict is not None
    assert bred.verdict.promote
    assert bred.challenger == bred.candidates[0].formula
    assert bred.candidates[0].held_out == bred.verdict.challenger
    assert (bred.verdict.gain or 0.0) > 0.1


def test_seed_formulas_and_champion_are_always_candidates() -> None:
    champion = Formula.parse("posterior * X")
    bred = run_evolution([make_history()], champion, (), QUICK, seed=3)
    considered = {candidate.formula for candidate in bred.candidates}
    for text in (*SEED_FORMULAS, champion.text):
        assert Formula.parse(text).simplify().text in considered


def test_an_archive_is_evaluated_and_extended() -> None:
    old = "posterior * posterior + 0.1 * GAD"
    bred = run_evolution([make_history()], POSTERIOR, [Formula.parse(old)], QUICK, seed=3)
    assert old in {candidate.formula for candidate in bred.candidates}
    assert 0 < len(bred.archive) <= QUICK.elites
    assert len(set(bred.archive)) == len(bred.archive)


def test_workers_change_nothing() -> None:
    draws = [make_history(seed=1), make_history(seed=1)]
    results = [run_evolution(draws, POSTERIOR, (), replace(QUICK, workers=workers), seed=5) for workers in (1, 2, 3)]
    assert results[0] == results[1] == results[2]
    assert results[0].candidates != run_evolution(draws, POSTERIOR, (), QUICK, seed=6).candidates


@pytest.mark.parametrize(("pages", "cycles"), [(100, 40), (800, 8)])
def test_too_few_pages_or_cycles_give_no_challenger(pages: int, cycles: int) -> None:
    bred = run_evolution([make_history(pages, cycles)], POSTERIOR, (), QUICK, seed=3)
    assert bred.challenger is None
    assert bred.verdict is None
    assert bred.candidates == ()


def test_training_validation_and_contest_are_disjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    history = make_history()
    seen: list[ChangeHistory] = []

    class Watched(Evaluator):
        def __init__(self, trials: Any, *arguments: Any, **options: Any) -> None:
            seen.append(trials[0].history)
            super().__init__(trials, *arguments, **options)

    monkeypatch.setattr(pipeline, "Evaluator", Watched)
    run_evolution([history], Formula.parse("0 - posterior"), (), QUICK, seed=3)
    training, validation, contest = seen
    parts = [set(part.hashes.tolist()) for part in (training, validation, contest)]
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]
    assert set().union(*parts) == set(history.hashes.tolist())
    assert training.cycles == validation.cycles < contest.cycles == history.cycles


def test_the_smallest_of_equally_good_formulas_is_the_challenger() -> None:
    bred = run_evolution([make_history()], Formula.parse("0 - posterior"), (), QUICK, seed=3)
    sizes = {one.formula: Formula.parse(one.formula).size for one in bred.candidates}
    best = bred.candidates[0]
    better = [one for one in bred.candidates[1:] if min(_both(one)) > min(_both(best))]
    assert all(sizes[one.formula] >= sizes[best.formula] for one in better)


def test_a_formula_outside_the_symbol_set_may_be_champion() -> None:
    champion = Formula.parse("posterior + 0.0123 * t")
    bred = run_evolution([make_history()], champion, (), QUICK, seed=3)
    assert bred.candidates
    assert champion.text not in {candidate.formula for candidate in bred.candidates}


def _both(candidate: Any) -> tuple[float, float]:
    return candidate.train, candidate.validation
