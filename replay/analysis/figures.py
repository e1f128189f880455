"""An analysis's figures, each as matplotlib draws it in the colours of a `Look`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from streamsched.arrays import Bools, Floats, Ints
from streamsched.replay.analysis.analysis import Analysis
from streamsched.replay.analysis.frequencies import HeatMap, Histogram
from streamsched.replay.analysis.looks import Look
from streamsched.replay.analysis.rates import share_within
from streamsched.replay.analysis.settings import DAY_S, HOUR_S
from streamsched.replay.analysis.week import DAYS, WeekPart
from streamsched.replay.analysis.wording import ESTIMATORS, name_region, spell_length
from streamsched.replay.drawing import STYLE
from streamsched.replay.palette import Stroke

__all__ = ["FIGURES", "Drawing", "drawings"]

_SIZE: Final = (4.9, 3.4)  # inches: a phone's width at a readable size of letters
_TICKS_S: Final = {
    60.0: "1 min",
    600.0: "10 min",
    HOUR_S: "1 h",
    6 * HOUR_S: "6 h",
    DAY_S: "24 h",
    7 * DAY_S: "1 wk",
    30 * DAY_S: "30 d",
    182.5 * DAY_S: "½ yr",
    730 * DAY_S: "2 yr",
}
_SPOTS_S: Final = {HOUR_S: "1 h", DAY_S: "24 h", 7 * DAY_S: "1 wk"}  # where regular pages would show
_STROKES: Final = (
    Stroke("vermilion", width=1.8),
    Stroke("blue", (4.0, 2.0), 1.8),
    Stroke("green", (1.0, 1.6), 1.8),
    Stroke("purple", (6.0, 1.5, 1.0, 1.5), 1.6),
    Stroke("orange", width=1.2),
    Stroke("sky", (4.0, 2.0), 1.2),
)
_ALONE: Final = Stroke("blue", width=1.6)
_REST: Final = Stroke("grey", width=1.2)
_ESTIMATORS: Final = {
    "simple": Stroke("orange", width=2.6),
    "modified": Stroke("blue", (4.0, 2.0), 1.6),
    "counted": Stroke("ink", (1.0, 1.6), 1.4),
}
_POINTS: Final = 240  # of a distribution's line: more cannot be told apart


class Drawing(NamedTuple):
    """A figure that a log can show: its ``name``, title, what it is of in words, and what draws it."""

    name: str
    title: str
    description: str
    draw: Callable[[Look], Figure]


def drawings(result: Analysis) -> dict[str, Drawing]:
    """Return the figures that the log of `result` can show, by name in the order of FIGURES. O(1)."""
    found = {name: make(result) for name, make in FIGURES.items()}
    return {name: drawing for name, drawing in found.items() if drawing is not None}


def _intervals(result: Analysis) -> Drawing | None:
    if not result.heat.counts.any():
        return None
    return Drawing(
        "intervals",
        "Intervals between changes, by the page’s mean interval",
        "A heat map: across, the mean interval between changes of a page; up, the intervals that it had; the darker on a "
        "light page, the brighter on a dark one, the more of them. Bright spots beside the rest are regular updates.",
        lambda look: _draw_heat(result.heat, look),
    )


def _near(result: Analysis) -> Drawing | None:
    near = result.near
    if near is None or not near.intervals:
        return None
    mean = spell_length(near.near_s)
    return Drawing(
        "near",
        f"Intervals of pages with a mean near {mean}",
        f"A histogram of the intervals of {near.pages:,} pages whose mean interval is about {mean}, and a line with the "
        f"counts that exponential intervals would have. A bar at {mean} far above the line is regular updates.",
        lambda look: _draw_near(near, look),
    )


def _week(result: Analysis) -> Drawing | None:
    if result.week_detail == "none" or result.arrivals is None or not result.arrivals.parts:
        return None
    parts = result.arrivals.parts
    names = ", ".join(name_region(part, len(parts) == 1) for part in parts)
    clock = "local time of each region" if result.arrivals.local else result.arrivals.zone
    what = "hour of the week, smoothed over five hours" if result.week_detail == "hours" else "day of the week"
    return Drawing(
        "week",
        "Changes over the week",
        f"Lines of how many changes came in each {what}, relative to the average, for {names}.",
        lambda look: _draw_week(parts, look, clock, hours=result.week_detail == "hours"),
    )


def _rates(result: Analysis) -> Drawing | None:
    if not result.changing:
        return None
    return Drawing(
        "rates",
        "How often pages change",
        "Lines that rise from left to right: the share of all pages with a mean interval of at most so long, by the "
        "simple and the modified estimator.",
        lambda look: _draw_rates(result, look),
    )


FIGURES: Final[dict[str, Callable[[Analysis], Drawing | None]]] = {
    "intervals": _intervals,
    "near": _near,
    "week": _week,
    "rates": _rates,
}
"""What makes each figure, by its name; None where a log cannot show it."""


def _draw_heat(heat: HeatMap, look: Look) -> Figure:
    with mpl.rc_context(STYLE):
        figure, axes = _begin(look, (4.9, 4.5))
        look.dress_axes(axes, "Intervals between changes", "mean interval of the page", "interval between two changes")
        levels, limits = _grade(heat.counts, len(look.ramp))
        for level in range(len(limits)):
            path = _outline(heat.edges_s, levels == level)
            colour = look.ramp[_tone(level, len(limits), len(look.ramp))]
            axes.add_patch(PathPatch(path, facecolor=colour, edgecolor=colour, linewidth=0.15, zorder=2))
        across, up = (_frame(heat.edges_s, heat.counts.any(axis=axis)) for axis in (1, 0))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(across)
        axes.set_ylim(up)
        _mark(axes.set_xticks, across)
        _mark(axes.set_yticks, up)
        ends = [min(across[0], up[0]), max(across[1], up[1])]
        axes.plot(ends, ends, color=look.ink, linewidth=0.8, dashes=(5, 3), zorder=3, alpha=0.7)
        for spot_s in _SPOTS_S:
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
        for begin, end in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
            low, high = float(edges[begin]), float(edges[end])
            corners += [(left, low), (right, low), (right, high), (left, high), (left, low)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * (len(corners) // 5)
    return Path(np.array(corners).reshape(-1, 2), codes or None)


def _frame(edges: Floats, filled: Bools) -> tuple[float, float]:
    """Return the ends of an axis: those of its first and its last bin that hold something, and a little more."""
    places = np.flatnonzero(filled)
    return float(edges[places[0]]) / 1.1, float(edges[places[-1] + 1]) * 1.1


def _mark(set_ticks: Callable[..., Any], ends: tuple[float, float]) -> None:
    """Set ticks at lengths of time that people have names for."""
    shown = {at: name for at, name in _TICKS_S.items() if ends[0] <= at <= ends[1]}
    set_ticks(list(shown), list(shown.values()))
    set_ticks([], minor=True)


def _add_scale(axes: Axes, limits: list[int], look: Look) -> None:
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


def _draw_near(near: Histogram, look: Look) -> Figure:
    unit_s, unit = (HOUR_S, "hours") if near.near_s <= 2 * DAY_S else (DAY_S, "days")
    with mpl.rc_context(STYLE):
        figure, axes = _begin(look)
        look.dress_axes(
            axes, f"Intervals of pages with a mean near {spell_length(near.near_s)}", f"interval, {unit}", "intervals"
        )
        edges = near.edges_s / unit_s
        axes.stairs(near.observed, edges, fill=True, color=look.hues["sky"], alpha=0.75, label="observed", linewidth=0)
        line = {"color": look.hues["vermilion"], "linewidth": 1.6, "baseline": None}
        axes.stairs(near.expected, edges, **line, label="exponential, same means")
        axes.set_xlim(0, edges[-1])
        axes.set_xticks(np.arange(0, edges[-1] + 1e-9, near.near_s / unit_s / 2))
        axes.set_ylim(bottom=0)
        axes.yaxis.get_major_locator().set_params(integer=True)
        _add_legend(figure, axes, look)
        return figure


def _draw_week(parts: tuple[WeekPart, ...], look: Look, clock: str, *, hours: bool) -> Figure:
    alone = len(parts) == 1
    with mpl.rc_context(STYLE):
        figure, axes = _begin(look)
        up = "changes, 1 = the average hour" if hours else "changes, 1 = the average day"
        title = "Changes over the week, smoothed over 5 hours" if hours else "Changes over the week"
        look.dress_axes(axes, title, f"day of the week, {clock}", up)
        named = [part for part in parts if part.region != "other"]
        for part in parts:
            stroke = _STROKES[named.index(part) % len(_STROKES)] if part in named else _REST
            stroke = _ALONE if alone else stroke
            label = f"{name_region(part, alone)} ({part.changes:,} changes)"
            if hours:
                axes.plot(np.arange(168) + 0.5, part.relative(), **look.dress(stroke), label=label)
            else:
                properties = look.dress(stroke)
                axes.plot(np.arange(7) * 24 + 12, part.by_day(), **properties, label=label, marker="o", markersize=4)
        axes.axhline(1.0, color=look.ink, linewidth=0.6, alpha=0.6)
        axes.set_xlim(0, 168)
        axes.set_xticks(np.arange(0, 169, 24), [""] * 8)
        axes.set_xticks(np.arange(12, 168, 24), DAYS, minor=True)
        axes.tick_params(axis="x", which="minor", length=0, labelcolor=look.ink)
        axes.set_ylim(bottom=0)
        _add_legend(figure, axes, look, columns=2)
        return figure


def _draw_rates(result: Analysis, look: Look) -> Figure:
    with mpl.rc_context(STYLE):
        figure, axes = _begin(look)
        look.dress_axes(axes, "How often pages change", "mean interval between changes", "share of pages at most that")
        finite = [intervals[np.isfinite(intervals)] for intervals in result.rates.lines().values()]
        low = min(float(intervals[0]) for intervals in finite if intervals.size) * 0.8
        high = max(float(intervals[-1]) for intervals in finite if intervals.size) * 1.25
        grid = np.geomspace(low, high, _POINTS)
        for name, intervals_s in result.rates.lines().items():
            axes.plot(grid, share_within(intervals_s, grid), **look.dress(_ESTIMATORS[name]), label=ESTIMATORS[name])
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        _mark(axes.set_xticks, (low, high))
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        _add_legend(figure, axes, look)
        return figure


def _begin(look: Look, size: tuple[float, float] = _SIZE) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained", facecolor=look.page)
    return figure, figure.add_subplot()


def _add_legend(figure: Figure, axes: Axes, look: Look, columns: int = 3) -> None:
    """Name the lines below the drawing, where they cover nothing."""
    handles, labels = axes.get_legend_handles_labels()
    drawn = {"frameon": False, "labelcolor": look.ink, "fontsize": 8.5}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **drawn)


