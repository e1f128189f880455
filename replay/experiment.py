"""Run policies and seeds through the same window of the same log."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np

from streamsched.errors import ReplayError
from streamsched.numerics.arrays import Ints
from streamsched.numerics.topk_order import tie_keys
from streamsched.replay.confidence_intervals import cut_batches
from streamsched.replay.ground_truth import ChangeLog, Window
from streamsched.replay.log_reader import read_truth
from streamsched.replay.replay_results import MeasuredCycles, ReplayResult, summarise
from streamsched.replay.replay_settings import ReplaySettings, choose_window
from streamsched.replay.simulation.evolving_policies import SupportsEvolution
from streamsched.replay.simulation.metrics import assign_deciles
from streamsched.replay.simulation.policies import (
    CheckedPolicy,
    Make,
    ReplayedSignals,
    Setup,
    deliver_signals,
    evolves,
    formula_of,
    make_policy,
    predicts_changes,
)
from streamsched.replay.simulation.scheduled_policies import ScheduledPolicy
from streamsched.replay.simulation.signal_stream import compare_sources, read_signals
from streamsched.replay.simulation.simulator import Policy, Schedule, Trace, simulate

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the cycles done, all cycles and the current policy: after each cycle, with several workers each run."""

KeepPolicy: TypeAlias = Callable[[str, int, Policy], None]
"""Called with name, seed and policy at the end of each run of a policy that evolves."""

WORTH_WORKERS_S = 10.0  # of expected work; starting a process and loading its kernels takes two seconds
_CYCLE_S = 6e-4  # a cycle's cost of any size ...
_PAGE_S = 2e-7  # ... and of each page in it; measured on 2,180 pages and on 400,000


class _SharedInputs(NamedTuple):
    """Inputs that all runs of a replay share."""

    window: Window
    schedule: Schedule
    deciles: Ints
    signals: ReplayedSignals
    calibration: bool
    workers: int


class _Run(NamedTuple):
    policy: str
    seed: int
    make: Make | None = None  # of the caller's own policy

    @property
    def stays(self) -> bool:
        """Whether it runs in this process: it uses threads of its own, or what another process may not have."""
        return self.make is not None or evolves(self.policy)


def run_replay(
    settings: ReplaySettings, progress: Progress | None = None, keep: KeepPolicy | None = None
) -> ReplayResult:
    """Read the log and replay each policy on it; the same settings give the same result to the last bit.

    Raises ReplayError if the log does not contain the window, SourceError if it cannot be read.
    """
    return replay_log(read_truth(settings.log), settings, progress, keep)


def replay_log(
    log: ChangeLog,
    settings: ReplaySettings,
    progress: Progress | None = None,
    keep: KeepPolicy | None = None,
    *,
    policies: Mapping[str, Make] = MappingProxyType({}),
) -> ReplayResult:
    """Replay each policy on `log`, already read; ``settings.log`` is used as its name.

    `policies`: of your own, by name, beside those of ``settings.policies``. Each value is called for every seed with a
    `Setup` and returns a `Policy`. They run in this process, and get no signals.

    O(policies · seeds · cycles · pages). Raises ReplayError if the log does not contain the window, for a name that
    another policy has, and for rows of a policy that break the contract of `Policy.rank`.
    """
    settings = settings.with_own(policies)
    window = choose_window(log, settings)
    changes = window.changes(settings.learned_cycles)
    deciles = assign_deciles(changes, tie_keys(np.arange(window.pages, dtype=np.uint64), 0))
    files = [read_signals(path) for path in settings.signal_files]
    signals = ReplayedSignals(settings.signals, tuple(batch for one in files for batch in one.batches))
    schedule = replace(settings.schedule, pages=window.pages)
    shared = _SharedInputs(window, schedule, deciles, signals, settings.calibration, settings.workers)
    runs = [_Run(policy, seed, policies.get(policy)) for policy in settings.policies for seed in settings.seeds]
    traces = _trace_all(shared, runs, progress or _ignore, keep)
    counted = np.logical_and.reduce([trace.counted for trace in traces])
    measured = MeasuredCycles(counted, cut_batches(counted.size, window.cycle_s))
    each = len(settings.seeds)
    by_policy = {policy: traces[at * each : (at + 1) * each] for at, policy in enumerate(settings.policies)}
    formulas = {policy: None if policy in policies else formula_of(policy) for policy in settings.policies}
    results = summarise(by_policy, formulas, settings.compared_with, measured)
    rejected = log.rejected + sum(one.rejected for one in files)
    rejections = (*log.rejections, *(rejection for one in files for rejection in one.rejections))
    return ReplayResult(settings, window, changes, deciles, measured, results, rejected, rejections, log.note)


def _trace_all(shared: _SharedInputs, runs: Sequence[_Run], progress: Progress, keep: KeepPolicy | None) -> list[Trace]:
    """Return the traces of `runs` in their order."""
    total = shared.window.cycles * len(runs)
    # This process also runs the first of the others: the kernels that it compiles are on disk when other processes
    # need them.
    order = sorted(range(len(runs)), key=lambda index: not runs[index].stays)
    staying = sum(run.stays for run in runs)
    worth = shared.workers > 1 and _expected_s(shared.window) * (len(runs) - staying - 1) > WORTH_WORKERS_S
    here = staying + 1 if worth else len(runs)
    traces: dict[int, Trace] = {}
    for index in order[:here]:
        run = runs[index]
        counter = _ProgressCounter(progress, len(traces) * shared.window.cycles, total, run.policy)
        traces[index] = _trace(shared, run, counter, keep)
    others = [runs[index] for index in order[here:]]
    for index, trace in zip(order[here:], _trace_apart(shared, others), strict=True):
        traces[index] = trace
        progress(len(traces) * shared.window.cycles, total, runs[index].policy)
    return [traces[index] for index in range(len(runs))]


def _trace_apart(shared: _SharedInputs, runs: Sequence[_Run]) -> Iterator[Trace]:
    """Return the traces of `runs` in their order, each from a separate process."""
    if not runs:
        return
    # Spawned, not forked: a fork of a process that runs threads (the ranking's, a progress bar's) may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(shared.workers, len(runs)), context, _share, (shared,)) as pool:
        yield from pool.map(_trace_shared, runs)


def _trace(
    shared: _SharedInputs, run: _Run, tick: _ProgressCounter | None = None, keep: KeepPolicy | None = None
) -> Trace:
    if run.make is None:
        policy = make_policy(run.policy, shared.window.cycle_s, run.seed, shared.schedule, shared.workers)
    else:
        made = run.make(Setup(shared.window.cycle_s, run.seed, shared.schedule, shared.workers))
        policy = CheckedPolicy(run.policy, made)
    if isinstance(policy, SupportsEvolution) and tick is not None:
        policy.announce = tick.announce
    predict = None
    if shared.calibration and isinstance(policy, ScheduledPolicy) and predicts_changes(run.policy):
        predict = policy.predict
    listening, stream = deliver_signals(run.policy, policy, shared.window, shared.signals, run.seed)
    trace = simulate(shared.window, listening, shared.schedule, shared.deciles, tick, predict)
    if shared.calibration and stream is not None and isinstance(policy, ScheduledPolicy):
        trace = replace(trace, sources=compare_sources(stream, policy.scheduler.sources()))
    if not isinstance(policy, SupportsEvolution):
        return trace
    if keep is not None:
        keep(run.policy, run.seed, policy)
    return replace(trace, evolutions=tuple(policy.evolutions))


def _expected_s(window: Window) -> float:
    """Return the expected duration of a run in seconds."""
    return window.cycles * (_CYCLE_S + window.pages * _PAGE_S)


class _ProgressCounter:
    """Reports progress: counts cycles over all runs."""

    def __init__(self, progress: Progress, done: int, total: int, policy: str) -> None:
        self._progress, self._done, self._total, self._policy = progress, done, total, policy

    def __call__(self) -> None:
        self._done += 1
        self._progress(self._done, self._total, self._policy)

    def announce(self, action: str) -> None:
        """Report a slow step within a cycle."""
        self._progress(self._done, self._total, f"{self._policy}, {action}")


def _ignore(done: int, total: int, policy: str) -> None:
    pass


_shared: list[_SharedInputs] = []  # in a worker process: the inputs from its parent


def _share(shared: _SharedInputs) -> None:
    _shared[:] = [shared]


def _trace_shared(run: _Run) -> Trace:
    return _trace(_shared[0], run)


def prepare_state(settings: ReplaySettings, policy: str) -> ScheduledPolicy:
    """Return `policy` after the replay of `settings` with their first seed.

    O(cycles · pages). Raises the errors of `run_replay`, and ReplayError for a policy without a scheduler.
    """
    window = choose_window(read_truth(settings.log), settings)
    replayed = make_policy(policy, settings.cycle_s, settings.seeds[0], settings.schedule, settings.workers)
    if not isinstance(replayed, ScheduledPolicy):
        raise ReplayError(f"policy {policy!r} keeps no state: expected one that ranks by a formula")
    recorded = [batch for path in settings.signal_files for batch in read_signals(path).batches]
    signals = ReplayedSignals(settings.signals, tuple(recorded))
    listening, _ = deliver_signals(policy, replayed, window, signals, settings.seeds[0])
    simulate(window, listening, settings.schedule, np.zeros(window.pages, np.int64))
    return replayed
