"""Colours of all reports, and styles of lines.

Hues are Okabe & Ito's, darkened or lightened until lines are clear on a light or a dark page. Lines that share a hue
have different dashes, so none is identified by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Name of a hue: its colour on a light page, on a dark page.
HUES: Final[dict[str, tuple[str, str]]] = {
    "ink": ("#1d1d1b", "#f1f0ea"),
    "grey": ("#777772", "#a3a39c"),
    "blue": ("#1f5fbf", "#76a9f7"),
    "green": ("#007f5a", "#35c495"),
    "vermilion": ("#cc4a00", "#ff8d52"),
    "orange": ("#c47a00", "#f5b041"),
    "sky": ("#2b8cc4", "#67c1f0"),
    "purple": ("#a34f85", "#e095c4"),
    "olive": ("#857000", "#d6c445"),
}
# From few to many on a light page; a dark page reverses the order. Each is darker than the one before, so that they
# differ in print without colours too.
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
_PAGE_COLOURS: Final = {
    "page": ("#ffffff", "#171715"),
    "quiet": ("#5b5b57", "#b3b2aa"),
    "faint": ("#cfcec8", "#4a4a46"),
    "heat": ("#2f7ad1", "#3f8ae6"),
    "best": ("#e3f1e9", "#1f3a2e"),
}
COLOURS: Final[dict[str, tuple[str, str]]] = {
    **_PAGE_COLOURS,
    **HUES,
    **{f"ramp{level}": pair for level, pair in enumerate(zip(RAMP, RAMP[::-1], strict=True))},
}
"""CSS variables of a report: the colour on a light page, on a dark page."""

SOLID: Final = ()
DASHED: Final = (4.0, 2.0)
DOTTED: Final = (1.0, 1.6)


@dataclass(frozen=True, slots=True)
class LineStyle:
    """Style of a line: a hue of HUES, lengths of dashes and gaps (none: solid) and a width, both in points."""

    hue: str
    dashes: tuple[float, ...] = SOLID
    width: float = 1.1


FORMULA_STYLES: Final = tuple(
    LineStyle(hue, dashes, 1.4)
    for dashes in (SOLID, DASHED, DOTTED)
    for hue in ("vermilion", "sky", "olive", "purple", "green", "blue", "orange")
)
"""Styles of policies without a name, in turn."""
