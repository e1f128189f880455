"""The paper's figures 3 to 6 and the learning curves. Lines of method number i have the class ``p{i}``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from streamsched.evolution.evolution_settings import Metric, Selection
from streamsched.numerics.arrays import Floats
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.gp4c.protocol_results import NAMES, SELECTIONS, ProtocolResult, estimate, estimate_cycles
from streamsched.replay.gp4c.protocol_settings import METRICS
from streamsched.replay.gp4c.protocol_tables import EVOLVED_STYLES, OMITTED, choose_method_styles
from streamsched.replay.palette import LineStyle
from streamsched.replay.reporting.sentences import METRIC_TITLES
from streamsched.replay.reporting.svg import INK, RC_PARAMS, line_properties, style_axes, to_svg

_SELECTION_TITLES: Final[dict[Selection, str]] = {"best": "Best", "avg": "Avg_σ", "sum": "Sum_σ"}
_SELECTION_STYLES: Final = (
    LineStyle("vermilion", width=1.4),
    LineStyle("blue", (4.0, 2.0), 1.4),
    LineStyle("green", (1.0, 1.6), 1.4),
)
_FITNESS_STYLES: Final[dict[Metric, LineStyle]] = {
    "change_rate": LineStyle("blue", (4.0, 2.0), 1.6),
    "ndcg": LineStyle("vermilion", width=1.6),
}


class _Line(NamedTuple):
    """A line of a figure: label, style, points, and half the widths of their intervals."""

    label: str
    style: LineStyle
    x: Floats
    y: Floats
    half_width: Floats


def _draw_selections(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 3: the three selections, cycle by cycle, with 95 % intervals across the folds."""
    one = result.shown(metric)
    lines = []
    for index, selection in enumerate(SELECTIONS if one else ()):
        points = estimate_cycles(one.outcomes[selection].of(metric)) if one else []
        lines.append(
            _make_line(
                _SELECTION_TITLES[selection], _SELECTION_STYLES[index], _cycles(result) + (index - 1) * 0.15, points
            )
        )
    return _draw_lines(METRIC_TITLES[metric], "ranked cycle", lines, f"selections-{metric}")


def _draw_methods(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 4: each method's mean over the test folds, cycle by cycle."""
    with mpl.rc_context(RC_PARAMS):
        figure, axes = _begin_figure(METRIC_TITLES[metric], "ranked cycle")
        for index, (name, style) in enumerate(zip(result.methods(), choose_method_styles(result), strict=True)):
            series = result.series(name, metric)
            if name not in OMITTED and series is not None:
                points = _values(estimate_cycles(series))
                axes.plot(_cycles(result), points, **line_properties(style), gid=f"policy-{index}")
        return to_svg(figure, f"methods-{metric}")


def _draw_sweep(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 5: the metric over the top of each list, by fitness."""
    cuts = 100 * np.array(result.settings.cuts)
    shift = 0.012 * (cuts[-1] - cuts[0])
    lines = []
    for index, (fitness, style) in enumerate(_FITNESS_STYLES.items()):
        one = result.shown(fitness)
        if one is not None:
            points = [estimate(one.sweep[metric][:, cut]) for cut in range(cuts.size)]
            label = f"evolved for {METRIC_TITLES[fitness]}"
            lines.append(_make_line(label, style, cuts + (index - 0.5) * shift, points))
    return _draw_lines(METRIC_TITLES[metric], "% of the pages, from the top of each list", lines, f"sweep-{metric}")


def _draw_new_pages(result: ProtocolResult) -> str:
    """Return Figure 6: the share of each cycle's visits to pages not visited since the warm-up."""
    lines = []
    for fitness, style in _FITNESS_STYLES.items():
        one = result.shown(fitness)
        if one is not None:
            share = one.outcomes["best"].new_share
            label = f"evolved for {METRIC_TITLES[fitness]}"
            lines.append(_make_line(label, style, _cycles(result), estimate_cycles(share)))
    return _draw_lines(
        "Share of newly visited pages", "ranked cycle", lines, "new-pages", lambda axes: axes.set_ylim(0, 1.04)
    )


def _draw_curves(result: ProtocolResult, fitness: Metric) -> str:
    """Return a panel with the best fitness by generation: each fold's best seed (thin) and their mean (thick)."""
    with mpl.rc_context(RC_PARAMS):
        figure, axes = _begin_figure(f"{METRIC_TITLES[fitness]} in training", "generation")
        for one in (one for one in result.evolved if one.fitness == fitness):
            style = EVOLVED_STYLES[NAMES[one.terminals]]
            best = np.fmax.reduce(one.curves, axis=1)
            generations = np.arange(best.shape[1])
            for fold in best:
                axes.plot(generations, fold, **line_properties(replace(style, width=0.5)))
            axes.plot(generations, best.mean(0), **line_properties(style), label=one.name)
        _add_legend(figure, axes)
        return to_svg(figure, f"curves-{fitness}")


def _make_line(label: str, style: LineStyle, x: Floats, points: Sequence[Estimate]) -> _Line:
    widths = [np.nan if point.half_width is None else point.half_width for point in points]
    return _Line(label, style, x, _values(points), np.array(widths))


def _values(points: Sequence[Estimate]) -> Floats:
    return np.array([np.nan if point.value is None else point.value for point in points])


def _cycles(result: ProtocolResult) -> Floats:
    return np.arange(1, result.ranked + 1, dtype=np.float64)


def _draw_lines(
    title: str, xlabel: str, lines: Sequence[_Line], salt: str, finish: Callable[[Axes], object] = lambda axes: None
) -> str:
    """Return a panel with `lines`, their intervals and a legend."""
    with mpl.rc_context(RC_PARAMS):
        figure, axes = _begin_figure(title, xlabel)
        for line in lines:
            properties = line_properties(line.style)
            axes.plot(line.x, line.y, **properties, label=line.label)
            low, high = np.clip((line.y - line.half_width, line.y + line.half_width), 0.0, 1.0)  # shares
            axes.vlines(line.x, low, high, colors=properties["color"], linewidth=0.8, alpha=0.7)
        _add_legend(figure, axes)
        if axes.get_ylim()[0] < 0:
            axes.set_ylim(bottom=0)
        finish(axes)
        return to_svg(figure, salt)


def _begin_figure(title: str, xlabel: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(4.6, 3.1), layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes, title)
    axes.set_xlabel(xlabel, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _add_legend(figure: Figure, axes: Axes) -> None:
    """Add a legend below the axes, so that it covers no line."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        properties = {"frameon": False, "labelcolor": INK, "fontsize": 8.5}
        figure.legend(handles, labels, loc="outside lower center", ncols=3, **properties)


def _fitnesses(result: ProtocolResult) -> list[Metric]:
    return [metric for metric in METRICS if result.shown(metric)]


DRAWINGS: Final[dict[str, Callable[[ProtocolResult], list[str]]]] = {
    "selections": lambda result: [_draw_selections(result, metric) for metric in _fitnesses(result)],
    "methods": lambda result: [_draw_methods(result, metric) for metric in METRICS],
    "sweep": lambda result: [_draw_sweep(result, metric) for metric in METRICS],
    "new_pages": lambda result: [_draw_new_pages(result)],
    "curves": lambda result: [_draw_curves(result, metric) for metric in _fitnesses(result)],
}
"""The figures of each part of the report."""
