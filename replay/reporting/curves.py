"""Panels of a report: curves with their 95 % intervals, and bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from streamsched.numerics.arrays import Floats
from streamsched.replay.palette import LineStyle
from streamsched.replay.reporting.svg import HUE_CODES, INK, RC_PARAMS, line_properties, style_axes, to_svg


class Curve(NamedTuple):
    """A line through x and y, and half the width of its intervals: float64[points], NaN or None for none.

    One without a label is left out of the legend. ``gid``: the name of the line in the page.
    """

    label: str
    style: LineStyle
    x: Floats
    y: Floats
    half_width: Floats | None = None
    gid: str | None = None


class Bar(NamedTuple):
    """A bar; one of infinite length is drawn to the edge."""

    label: str
    length: float
    hue: str


class Axis(NamedTuple):
    """Labels of the axes, and the lowest y that is shown, None for what the curves need."""

    xlabel: str = ""
    ylabel: str = ""
    lowest: float | None = None


def draw_curves(
    name: str,
    title: str,
    axis: Axis,
    curves: Sequence[Curve],
    *,
    shares: bool = False,
    finish: Callable[[Axes], object] = lambda axes: None,
) -> str:
    """Return a panel with `curves`, their intervals and a legend; `name` is unique within the page.

    Intervals are bands; of `shares`, which are points near each other, lines from 0 to 1 at most. `finish` may change
    the axes.
    """
    with mpl.rc_context(RC_PARAMS):
        figure, axes = begin_figure(title, axis)
        for curve in curves:
            properties = line_properties(curve.style)
            axes.plot(curve.x, curve.y, **properties, label=curve.label or "_", gid=curve.gid)
            if curve.half_width is None or np.isnan(curve.half_width).all():
                continue
            low, high = curve.y - curve.half_width, curve.y + curve.half_width
            if shares:
                low, high = np.clip((low, high), 0.0, 1.0)
                axes.vlines(curve.x, low, high, colors=properties["color"], linewidth=0.8, alpha=0.7)
            else:
                axes.fill_between(curve.x, low, high, color=properties["color"], alpha=0.2, linewidth=0)
        lowest = 0.0 if shares and axes.get_ylim()[0] < 0 else axis.lowest
        axes.set_ylim(bottom=lowest)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        finish(axes)
        labels = add_legend(figure, axes)
        described = ", ".join(labels) or "a line for each box above"
        return to_svg(figure, name, title, f"{axis.ylabel or title} by {axis.xlabel}: {described}.")


def draw_bars(name: str, title: str, axis: Axis, bars: Sequence[Bar]) -> str:
    """Return a panel with horizontal `bars`, the first on top, each with its length."""
    longest = max((bar.length for bar in bars if np.isfinite(bar.length)), default=1.0)
    with mpl.rc_context(RC_PARAMS):
        figure, axes = begin_figure(title, axis, 0.9 + 0.27 * len(bars))
        for place, bar in enumerate(bars):
            shown = min(bar.length, 1.1 * longest)
            axes.barh(place, shown, height=0.62, color=HUE_CODES[bar.hue])
            text = f"{bar.length:.2f}" if np.isfinite(bar.length) else "infinite"
            axes.text(shown + 0.015 * longest, place, text, va="center", color=INK, fontsize=8.5)
        axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
        axes.set_xlim(0.0, 1.35 * longest)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        texts = ", ".join(f"{bar.label} {bar.length:.2f}" for bar in bars)
        return to_svg(figure, name, title, f"{axis.xlabel}: {texts}.")


def begin_figure(title: str, axis: Axis, height: float = 3.1) -> tuple[Figure, Axes]:
    """Return an empty panel of `height` inches with its title and labels, and its axes."""
    figure = Figure(figsize=(4.6, height), layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes, title)
    axes.set_xlabel(axis.xlabel, color=INK)
    axes.set_ylabel(axis.ylabel, color=INK)
    return figure, axes


def add_legend(figure: Figure, axes: Axes, ink: str = INK, columns: int | None = None) -> list[str]:
    """Add a legend below the axes, so that it covers no line; return its labels."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        properties = {"frameon": False, "labelcolor": ink, "fontsize": 8.5}
        ncols = columns or (3 if len(labels) == 3 else 2)
        figure.legend(handles, labels, loc="outside lower center", ncols=ncols, **properties)
    return labels
