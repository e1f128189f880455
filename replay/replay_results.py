"""Results of a replay: each policy's figures with their intervals, and the runs behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.replay.confidence_intervals import Estimate, over_cycles, over_detections, over_seeds

if TYPE_CHECKING:
    from streamsched.connectors.source import Rejection
    from streamsched.numerics.arrays import Floats, Ints
    from streamsched.replay.replay_settings import ReplaySettings
    from streamsched.replay.simulation.simulator import Trace
    from streamsched.replay.truth.ground_truth import Window

__all__ = ["METRICS", "PolicyResult", "ReplayResult", "summarise"]

METRICS: Final = ("change_rate", "ndcg", "freshness", "delay_mean", "delay_p95")


@dataclass(frozen=True, slots=True, eq=False)
class PolicyResult:
    """One policy's figures, by name in METRICS, and its runs, one per seed.

    ``formula``: the ranking formula; None for `rand`, `oracle` and policies that evolve formulas. ChangeRate and NDCG
    are means over the ranked cycles in which some page had changed, freshness over all ranked cycles. Delays, in days,
    cover the changes that were found.
    """

    name: str
    formula: str | None
    figures: dict[str, Estimate]
    traces: tuple[Trace, ...]

    def total(self, count: Callable[[Trace], float]) -> float:
        """Return the mean of a count over the seeds, as int if whole. O(seeds)."""
        mean = sum(count(trace) for trace in self.traces) / len(self.traces)
        return int(mean) if mean == int(mean) else mean

    @property
    def visits(self) -> float:
        """Visits after the warm-up, mean over seeds."""
        return self.total(lambda trace: int(trace.visits.sum()))

    @property
    def detections(self) -> float:
        """Visits after the warm-up that found a page changed since its last visit, mean over seeds."""
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

    ``changes``: int64[pages], changes of each page after the window's start; ``deciles``: int64[pages], the page's
    decile by changes. ``rejected``, ``rejections`` and ``note`` are those of the `ChangeLog`.
    """

    settings: ReplaySettings
    window: Window
    changes: Ints
    deciles: Ints
    policies: tuple[PolicyResult, ...]
    rejected: int
    rejections: tuple[Rejection, ...]
    note: str


def summarise(name: str, formula: str | None, traces: Sequence[Trace]) -> PolicyResult:
    """Return the figures of a policy from its runs, one per seed. O(seeds · (cycles + detections))."""
    return PolicyResult(name, formula, {metric: _FIGURES[metric](traces) for metric in METRICS}, tuple(traces))


def _mean(delays: Floats) -> float:
    return float(delays.mean())


def _p95(delays: Floats) -> float:
    return float(np.percentile(delays, 95))


def _by_cycle(series: Callable[[Trace], Floats], *, all_cycles: bool = False) -> Callable[[Sequence[Trace]], Estimate]:
    """Return an estimator of the mean of a per-cycle series, over counted cycles or `all_cycles`."""

    def estimate(traces: Sequence[Trace]) -> Estimate:
        counted = [np.ones_like(trace.counted) if all_cycles else trace.counted for trace in traces]
        singles = [over_cycles(series(trace), where) for trace, where in zip(traces, counted, strict=True)]
        return singles[0] if len(singles) == 1 else over_seeds([single.value for single in singles])

    return estimate


def _by_detection(figure: Callable[[Floats], float]) -> Callable[[Sequence[Trace]], Estimate]:
    """Return an estimator of a figure of the detection delays."""

    def estimate(traces: Sequence[Trace]) -> Estimate:
        singles = [
            over_detections(trace.delays_days, trace.delay_cycles, trace.counted.size, figure) for trace in traces
        ]
        return singles[0] if len(singles) == 1 else over_seeds([single.value for single in singles])

    return estimate


_FIGURES: Final[dict[str, Callable[[Sequence[Trace]], Estimate]]] = {
    "change_rate": _by_cycle(lambda trace: trace.change_rate),
    "ndcg": _by_cycle(lambda trace: trace.ndcg),
    "freshness": _by_cycle(lambda trace: trace.freshness, all_cycles=True),
    "delay_mean": _by_detection(_mean),
    "delay_p95": _by_detection(_p95),
}
