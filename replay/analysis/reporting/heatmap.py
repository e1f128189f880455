"""Figure 1: how often each interval was seen, by the page's mean interval, as a heat map."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from streamsched.numerics.arrays import Floats, Ints
from streamsched.replay.analysis.reporting.axes import begin, mark_lengths
from streamsched.replay.analysis.reporting.plot_style import PlotStyle
from streamsched.replay.analysis.statistics.frequencies import HeatMap
from streamsched.replay.analysis.statistics.page_types import PERIODS_S
from streamsched.replay.reporting.svg import STYLE

__all__ = ["draw_heat"]


def draw_heat(heat: HeatMap, look: PlotStyle) -> Figure:
    """Return the heat map; there is an interval to show. O(bins)."""
    with mpl.rc_context(STYLE):
        figure, axes = begin(look, (4.9, 4.5))
        look.dress_axes(axes, "Intervals between changes", "mean interval of the page", "interval between two changes")
        levels, limits = _grade(heat.counts, len(look.ramp))
        for level in range(len(limits)):
            path = _outline(heat.edges_s, levels == level)
            colour = look.ramp[_tone(level, len(limits), len(look.ramp))]
            axes.add_patch(PathPatch(path, facecolor=colour, edgecolor=colour, linewidth=0.15, zorder=2))
        across, up = (_frame(heat.edges_s, heat.counts.sum(axis=axis)) for axis in (1, 0))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(across)
        axes.set_ylim(up)
        mark_lengths(axes.set_xticks, across)
        mark_lengths(axes.set_yticks, up)
        ends = [min(across[0], up[0]), max(across[1], up[1])]
        axes.plot(ends, ends, color=look.ink, linewidth=0.8, dashes=(5, 3), zorder=3, alpha=0.7)
        for spot_s in PERIODS_S.values():  # where regular pages would show
            if up[0] < spot_s < up[1]:
                axes.axhline(spot_s, color=look.ink, linewidth=0.6, zorder=1.5, alpha=0.6)
        _add_scale(axes, [*limits, int(heat.counts.max())], look)
        return figure


def _grade(counts: Ints, tones: int) -> tuple[Ints, list[int]]:
    """Return the level of each cell, -1 for an empty one, and the least count of each level: by equal factors."""
    most = int(counts.max(initial=1))
    limits = sorted({max(1, round((most + 1) ** (tone / tones))) for tone in range(tones)})
    return np.searchsorted(np.array(limits), counts, "right") - 1, limits


def _tone(level: int, levels: int, tones: int) -> int:
    """Return which of the ramp's tones a level has: the first and the last, and evenly between them."""
    return tones - 1 if levels == 1 else round(level * (tones - 1) / (levels - 1))


def _outline(edges: Floats, cells: Any) -> Path:
    """Return the cells' outlines as one path, runs of them joined upwards."""
    corners: list[tuple[float, float]] = []
    for column in np.flatnonzero(cells.any(axis=1)).tolist():
        steps = np.diff(np.concatenate([[0], cells[column].astype(np.int8), [0]]))
        left, right = float(edges[column]), float(edges[column + 1])
        for first, last in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
            low, high = float(edges[first]), float(edges[last])
            corners += [(left, low), (right, low), (right, high), (left, high), (left, low)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * (len(corners) // 5)
    return Path(np.array(corners).reshape(-1, 2), codes or None)


def _frame(edges: Floats, filled: Ints) -> tuple[float, float]:
    """Return the ends of an axis: those of its first and its last bin that hold something, and a little more."""
    places = np.flatnonzero(filled)
    return float(edges[places[0]]) / 1.1, float(edges[places[-1] + 1]) * 1.1


def _add_scale(axes: Axes, limits: list[int], look: PlotStyle) -> None:
    """Put the levels' colours beside the map, with the counts they begin at and the most there is."""
    levels = len(limits) - 1
    bar = axes.inset_axes((1.04, 0.0, 0.05, 1.0))
    for level in range(levels):
        colour = look.ramp[_tone(level, levels, len(look.ramp))]
        bar.add_patch(Rectangle((0, level), 1, 1, facecolor=colour, edgecolor=colour, linewidth=0.15))
    bar.set_xlim(0, 1)
    bar.set_ylim(0, levels)
    bar.set_xticks([])
    bar.yaxis.tick_right()
    bar.set_yticks(range(levels + 1), [f"{limit:,}" for limit in limits])
    bar.tick_params(length=0, labelcolor=look.ink)
    bar.grid(visible=False)
    bar.spines[:].set_visible(False)
    bar.set_xlabel("intervals", color=look.ink, fontsize=8.5, labelpad=7)
