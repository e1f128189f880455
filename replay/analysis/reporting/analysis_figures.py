"""Figures of an analysis, drawn in the colours of a `PlotStyle`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from streamsched.replay.analysis.reporting.analysis_findings import name_region
from streamsched.replay.analysis.reporting.analysis_tables import ESTIMATORS
from streamsched.replay.analysis.reporting.axes import add_legend, begin_figure, set_time_ticks
from streamsched.replay.analysis.reporting.heatmap import draw_heat_map
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S, HOUR_S
from streamsched.replay.analysis.statistics.rates import share_within
from streamsched.replay.analysis.statistics.site_regions import OTHERS
from streamsched.replay.analysis.statistics.week import DAYS, RegionWeek
from streamsched.replay.reporting.number_format import format_length
from streamsched.replay.reporting.palette import LineStyle
from streamsched.replay.reporting.svg import RC_PARAMS

if TYPE_CHECKING:
    from streamsched.replay.analysis.reporting.plot_style import PlotStyle
    from streamsched.replay.analysis.statistics.analysis import Analysis
    from streamsched.replay.analysis.statistics.frequencies import Histogram

__all__ = ["FIGURES", "Drawing", "drawings"]

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
    """A figure of an analysis: its name, its title, a text alternative, and the function that draws it."""

    name: str
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
        "intervals",
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
        "near",
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
        "week",
        "Changes over the week",
        f"Lines with the number of changes in each {what}, relative to the average, for {names}.",
        lambda style: _draw_week(regions, style, clock, hours=result.week_detail == "hours"),
    )


def _rates(result: Analysis) -> Drawing | None:
    if not result.changing:
        return None
    return Drawing(
        "rates",
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
        figure, axes = begin_figure(style)
        style.style_axes(
            axes, f"Intervals of pages with a mean near {format_length(near.near_s)}", f"interval, {unit}", "intervals"
        )
        edges = near.edges_s / unit_s
        axes.stairs(near.observed, edges, fill=True, color=style.hues["sky"], alpha=0.75, label="observed", linewidth=0)
        line: dict[str, Any] = {"color": style.hues["vermilion"], "linewidth": 1.6, "baseline": None}
        axes.stairs(near.expected, edges, **line, label="exponential, same means")
        axes.set_xlim(0, edges[-1])
        axes.set_xticks(np.arange(0, edges[-1] + 1e-9, near.near_s / unit_s / 2))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        add_legend(figure, axes, style)
        return figure


def _draw_week(regions: tuple[RegionWeek, ...], style: PlotStyle, clock: str, *, hours: bool) -> Figure:
    alone = len(regions) == 1
    with mpl.rc_context(RC_PARAMS):
        figure, axes = begin_figure(style)
        ylabel = "changes, 1 = the average hour" if hours else "changes, 1 = the average day"
        title = "Changes over the week, smoothed over 5 hours" if hours else "Changes over the week"
        style.style_axes(axes, title, f"day of the week, {clock}", ylabel)
        named = [region for region in regions if region.region != OTHERS]
        for region in regions:
            line = _REGION_STYLES[named.index(region) % len(_REGION_STYLES)] if region in named else _OTHER_STYLE
            properties = style.line_properties(_SINGLE_STYLE if alone else line)
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
        add_legend(figure, axes, style, columns=2)
        return figure


def _draw_rates(result: Analysis, style: PlotStyle) -> Figure:
    with mpl.rc_context(RC_PARAMS):
        figure, axes = begin_figure(style)
        style.style_axes(axes, "How often pages change", "mean interval between changes", "share of pages at most that")
        finite = [intervals[np.isfinite(intervals)] for intervals in result.rates.lines().values()]
        low = min(float(intervals[0]) for intervals in finite if intervals.size) * 0.8
        high = max(float(intervals[-1]) for intervals in finite if intervals.size) * 1.25
        grid = np.geomspace(low, high, _POINTS)
        for name, intervals_s in result.rates.lines().items():
            axes.plot(
                grid,
                share_within(intervals_s, grid),
                **style.line_properties(_ESTIMATOR_STYLES[name]),
                label=ESTIMATORS[name],
            )
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        set_time_ticks(axes.set_xticks, (low, high))
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        add_legend(figure, axes, style)
        return figure
