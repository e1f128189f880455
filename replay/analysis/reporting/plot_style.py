"""The colours of an analysis's figures: the report's variables where they stand in it, a light page's in pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamsched.replay.reporting.palette import HUES, Stroke
from streamsched.replay.reporting.svg import FAINT, HUE_CODES, INK, STYLE, dress_axes, finish_svg

__all__ = ["EMBEDDED", "PRINTED", "RAMP", "PlotStyle", "embed", "spell_ramp"]

# From few to many, on a light page; a dark page has them the other way round. Each is darker than the one before, so
# that they can be told apart without their hues.
RAMP: Final = (
    "#fbeeb4",
    "#f9da85",
    "#f5bc58",
    "#ee9a3f",
    "#e0773a",
    "#c95740",
    "#a93b4f",
    "#82285b",
    "#581b58",
    "#2c1040",
)
_RAMP_CODES: Final = tuple(f"#0c0d{place:02x}" for place in range(len(RAMP)))


@dataclass(frozen=True, slots=True)
class PlotStyle:
    """Colours by their parts: ``ink`` of text and marks, ``faint`` of grids, ``hues`` by name, ``ramp`` from few up.

    ``titled``: whether figures have their titles in them, which in a report stand above.
    """

    ink: str
    faint: str
    page: str
    hues: Mapping[str, str]
    ramp: tuple[str, ...]
    titled: bool

    def dress(self, stroke: Stroke) -> dict[str, Any]:
        """Return the stroke as matplotlib's line properties. O(1)."""
        style = (0, stroke.dashes) if stroke.dashes else "-"
        return {"color": self.hues[stroke.hue], "linewidth": stroke.width, "linestyle": style}

    def dress_axes(self, axes: Axes, title: str, across: str, up: str) -> None:
        """Give `axes` a title, names and the look's colours."""
        dress_axes(axes, title if self.titled else "", self.ink, self.faint)
        axes.set_xlabel(across, color=self.ink)
        axes.set_ylabel(up, color=self.ink)


EMBEDDED: Final = PlotStyle(INK, FAINT, "none", HUE_CODES, _RAMP_CODES, titled=False)
_LIGHT: Final = {name: light for name, (light, _) in HUES.items()}
PRINTED: Final = PlotStyle("#1d1d1b", "#cfcec8", "#ffffff", _LIGHT, RAMP, titled=True)


def embed(figure: Figure, name: str, title: str, description: str) -> str:
    """Return the figure as an SVG element for the report, with a title and a description for who cannot see it."""
    with mpl.rc_context(STYLE):  # as long as it is written: letters stay letters
        svg = finish_svg(figure, name)
    for place, code in enumerate(_RAMP_CODES):
        svg = svg.replace(code, f"var(--ramp{place})")
    words = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-text">{escape(description)}</desc>'
    head, _, rest = svg.partition(">")
    return f'{head} aria-labelledby="{name}-title {name}-text">{words}{rest}'


def spell_ramp() -> str:
    """Return the ramp as CSS variables, for light pages and for dark ones."""
    light, dark = (
        "".join(f"--ramp{place}:{tone};" for place, tone in enumerate(tones)) for tones in (RAMP, RAMP[::-1])
    )
    return f":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
