"""How figures become SVG that stands in an HTML page: colours are the page's variables, text is the page's text.

matplotlib draws with placeholder colours; what it wrote is then stripped to the drawing, so that the same figures give
the same bytes and the page decides what dark mode looks like. A line with the gid ``policy-3`` gets the class ``p3``.
"""

from __future__ import annotations

import io
import re
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamsched.replay.reporting.palette import HUES, Stroke

__all__ = ["FAINT", "HEAT", "HUE_CODES", "INK", "STYLE", "dress", "dress_axes", "finish_svg"]

STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,  # ticks show what they stand for, however close together they are
    "grid.linewidth": 0.5,
    "timezone": "UTC",
}
# Placeholders: no drawing uses these colours, and the page's variables take their places.
INK: Final = "#010203"
FAINT: Final = "#040506"
HEAT: Final = "#070809"
_VARIABLES: Final = {INK: "--ink", FAINT: "--faint", HEAT: "--heat"}
HUE_CODES: Final = {hue: f"#0a0b{place:02x}" for place, hue in enumerate(HUES)}
_HUE_VARIABLES: Final = {code: f"--{hue}" for hue, code in HUE_CODES.items()}

# What matplotlib writes beside the drawing, and what is left of it.
_STRIPPED: Final = tuple(
    (re.compile(pattern, re.DOTALL), kept)
    for pattern, kept in (
        (r"<metadata>.*?</metadata>\s*|<style.*?</style>\s*|<!--.*?-->\s*", ""),
        (r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">'),
        (r'id="policy-(\d+)"', r'class="p\1"'),
        (r' id="[a-zA-Z]+[\w.]*_\d+"', ""),  # names of its own, the same in every figure
        (r" font-family: [^;]*;", ""),
        (r' transform="rotate\(-0 [^"]*"', ""),
        (r"xlink:href", "href"),
        (r"\s*\n\s*", " "),
    )
)


def dress(stroke: Stroke) -> dict[str, Any]:
    """Return the stroke as matplotlib's line properties."""
    style = (0, stroke.dashes) if stroke.dashes else "-"
    return {"color": HUE_CODES[stroke.hue], "linewidth": stroke.width, "linestyle": style}


def dress_axes(axes: Axes, title: str, ink: str = INK, faint: str = FAINT) -> None:
    """Give `axes` a title and the page's colours, or those of a picture that stands alone."""
    axes.set_title(title, color=ink)
    axes.tick_params(color=faint, labelcolor=ink)
    axes.grid(color=faint)
    for spine in axes.spines.values():
        spine.set_color(faint)


_COORDINATE: Final = re.compile(r"\d+\.\d{3,}(?=[^<>]*>)")  # within a tag: the numbers of labels stand between tags


def finish_svg(figure: Figure, salt: str) -> str:
    """Return the figure as an SVG element for an HTML page, without metadata, declarations or names of its own."""
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    svg = text[text.index("<svg") :]
    for pattern, kept in _STRIPPED:
        svg = pattern.sub(kept, svg)
    svg = _COORDINATE.sub(lambda number: f"{float(number[0]):.2f}", svg)
    for code, variable in {**_VARIABLES, **_HUE_VARIABLES}.items():
        svg = svg.replace(code, f"var({variable})")
    return svg.strip()
