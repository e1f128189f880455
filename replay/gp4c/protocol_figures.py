"""The paper's figures 3 to 6 and the learning curves, for the report; a method's lines carry the class of its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from streamsched.evolution.gp.evolution_settings import Metric
from streamsched.numerics.arrays import Floats
from streamsched.replay.confidence_intervals import Estimate
from streamsched.replay.gp4c.comparison import estimate, estimate_cycles
from streamsched.replay.gp4c.protocol_results import NAMES, SELECTIONS, ProtocolResult
from streamsched.replay.gp4c.protocol_wording import HEADS, LEFT_OUT, SELECTION_HEADS
from streamsched.replay.reporting.palette import Stroke, choose_strokes
from streamsched.replay.reporting.svg import INK, STYLE, dress, dress_axes, finish_svg

__all__ = ["draw_curves", "draw_methods", "draw_new_pages", "draw_selections", "draw_sweep", "strokes"]

_EVOLVED: Final = {
    "GP4C_Basic": Stroke("sky", width=1.8),
    "GP4C_All": Stroke("vermilion", width=1.8),
    "GP4C_Full": Stroke("green", width=1.8),
}
_TRIO: Final = (
    Stroke("vermilion", width=1.4),
    Stroke("blue", (4.0, 2.0), 1.4),
    Stroke("green", (1.0, 1.6), 1.4),
)
_FITNESS: Final[dict[Metric, Stroke]] = {
    "change_rate": Stroke("blue", (4.0, 2.0), 1.6),
    "ndcg": Stroke("vermilion", width=1.6),
}


class _Line(NamedTuple):
    """A line of a figure: its name, look and points, and half the intervals' widths where it has them."""

    label: str
    stroke: Stroke
    across: Floats
    up: Floats
    spread: Floats | None = None


def strokes(result: ProtocolResult) -> list[Stroke]:
    """Return each method's stroke, in the order of `ProtocolResult.methods`. O(methods)."""
    return [_EVOLVED.get(name) or choose_strokes([name])[0] for name in result.methods()]


def draw_selections(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 3: the three selections, cycle by cycle, with 95 % intervals across the folds."""
    one = result.shown(metric)
    lines = []
    for place, selection in enumerate(SELECTIONS if one else ()):
        points = estimate_cycles(one.outcomes[selection].of(metric)) if one else []
        lines.append(_trace(SELECTION_HEADS[selection], _TRIO[place], _cycles(result) + (place - 1) * 0.15, points))
    return _draw(HEADS[metric], "ranked cycle", lines, f"selections-{metric}")


def draw_methods(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 4: each method's mean over the test folds, cycle by cycle."""
    with mpl.rc_context(STYLE):
        figure, axes = _begin(HEADS[metric], "ranked cycle")
        for place, (name, stroke) in enumerate(zip(result.methods(), strokes(result), strict=True)):
            series = result.series(name, metric)
            if name not in LEFT_OUT and series is not None:
                points = _values(estimate_cycles(series))
                axes.plot(_cycles(result), points, **dress(stroke), gid=f"policy-{place}")
        return finish_svg(figure, f"methods-{metric}")


def draw_sweep(result: ProtocolResult, metric: Metric) -> str:
    """Return a panel of Figure 5: the metric at the top of each list, by what was evolved for."""
    cuts = 100 * np.array(result.settings.cuts)
    shift = 0.012 * (cuts[-1] - cuts[0])
    lines = []
    for place, (fitness, stroke) in enumerate(_FITNESS.items()):
        one = result.shown(fitness)
        if one is not None:
            points = [estimate(one.sweep[metric][:, cut]) for cut in range(cuts.size)]
            label = f"evolved for {HEADS[fitness]}"
            lines.append(_trace(label, stroke, cuts + (place - 0.5) * shift, points))
    return _draw(HEADS[metric], "% of the pages, from the top of each list", lines, f"sweep-{metric}")


def draw_new_pages(result: ProtocolResult) -> str:
    """Return Figure 6: which share of each cycle's visits went to pages not visited since the warm-up."""
    lines = []
    for fitness, stroke in _FITNESS.items():
        one = result.shown(fitness)
        if one is not None:
            share = one.outcomes["best"].new_share
            label = f"evolved for {HEADS[fitness]}"
            lines.append(_trace(label, stroke, _cycles(result), estimate_cycles(share)))
    return _draw(
        "Share of newly visited pages", "ranked cycle", lines, "new-pages", lambda axes: axes.set_ylim(0, 1.04)
    )


def draw_curves(result: ProtocolResult, fitness: Metric) -> str:
    """Return a panel with the best fitness by generation: thin, each fold's best seed; thick, their mean."""
    with mpl.rc_context(STYLE):
        figure, axes = _begin(f"{HEADS[fitness]} in training", "generation")
        for one in (one for one in result.evolved if one.fitness == fitness):
            stroke = _EVOLVED[NAMES[one.terminals]]
            best = np.fmax.reduce(one.curves, axis=1)
            generations = np.arange(best.shape[1])
            for fold in best:
                axes.plot(generations, fold, **dress(replace(stroke, width=0.5)))
            axes.plot(generations, best.mean(0), **dress(stroke), label=one.name)
        _add_legend(figure, axes)
        return finish_svg(figure, f"curves-{fitness}")


def _trace(label: str, stroke: Stroke, across: Floats, points: Sequence[Estimate]) -> _Line:
    widths = [np.nan if point.half_width is None else point.half_width for point in points]
    return _Line(label, stroke, across, _values(points), np.array(widths))


def _values(points: Sequence[Estimate]) -> Floats:
    return np.array([np.nan if point.value is None else point.value for point in points])


def _cycles(result: ProtocolResult) -> Floats:
    return np.arange(1, result.ranked + 1, dtype=np.float64)


def _draw(
    title: str, below: str, lines: Sequence[_Line], salt: str, finish: Callable[[Axes], object] = lambda axes: None
) -> str:
    """Return a panel with `lines` and their intervals, named in a legend."""
    with mpl.rc_context(STYLE):
        figure, axes = _begin(title, below)
        for line in lines:
            look = dress(line.stroke)
            axes.plot(line.across, line.up, **look, label=line.label)
            if line.spread is not None:
                low, high = np.clip((line.up - line.spread, line.up + line.spread), 0.0, 1.0)  # as shares are
                axes.vlines(line.across, low, high, colors=look["color"], linewidth=0.8, alpha=0.7)
        _add_legend(figure, axes)
        if axes.get_ylim()[0] < 0:
            axes.set_ylim(bottom=0)
        finish(axes)
        return finish_svg(figure, salt)


def _begin(title: str, below: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(4.6, 3.1), layout="constrained")
    axes = figure.add_subplot()
    dress_axes(axes, title)
    axes.set_xlabel(below, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _add_legend(figure: Figure, axes: Axes) -> None:
    """Name the lines below the drawing, where they cover nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        look = {"frameon": False, "labelcolor": INK, "fontsize": 8.5}
        figure.legend(handles, labels, loc="outside lower center", ncols=3, **look)
