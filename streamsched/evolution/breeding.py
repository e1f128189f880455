"""One whole evolution: evolve on some pages, validate on others, let the best challenge the champion on the rest.

Pages are split by their hashes, the same way for every evolution of a scheduler: what an archive learned from stays
apart from what judges it. Evolution and validation see the cycles up to a point, the contest counts those after it.
They also see priors and weights coarsely, which makes them fast; the contest has them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from streamsched.arrays import Floats
from streamsched.evolution.alphabet import Alphabet
from streamsched.evolution.contest import BLOCKS, contest_fitness, contest_trials, shuffle_pages
from streamsched.evolution.evaluator import Evaluator
from streamsched.evolution.findings import Breeding, Candidate
from streamsched.evolution.generations import Elite, Generation, evolve_seeds
from streamsched.evolution.genomes import from_formula, to_formula
from streamsched.evolution.history import ChangeHistory
from streamsched.evolution.promotion import decide
from streamsched.evolution.selection import measure
from streamsched.evolution.settings import EvolutionSettings
from streamsched.evolution.trials import Trial
from streamsched.formula import Formula

__all__ = ["KNOWN", "WARM", "breed"]

# What every evolution starts from and every challenger has to beat: the published estimators, ours, and the two
# together that hand-made trials found good. Age breaks what the posterior leaves nearly level.
KNOWN: Final = (
    "posterior",
    "t",
    "CG",
    "1 - exp((0 - NAD) * t)",
    "1 - exp((0 - GAD) * t)",
    "rate * t",
    "posterior * t",
    "posterior + 0.01 * t",
)
WARM: Final = EvolutionSettings(population=100, generations=5, seeds=1, elites=30, selection="avg", terminals="full")

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
) -> Breeding:
    """Return the best challenger that evolution finds, and whether it should replace the champion.

    ``draws``: the same pages' history, once where all of it was observed, several times where gaps were filled in by
    chance, so that no formula is fitted to one filling. `archive`: formulas that earlier evolutions found good, from
    which this one starts, beside `KNOWN` and the champion. The same arguments give the same result to the last bit,
    but where ``settings.seconds`` cuts it short. O(evaluations · trials) crawls.
    """
    history = draws[0]
    if history.pages < _FEWEST_PAGES or history.cycles - settings.warmup < _FEWEST_CYCLES:
        return Breeding(None, None, metric=settings.metric)
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
    candidates = _validate([(to_formula(elite.genome, alphabet), elite.fitness) for elite in elites], judge, settings)
    kept = tuple(candidate.formula for candidate in candidates[: settings.elites])
    best = candidates[0]
    incumbent = next((one for one in candidates if one.formula == champion.simplify().text), None)
    if incumbent is not None and (incumbent.train, incumbent.validation) == (best.train, best.validation):
        return Breeding(None, None, tuple(candidates), kept, settings.metric)
    contestants = [champion, Formula.parse(best.formula)]
    fitness = _contest([draw.take(np.sort(held_out)) for draw in draws], contestants, settings, later)
    verdict = decide(fitness[0], fitness[1])
    candidates[0] = replace(best, held_out=verdict.challenger)
    return Breeding(best.formula, verdict, tuple(candidates), kept, settings.metric)


def _validate(
    trained: Sequence[tuple[Formula, float]], judge: Evaluator, settings: EvolutionSettings
) -> list[Candidate]:
    """Return the formulas as candidates, each once, the best by selection first, the smaller of equals."""
    simple = {formula.simplify().text: (formula.simplify(), fitness) for formula, fitness in reversed(trained)}
    formulas = sorted(simple.values(), key=lambda one: (one[0].size, one[0].text))
    train = np.array([fitness for _, fitness in formulas])
    validated = judge.fitness([formula for formula, _ in formulas])
    order = np.argsort(-measure(train, validated, settings.selection), kind="stable")
    return [Candidate(formulas[i][0].text, float(train[i]), float(validated[i])) for i in order.tolist()]


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


def _encode(formulas: Sequence[Formula], alphabet: Alphabet) -> list[bytes]:
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
