"""Figure 1: a heat map of intervals between changes, by the page's mean interval."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from streamsched.replay.analysis.reporting.axes import begin_figure, set_time_ticks
from streamsched.replay.analysis.statistics.page_types import PERIODS_S
from streamsched.replay.reporting.svg import RC_PARAMS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints
    from streamsched.replay.analysis.reporting.plot_style import PlotStyle
    from streamsched.replay.analysis.statistics.frequencies import HeatMap

__all__ = ["draw_heat_map"]


def draw_heat_map(heat: HeatMap, style: PlotStyle) -> Figure:
    """Return the heat map; `heat` holds at least one interval. O(bins)."""
    with mpl.rc_context(RC_PARAMS):
        figure, axes = begin_figure(style, (4.9, 4.5))
        style.style_axes(axes, "Intervals between changes", "mean interval of the page", "interval between two changes")
        levels, limits = _assign_levels(heat.counts, len(style.ramp))
        for level in range(len(limits)):
            path = _outline(heat.edges_s, levels == level)
            colour = style.ramp[_tone_of(level, len(limits), len(style.ramp))]
            axes.add_patch(PathPatch(path, facecolor=colour, edgecolor=colour, linewidth=0.15, zorder=2))
        xlim, ylim = (_axis_limits(heat.edges_s, heat.counts.sum(axis=axis)) for axis in (1, 0))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(xlim)
        axes.set_ylim(ylim)
        set_time_ticks(axes.set_xticks, xlim)
        set_time_ticks(axes.set_yticks, ylim)
        ends = [min(xlim[0], ylim[0]), max(xlim[1], ylim[1])]
        axes.plot(ends, ends, color=style.ink, linewidth=0.8, dashes=(5, 3), zorder=3, alpha=0.7)
        for period_s in PERIODS_S.values():  # intervals of pages with scheduled updates
            if ylim[0] < period_s < ylim[1]:
                axes.axhline(period_s, color=style.ink, linewidth=0.6, zorder=1.5, alpha=0.6)
        _add_colour_scale(axes, [*limits, int(heat.counts.max())], style)
        return figure


def _assign_levels(counts: Ints, tones: int) -> tuple[Ints, list[int]]:
    """Return each cell's level (-1: empty) and the least count of each level; levels rise by equal factors."""
    most = int(counts.max(initial=1))
    limits = sorted({max(1, round((most + 1) ** (tone / tones))) for tone in range(tones)})
    return np.searchsorted(np.array(limits), counts, "right") - 1, limits


def _tone_of(level: int, levels: int, tones: int) -> int:
    """Return the index of a level's tone in the ramp; levels use the first tone, the last, and evenly spaced others."""
    return tones - 1 if levels == 1 else round(level * (tones - 1) / (levels - 1))


def _outline(edges: Floats, cells: Any) -> Path:
    """Return the outlines of the cells as one path; vertical runs are joined."""
    corners: list[tuple[float, float]] = []
    for column in np.flatnonzero(cells.any(axis=1)).tolist():
        steps = np.diff(np.concatenate([[0], cells[column].astype(np.int8), [0]]))
        left, right = float(edges[column]), float(edges[column + 1])
        for first, last in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
            low, high = float(edges[first]), float(edges[last])
            corners += [(left, low), (right, low), (right, high), (left, high), (left, low)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * (len(corners) // 5)
    return Path(np.array(corners).reshape(-1, 2), codes or None)


def _axis_limits(edges: Floats, filled: Ints) -> tuple[float, float]:
    """Return the limits of an axis: the first and last bin that are not empty, with a margin of a tenth."""
    bins = np.flatnonzero(filled)
    return float(edges[bins[0]]) / 1.1, float(edges[bins[-1] + 1]) * 1.1


def _add_colour_scale(axes: Axes, limits: list[int], style: PlotStyle) -> None:
    """Draw the colours of the levels beside the map, with the least count of each level and the largest count."""
    levels = len(limits) - 1
    bar = axes.inset_axes((1.04, 0.0, 0.05, 1.0))
    for level in range(levels):
        colour = style.ramp[_tone_of(level, levels, len(style.ramp))]
        bar.add_patch(Rectangle((0, level), 1, 1, facecolor=colour, edgecolor=colour, linewidth=0.15))
    bar.set_xlim(0, 1)
    bar.set_ylim(0, levels)
    bar.set_xticks([])
    bar.yaxis.tick_right()
    bar.set_yticks(range(levels + 1), [f"{limit:,}" for limit in limits])
    bar.tick_params(length=0, labelcolor=style.ink)
    bar.grid(visible=False)
    bar.spines[:].set_visible(False)
    bar.set_xlabel("intervals", color=style.ink, fontsize=8.5, labelpad=7)
