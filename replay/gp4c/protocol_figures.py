"""The paper's figures 3 to 6 and the learning curves. Lines of method number i have the class ``p{i}``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from streamsched.evolution.evolution_settings import Metric, Selection
from streamsched.numerics.arrays import Floats
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.gp4c.protocol_results import NAMES, ProtocolResult, estimate, estimate_cycles
from streamsched.replay.gp4c.protocol_settings import METRICS
from streamsched.replay.gp4c.protocol_tables import EVOLVED_STYLES, OMITTED, choose_method_styles
from streamsched.replay.palette import LineStyle
from streamsched.replay.reporting.curves import Axis, Curve, draw_curves
from streamsched.replay.reporting.sentences import METRIC_TITLES

_SELECTIONS: Final[dict[Selection, tuple[str, LineStyle]]] = {
    "best": ("Best", LineStyle("vermilion", width=1.4)),
    "avg": ("Avg_σ", LineStyle("blue", (4.0, 2.0), 1.4)),
    "sum": ("Sum_σ", LineStyle("green", (1.0, 1.6), 1.4)),
}
_FITNESS_STYLES: Final[dict[Metric, LineStyle]] = {
    "change_rate": LineStyle("blue", (4.0, 2.0), 1.6),
    "ndcg": LineStyle("vermilion", width=1.6),
}
_BY_CYCLE: Final = Axis("ranked cycle")


def _draw_selections(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 3: the three selections, cycle by cycle, with 95 % intervals across the folds."""
    one = result.shown(metric)
    curves = []
    for index, (selection, (title, style)) in enumerate(_SELECTIONS.items() if one else ()):
        points = estimate_cycles(one.outcomes[selection].of(metric)) if one else []
        curves.append(_make_curve(title, style, _cycles(result) + (index - 1) * 0.15, points))
    return draw_curves(f"selections-{metric}", METRIC_TITLES[metric], _BY_CYCLE, curves, shares=True)


def _draw_methods(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 4: each method's mean over the test folds, cycle by cycle."""
    curves = []
    for index, (name, style) in enumerate(zip(result.methods(), choose_method_styles(result), strict=True)):
        series = result.series(name, metric)
        if name not in OMITTED and series is not None:
            curve = _make_curve("", style, _cycles(result), estimate_cycles(series))
            curves.append(curve._replace(half_width=None, gid=f"policy-{index}"))
    return draw_curves(f"methods-{metric}", METRIC_TITLES[metric], _BY_CYCLE, curves)


def _draw_sweep(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 5: the metric over the top of each list, by fitness."""
    cuts = 100 * np.array(result.settings.cuts)
    shift = 0.012 * (cuts[-1] - cuts[0])
    curves = []
    for index, (fitness, style) in enumerate(_FITNESS_STYLES.items()):
        one = result.shown(fitness)
        if one is not None:
            points = [estimate(one.sweep[metric][:, cut]) for cut in range(cuts.size)]
            curves.append(_make_curve(_evolved_for(fitness), style, cuts + (index - 0.5) * shift, points))
    axis = Axis("% of the pages, from the top of each list")
    return draw_curves(f"sweep-{metric}", METRIC_TITLES[metric], axis, curves, shares=True)


def _draw_new_pages(result: ProtocolResult) -> str:
    """Return Figure 6: the share of each cycle's visits to pages not visited since the warm-up."""
    curves = []
    for fitness, style in _FITNESS_STYLES.items():
        one = result.shown(fitness)
        if one is not None:
            points = estimate_cycles(one.outcomes["best"].new_share)
            curves.append(_make_curve(_evolved_for(fitness), style, _cycles(result), points))
    title = "Share of newly visited pages"
    return draw_curves("new-pages", title, _BY_CYCLE, curves, shares=True, finish=lambda axes: axes.set_ylim(0, 1.04))


def _draw_learning(result: ProtocolResult, fitness: Metric) -> str:
    """Return a panel with the best fitness by generation: each fold's best seed (thin) and their mean (thick)."""
    curves = []
    for one in (one for one in result.evolved if one.fitness == fitness):
        style = EVOLVED_STYLES[NAMES[one.terminals]]
        best = np.fmax.reduce(one.curves, axis=1)
        generations = np.arange(float(best.shape[1]))
        curves += [Curve("", replace(style, width=0.5), generations, fold) for fold in best]
        curves.append(Curve(one.name, style, generations, best.mean(0)))
    return draw_curves(f"curves-{fitness}", f"{METRIC_TITLES[fitness]} in training", Axis("generation"), curves)


def _evolved_for(fitness: Metric) -> str:
    return f"evolved for {METRIC_TITLES[fitness]}"


def _make_curve(label: str, style: LineStyle, x: Floats, points: Sequence[Estimate]) -> Curve:
    values, widths = ([getattr(point, name) for point in points] for name in ("value", "half_width"))
    return Curve(label, style, x, np.array(values, np.float64), np.array(widths, np.float64))  # None becomes NaN


def _cycles(result: ProtocolResult) -> Floats:
    return np.arange(1, result.ranked + 1, dtype=np.float64)


def _draw_shown(draw: Callable[[ProtocolResult, Metric], str], result: ProtocolResult) -> list[str]:
    return [draw(result, metric) for metric in METRICS if result.shown(metric)]


DRAWINGS: Final[dict[str, Callable[[ProtocolResult], list[str]]]] = {
    "selections": partial(_draw_shown, _draw_selections),
    "methods": lambda result: [_draw_methods(result, metric) for metric in METRICS],
    "sweep": lambda result: [_draw_sweep(result, metric) for metric in METRICS],
    "new_pages": lambda result: [_draw_new_pages(result)],
    "curves": partial(_draw_shown, _draw_learning),
}
"""The figures of each part of the report."""
