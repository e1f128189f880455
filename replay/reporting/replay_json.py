"""Results of a replay as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from streamsched.numerics.argument_checks import check_type
from streamsched.replay.findings import findings_to_json
from streamsched.replay.replay_results import METRICS, PolicyResult, ReplayResult
from streamsched.replay.replay_settings import format_time
from streamsched.replay.reporting.replay_findings import find_best, find_identical, find_promotions

if TYPE_CHECKING:
    from streamsched.replay.simulation.promotions import Evolution

__all__ = ["to_json"]


def to_json(result: ReplayResult) -> str:
    """Return the figures as JSON; the same replay gives the same bytes. O(policies · seeds).

    ``policies`` maps each name to ``change_rate``, ``ndcg``, ``freshness``, ``delay_mean`` and ``delay_p95`` (days),
    null if there was nothing to measure, ``visits`` and more; ``ci95`` to [low, high], null if there is no interval;
    ``promotions`` to the formulas that evolution promoted, each used from its ``cycle`` on, with their ``gain`` and its
    ``noise`` as shares of the predecessor's fitness, null without a contest. ``findings`` are codes with their values.
    """
    check_type("result", result, ReplayResult, "a ReplayResult")
    settings, window = result.settings, result.window
    report = {
        "log": settings.log,
        "pages": window.pages,
        "cycles": window.cycles,
        "budget": settings.budget,
        "cycle": settings.cycle_s,
        "warmup": settings.warmup,
        "changed": settings.changed,
        "from": format_time(window.start_s),
        "to": format_time(window.edge(window.cycles)),
        "seeds": list(settings.seeds),
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
    intervals = {
        metric: None if figure.low is None else [figure.low, figure.high] for metric, figure in policy.figures.items()
    }
    return {
        **{metric: policy.figures[metric].value for metric in METRICS},
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
        "ci95": intervals,
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
