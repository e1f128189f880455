"""Results of a replay: each policy's figures with their intervals, and the runs behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final, NamedTuple

import numpy as np

from streamsched.connectors.source import Rejection
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.replay.confidence_intervals import Estimate, jackknife, over_seeds, replicate_figure, replicate_mean
from streamsched.replay.ground_truth import Window
from streamsched.replay.replay_settings import ReplaySettings
from streamsched.replay.simulation.metrics import Calibration
from streamsched.replay.simulation.signal_stream import LearnedSource, average_sources
from streamsched.replay.simulation.simulator import Trace

METRICS: Final = ("change_rate", "ndcg", "freshness", "delay_mean", "delay_p95")
COMPARED: Final = ("change_rate", "ndcg", "stale", "delay_mean", "delay_p95")
"""Figures that policies are compared in; ``stale`` is 1 - freshness, whose relative differences say more."""


class MeasuredCycles(NamedTuple):
    """What figures are taken over: ``counted``: bool[c], the cycles in which some page had changed in every run, over
    which NDCG is averaged; ``edges``: int64[batches + 1], the batches of the jackknife.
    """

    counted: Bools
    edges: Ints


@dataclass(frozen=True, slots=True)
class Comparison:
    """A policy's figure minus that of the policy it is compared with, over the same cycles.

    ``relative``: the difference as a share of the other's figure; both intervals are over time, of paired differences.
    ``seeds``: the relative difference with its interval over seeds.
    """

    difference: Estimate
    relative: Estimate
    seeds: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class PolicyResult:
    """One policy's figures and its runs, one per seed.

    ``formula``: the ranking formula; None for `rand`, `oracle` and policies that evolve formulas. ``figures``: by name
    in METRICS, and ``stale``, with intervals over time; ``seeds``: the same with intervals over seeds; ``against``: the
    comparisons, by name in COMPARED, None for the policy that the others are compared with. ChangeRate is visits that
    found a change over visits, freshness a mean over all measured cycles, NDCG over those of `ReplayResult.measured`.
    Delays, in days, cover the changes that were found. ``calibration``: over all seeds, None if there is none.
    """

    name: str
    formula: str | None
    figures: Mapping[str, Estimate]
    seeds: Mapping[str, Estimate]
    against: Mapping[str, Comparison] | None
    traces: tuple[Trace, ...]

    @property
    def calibration(self) -> Calibration | None:
        """Predicted against observed changes, summed over the seeds; None if the policy made none."""
        parts = [trace.calibration for trace in self.traces if trace.calibration is not None]
        return reduce(add, parts) if parts else None

    @property
    def sources(self) -> list[LearnedSource]:
        """What the policy learned of the sources of its signals, means over the seeds; empty if it was not asked."""
        return average_sources([trace.sources for trace in self.traces])

    def total(self, count: Callable[[Trace], float]) -> float:
        """Return the mean of a count over the seeds, as int if whole. O(seeds)."""
        mean = sum(count(trace) for trace in self.traces) / len(self.traces)
        return int(mean) if mean == int(mean) else mean

    @property
    def visits(self) -> float:
        """Visits in the measured cycles, mean over seeds."""
        return self.total(lambda trace: int(trace.visits.sum()))

    @property
    def detections(self) -> float:
        """Visits in the measured cycles that found a page changed since its last visit, mean over seeds."""
        return self.total(lambda trace: trace.delays_days.size)

    @property
    def undetected(self) -> float:
        """Changes not seen by any visit before the end of the window, mean over seeds."""
        return self.total(lambda trace: trace.undetected)

    @property
    def stale_pages(self) -> float:
        """Pages with an unseen change at the end of the window, mean over seeds."""
        return self.total(lambda trace: trace.stale_pages)


@dataclass(frozen=True, slots=True, eq=False)
class ReplayResult:
    """Results of a replay: its settings, the window, and each policy's result in the order asked.

    ``changes``: int64[pages], changes of each page after the measured period's start; ``deciles``: int64[pages], the
    page's decile by changes. ``rejected``, ``rejections`` and ``note`` are those of the `ChangeLog`.
    """

    settings: ReplaySettings
    window: Window
    changes: Ints
    deciles: Ints
    measured: MeasuredCycles
    policies: tuple[PolicyResult, ...]
    rejected: int
    rejections: tuple[Rejection, ...]
    note: str

    @property
    def start_s(self) -> float:
        """Start of the measured period, its warm-up included, in epoch seconds."""
        return self.window.edge(self.settings.learned_cycles)

    @property
    def cycles(self) -> int:
        """Cycles of the measured period, its warm-up included."""
        return self.window.cycles - self.settings.learned_cycles


def summarise(
    runs: Mapping[str, Sequence[Trace]], formulas: Mapping[str, str | None], base: str | None, measured: MeasuredCycles
) -> tuple[PolicyResult, ...]:
    """Return the results of the policies of `runs`, each with its traces, one per seed, compared with policy `base`.

    O(policies · seeds · (cycles + detections · batches)).
    """
    replicates = {name: _replicate(traces, measured) for name, traces in runs.items()}
    return tuple(
        PolicyResult(
            name,
            formulas[name],
            {metric: jackknife(_average(parts)) for metric, parts in replicates[name].items()},
            {metric: _over_seeds(parts) for metric, parts in replicates[name].items()},
            None if base is None or base == name else _compare(replicates[name], replicates[base]),
            tuple(traces),
        )
        for name, traces in runs.items()
    )


def _replicate(traces: Sequence[Trace], measured: MeasuredCycles) -> dict[str, Floats]:
    """Return each figure of each run, and those without each batch: float64[seeds, 1 + batches]."""
    counted, edges = measured
    every = np.ones(counted.size)
    fresh = np.array([replicate_mean(trace.freshness, every, edges) for trace in traces])
    delays = {
        name: np.array([replicate_figure(trace.delays_days, trace.delay_cycles, edges, figure) for trace in traces])
        for name, figure in (("delay_mean", _mean), ("delay_p95", _p95))
    }
    return {
        "change_rate": np.array([replicate_mean(trace.change_rate, trace.visits, edges) for trace in traces]),
        "ndcg": np.array([replicate_mean(trace.ndcg, counted, edges) for trace in traces]),
        "freshness": fresh,
        **delays,
        "stale": 1.0 - fresh,
    }


def _compare(ours: Mapping[str, Floats], theirs: Mapping[str, Floats]) -> dict[str, Comparison]:
    """Return the comparisons of two policies' figures, each float64[seeds, 1 + batches]."""
    comparisons = {}
    for metric in COMPARED:
        left, right = _average(ours[metric]), _average(theirs[metric])
        comparisons[metric] = Comparison(
            jackknife(left - right), jackknife(_relate(left, right)), _over_seeds(_relate(ours[metric], theirs[metric]))
        )
    return comparisons


def _relate(ours: Floats, theirs: Floats) -> Floats:
    """Return `ours` relative to `theirs`, of equal shapes, minus 1; NaN where that is undefined."""
    ratios: Floats = np.divide(ours, theirs, out=np.full(ours.shape, np.nan), where=theirs != 0)
    return ratios - 1.0


def _average(replicates: Floats) -> Floats:
    """Return the mean over the seeds that have the figure: float64[1 + batches] of float64[seeds, 1 + batches]."""
    known = replicates[~np.isnan(replicates[:, 0])]
    return np.asarray(known.mean(0)) if known.size else np.full(replicates.shape[1], np.nan)


def _over_seeds(replicates: Floats) -> Estimate:
    """Return the figure with its interval over seeds, ``replicates``: float64[seeds, 1 + batches]."""
    return over_seeds([None if np.isnan(figure) else float(figure) for figure in replicates[:, 0]])


def _mean(delays: Floats) -> float:
    return float(delays.mean())


def _p95(delays: Floats) -> float:
    return float(np.percentile(delays, 95))
