"""Axes of an analysis's figures: their size, their ticks at lengths of time, their legends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamsched.replay.analysis.reporting.plot_style import PlotStyle
from streamsched.replay.analysis.statistics.analysis_settings import DAY_S, HOUR_S

__all__ = ["add_legend", "begin", "mark_lengths"]

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


def begin(look: PlotStyle, size: tuple[float, float] = _SIZE) -> tuple[Figure, Axes]:
    """Return an empty figure of that size in inches, and its axes."""
    figure = Figure(figsize=size, layout="constrained", facecolor=look.page)
    return figure, figure.add_subplot()


def add_legend(figure: Figure, axes: Axes, look: PlotStyle, columns: int = 3) -> None:
    """Name the lines below the drawing, where they cover nothing."""
    handles, labels = axes.get_legend_handles_labels()
    drawn = {"frameon": False, "labelcolor": look.ink, "fontsize": 8.5}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **drawn)


def mark_lengths(set_ticks: Callable[..., Any], ends: tuple[float, float]) -> None:
    """Set ticks at lengths of time that people have names for."""
    shown = {at: name for at, name in _TICKS_S.items() if ends[0] <= at <= ends[1]}
    set_ticks(list(shown), list(shown.values()))
    set_ticks([], minor=True)
