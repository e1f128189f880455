"""One evolution: evolve on some pages, validate on others, hold the contest with the champion on the rest.

Pages are split by their hashes, identically in every evolution of a scheduler: the data that an archive was fitted to
stays separate from the data that judges it. Evolution and validation use the cycles up to a point, the contest counts
those after it. Evolution and validation also round priors and weights, which makes them fast; the contest does not.

In the contest each formula crawls all held-out pages together, as a scheduler would. Its gains are then credited to
blocks of these pages. Separate crawls of small blocks would visit a handful of pages a cycle and favour other formulas
than a large crawl does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS, EvolutionSettings, Selection, measure
from streamsched.evolution.generations import Generation, Individual, evolve_seeds
from streamsched.evolution.genomes import from_formula, to_formula
from streamsched.evolution.promotion import decide, fold_cycles
from streamsched.evolution.records import Candidate, EvolutionResult
from streamsched.evolution.simulation.evaluator import Evaluator, Series
from streamsched.evolution.simulation.trials import Reading, Trial
from streamsched.evolution.symbols import SymbolSet
from streamsched.formula.formula import Formula
from streamsched.numerics.arrays import Bools, Floats, Rows
from streamsched.numerics.jit import mix
from streamsched.numerics.topk_order import tie_keys

BLOCKS: Final = 8  # blocks of pages; leaves 7 degrees of freedom
REPLICATES: Final = 12  # with different tie orders, first cycles and imputations
_STARTS: Final = 4  # different first cycles; more would leave too few cycles to the last
_MAX_SPANS: Final = 8
_MIN_SPAN_CYCLES: Final = 2  # a page visited in one cycle is seldom visited in the next
# Every evolution starts with these formulas, and every challenger must beat them: published estimators (NAD * t ranks
# like 1 - exp(-NAD * t)), ours, the freshness index, and the posterior with age to separate near ties. They use the
# symbols of genomes, which have no unary minus.
SEED_FORMULAS: Final = (
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

_TRAINING_TRIALS: Final = (
    4  # trials that fitness is averaged over: with different first cycles, tie salts and imputations
)
_TRAIN, _VALIDATION = 0.35, 0.15  # shares of the pages; the contest uses the other half
_CONTEST_SHARE: Final = 0.6  # share of the cycles reserved for the contest, which needs the most data
_MIN_PAGES: Final = 20 * BLOCKS  # with fewer, a block of held-out pages would be a handful
_MIN_CYCLES: Final = 10  # after the warm-up


def shuffle_pages(history: ChangeHistory, salt: int) -> Rows:
    """Return the rows of all pages in a pseudo-random order given by their hashes and `salt`: intp[pages]. O(n log n).

    Any slice of it is a random sample, which changes little when other pages are added or removed.
    """
    return np.argsort(tie_keys(history.hashes, int(mix(np.uint64(salt)))), kind="stable")


def contest_trials(
    imputations: Sequence[ChangeHistory],
    *,
    budget: float,
    reading: Reading = "since_visit",
    warmup: int = 2,
    salt: int = 0,
) -> list[Trial]:
    """Return the `REPLICATES` trials of a contest on pages that evolution has not used.

    ``imputations``: histories of these pages, several if gaps were imputed. Trials differ in first cycle, tie order and
    imputation. Each runs to the end of the history, so that in the cycles that count, pages are as old as in a running
    crawl. If the history is too short for later starts, all trials begin together.
    Raises ValueError if there are fewer pages than blocks. O(1).
    """
    pages, cycles = imputations[0].pages, imputations[0].cycles
    if pages < BLOCKS:
        raise ValueError(f"contest: expected {BLOCKS} held-out pages or more, found {pages}")
    latest_start = max(0, cycles - warmup - 1)
    return [
        Trial(
            imputations[number % len(imputations)],
            first=min(number % _STARTS, latest_start),
            warmup=warmup,
            budget=budget,
            reading=reading,
            salt=salt * REPLICATES + number,
        )
        for number in range(REPLICATES)
    ]


def count_spans(later_cycles: int) -> int:
    """Return the number of spans for `later_cycles` cycles: at least 2 cycles each, at most 8 spans. O(1).

    >>> [count_spans(later_cycles) for later_cycles in (1, 5, 7, 90)]
    [1, 2, 3, 8]
    """
    return max(1, min(_MAX_SPANS, later_cycles // _MIN_SPAN_CYCLES))


def contest_fitness(
    evaluator: Evaluator, programs: Sequence[bytes | Formula], later_cycles: int, salt: int = 0
) -> Floats:
    """Return each program's fitness in the last `later_cycles` cycles: float64[programs, BLOCKS, spans, REPLICATES].

    ``evaluator.trials``: those of `contest_trials`. The contribution of a visit to its cycle's metric, times `BLOCKS`,
    is credited to the block of its page, so the mean over blocks is the metric. A visit's credit is its excess over the
    average visit: a program that only moves visits between blocks must not appear to win in one and lose in another. A
    cycle counts if in every replicate each program could have found a change. Pass any two entries of the result to
    `decide`. O(programs · trials) crawls.
    """
    history = evaluator.trials[0].history
    block = np.empty(history.pages, np.intp)
    block[shuffle_pages(history, salt + 1)] = np.arange(history.pages) % BLOCKS
    crawls = [[cuts[0] for cuts in evaluator.series(program)] for program in programs]
    cycles = min(later_cycles, *(crawl.counted.size for crawl in crawls[0]))
    counted_cycles: Bools = np.all([crawl.counted[-cycles:] for row in crawls for crawl in row], axis=0)
    counted = np.tile(counted_cycles, (BLOCKS, 1))
    spans = count_spans(cycles)
    mean = _hit_share([crawl for row in crawls for crawl in row], cycles)
    block_credits = [np.stack([_credit_blocks(crawl, block, cycles, mean) for crawl in row], axis=1) for row in crawls]
    folded = np.stack([fold_cycles(credit, counted, spans) for credit in block_credits])
    return folded[:, :, ~np.isnan(folded).any(axis=(0, 1, 3))]


def _hit_share(crawls: Sequence[Series], cycles: int) -> float:
    """Return the share of visit weight that found a change, over all visits in the last `cycles` cycles."""
    total = sum(float(crawl.weights[-cycles:].sum()) for crawl in crawls)
    found = sum(float(crawl.weights[-cycles:][crawl.hits[-cycles:]].sum()) for crawl in crawls)
    return found / total if total else 0.0


def _credit_blocks(crawl: Series, block: Rows, cycles: int, mean: float) -> Floats:
    """Return the credit of each block in the last `cycles` cycles: float64[BLOCKS, cycles]; its mean is the metric."""
    weights = crawl.weights[-cycles:]
    excess = weights * (crawl.hits[-cycles:] - mean)
    cells = block[crawl.rows[-cycles:]] * cycles + np.arange(cycles)[:, None]
    sums = np.bincount(cells.ravel(), excess.ravel(), BLOCKS * cycles).reshape(BLOCKS, cycles)
    return np.asarray(BLOCKS * sums + mean * weights.sum(axis=1))


def run_evolution(
    imputations: Sequence[ChangeHistory],
    champion: Formula,
    archive: Sequence[Formula] = (),
    settings: EvolutionSettings = REEVOLUTION_SETTINGS,
    seed: int = 0,
    *,
    progress: Callable[[int, Generation], object] | None = None,
) -> EvolutionResult:
    """Evolve score functions, validate them, and return the best challenger with the verdict of its contest.

    ``imputations``: histories of the same pages; one if everything was observed, several random imputations if there
    were gaps, so that no formula is fitted to a single imputation. `archive`: good formulas of earlier evolutions; they
    start in the population together with `SEED_FORMULAS` and the champion. `progress` is called with the run's number
    and each generation. Equal arguments give equal results to the last bit, unless ``settings.seconds`` ends the
    evolution early. Without enough pages or cycles there is no challenger. O(evaluations · trials) crawls.
    """
    history = imputations[0]
    if history.pages < _MIN_PAGES or history.cycles - settings.warmup < _MIN_CYCLES:
        return EvolutionResult(None, None, metric=settings.metric)
    contest_cycles = max(2, round(_CONTEST_SHARE * (history.cycles - settings.warmup)))
    training, validation, held_out = _split_pages(history)
    early = [imputation.span(0, imputation.cycles - contest_cycles).coarsen() for imputation in imputations]
    evaluator = Evaluator(
        _make_trials([imputation.take(training) for imputation in early], settings, seed),
        settings.metric,
        symbol_set=settings.symbol_set,
        workers=settings.workers,
    )
    validator = Evaluator(
        _make_trials([imputation.take(validation) for imputation in early], settings, seed + 1),
        settings.metric,
        workers=settings.workers,
    )
    initial = _encode([champion, *archive, *map(Formula.parse, SEED_FORMULAS)], settings.symbol_set)
    elites = _evolve(evaluator, initial, settings, seed, progress)
    candidates = _rank_candidates(elites, evaluator, validator, settings.selection)
    archived = tuple(candidate.formula for candidate in candidates[: settings.elites])
    best = candidates[0]
    if _equals_champion(best, candidates, champion):
        return EvolutionResult(None, None, tuple(candidates), archived, settings.metric)
    judged = [imputation.take(held_out) for imputation in imputations]
    fitness = _contest_fitness(judged, [champion, Formula.parse(best.formula)], settings, contest_cycles)
    verdict = decide(fitness[0], fitness[1])
    candidates[0] = replace(best, held_out=verdict.challenger)
    return EvolutionResult(best.formula, verdict, tuple(candidates), archived, settings.metric)


def _split_pages(history: ChangeHistory) -> tuple[Rows, Rows, Rows]:
    """Return the rows for training, validation and the contest, each ascending."""
    rows = shuffle_pages(history, 0)
    bounds = [round(share * rows.size) for share in (_TRAIN, _TRAIN + _VALIDATION)]
    training, validation, held_out = np.split(rows, bounds)
    return np.sort(training), np.sort(validation), np.sort(held_out)


def _evolve(
    evaluator: Evaluator,
    initial: Sequence[bytes],
    settings: EvolutionSettings,
    seed: int,
    progress: Callable[[int, Generation], object] | None,
) -> list[Individual]:
    """Run the evolution within its time limit; return its elites and the initial genomes."""
    with evaluator.deadline(settings.seconds):
        found = evolve_seeds(
            evaluator.fitness,
            settings,
            seed,
            initial=initial,
            should_stop=evaluator.should_stop,
            progress=progress,
        )
    return _add_missing(found.elites, initial, evaluator, settings)


def _equals_champion(best: Candidate, candidates: Sequence[Candidate], champion: Formula) -> bool:
    """Return whether the champion is a candidate with the same fitness as the best one."""
    text = champion.simplify().text
    incumbent = next((candidate for candidate in candidates if candidate.formula == text), None)
    return incumbent is not None and (incumbent.train, incumbent.validation) == (best.train, best.validation)


def _rank_candidates(
    elites: Sequence[Individual], evaluator: Evaluator, validator: Evaluator, selection: Selection
) -> list[Candidate]:
    """Return the elites as candidates, each formula once: first the smallest that is as good as the best.

    The others follow by the score that `selection` names. "As good" means that its deficit over all trials of training
    and validation is at most the standard error of the difference (the one-standard-error rule of Breiman et al. 1984).
    Large formulas owe part of their fitness to chance and are hard to read.
    """
    assert evaluator.symbol_set is not None
    train_by_formula: dict[Formula, Floats] = {}
    for elite, fitness in zip(elites, evaluator.matrix([elite.genome for elite in elites]), strict=True):
        train_by_formula.setdefault(to_formula(elite.genome, evaluator.symbol_set).simplify(), fitness)
    formulas = sorted(train_by_formula, key=lambda formula: (formula.size, formula.text))
    train = np.array([train_by_formula[formula] for formula in formulas])
    validation = validator.matrix(formulas)
    ranking = np.argsort(-measure(train.mean(axis=1), validation.mean(axis=1), selection), kind="stable").tolist()
    deficit = (both := np.concatenate([train, validation], axis=1))[ranking[0]] - both
    error = deficit.std(axis=1, ddof=1) / math.sqrt(deficit.shape[1])
    chosen = min(np.flatnonzero(deficit.mean(axis=1) <= error).tolist())  # the smallest: `formulas` is sorted by size
    ranking = [chosen, *(i for i in ranking if i != chosen)]
    return [Candidate(formulas[i].text, float(train[i].mean()), float(validation[i].mean())) for i in ranking]


def _make_trials(imputations: Sequence[ChangeHistory], settings: EvolutionSettings, seed: int) -> list[Trial]:
    """Return the trials that fitness is averaged over, each with its own first cycle and tie order."""
    latest_start = max(1, imputations[0].cycles - settings.warmup - _MIN_CYCLES + 1)
    return [
        Trial(
            imputations[number % len(imputations)],
            first=min(number, latest_start - 1),
            warmup=settings.warmup,
            budget=settings.budget,
            reading=settings.reading,
            salt=seed * _TRAINING_TRIALS + number,
        )
        for number in range(_TRAINING_TRIALS)
    ]


def _encode(formulas: Sequence[Formula], symbol_set: SymbolSet) -> list[bytes]:
    """Return the genomes of the formulas that `symbol_set` can express, each once."""
    genomes = (from_formula(formula, symbol_set) for formula in formulas)
    return list(dict.fromkeys(genome for genome in genomes if genome is not None))


def _add_missing(
    elites: Sequence[Individual], initial: Sequence[bytes], evaluator: Evaluator, settings: EvolutionSettings
) -> list[Individual]:
    """Return the best elites, and the initial genomes: the known formulas are always candidates."""
    best = list(elites[: settings.elites * settings.seeds])
    missing = [genome for genome in initial if genome not in {elite.genome for elite in best}]
    fitness = evaluator.fitness(missing) if missing else np.empty(0)
    return best + [Individual(genome, float(value)) for genome, value in zip(missing, fitness, strict=True)]


def _contest_fitness(
    imputations: Sequence[ChangeHistory], formulas: Sequence[Formula], settings: EvolutionSettings, contest_cycles: int
) -> Floats:
    """Return the fitness of the formulas on held-out pages and later cycles, in the shape that `decide` takes."""
    trials = contest_trials(imputations, budget=settings.budget, reading=settings.reading, warmup=settings.warmup)
    return contest_fitness(Evaluator(trials, settings.metric, workers=settings.workers), formulas, contest_cycles)
