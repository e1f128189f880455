"""Axes of an analysis's figures: size, ticks at lengths of time, legends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamsched.replay.analysis.statistics.analysis_settings import DAY_S, HOUR_S

if TYPE_CHECKING:
    from streamsched.replay.analysis.reporting.plot_style import PlotStyle

__all__ = ["add_legend", "begin_figure", "set_time_ticks"]

_SIZE: Final = (4.9, 3.4)  # inches: legible at the width of a phone
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


def begin_figure(style: PlotStyle, size: tuple[float, float] = _SIZE) -> tuple[Figure, Axes]:
    """Return an empty figure of `size` inches, and its axes."""
    figure = Figure(figsize=size, layout="constrained", facecolor=style.page)
    return figure, figure.add_subplot()


def add_legend(figure: Figure, axes: Axes, style: PlotStyle, columns: int = 3) -> None:
    """Add a legend below the axes, so that it covers no line."""
    handles, labels = axes.get_legend_handles_labels()
    properties = {"frameon": False, "labelcolor": style.ink, "fontsize": 8.5}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **properties)


def set_time_ticks(set_ticks: Callable[..., Any], ends: tuple[float, float]) -> None:
    """Set ticks at round lengths of time between `ends`, in seconds."""
    shown = {at: name for at, name in _TICKS_S.items() if ends[0] <= at <= ends[1]}
    set_ticks(list(shown), list(shown.values()))
    set_ticks([], minor=True)
