"""Convert matplotlib figures to SVG elements whose colours and fonts are those of the HTML page.

matplotlib draws with placeholder colours, which become CSS variables. Metadata and generated names are removed: the
same figure gives the same bytes, and the page controls dark mode. A line with the gid ``policy-3`` gets the class
``p3``.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from html import escape
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streamsched.replay.palette import HUES, RAMP, LineStyle

RC_PARAMS: Final[Any] = {
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
    "axes.formatter.useoffset": False,  # tick labels are full values, even if close together
    "grid.linewidth": 0.5,
    "timezone": "UTC",
}
# Placeholders: no drawing uses these colours; CSS variables replace them.
INK: Final = "#010203"
FAINT: Final = "#040506"
HEAT: Final = "#070809"
HUE_CODES: Final = {hue: f"#0a0b{index:02x}" for index, hue in enumerate(HUES)}
RAMP_CODES: Final = tuple(f"#0c0d{level:02x}" for level in range(len(RAMP)))
_VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    HEAT: "--heat",
    **{code: f"--{hue}" for hue, code in HUE_CODES.items()},
    **{code: f"--ramp{level}" for level, code in enumerate(RAMP_CODES)},
}

# Patterns of what matplotlib writes beside the drawing, and their replacements.
_REPLACEMENTS: Final = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"<metadata>.*?</metadata>\s*|<style.*?</style>\s*|<!--.*?-->\s*", ""),
        (r'^<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">'),
        (r'id="policy-(\d+)"', r'class="p\1"'),
        (r' id="[a-zA-Z]+[\w.]*_\d+"', ""),  # generated names, the same in every figure
        (r" font-family: [^;]*;", ""),
        (r' transform="rotate\(-0 [^"]*"', ""),
        (r"xlink:href", "href"),
        (r"\s*\n\s*", " "),
    )
)
_COORDINATE: Final = re.compile(r"\d+\.\d{3,}(?=[^<>]*>)")  # within a tag: the numbers of labels are between tags


def line_properties(style: LineStyle, hues: Mapping[str, str] = HUE_CODES) -> dict[str, Any]:
    """Return the line style as matplotlib's properties, its colour one of `hues`, by default a placeholder."""
    dashes = (0, style.dashes) if style.dashes else "-"
    return {"color": hues[style.hue], "linewidth": style.width, "linestyle": dashes}


def style_axes(axes: Axes, title: str, ink: str = INK, faint: str = FAINT) -> None:
    """Set the title of `axes` and the colours of text, ticks, grid and spines."""
    axes.set_title(title, color=ink)
    axes.tick_params(color=faint, labelcolor=ink)
    axes.grid(color=faint)
    for spine in axes.spines.values():
        spine.set_color(faint)


def to_svg(figure: Figure, name: str, title: str = "", description: str = "") -> str:
    """Return the figure as an SVG element without metadata, declarations or generated names.

    `name` makes its internal references unique within the page. If given, `title` and `description` become the text
    alternative of the figure.
    """
    out = io.StringIO()
    with mpl.rc_context({**RC_PARAMS, "svg.hashsalt": name}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    svg = text[text.index("<svg") :]
    for pattern, replacement in _REPLACEMENTS:
        svg = pattern.sub(replacement, svg)
    svg = _COORDINATE.sub(lambda number: f"{float(number[0]):.2f}", svg)
    for code, variable in _VARIABLES.items():
        svg = svg.replace(code, f"var({variable})")
    if not title:
        return svg.strip()
    texts = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-text">{escape(description)}</desc>'
    return svg.strip().replace(' role="img">', f' role="img" aria-labelledby="{name}-title {name}-text">{texts}', 1)
