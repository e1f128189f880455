"""One whole evolution: evolve on some pages, validate on others, let the best challenge the champion on the rest.

Pages are split by their hashes, the same way for every evolution of a scheduler: what an archive learned from stays
apart from what judges it. Evolution and validation see the cycles up to a point, the contest counts those after it.
They also see priors and weights coarsely, which makes them fast; the contest has them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.evolution.contest import BLOCKS, contest_fitness, contest_trials, shuffle_pages
from streamsched.evolution.findings import Candidate, EvolutionResult
from streamsched.evolution.gp.evolution_settings import WARM, EvolutionSettings
from streamsched.evolution.gp.final_selection import Selection, measure
from streamsched.evolution.gp.genomes import from_formula, to_formula
from streamsched.evolution.gp.loop import Elite, Generation, evolve_seeds
from streamsched.evolution.promotion import decide
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.evolution.simulation.trials import Trial
from streamsched.formula.formula import Formula

if TYPE_CHECKING:
    from streamsched.evolution.data.change_history import ChangeHistory
    from streamsched.evolution.gp.symbols import SymbolSet
    from streamsched.numerics.arrays import Floats

__all__ = ["KNOWN", "breed"]

# What every evolution starts from and every challenger has to beat, in the words of genomes, which have no minus sign:
# the published estimators (NAD * t ranks as 1 - exp(-NAD * t) does), ours, the freshness index, and the posterior with
# age to part what it leaves nearly level.
KNOWN: Final = (
    "posterior",
    "t",
    "CG",
    "NAD * t",
    "GAD * t",
    "rate * t",
    "posterior * t",
    "posterior + 0.01 * t",
    "due",
    "rate * tau",
    "(1 - (1 + rate * t) / exp(rate * t)) / rate",
)

_STARTS: Final = 4  # trials that fitness is averaged over: other first cycles, tie salts and draws
_TRAIN, _VALIDATION = 0.35, 0.15  # shares of the pages; the other half judges
_LATER: Final = 0.6  # share of the cycles that only the contest counts: it needs most, to tell gain from luck
_FEWEST_PAGES: Final = 20 * BLOCKS  # below, a block of held-out pages would be a handful
_FEWEST_CYCLES: Final = 10  # after the warm-up


def breed(
    draws: Sequence[ChangeHistory],
    champion: Formula,
    archive: Sequence[Formula] = (),
    settings: EvolutionSettings = WARM,
    seed: int = 0,
    *,
    progress: Callable[[int, Generation], object] | None = None,
) -> EvolutionResult:
    """Return the best challenger that evolution finds, and whether it should replace the champion.

    ``draws``: the same pages' history, once where all of it was observed, several times where gaps were filled in by
    chance, so that no formula is fitted to one filling. `archive`: formulas that earlier evolutions found good, from
    which this one starts, beside `KNOWN` and the champion. The same arguments give the same result to the last bit,
    but where ``settings.seconds`` cuts it short. O(evaluations · trials) crawls.
    """
    history = draws[0]
    if history.pages < _FEWEST_PAGES or history.cycles - settings.warmup < _FEWEST_CYCLES:
        return EvolutionResult(None, None, metric=settings.metric)
    alphabet = settings.alphabet
    later = max(2, round(_LATER * (history.cycles - settings.warmup)))
    rows = shuffle_pages(history, 0)
    bounds = [round(share * rows.size) for share in (_TRAIN, _TRAIN + _VALIDATION)]
    training, validation, held_out = np.split(rows, bounds)
    early = [draw.span(0, draw.cycles - later).coarsen() for draw in draws]
    evaluator = Evaluator(
        _trials([draw.take(np.sort(training)) for draw in early], settings, seed),
        settings.metric,
        alphabet=alphabet,
        workers=settings.workers,
    )
    first = _encode([champion, *archive, *map(Formula.parse, KNOWN)], alphabet)
    with evaluator.deadline(settings.seconds):
        evolved = evolve_seeds(evaluator.fitness, settings, seed, first=first, over=evaluator.over, progress=progress)
    elites = _fill_up(evolved.elites, first, evaluator, settings)
    judge = Evaluator(
        _trials([draw.take(np.sort(validation)) for draw in early], settings, seed + 1),
        settings.metric,
        workers=settings.workers,
    )
    candidates = _validate(elites, evaluator, judge, settings.selection)
    kept = tuple(candidate.formula for candidate in candidates[: settings.elites])
    best = candidates[0]
    incumbent = next((one for one in candidates if one.formula == champion.simplify().text), None)
    if incumbent is not None and (incumbent.train, incumbent.validation) == (best.train, best.validation):
        return EvolutionResult(None, None, tuple(candidates), kept, settings.metric)
    contestants = [champion, Formula.parse(best.formula)]
    fitness = _contest([draw.take(np.sort(held_out)) for draw in draws], contestants, settings, later)
    verdict = decide(fitness[0], fitness[1])
    candidates[0] = replace(best, held_out=verdict.challenger)
    return EvolutionResult(best.formula, verdict, tuple(candidates), kept, settings.metric)


def _validate(elites: Sequence[Elite], evaluator: Evaluator, judge: Evaluator, how: Selection) -> list[Candidate]:
    """Return the elites as candidates, each formula once: first the smallest that is as good as the best.

    The others follow by the measure that `how` names. As good: behind it, over all trials of training and validation,
    by no more than the standard error of the difference (the one-standard-error rule of Breiman et al. 1984). Large
    formulas owe part of their fitness to luck, and nobody can read them.
    """
    assert evaluator.alphabet is not None
    simple: dict[Formula, Floats] = {}
    for elite, fitness in zip(elites, evaluator.matrix([elite.genome for elite in elites]), strict=True):
        simple.setdefault(to_formula(elite.genome, evaluator.alphabet).simplify(), fitness)
    formulas = sorted(simple, key=lambda formula: (formula.size, formula.text))
    trained = np.array([simple[formula] for formula in formulas])
    validated = judge.matrix(formulas)
    order = np.argsort(-measure(trained.mean(axis=1), validated.mean(axis=1), how), kind="stable").tolist()
    behind = (whole := np.concatenate([trained, validated], axis=1))[order[0]] - whole
    error = behind.std(axis=1, ddof=1) / math.sqrt(behind.shape[1])
    chosen = min(np.flatnonzero(behind.mean(axis=1) <= error).tolist())  # by size, as formulas are
    order = [chosen, *(i for i in order if i != chosen)]
    return [Candidate(formulas[i].text, float(trained[i].mean()), float(validated[i].mean())) for i in order]


def _trials(draws: Sequence[ChangeHistory], settings: EvolutionSettings, seed: int) -> list[Trial]:
    """Return the trials that fitness is averaged over: each begins at another cycle and draws ties anew."""
    spare = max(1, draws[0].cycles - settings.warmup - _FEWEST_CYCLES + 1)
    return [
        Trial(
            draws[start % len(draws)],
            first=min(start, spare - 1),
            warmup=settings.warmup,
            budget=settings.budget,
            reading=settings.reading,
            salt=seed * _STARTS + start,
        )
        for start in range(_STARTS)
    ]


def _encode(formulas: Sequence[Formula], alphabet: SymbolSet) -> list[bytes]:
    """Return the genomes of those formulas that the alphabet can write, each once."""
    genomes = (from_formula(formula, alphabet) for formula in formulas)
    return list(dict.fromkeys(genome for genome in genomes if genome is not None))


def _fill_up(
    elites: Sequence[Elite], first: Sequence[bytes], evaluator: Evaluator, settings: EvolutionSettings
) -> list[Elite]:
    """Return the best elites, and whatever evolution began with: the known formulas are always considered."""
    best = list(elites[: settings.elites * settings.seeds])
    missing = [genome for genome in first if genome not in {elite.genome for elite in best}]
    fitness = evaluator.fitness(missing) if missing else np.empty(0)
    return best + [Elite(genome, float(value)) for genome, value in zip(missing, fitness, strict=True)]


def _contest(
    draws: Sequence[ChangeHistory], formulas: Sequence[Formula], settings: EvolutionSettings, later: int
) -> Floats:
    """Return the fitness of the formulas on held-out pages and later cycles, as `decide` takes it."""
    trials = contest_trials(draws, budget=settings.budget, reading=settings.reading, warmup=settings.warmup)
    return contest_fitness(Evaluator(trials, settings.metric, workers=settings.workers), formulas, later)
