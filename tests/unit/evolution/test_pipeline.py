"""One evolution, and its contest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from streamsched.evolution import pipeline
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS
from streamsched.evolution.pipeline import (
    BLOCKS,
    REPLICATES,
    SEED_FORMULAS,
    contest_fitness,
    contest_trials,
    count_spans,
    run_evolution,
    shuffle_pages,
)
from streamsched.evolution.promotion import Verdict, decide
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.formula import Formula
from tests.support.cases import how_many

CYCLES, LATER = 20, 6
QUICK = replace(REEVOLUTION_SETTINGS, population=24, generations=2, elites=8)
POSTERIOR = Formula.parse("posterior")


def history(rng: np.random.Generator, pages: int = 600, bursts: float = 0.03) -> ChangeHistory:
    """Gamma rates, weekdays, bursts in which groups change together; `crawl_rate` and cost carry no information."""
    rates = rng.gamma(0.4, 0.3 / 0.4, pages)
    weekday = 1.0 + 0.4 * np.sin(np.arange(CYCLES) * 2 * np.pi / 7)
    changed = rng.random((pages, CYCLES)) < 1.0 - np.exp(-rates[:, None] * weekday)
    burst = (rng.random((40, CYCLES)) < bursts)[rng.integers(0, 40, pages)]
    changed |= burst & (rng.random((pages, CYCLES)) < 0.5)
    return ChangeHistory.of(
        changed,
        hashes=rng.integers(0, 2**63, pages).astype(np.uint64),
        prior_shape=0.4,
        prior_mean=0.3,
        crawl_rate=rng.random(pages),
        cost=rng.random(pages),
    )


def meet(champion: str, challenger: str, rng: np.random.Generator, pages: int = 600) -> Verdict:
    evaluator = Evaluator(contest_trials([history(rng, pages)], budget=0.05), workers=1)
    fitness = contest_fitness(evaluator, [Formula.parse(champion), Formula.parse(challenger)], LATER)
    assert fitness.shape == (2, BLOCKS, count_spans(LATER), REPLICATES)
    return decide(fitness[0], fitness[1])


@pytest.mark.longer
@pytest.mark.parametrize(
    "formula", ["posterior * (1 + 0.5 * {})", "NAD + 0.1 * {}"], ids=["posterior perturbed", "NAD reordered"]
)
def test_a_challenger_without_true_gain_is_refused(formula: str) -> None:
    """Champion and challenger differ only in the uninformative column that reorders pages: no true gain."""
    rng = np.random.default_rng(20261121)
    contests = how_many(60, 200)
    verdicts = [meet(formula.format("crawl_rate"), formula.format("cost"), rng, 400) for _ in range(contests)]
    assert sum(verdict.promote for verdict in verdicts) <= contests // 20
    gains = [verdict.gain or 0.0 for verdict in verdicts]
    assert min(gains) < -0.02 < 0.02 < max(gains)  # the noise that is rejected exists


def test_other_tie_orders_alone_are_no_gain() -> None:
    rng = np.random.default_rng(1)
    promoted = 0
    for _ in range(40):
        pages, fitness = history(rng), []
        for salt in (1, 2):
            evaluator = Evaluator(contest_trials([pages], budget=0.05, salt=salt), workers=1)
            fitness.append(contest_fitness(evaluator, [Formula.parse("SAD")], LATER)[0])
        promoted += decide(*fitness).promote
    assert promoted <= 2


def test_a_better_challenger_is_promoted() -> None:
    """The posterior gains about 5 % over itself with half noise, and 18 % over NAD."""
    rng = np.random.default_rng(2)
    verdicts = [meet("posterior * (1 + 2 * cost)", "posterior", rng, 1500) for _ in range(20)]
    assert sum(verdict.promote for verdict in verdicts) >= 10
    assert not any(meet("posterior", "posterior * (1 + 2 * cost)", rng, 1500).promote for _ in range(5))


def test_mean_over_blocks_is_the_metric() -> None:
    rng = np.random.default_rng(3)
    evaluator = Evaluator(contest_trials([history(rng)], budget=0.05), workers=1)
    formula = Formula.parse("posterior")
    fitness = contest_fitness(evaluator, [formula], LATER)[0]
    crawls = [cuts[0] for cuts in evaluator.series(formula)]
    expected = np.mean([crawl.ndcg[-LATER:].mean() for crawl in crawls])
    assert fitness.mean() == pytest.approx(expected, rel=1e-9)


def test_pages_are_shuffled_by_hash_and_salt() -> None:
    pages = history(np.random.default_rng(4))
    order = shuffle_pages(pages, 3)
    assert sorted(order.tolist()) == list(range(pages.pages))
    rows = np.arange(pages.pages)[::-1]
    assert (pages.hashes[order] == pages.take(rows).hashes[shuffle_pages(pages.take(rows), 3)]).all()
    assert (order != shuffle_pages(pages, 4)).any()


def test_too_few_pages() -> None:
    with pytest.raises(ValueError, match="expected 8 held-out pages or more, found 7"):
        contest_trials([history(np.random.default_rng(0), 7)], budget=0.05)


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
