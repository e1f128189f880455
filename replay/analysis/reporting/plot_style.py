"""Colours of an analysis's figures: CSS variables within a report, those of a light page in image files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from matplotlib.axes import Axes

from streamsched.replay.reporting.palette import HUES, RAMP, LineStyle
from streamsched.replay.reporting.svg import FAINT, HUE_CODES, INK, RAMP_CODES, style_axes

__all__ = ["EMBEDDED", "PRINTED", "PlotStyle"]


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

    def line_properties(self, style: LineStyle) -> dict[str, Any]:
        """Return the line style as matplotlib's properties. O(1)."""
        dashes = (0, style.dashes) if style.dashes else "-"
        return {"color": self.hues[style.hue], "linewidth": style.width, "linestyle": dashes}

    def style_axes(self, axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
        """Set the title, the labels and the colours of `axes`."""
        style_axes(axes, title if self.titled else "", self.ink, self.faint)
        axes.set_xlabel(xlabel, color=self.ink)
        axes.set_ylabel(ylabel, color=self.ink)


EMBEDDED: Final = PlotStyle(INK, FAINT, "none", HUE_CODES, RAMP_CODES, titled=False)
_LIGHT: Final = {name: light for name, (light, _) in HUES.items()}
PRINTED: Final = PlotStyle("#1d1d1b", "#cfcec8", "#ffffff", _LIGHT, RAMP, titled=True)
