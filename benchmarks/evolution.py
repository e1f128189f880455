"""Evolution: time to evaluate a formula, beside DEAP's compiled trees, its growth, and the whole run of the paper.

The rival evaluates DEAP's trees on whole NumPy columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from deap import gp

from benchmarks.report import Row, best_seconds, durations
from streamsched.estimation.published_estimators import aad, cg, nad
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.evolution_settings import EvolutionSettings, Metric
from streamsched.evolution.generations import evolve_population, evolve_seeds
from streamsched.evolution.simulation.arena import tie_offset
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.evolution.simulation.trials import Reading, Trial
from streamsched.evolution.symbols import CONSTANTS, TERMINAL_SETS, SymbolSet
from streamsched.formula import Formula
from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.jit import mix

_WARMUP: Final = 2
_RANKED: Final = 17
_PROGRAMS: Final = 20
_METRICS: Final[tuple[Metric, ...]] = ("change_rate", "ndcg")
_READINGS: Final[tuple[Reading, ...]] = ("since_visit", "that_day")

_SAMPLE_PAGES: Final = 2_000  # pages of the run from which the programs are drawn
_WARM_PAGES: Final = 50_000
_WARM_GENERATIONS: Final = 5
_SETTINGS: Final = EvolutionSettings()
_SYMBOLS: Final = _SETTINGS.symbol_set
_COLUMNS: Final = (*TERMINAL_SETS["paper"], "weighted", "halved")  # the last two are sums from which AAD and GAD follow
_NAMES: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "pow": "power"}


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the evolution benchmark at `pages` pages."""
    rows: list[Row] = []
    history = make_history(pages, _WARMUP + _RANKED)
    programs = _sample_programs()
    for reading in _READINGS:
        for metric in _METRICS:
            rows += _compare(Trial(history, warmup=_WARMUP, reading=reading), metric, programs, repeats)
    rows += _growth(pages, programs, repeats)
    for reading in _READINGS:
        rows.append(_whole_run(Trial(history, warmup=_WARMUP, reading=reading)))
    return [*rows, _warm_run()]


def make_history(pages: int, cycles: int, seed: int = 0) -> ChangeHistory:
    """Return a history of pages that change at random, each with its own Gamma-distributed rate; 35 % never change."""
    rng = np.random.default_rng(seed)
    rates = np.where(rng.random(pages) < 0.35, 0.0, rng.gamma(0.4, 0.3, pages))
    changed = rng.random((pages, cycles), np.float32) < -np.expm1(-rates)[:, None]
    return ChangeHistory.of(changed, hashes=rng.integers(0, 2**63, pages, np.uint64))


def _sample_programs() -> list[bytes]:
    """Return a uniform sample of the programs that a run with the settings of the paper evaluates."""
    trial = Trial(make_history(_SAMPLE_PAGES, _WARMUP + _RANKED))
    evaluator = Evaluator([trial], _SETTINGS.metric, symbol_set=_SYMBOLS)
    evaluated: dict[bytes, None] = {}

    def evaluate(genomes: Sequence[bytes]) -> Floats:
        evaluated.update(dict.fromkeys(genomes))
        return evaluator.fitness(genomes)

    evolve_population(evaluate, _SETTINGS, 0)
    chosen = np.random.default_rng(0).permutation(len(evaluated))[:_PROGRAMS]
    programs = list(evaluated)
    return [programs[i] for i in chosen]


def _compare(trial: Trial, metric: Metric, programs: Sequence[bytes], repeats: int) -> list[Row]:
    """Return the rows of one trial and metric: time per program on one and two threads, and whether results agree."""
    rival = _Rival(trial, metric, programs)
    rival_s = best_seconds(rival.run, 1) / len(programs)
    name = f"{trial.reading}, {metric}, {trial.history.pages:,} pages"
    rows: list[Row] = []
    for workers in (1, 2):
        ours_s, ours = _time_programs(trial, metric, programs, workers, repeats)
        title = f"a formula evaluated on {name}, {workers} thread{'s' * (workers > 1)}"
        headline = workers == 1 and metric == "ndcg" and trial.reading == "since_visit"
        rows.append(durations(title, ours_s, rival_s, headline=headline))
    nodes = sum(map(len, programs)) / len(programs)
    same = np.count_nonzero(np.abs(ours - rival.values) <= 1e-12)
    best = f"{ours.max():.4f}", f"{rival.values.max():.4f}"
    name = f"... the best of {len(programs)} programs of {nodes:.0f} nodes; how many agree"
    return [*rows, Row(name, *best, f"{same} of {len(programs)}")]


class _Rival:
    """The programs as compiled DEAP trees, simulated one by one; ``values``: float64[programs], of the last run."""

    def __init__(self, trial: Trial, metric: Metric, programs: Sequence[bytes]) -> None:
        history = trial.history
        order = np.argsort([mix(page ^ mix(np.uint64(trial.salt))) for page in history.hashes], kind="stable")
        offsets = [tie_offset(trial.salt, cycle, history.pages) for cycle in range(history.cycles)]
        changed = np.ascontiguousarray(history.changed[order].T)
        self._crawl = _ColumnCrawl(changed, np.array(offsets), trial.warmup, trial.visits, trial.reading)
        self._metric = metric
        self._trees = [_make_tree(program, _SYMBOLS) for program in programs]
        self.values: Floats = np.empty(len(programs))

    def run(self) -> None:
        for i, tree in enumerate(self._trees):
            self.values[i] = self._crawl.fitness(_compile_program(tree), self._metric)


def _time_programs(
    trial: Trial, metric: Metric, programs: Sequence[bytes], workers: int, repeats: int
) -> tuple[float, Floats]:
    """Return the seconds per program, without the preparation of the trial, and the fitness of all programs."""
    best_s, values = float("inf"), np.empty(0)
    for _ in range(repeats):
        evaluator = Evaluator([trial], metric, symbol_set=_SYMBOLS, workers=workers)
        evaluator.fitness([Formula.parse("t"), Formula.parse("t * t")])  # two, so that both threads allocate memory
        best_s = min(best_s, best_seconds(partial(evaluator.fitness, programs), 1))
        values = evaluator.fitness(programs)
    return best_s / len(programs), values


def _growth(pages: int, programs: Sequence[bytes], repeats: int) -> Iterator[Row]:
    """Yield rows of the time per program by number of pages, and by number of cycles that visit every page."""
    for share in (4, 2, 1):
        trial = Trial(make_history(pages // share, _WARMUP + _RANKED), warmup=_WARMUP)
        each_s, _ = _time_programs(trial, "ndcg", programs, 1, repeats)
        yield Row(f"since_visit, ndcg, {pages // share:,} pages, 1 thread", f"{1e3 * each_s:.2f} ms")
    for warmup in (2, 7, 14):
        for reading in _READINGS:
            trial = Trial(make_history(pages, warmup + _RANKED), warmup=warmup, reading=reading)
            each_s, _ = _time_programs(trial, "ndcg", programs, 1, repeats)
            yield Row(f"{reading}, ndcg, {warmup} cycles that visit all, 1 thread", f"{1e3 * each_s:.2f} ms")


def _whole_run(trial: Trial) -> Row:
    """Return the row of the whole run of the paper, with all its seeds."""
    settings = _SETTINGS
    evaluator = Evaluator([trial], settings.metric, symbol_set=_SYMBOLS)
    seconds = best_seconds(lambda: evolve_seeds(evaluator.fitness, settings, 0), 1)
    size = f"{settings.population} × {settings.generations} × {settings.seeds} seeds"
    name = f"the paper's whole evolution, {trial.reading}, {size}, {evaluator.evaluated:,} different programs"
    return Row(name, f"{seconds:.1f} s")


def _warm_run() -> Row:
    """Return the row of an evolution that begins with the elites of an earlier one, on one thread."""
    trial = Trial(make_history(_WARM_PAGES, _WARMUP + _RANKED), warmup=_WARMUP)
    settings = replace(_SETTINGS, generations=_WARM_GENERATIONS)
    earlier = Evaluator([trial], settings.metric, symbol_set=_SYMBOLS)
    elites = [elite.genome for elite in evolve_population(earlier.fitness, settings, 0).elites]

    def run() -> None:
        evaluator = Evaluator([trial], settings.metric, symbol_set=_SYMBOLS, workers=1)
        evolve_population(evaluator.fitness, settings, 1, initial=elites)

    name = f"{_WARM_GENERATIONS} generations from {len(elites)} elites, {_WARM_PAGES:,} pages, one thread"
    return Row(name, f"{best_seconds(run, 1):.1f} s")


def _divide(left: Any, right: Any) -> Any:
    return np.where(np.equal(right, 0.0), 0.0, np.divide(left, right))


def _log(operand: Any) -> Any:
    return np.where(np.less_equal(operand, 0.0), 0.0, np.log(operand))


def _exp(operand: Any) -> Any:
    return np.exp(np.clip(operand, -80.0, 80.0))


def _power(base: Any, exponent: Any) -> Any:
    exponent = np.clip(exponent, -80.0, 80.0)
    outside = np.less(base, 0.0) | (np.equal(base, 0.0) & np.less(exponent, 0.0))
    return np.where(outside, 0.0, np.power(base, exponent))


_OPERATIONS: Final[dict[str, tuple[Callable[..., Any], int]]] = {
    "add": (np.add, 2),
    "subtract": (np.subtract, 2),
    "multiply": (np.multiply, 2),
    "divide": (_divide, 2),
    "power": (_power, 2),
    "log": (_log, 1),
    "exp": (_exp, 1),
}


def _make_primitives() -> Any:
    """Return the protected functions, the terminals of the paper and the constants as a DEAP primitive set."""
    primitives = gp.PrimitiveSet("score", len(TERMINAL_SETS["paper"]))
    primitives.renameArguments(**{f"ARG{i}": name for i, name in enumerate(TERMINAL_SETS["paper"])})
    for name, (function, arity) in _OPERATIONS.items():
        primitives.addPrimitive(function, arity, name)
    for constant in CONSTANTS:
        primitives.addTerminal(constant)
    return primitives


_PRIMITIVES: Final = _make_primitives()


def _make_tree(genome: bytes, symbol_set: SymbolSet) -> Any:
    """Return a genome over the terminals of the paper as a DEAP tree; both are in prefix order."""
    names = [_NAMES.get(str(symbol), str(symbol)) for symbol in symbol_set.symbols]
    return gp.PrimitiveTree([_PRIMITIVES.mapping[names[symbol]] for symbol in genome])


def _compile_program(tree: Any) -> Callable[..., Any]:
    """Return the tree compiled by DEAP: a function of the columns of the paper's terminals, in order."""
    function: Callable[..., Any] = gp.compile(tree, _PRIMITIVES)
    return function


class _ColumnCrawl:
    """A simulated crawl with a column for each terminal: each cycle scores every page and visits the best k.

    ``changed``: bool[cycles, pages], pages in tie order; ``offsets``: int64[cycles], the page at which the tie order
    begins in each cycle. Only visited pages are updated, and the warm-up is simulated once.
    """

    def __init__(self, changed: Bools, offsets: Ints, warmup: int, k: int, reading: str) -> None:
        self._changed, self._offsets = changed, offsets
        self._warmup, self._k, self._reading = warmup, k, reading
        self._discounts = 1.0 / np.maximum(1.0, np.log(np.arange(1, k + 1)))
        pages = changed.shape[1]
        self._columns = {name: np.zeros(pages) for name in _COLUMNS}
        everything = np.arange(pages)
        for cycle in range(1, warmup):
            _learn(self._columns, everything, changed[cycle])

    def fitness(self, function: Callable[..., Any], metric: str) -> float:
        """Return the mean ChangeRate or NDCG of ranking by `function`. O(cycles · pages · size)."""
        columns = {name: column.copy() for name, column in self._columns.items()}
        terminals = [columns[name] for name in TERMINAL_SETS["paper"]]
        unseen = np.zeros(self._changed.shape[1], np.bool_)
        values = []
        with np.errstate(all="ignore"):
            for cycle in range(self._warmup, self._changed.shape[0]):
                columns["t"] += 1.0
                unseen |= self._changed[cycle]
                reports = unseen if self._reading == "since_visit" else self._changed[cycle]
                rows = self._best(function(*terminals), cycle, metric == "ndcg")
                if reports.any():
                    values.append(self._measure(reports, rows, metric))
                _learn(columns, rows, reports[rows])
                columns["t"][rows] = 0.0
                unseen[rows] = False
        return sum(values) / len(values)

    def _measure(self, reports: Bools, rows: Rows, metric: str) -> float:
        if metric == "change_rate":
            return int(np.count_nonzero(reports[rows])) / rows.size
        ideal = self._discounts[: min(rows.size, int(np.count_nonzero(reports)))]
        return float(self._discounts[reports[rows]].sum() / ideal.sum())

    def _best(self, scores: Any, cycle: int, in_order: bool) -> Rows:
        """Return the k best: score descending, NaN last, equal scores in the tie order of the cycle."""
        scores = np.broadcast_to(np.where(np.isnan(scores), np.inf, np.negative(scores)), self._changed.shape[1])
        bar = np.partition(scores, self._k - 1)[self._k - 1]
        above, equal = np.flatnonzero(scores < bar), np.flatnonzero(scores == bar)
        rows = np.concatenate([above, self._rotate(equal, cycle)[: self._k - above.size]])
        if not in_order:
            return rows
        rows = self._rotate(np.sort(rows), cycle)
        return rows[np.argsort(scores[rows], kind="stable")]

    def _rotate(self, rows: Rows, cycle: int) -> Rows:
        """Return the ascending ``rows``, rotated to begin at the first that is not below the offset of the cycle."""
        return np.roll(rows, -int(np.searchsorted(rows, self._offsets[cycle])))


def _learn(columns: dict[str, Floats], rows: Rows, changed: Bools) -> None:
    """Update the terminals of visited pages."""
    columns["n"][rows] += 1.0
    columns["X"][rows] += changed
    n, X = columns["n"][rows], columns["X"][rows]
    columns["weighted"][rows] += n * changed
    columns["halved"][rows] = columns["halved"][rows] / 2.0 + changed
    columns["CG"][rows] = cg(n, X)
    columns["NAD"][rows] = nad(n, X)
    columns["SAD"][rows] = changed
    columns["AAD"][rows] = aad(n, columns["weighted"][rows])
    columns["GAD"][rows] = columns["halved"][rows] / (2.0 - np.exp2(1.0 - n))
