"""Results of the experiment as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from streamsched.replay.findings import findings_to_json
from streamsched.replay.gp4c.comparison import Contest, estimate_cycles, estimate_folds
from streamsched.replay.gp4c.protocol_findings import find_all
from streamsched.replay.gp4c.protocol_results import SELECTIONS, Evolved, ProtocolResult
from streamsched.replay.gp4c.protocol_settings import FOLDS, METRICS, ProtocolSettings
from streamsched.replay.replay_settings import format_time

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats
    from streamsched.replay.confidence_intervals import Estimate

__all__ = ["to_json"]

_VARYING_SETTINGS: Final = ("metric", "terminals", "selection", "workers")  # the last has no effect on results


def to_json(result: ProtocolResult) -> str:
    """Return all figures as JSON; the same run gives the same bytes, however many threads worked on it. O(figures).

    ``methods`` maps each to its metrics, null if there was nothing to measure; ``ci95`` is [low, high]. ``contests``
    is Table 3, ``evolved`` has formulas, selections, learning curves and the sweep of Figure 5; ``findings`` are
    codes with their values.
    """
    settings, window = result.settings, result.window
    content = {
        "protocol": "paper",
        "log": settings.log,
        "pages": window.pages,
        "changes": int(window.changes().sum()),
        "changed_cycles": result.changed_cycles,
        "from": format_time(window.start_s),
        "to": format_time(window.edge(window.cycles)),
        "cycle": window.cycle_s,
        "cycles": window.cycles,
        "folds": FOLDS,
        "span_cycles": result.span_cycles,
        "warmup": settings.warmup,
        "budget": settings.budget,
        "visits": result.visits,
        "changed": settings.evolution.reading,
        "seed": settings.seed,
        "evolution": {
            name: value for name, value in settings.evolution.to_json().items() if name not in _VARYING_SETTINGS
        },
        "priors": [{"shape": shape, "mean": mean} for shape, mean in result.priors],
        "rejected": result.rejected,
        "note": result.note,
        "findings": findings_to_json(find_all(result)),
        "methods": {name: _method_to_json(result, name) for name in result.methods()},
        "contests": [_contest_to_json(*contest) for contest in result.contests()],
        "evolved": [_evolved_to_json(one, settings) for one in result.evolved],
    }
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _method_to_json(result: ProtocolResult, name: str) -> dict[str, Any]:
    columns = {metric: result.series(name, metric) for metric in METRICS}
    return {metric: _series_to_json(series) for metric, series in columns.items() if series is not None}


def _series_to_json(series: Floats) -> dict[str, Any]:
    cycles = [_estimate_to_json(estimate) for estimate in estimate_cycles(series)]
    return {**_estimate_to_json(estimate_folds(series)), "by_cycle": cycles, "series": series.tolist()}


def _estimate_to_json(estimate: Estimate) -> dict[str, Any]:
    return {"value": estimate.value, "ci95": None if estimate.low is None else [estimate.low, estimate.high]}


def _contest_to_json(one: Evolved, baseline: str, contest: Contest, overall: Estimate) -> dict[str, Any]:
    pair = {"method": one.name, "metric": one.fitness, "baseline": baseline}
    return {**pair, **asdict(contest), "difference": _estimate_to_json(overall)}


def _evolved_to_json(one: Evolved, settings: ProtocolSettings) -> dict[str, Any]:
    selections = {
        selection: {
            "formulas": [asdict(choice) for choice in one.choices[selection]],
            **_series_to_json(one.outcomes[selection].of(one.fitness)),
            "new_share": one.outcomes[selection].new_share.tolist(),
        }
        for selection in SELECTIONS
    }
    sweep = {metric: folds.tolist() for metric, folds in one.sweep.items()}
    return {
        "method": one.name,
        "terminals": one.terminals,
        "fitness": one.fitness,
        "programs": one.programs,
        "selections": selections,
        "sweep": {"cuts": list(settings.cuts), **sweep},
        "curves": one.curves.tolist(),
    }


def _finite(content: Any) -> Any:
    """Return `content` with None for numbers that are not finite, which JSON cannot represent."""
    if isinstance(content, dict):
        return {name: _finite(one) for name, one in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(one) for one in content]
    return None if isinstance(content, float) and not np.isfinite(content) else content
