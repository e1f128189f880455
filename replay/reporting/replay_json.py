"""Results of a replay as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streamsched.numerics.argument_checks import check_type
from streamsched.replay.confidence_intervals import BATCH_DAYS
from streamsched.replay.findings import findings_to_json
from streamsched.replay.replay_results import Comparison, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.replay_findings import find_best, find_identical, find_promotions
from streamsched.scheduler.monitoring.reliability import BIN_EDGES

if TYPE_CHECKING:
    from streamsched.replay.confidence_intervals import Estimate
    from streamsched.replay.simulation.calibration import Calibration
    from streamsched.replay.simulation.promotions import Evolution
    from streamsched.replay.simulation.signals.learned_sources import LearnedSource
    from streamsched.scheduler.monitoring.reliability import Reliability

__all__ = ["to_json"]


def to_json(result: ReplayResult) -> str:
    """Return the figures as JSON; the same replay gives the same bytes. O(policies · seeds).

    ``policies`` maps each name to ``change_rate``, ``ndcg``, ``freshness``, ``delay_mean``, ``delay_p95`` (days) and
    ``stale``, null if there was nothing to measure, ``visits`` and more; ``ci95`` to [low, high] over time and
    ``ci95_seeds`` over seeds, null if there is no interval; ``against`` to each figure's difference from that of the
    top-level policy ``against``, absolute and relative, with intervals of the paired differences; ``calibration`` to
    forecasts against what came, null if there are none; ``sources`` to what the policy learned of each source of
    signals beside what is true of it, both at the end; ``promotions`` to the formulas that evolution promoted, each
    used from its ``cycle`` on, with their ``gain`` and its ``noise`` as shares of the predecessor's fitness, null
    without a contest. ``findings`` are codes with their values.
    """
    check_type("result", result, ReplayResult, "a ReplayResult")
    settings, window = result.settings, result.window
    report = {
        "log": settings.log,
        "pages": window.pages,
        "cycles": result.cycles,
        "measured_cycles": int(result.measured.counted.size),
        "ndcg_cycles": int(result.measured.counted.sum()),
        "batches": int(result.measured.edges.size - 1),
        "least_batch_days": BATCH_DAYS,
        "budget": settings.budget,
        "cycle": settings.cycle_s,
        "warmup": settings.warmup,
        "changed": settings.changed,
        "from": format_time(result.start_s),
        "to": format_time(window.edge(window.cycles)),
        "learn_from": None if settings.learn_from_s is None else format_time(window.start_s),
        "seeds": list(settings.seeds),
        "against": settings.compared_with,
        "signals": [source.to_json() for source in settings.signals],
        "signal_files": list(settings.signal_files),
        "later_pages": settings.later_pages,
        "changes": int(result.changes.sum()),
        "rejected": result.rejected,
        "note": result.note,
        "delay_unit": "days",
        "findings": findings_to_json([*find_best(result), *find_identical(result), *find_promotions(result)]),
        "policies": {policy.name: _policy_to_json(policy, settings.seeds) for policy in result.policies},
    }
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _policy_to_json(policy: PolicyResult, seeds: Sequence[int]) -> dict[str, Any]:
    return {
        **{metric: figure.value for metric, figure in policy.figures.items()},
        "visits": policy.visits,
        "detections": policy.detections,
        "undetected": policy.undetected,
        "stale_pages": policy.stale_pages,
        "promotions": [
            _promotion_to_json(evolution, seed)
            for seed, trace in zip(seeds, policy.traces, strict=True)
            for evolution in trace.evolutions
            if evolution.promoted
        ],
        "formula": policy.formula,
        "ci95": _intervals_to_json(policy.figures),
        "ci95_seeds": _intervals_to_json(policy.seeds),
        "against": None
        if policy.against is None
        else {metric: _comparison_to_json(comparison) for metric, comparison in policy.against.items()},
        "calibration": None if policy.calibration is None else _calibration_to_json(policy.calibration),
        "sources": [_source_to_json(source) for source in policy.sources],
    }


def _intervals_to_json(figures: Mapping[str, Estimate]) -> dict[str, list[float] | None]:
    return {metric: _interval_to_json(figure) for metric, figure in figures.items()}


def _interval_to_json(figure: Estimate) -> list[float] | None:
    return None if figure.low is None or figure.high is None else [figure.low, figure.high]


def _comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "difference": comparison.difference.value,
        "ci95": _interval_to_json(comparison.difference),
        "relative": comparison.relative.value,
        "relative_ci95": _interval_to_json(comparison.relative),
        "relative_ci95_seeds": _interval_to_json(comparison.seeds),
    }


def _calibration_to_json(calibration: Calibration) -> dict[str, Any]:
    return {
        **_reliability_to_json(calibration.all_visits),
        "without_surge": _reliability_to_json(calibration.without_surge),
        "with_surge": _reliability_to_json(calibration.with_surge),
    }


def _source_to_json(source: LearnedSource) -> dict[str, Any]:
    true = None if source.true is None else source.true._asdict()
    return {"kind": source.kind, "signals": source.signals, "true": true, "learned": source.learned._asdict()}


def _reliability_to_json(part: Reliability) -> dict[str, Any]:
    """Return the figures and the bins that have visits."""
    bins = zip(BIN_EDGES[:-1], BIN_EDGES[1:], part.visits, part.foretold, part.came, strict=True)
    return {
        "visits": part.total,
        "foretold": part.mean_foretold,
        "came": part.share_came,
        "error": part.error,
        "bins": [
            {
                "low": float(low),
                "high": float(high),
                "visits": int(visits),
                "foretold": float(foretold / visits),
                "came": float(came / visits),
            }
            for low, high, visits, foretold, came in bins
            if visits
        ],
    }


def _promotion_to_json(evolution: Evolution, seed: int) -> dict[str, Any]:
    return {
        "seed": seed,
        "cycle": evolution.cycle,
        "date": format_time(evolution.start_s),
        "formula": evolution.challenger,
        "gain": evolution.gain,
        "noise": evolution.noise,
    }
