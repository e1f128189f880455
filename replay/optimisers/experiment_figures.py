"""Figures of the experiments: curves with 95 % bands, and bars."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A line through x and y, and half the width of its band: float64[points], NaN or None for no band.

    One without a label is left out of the legend.
    """

    label: str
    style: LineStyle
    x: Floats
    y: Floats
    half_width: Floats | None = None


class Bar(NamedTuple):
    """A bar; one of infinite length is drawn to the edge."""

    label: str
    length: float
    hue: str


class Axis(NamedTuple):
    """Labels of the axes, and the lowest y that is shown, None for what the curves need."""

    xlabel: str
    ylabel: str
    lowest: float | None = None


def draw_curves(name: str, title: str, axis: Axis, curves: Sequence[Curve]) -> str:
    """Return a panel with `curves`, their bands and a legend; `name` is unique within the page."""
    with mpl.rc_context(RC_PARAMS):
        figure, axes = _begin(title, axis, 3.1)
        for curve in curves:
            properties = line_properties(curve.style)
            axes.plot(curve.x, curve.y, **properties, label=curve.label or "_")
            if curve.half_width is not None and not np.isnan(curve.half_width).all():
                low, high = curve.y - curve.half_width, curve.y + curve.half_width
                axes.fill_between(curve.x, low, high, color=properties["color"], alpha=0.2, linewidth=0)
        axes.set_ylim(bottom=axis.lowest)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, labelcolor=INK, fontsize=8.5)
        return to_svg(figure, name, title, f"{axis.ylabel} by {axis.xlabel}: {', '.join(labels)}.")


def draw_bars(name: str, title: str, axis: Axis, bars: Sequence[Bar]) -> str:
    """Return a panel with horizontal `bars`, the first on top, each with its length."""
    longest = max((bar.length for bar in bars if np.isfinite(bar.length)), default=1.0)
    with mpl.rc_context(RC_PARAMS):
        figure, axes = _begin(title, axis, 0.9 + 0.27 * len(bars))
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


def _begin(title: str, axis: Axis, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(4.6, height), layout="constrained")
    axes = figure.add_subplot()
    style_axes(axes, title)
    axes.set_xlabel(axis.xlabel, color=INK)
    axes.set_ylabel(axis.ylabel, color=INK)
    return figure, axes
