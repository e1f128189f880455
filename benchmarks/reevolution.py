"""Re-evolution beside a serving scheduler: its cost, and the latency of `next_batch` meanwhile."""

from __future__ import annotations

import gc
import resource
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.evolution import make_history
from benchmarks.report import Row, digits, durations
from streamsched import OutcomeBatch, Scheduler
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import EvolutionRecord
from streamsched.records.visit_journal import SAMPLE_PAGES, find_sampled, sample_bar
from streamsched.scheduler.evolver import Evolver

_CYCLES: Final = 19  # of training data; the day before them gives the first visits
_COST_PAGES: Final = 16 * SAMPLE_PAGES  # one in 16 pages is sampled
_K: Final = 1_000
_STEP_S: Final = 60.0  # simulated time between two batches
_CALLS: Final = 200  # five repeats are 1,000 calls, the fewest that have a p99.9
_GENERATIONS: Final = 50  # of evolutions during which calls are measured, so that they last long enough
_LOOK_S: Final = 0.005
_PERCENTILES: Final = (50.0, 99.0, 99.9)


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the re-evolution benchmark: cost of evolutions, latency of batches of `pages` pages."""
    return [*_measure_cost(repeats), *_measure_calls(pages, repeats)]


@dataclass(slots=True)
class _Calls:
    """Durations of calls in seconds."""

    next_batch: list[float] = field(default_factory=list)
    observe: list[float] = field(default_factory=list)


class _Service:
    """A scheduler with a full visit journal that serves batches and observes their outcomes."""

    def __init__(self, pages: int) -> None:
        self.scheduler = Scheduler()
        self.day = 0
        self.rng = np.random.default_rng(1)
        self._urls = make_urls(pages)
        self.scheduler.observe(visit_all(self._urls, 0, self.rng))
        shard = self.scheduler.core.pages.arrays
        rows = find_sampled(0, pages, sample_bar(shard.corpus))
        self._sample = self._urls.take(rows)  # visited daily; visits to other pages are not in the journal
        self._changed = make_history(rows.size, 2 * _CYCLES).changed
        for _ in range(_CYCLES - 1):
            self.advance_day()
        self.scheduler.observe(visit_all(self._urls, self.day + 1, self.rng))
        self.day += 1
        self._now = self.now

    @property
    def now(self) -> float:
        """The end of the newest day, UTC epoch seconds."""
        return (self.day + 1) * DAY_S

    def advance_day(self) -> None:
        """Visit every sampled page once during the next day."""
        self.day += 1
        times = (self.day + self.rng.random(len(self._sample))) * DAY_S
        changed = self._changed[:, self.day % self._changed.shape[1]]
        self.scheduler.observe(OutcomeBatch(self._sample, times, changed=changed))
        self._now = self.now

    def serve(self, calls: _Calls) -> None:
        """Take a batch and observe its outcomes, a tenth of them changes; add both durations to `calls`."""
        begin = time.perf_counter()
        batch = self.scheduler.next_batch(_K, now=self._now)
        calls.next_batch.append(time.perf_counter() - begin)
        changed = self.rng.random(len(batch)) < 0.1
        outcomes = OutcomeBatch(batch.urls, np.full(len(batch), self._now + 1.0), changed=changed)
        begin = time.perf_counter()
        self.scheduler.observe(outcomes)
        calls.observe.append(time.perf_counter() - begin)
        self._now += _STEP_S


def _plan(generations: int | None = None) -> EvolutionPlan:
    plan = EvolutionPlan(every=1, drift=None, history=_CYCLES, trial=False)
    settings = replace(plan.settings, workers=1, generations=generations or plan.settings.generations)
    return replace(plan, settings=settings)


def _measure_cost(repeats: int) -> list[Row]:
    """Return the rows of the cost of a warm re-evolution while nothing is served."""
    service = _Service(_COST_PAGES)
    seconds, cpu_s, gather_s, data = [], [], [], ""
    with tempfile.TemporaryDirectory() as directory, Evolver(service.scheduler, _plan(), Path(directory)) as evolver:
        evolver.tick(service.now)
        for run in range(repeats + 1):
            service.advance_day()
            before = _children_cpu_s()
            record = _evolve_beside(evolver, service.now, partial(time.sleep, _LOOK_S))
            data = str(record.data)
            if run:  # the first begins without elites and may compile kernels
                seconds.append(record.seconds or 0.0)
                cpu_s.append(_children_cpu_s() - before)
    for seed in range(repeats):
        begin = time.perf_counter()
        service.scheduler.training(_CYCLES, now=service.now, seed=seed)
        gather_s.append(time.perf_counter() - begin)
    settings = evolver.plan.settings
    size = f"{settings.generations} generations of {settings.population}"
    return [
        Row(f"warm, {size}, {data}: processor time", f"{min(cpu_s):.1f} s"),
        Row("... from its start to its record", f"{min(seconds):.1f} s"),
        Row("... gathering its training data once, on a thread of the scheduler", f"{min(gather_s):.2f} s"),
    ]


def _measure_calls(pages: int, repeats: int) -> list[Row]:
    """Return the rows of call durations with and without an evolution, in turns, because other load varies."""
    service = _Service(pages)
    without, beside, within, gathering = _Calls(), _Calls(), _Calls(), _Calls()
    for _ in range(20):
        service.serve(_Calls())
    plan = _plan(_GENERATIONS)
    with tempfile.TemporaryDirectory() as directory, Evolver(service.scheduler, plan, Path(directory)) as evolver:
        rival = Evolver(service.scheduler, plan)
        evolver.tick(service.now)
        while min(len(calls.next_batch) for calls in (without, beside, within)) < _CALLS * repeats:
            _settle(service)
            for _ in range(_CALLS):
                service.serve(without)
            _settle(service)
            _evolve_beside(evolver, service.now, partial(service.serve, beside))
            _settle(service)
            _work_beside(partial(rival.evolve_now, service.now), partial(service.serve, within))
    for _ in range(repeats):
        _work_beside(partial(service.scheduler.training, _CYCLES, now=service.now), partial(service.serve, gathering))
    return [*_compare(pages, without, beside, within), *_longest(without, gathering)]


def _settle(service: _Service) -> None:
    service.advance_day()
    gc.collect()
    for _ in range(5):
        service.serve(_Calls())


def _evolve_beside(evolver: Evolver, now: float, meanwhile: Callable[[], object]) -> EvolutionRecord:
    """Run the evolution due at `now` in its own process, calling `meanwhile` until it ends; return its record."""
    evolver.tick(now)
    while (record := evolver.tick(now)) is None:
        meanwhile()
    if record.decision == "failed":
        raise RuntimeError(record.why)
    return record


def _work_beside(work: Callable[[], object], meanwhile: Callable[[], object]) -> None:
    """Run `work` on a thread, calling `meanwhile` until it ends."""
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        meanwhile()


def _children_cpu_s() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _compare(pages: int, without: _Calls, beside: _Calls, within: _Calls) -> list[Row]:
    """Return the rows of the latency of batches; ratios are to the latency without an evolution."""
    rows: list[Row] = []
    for share in _PERCENTILES:
        base, ours, theirs = (1e3 * np.percentile(calls.next_batch, share) for calls in (without, beside, within))
        name = f"next_batch({_K:,}) of {pages:,}, p{share:g}, while evolving; {base:.1f} ms without"
        ratios = f"{digits(ours / base)}×, rival {digits(theirs / base)}× its value without"
        rows.append(Row(name, f"{ours:.1f} ms", f"{theirs:.1f} ms", ratios))
    return rows


def _longest(without: _Calls, gathering: _Calls) -> list[Row]:
    rows: list[Row] = []
    for name in ("next_batch", "observe"):
        base, ours = (max(getattr(calls, name)) for calls in (without, gathering))
        calls = len(getattr(gathering, name))
        rows.append(durations(f"longest {name} of {calls} while data is gathered; rival: otherwise", ours, base))
    return rows
