"""Figures of an analysis, in the CSS variables of a report or, as PNG files, in the colours of a light page."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path as Outline
from matplotlib.ticker import MaxNLocator

from streamsched.errors import SourceError
from streamsched.numerics.arrays import Floats, Ints
from streamsched.replay.analysis.analysis import Analysis
from streamsched.replay.analysis.analysis_findings import name_region
from streamsched.replay.analysis.analysis_settings import DAY_S, HOUR_S, OTHERS
from streamsched.replay.analysis.analysis_tables import ESTIMATORS
from streamsched.replay.analysis.intervals import HeatMap, Histogram, share_within
from streamsched.replay.analysis.page_types import PERIODS_S
from streamsched.replay.analysis.week import DAYS, RegionWeek
from streamsched.replay.palette import HUES, RAMP, LineStyle
from streamsched.replay.reporting.curves import add_legend
from streamsched.replay.reporting.number_format import format_length
from streamsched.replay.reporting.svg import (
    FAINT,
    HUE_CODES,
    INK,
    RAMP_CODES,
    RC_PARAMS,
    line_properties,
    style_axes,
    to_svg,
)

_DOTS_PER_INCH: Final = 200  # sharp in print and on high-density screens
_SIZE: Final = (4.9, 3.4)  # inches: legible at the width of a phone


@dataclass(frozen=True, slots=True)
class PlotStyle:
    """Colours of a figure: ``ink`` for text, ``faint`` for grids, ``hues`` by name, ``ramp`` from few to many.

    ``titled``: whether the figure contains its title; a report has it as a heading.
    """

    ink: str
    faint: str
    page: str
    hues: Mapping[str, str]
    ramp: tuple[str, ...]
    titled: bool

    def begin_figure(
        self, title: str, xlabel: str, ylabel: str, size: tuple[float, float] = _SIZE
    ) -> tuple[Figure, Axes]:
        """Return an empty figure of `size` inches with these words, and its axes."""
        figure = Figure(figsize=size, layout="constrained", facecolor=self.page)
        axes = figure.add_subplot()
        style_axes(axes, title if self.titled else "", self.ink, self.faint)
        axes.set_xlabel(xlabel, color=self.ink)
        axes.set_ylabel(ylabel, color=self.ink)
        return figure, axes


EMBEDDED: Final = PlotStyle(INK, FAINT, "none", HUE_CODES, RAMP_CODES, titled=False)
_LIGHT: Final = {name: light for name, (light, _) in HUES.items()}
PRINTED: Final = PlotStyle("#1d1d1b", "#cfcec8", "#ffffff", _LIGHT, RAMP, titled=True)


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


def set_time_ticks(set_ticks: Callable[..., Any], ends: tuple[float, float]) -> None:
    """Set ticks at round lengths of time between `ends`, in seconds."""
    shown = {at: name for at, name in _TICKS_S.items() if ends[0] <= at <= ends[1]}
    set_ticks(list(shown), list(shown.values()))
    set_ticks([], minor=True)


def draw_heat_map(heat: HeatMap, style: PlotStyle) -> Figure:
    """Return the heat map; `heat` holds at least one interval. O(bins)."""
    with mpl.rc_context(RC_PARAMS):
        labels = "mean interval of the page", "interval between two changes"
        figure, axes = style.begin_figure("Intervals between changes", *labels, (4.9, 4.5))
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


def _outline(edges: Floats, cells: Any) -> Outline:
    """Return the outlines of the cells as one path; vertical runs are joined."""
    corners: list[tuple[float, float]] = []
    for column in np.flatnonzero(cells.any(axis=1)).tolist():
        steps = np.diff(np.concatenate([[0], cells[column].astype(np.int8), [0]]))
        left, right = float(edges[column]), float(edges[column + 1])
        for first, last in zip(np.flatnonzero(steps == 1), np.flatnonzero(steps == -1), strict=True):
            low, high = float(edges[first]), float(edges[last])
            corners += [(left, low), (right, low), (right, high), (left, high), (left, low)]
    codes = [Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY] * (len(corners) // 5)
    return Outline(np.array(corners).reshape(-1, 2), codes or None)


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


_REGION_STYLES: Final = (
    LineStyle("vermilion", width=1.8),
    LineStyle("blue", (4.0, 2.0), 1.8),
    LineStyle("green", (1.0, 1.6), 1.8),
    LineStyle("purple", (6.0, 1.5, 1.0, 1.5), 1.6),
    LineStyle("orange", width=1.2),
    LineStyle("sky", (4.0, 2.0), 1.2),
)
_SINGLE_STYLE: Final = LineStyle("blue", width=1.6)
_OTHER_STYLE: Final = LineStyle("grey", width=1.2)
_ESTIMATOR_STYLES: Final = {
    "simple": LineStyle("orange", width=2.6),
    "modified": LineStyle("blue", (4.0, 2.0), 1.6),
    "counted": LineStyle("ink", (1.0, 1.6), 1.4),
}
_POINTS: Final = 240  # per line of a distribution: more would not be visible


class Drawing(NamedTuple):
    """A figure of an analysis: its title, a text alternative, and the function that draws it."""

    title: str
    description: str
    draw: Callable[[PlotStyle], Figure]


def drawings(result: Analysis) -> dict[str, Drawing]:
    """Return the figures that the log of `result` can show, by name, in the order of FIGURES. O(1)."""
    found = {name: make(result) for name, make in FIGURES.items()}
    return {name: drawing for name, drawing in found.items() if drawing is not None}


def _intervals(result: Analysis) -> Drawing | None:
    if not result.heat.counts.any():
        return None
    return Drawing(
        "Intervals between changes, by the page’s mean interval",
        "Heat map of intervals between changes. Horizontal axis: mean interval of the page. Vertical axis: interval. "
        "Darker cells on a light page, brighter cells on a dark one, hold more intervals. Separate spots are scheduled "
        "updates.",
        lambda style: draw_heat_map(result.heat, style),
    )


def _near(result: Analysis) -> Drawing | None:
    near = result.near
    if near is None or not near.intervals:
        return None
    mean = format_length(near.near_s)
    return Drawing(
        f"Intervals of pages with a mean near {mean}",
        f"Histogram of the intervals of {near.pages:,} pages with a mean interval of about {mean}, and a line with the "
        f"counts of exponential intervals. A bar at {mean} far above the line shows scheduled updates.",
        lambda style: _draw_near(near, style),
    )


def _week(result: Analysis) -> Drawing | None:
    if result.week_detail == "none" or result.week is None or not result.week.regions:
        return None
    regions = result.week.regions
    names = ", ".join(name_region(region, len(regions) == 1) for region in regions)
    clock = f"local time, else {result.week.zone}" if result.week.local else result.week.zone
    what = "hour of the week, smoothed over five hours" if result.week_detail == "hours" else "day of the week"
    return Drawing(
        "Changes over the week",
        f"Lines with the number of changes in each {what}, relative to the average, for {names}.",
        lambda style: _draw_week(regions, style, clock, hours=result.week_detail == "hours"),
    )


def _rates(result: Analysis) -> Drawing | None:
    if not result.changing:
        return None
    return Drawing(
        "How often pages change",
        "Cumulative distribution of the mean interval between changes over all pages, by the simple and the modified "
        "estimator.",
        lambda style: _draw_rates(result, style),
    )


FIGURES: Final[dict[str, Callable[[Analysis], Drawing | None]]] = {
    "intervals": _intervals,
    "near": _near,
    "week": _week,
    "rates": _rates,
}
"""Functions that return each figure by its name, or None if the log cannot show it."""


def _draw_near(near: Histogram, style: PlotStyle) -> Figure:
    unit_s, unit = (HOUR_S, "hours") if near.near_s <= 2 * DAY_S else (DAY_S, "days")
    with mpl.rc_context(RC_PARAMS):
        title = f"Intervals of pages with a mean near {format_length(near.near_s)}"
        figure, axes = style.begin_figure(title, f"interval, {unit}", "intervals")
        edges = near.edges_s / unit_s
        axes.stairs(near.observed, edges, fill=True, color=style.hues["sky"], alpha=0.75, label="observed", linewidth=0)
        line: dict[str, Any] = {"color": style.hues["vermilion"], "linewidth": 1.6, "baseline": None}
        axes.stairs(near.expected, edges, **line, label="exponential, same means")
        axes.set_xlim(0, edges[-1])
        axes.set_xticks(np.arange(0, edges[-1] + 1e-9, near.near_s / unit_s / 2))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        add_legend(figure, axes, style.ink, columns=3)
        return figure


def _draw_week(regions: tuple[RegionWeek, ...], style: PlotStyle, clock: str, *, hours: bool) -> Figure:
    alone = len(regions) == 1
    with mpl.rc_context(RC_PARAMS):
        ylabel = "changes, 1 = the average hour" if hours else "changes, 1 = the average day"
        title = "Changes over the week, smoothed over 5 hours" if hours else "Changes over the week"
        figure, axes = style.begin_figure(title, f"day of the week, {clock}", ylabel)
        named = [region for region in regions if region.region != OTHERS]
        for region in regions:
            line = _REGION_STYLES[named.index(region) % len(_REGION_STYLES)] if region in named else _OTHER_STYLE
            properties = line_properties(_SINGLE_STYLE if alone else line, style.hues)
            label = f"{name_region(region, alone)} ({region.changes:,} changes)"
            if hours:
                axes.plot(np.arange(168) + 0.5, region.relative(), **properties, label=label)
            else:
                axes.plot(np.arange(7) * 24 + 12, region.by_day(), **properties, label=label, marker="o", markersize=4)
        axes.axhline(1.0, color=style.ink, linewidth=0.6, alpha=0.6)
        axes.set_xlim(0, 168)
        axes.set_xticks(np.arange(0, 169, 24), [""] * 8)
        axes.set_xticks(np.arange(12, 168, 24), DAYS, minor=True)
        axes.tick_params(axis="x", which="minor", length=0, labelcolor=style.ink)
        axes.set_ylim(bottom=0)
        add_legend(figure, axes, style.ink, columns=2)
        return figure


def _draw_rates(result: Analysis, style: PlotStyle) -> Figure:
    with mpl.rc_context(RC_PARAMS):
        labels = "mean interval between changes", "share of pages at most that"
        figure, axes = style.begin_figure("How often pages change", *labels)
        finite = [intervals[np.isfinite(intervals)] for intervals in result.rates.lines().values()]
        low = min(float(intervals[0]) for intervals in finite if intervals.size) * 0.8
        high = max(float(intervals[-1]) for intervals in finite if intervals.size) * 1.25
        grid = np.geomspace(low, high, _POINTS)
        for name, intervals_s in result.rates.lines().items():
            properties = line_properties(_ESTIMATOR_STYLES[name], style.hues)
            axes.plot(grid, share_within(intervals_s, grid), **properties, label=ESTIMATORS[name])
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        set_time_ticks(axes.set_xticks, (low, high))
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        add_legend(figure, axes, style.ink, columns=3)
        return figure


def _embed(name: str, result: Analysis) -> list[str]:
    """Return the figure called `name` as an SVG element; nothing if the log cannot show it."""
    drawing = FIGURES[name](result)
    return [] if drawing is None else [to_svg(drawing.draw(EMBEDDED), name, drawing.title, drawing.description)]


DRAWINGS: Final = {name: partial(_embed, name) for name in FIGURES}
"""The figures of each part of the report."""


def draw_pictures(result: Analysis) -> dict[str, bytes]:
    """Return each figure that the log can show as a PNG by its name; the same analysis gives the same bytes."""
    pictures = {}
    for name, drawing in drawings(result).items():
        out = io.BytesIO()
        metadata = {"Software": None, "Title": drawing.title, "Description": drawing.description}
        drawing.draw(PRINTED).savefig(out, format="png", dpi=_DOTS_PER_INCH, metadata=metadata)
        pictures[name] = out.getvalue()
    return pictures


def write_pictures(result: Analysis, directory: Path) -> list[Path]:
    """Write each figure to ``directory/NAME.png``, created if missing; return the files.

    Raises SourceError if a file cannot be written.
    """
    written = []
    for name, picture in draw_pictures(result).items():
        path = directory / f"{name}.png"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
        except OSError as error:
            raise SourceError(str(path), f"cannot be written: {error.strerror or error}") from error
        written.append(path)
    return written
