"""An analysis's figures, each as matplotlib draws it in the colours of a `PlotStyle`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from streamsched.replay.analysis.reporting.analysis_wording import ESTIMATORS, name_region, spell_length
from streamsched.replay.analysis.reporting.axes import add_legend, begin, mark_lengths
from streamsched.replay.analysis.reporting.heatmap import draw_heat
from streamsched.replay.analysis.reporting.plot_style import PlotStyle
from streamsched.replay.analysis.statistics.analysis import Analysis
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S, HOUR_S
from streamsched.replay.analysis.statistics.frequencies import Histogram
from streamsched.replay.analysis.statistics.rates import share_within
from streamsched.replay.analysis.statistics.week import DAYS, WeekPart
from streamsched.replay.reporting.palette import Stroke
from streamsched.replay.reporting.svg import STYLE

__all__ = ["FIGURES", "Drawing", "drawings"]

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
    draw: Callable[[PlotStyle], Figure]


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
        "A heat map: across, the mean interval between changes of a page; up, the intervals that it had; the darker on "
        "a light page, the brighter on a dark one, the more of them. Spots apart from the rest are regular updates.",
        lambda look: draw_heat(result.heat, look),
    )


def _near(result: Analysis) -> Drawing | None:
    near = result.near
    if near is None or not near.intervals:
        return None
    mean = spell_length(near.near_s)
    return Drawing(
        "near",
        f"Intervals of pages with a mean near {mean}",
        f"A histogram of the intervals of {near.pages:,} pages whose mean interval is about {mean}, and a line with "
        f"the counts of exponential intervals. A bar at {mean} far above the line is regular updates.",
        lambda look: _draw_near(near, look),
    )


def _week(result: Analysis) -> Drawing | None:
    if result.week_detail == "none" or result.arrivals is None or not result.arrivals.parts:
        return None
    parts = result.arrivals.parts
    names = ", ".join(name_region(part, len(parts) == 1) for part in parts)
    clock = f"local time, else {result.arrivals.zone}" if result.arrivals.local else result.arrivals.zone
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


def _draw_near(near: Histogram, look: PlotStyle) -> Figure:
    unit_s, unit = (HOUR_S, "hours") if near.near_s <= 2 * DAY_S else (DAY_S, "days")
    with mpl.rc_context(STYLE):
        figure, axes = begin(look)
        look.dress_axes(
            axes, f"Intervals of pages with a mean near {spell_length(near.near_s)}", f"interval, {unit}", "intervals"
        )
        edges = near.edges_s / unit_s
        axes.stairs(near.observed, edges, fill=True, color=look.hues["sky"], alpha=0.75, label="observed", linewidth=0)
        line: dict[str, Any] = {"color": look.hues["vermilion"], "linewidth": 1.6, "baseline": None}
        axes.stairs(near.expected, edges, **line, label="exponential, same means")
        axes.set_xlim(0, edges[-1])
        axes.set_xticks(np.arange(0, edges[-1] + 1e-9, near.near_s / unit_s / 2))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        add_legend(figure, axes, look)
        return figure


def _draw_week(parts: tuple[WeekPart, ...], look: PlotStyle, clock: str, *, hours: bool) -> Figure:
    alone = len(parts) == 1
    with mpl.rc_context(STYLE):
        figure, axes = begin(look)
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
        add_legend(figure, axes, look, columns=2)
        return figure


def _draw_rates(result: Analysis, look: PlotStyle) -> Figure:
    with mpl.rc_context(STYLE):
        figure, axes = begin(look)
        look.dress_axes(axes, "How often pages change", "mean interval between changes", "share of pages at most that")
        finite = [intervals[np.isfinite(intervals)] for intervals in result.rates.lines().values()]
        low = min(float(intervals[0]) for intervals in finite if intervals.size) * 0.8
        high = max(float(intervals[-1]) for intervals in finite if intervals.size) * 1.25
        grid = np.geomspace(low, high, _POINTS)
        for name, intervals_s in result.rates.lines().items():
            axes.plot(grid, share_within(intervals_s, grid), **look.dress(_ESTIMATORS[name]), label=ESTIMATORS[name])
        axes.set_xscale("log")
        axes.set_xlim(low, high)
        mark_lengths(axes.set_xticks, (low, high))
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
        add_legend(figure, axes, look)
        return figure
