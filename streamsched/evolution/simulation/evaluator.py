"""Fitness of score functions: simulated crawls under each, multi-threaded, exact and reproducible."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from streamsched.evolution.simulation.arena import Arena, CrawlTrace, SimulatedCrawl, make_arena
from streamsched.evolution.simulation.compiled_programs import SizedProgram, compile_program
from streamsched.evolution.simulation.crawl import simulate
from streamsched.evolution.simulation.hit_values import Metric, hit_values
from streamsched.evolution.simulation.trials import Trial, TrialRunner
from streamsched.evolution.symbols import SymbolSet
from streamsched.formula.evaluation.machine import ROWS, make_slots
from streamsched.formula.formula import Formula
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.numerics.jit import kernel

Program: TypeAlias = bytes | Formula

_MIN_SLOTS: Final = 64  # of an arena: enough for genomes of the paper's depth; formulas may need more
_NO_POSITIONS: Final = np.empty((0, 0), np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Results of one program in one trial of r ranked cycles, each with v visits.

    ``change_rate`` and ``ndcg``: float64[r], 0 if not counted. ``counted``: bool[r], True if some page had changed.
    ``new_pages``: int64[r], pages visited for the first time since the warm-up. ``rows``: int64[r, v], rows in the
    history of the visited pages, best first. ``hits``: bool[r, v], whether they had changed. ``weights``: float64[r,
    v], what a hit contributes to the evaluator's metric, see `hit_values`.
    """

    change_rate: Floats
    ndcg: Floats
    counted: Bools
    new_pages: Ints
    rows: Ints
    hits: Bools
    weights: Floats

    @property
    def visits(self) -> int:
        """Number of pages visited per cycle."""
        return int(self.rows.shape[1])

    def mean(self, metric: Literal["change_rate", "ndcg"]) -> float:
        """Return the mean over the counted cycles, 0 if there are none. O(r)."""
        values = (self.change_rate if metric == "change_rate" else self.ndcg)[self.counted]
        return sum(values.tolist()) / values.size if values.size else 0.0


class Evaluator:
    """Fitness of programs: the mean over `trials` of a metric (`Metric.of`), each a mean over ranked cycles.

    A program is a genome over `symbol_set` or a `Formula`. `workers`: threads, None for one per processor; results do
    not depend on it. Results are cached. Not for concurrent calls. Memory: 8 bytes per page and trial for 64 cycles,
    and 150 bytes per page of the largest trial and worker.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        metric: str = "ndcg",
        *,
        symbol_set: SymbolSet | None = None,
        workers: int | None = None,
    ) -> None:
        if not trials:
            raise ValueError("trials: expected one or more, found none")
        self.metric = Metric.of(metric)
        self.symbol_set = symbol_set
        self.trials = tuple(trials)
        self._runners = [TrialRunner(trial, positions_matter=self.metric.ranked) for trial in trials]
        self._weights = [self.metric.weigh_pages(runner.trial.history, runner.rows) for runner in self._runners]
        self._workers = workers or os.cpu_count() or 1
        self._max_size = (
            max(trial.history.pages for trial in trials),
            max(trial.visits for trial in trials),
        )
        self._arenas: list[Arena] = []
        self._cache: dict[Program, Floats] = {}
        self._stop = np.zeros(1, np.uint8)

    @property
    def evaluated(self) -> int:
        """Number of different programs evaluated."""
        return len(self._cache)

    @contextmanager
    def deadline(self, seconds: float | None) -> Iterator[None]:
        """Context manager: evaluation stops `seconds` after entry, within milliseconds; None for no limit."""
        timer = None if seconds is None else threading.Timer(seconds, self._expire)
        try:
            if timer is not None:
                timer.daemon = True
                timer.start()
            yield
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()
            self._stop[0] = 0

    def should_stop(self) -> bool:
        """Return whether the deadline has passed."""
        return bool(self._stop[0])

    def fitness(self, programs: Sequence[Program]) -> Floats:
        """Return the fitness of each program, float64[n]; NaN for those not evaluated before the deadline.

        O(ranked cycles · (classes of pages · steps + visits)) for each new program and trial.
        """
        return np.asarray(self.matrix(programs).mean(axis=1))

    def matrix(self, programs: Sequence[Program]) -> Floats:
        """Return the fitness of each program in each trial, float64[n, trials], as `fitness` does."""
        new = list(dict.fromkeys(program for program in programs if program not in self._cache))
        pending = iter(new)
        if len(new) > 1 and self._workers > 1:
            self._evaluate_side_by_side(pending)
        else:
            self._evaluate(pending, self._arena(0))
        missing = np.full(len(self.trials), np.nan)
        return np.array([self._cache.get(program, missing) for program in programs]).reshape(-1, len(self.trials))

    def series(self, program: Program, *, cuts: Sequence[float] = (1.0,)) -> list[list[Series]]:
        """Return the results of `program` for each trial and each of `cuts`: ``[trial][cut]``.

        A cut of 0.2 covers the first fifth of each ranked list (at least one page): Figure 5 of the paper.
        """
        compiled = compile_program(program, self.symbol_set)
        traced = zip(self._runners, self._weights, strict=True)
        return [self._trace_trial(runner, weights, compiled, cuts) for runner, weights in traced]

    def _expire(self) -> None:
        self._stop[0] = 1

    def _arena(self, number: int, slots: int = _MIN_SLOTS) -> Arena:
        while len(self._arenas) <= number:
            self._arenas.append(make_arena(*self._max_size, _MIN_SLOTS))
        arena = self._arenas[number]
        if arena.slots.shape[0] < slots:
            arena = self._arenas[number] = arena._replace(slots=make_slots(slots, ROWS))
        return arena

    def _evaluate(self, pending: Iterator[Program], arena: Arena) -> None:
        """Evaluate programs from the shared iterator until it is exhausted or the deadline has passed."""
        for program in pending:
            if self._stop[0]:
                return
            compiled = compile_program(program, self.symbol_set)
            if arena.slots.shape[0] < compiled.slots:
                arena = arena._replace(slots=make_slots(compiled.slots, ROWS))
            values = np.empty(len(self._runners))
            for i, (runner, weights) in enumerate(zip(self._runners, self._weights, strict=True)):
                trial = runner.trial
                by_page = bool(self.metric.aim.dial or weights.size)  # else the counts of a trace suffice
                trace = _empty_trace(trial.ranked, trial.visits if by_page else 0)
                if not self._simulate(runner, compiled, arena, trace):
                    return
                if by_page:
                    gains = hit_values(self.metric, weights, runner.crawl_history, runner.rules, trace, trial.visits)
                    gains *= trace.visited & 1
                    counted = trace.relevant > 0
                    values[i] = gains[counted].sum() / max(1, np.count_nonzero(counted))
                else:
                    values[i] = _mean_metric(trace, trial.visits, runner.crawl_history.ideals, self.metric.ranked)
            self._cache[program] = values

    def _evaluate_side_by_side(self, pending: Iterator[Program]) -> None:
        """Evaluate programs in threads. If an error or a signal ends the wait, they stop within milliseconds."""
        try:
            with ThreadPoolExecutor(self._workers) as pool:
                arenas = [self._arena(number) for number in range(self._workers)]
                try:
                    for future in [pool.submit(self._evaluate, pending, arena) for arena in arenas]:
                        future.result()
                except BaseException:
                    self._expire()  # the pool waits for its threads, which would evaluate all that is left
                    raise
        except BaseException:
            self._stop[0] = 0
            raise

    def _simulate(self, runner: TrialRunner, compiled: SizedProgram, arena: Arena, trace: CrawlTrace) -> bool:
        program = runner.adapt(compiled.program)
        crawl = SimulatedCrawl(
            runner.crawl_history, runner.warm_state(program.reads), runner.rules, program, arena, trace
        )
        return bool(simulate(crawl, self._stop))

    def _trace_trial(
        self, runner: TrialRunner, page_weights: Floats, compiled: SizedProgram, cuts: Sequence[float]
    ) -> list[Series]:
        trial = runner.trial
        trace = _empty_trace(trial.ranked, trial.visits)
        arena = self._arena(0, compiled.slots)
        stop = np.zeros(1, np.uint8)
        program, rules = runner.adapt(compiled.program), runner.rules._replace(positions_matter=True)
        simulate(
            SimulatedCrawl(runner.crawl_history, runner.warm_state(program.reads), rules, program, arena, trace), stop
        )
        counted = trace.relevant > 0
        series = []
        for cut in cuts:
            visits = max(1, int(cut * trial.visits + 1e-9))
            visited = trace.visited[:, :visits]
            hits = (visited & 1).astype(np.float64)
            gains = hits @ runner.crawl_history.discounts[:visits]
            if visits == trial.visits:
                gains = trace.gains
            ideals = runner.crawl_history.ideals[np.minimum(trace.relevant, visits)]
            ndcg = np.divide(gains, ideals, out=np.zeros(gains.size), where=counted)
            rates = np.where(counted, hits.sum(axis=1) / visits, 0.0)
            new = np.count_nonzero(visited & 2, axis=1)
            weights = hit_values(self.metric, page_weights, runner.crawl_history, rules, trace, visits)
            series.append(Series(rates, ndcg, counted, new, runner.rows[visited >> 2], hits > 0.0, weights))
        return series


def _empty_trace(ranked: int, visits: int = 0) -> CrawlTrace:
    """Return an empty trace; it records visited pages if `visits` per cycle is given."""
    visited = np.zeros((ranked, visits), np.int32) if visits else _NO_POSITIONS
    return CrawlTrace(np.zeros(ranked, np.int64), np.zeros(ranked, np.int64), np.zeros(ranked), visited)


@kernel
def _mean_metric(trace: CrawlTrace, visits: int, ideals: Floats, positions_matter: bool) -> float:
    """Return mean ChangeRate, or NDCG if `positions_matter`, over the cycles in which some page had changed."""
    total = 0.0
    counted = 0
    for i in range(trace.relevant.size):
        if trace.relevant[i] > 0:
            counted += 1
            if positions_matter:
                total += trace.gains[i] / ideals[min(trace.relevant[i], visits)]
            else:
                total += trace.hits[i] / visits
    return total / counted if counted else 0.0
