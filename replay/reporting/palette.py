"""Colours of all reports, and the line style of each policy, the same in every figure and every report.

Hues are Okabe & Ito's, darkened or lightened until lines are clear on a light or a dark page. Policies that share a hue
have different dashes, so no line is identified by colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["COLOURS", "HUES", "RAMP", "LineStyle", "choose_line_styles"]

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

_SOLID: Final = ()
_DASHED: Final = (4.0, 2.0)
_DOTTED: Final = (1.0, 1.6)


@dataclass(frozen=True, slots=True)
class LineStyle:
    """Style of a line: a hue of HUES, lengths of dashes and gaps (none: solid) and a width, both in points."""

    hue: str
    dashes: tuple[float, ...] = _SOLID
    width: float = 1.1


_POLICY_STYLES: Final = {
    "rand": LineStyle("grey", _DOTTED),
    "age": LineStyle("grey"),
    "cg": LineStyle("olive"),
    "nad": LineStyle("orange", _DASHED),
    "sad": LineStyle("sky"),
    "aad": LineStyle("purple", _DOTTED, 1.4),
    "gad": LineStyle("purple"),
    "posterior": LineStyle("blue", width=1.8),
    "freshness": LineStyle("green", width=1.8),
    "balanced": LineStyle("green", _DASHED, 1.4),
    "default": LineStyle("vermilion", _DASHED, 1.8),
    "gp4c": LineStyle("vermilion", width=1.8),
    "gp4c-panel": LineStyle("vermilion", _DOTTED, 1.8),
    "gp4c-paper": LineStyle("sky", _DASHED, 1.4),
    "lambdacrawl": LineStyle("blue", _DASHED, 1.2),
    "polite": LineStyle("blue", _DOTTED, 1.2),
    "binary": LineStyle("green", _DOTTED, 1.2),
    "mirrorsync": LineStyle("purple", _DASHED, 1.2),
    "webfountain": LineStyle("olive", _DASHED, 1.2),
    "oracle": LineStyle("ink", _DASHED, 0.9),
}
_FORMULA_STYLES: Final = tuple(
    LineStyle(hue, dashes, 1.4)
    for dashes in (_SOLID, _DASHED, _DOTTED)
    for hue in ("vermilion", "sky", "olive", "purple", "green", "blue", "orange")
)


def choose_line_styles(policies: Sequence[str]) -> list[LineStyle]:
    """Return a line style for each policy: its own if it has a name, else the next free one. O(policies).

    >>> [style.hue for style in choose_line_styles(["nad", "t * X", "n"])]
    ['orange', 'vermilion', 'sky']
    """
    formulas = [policy for policy in policies if policy not in _POLICY_STYLES]
    free = {policy: _FORMULA_STYLES[turn % len(_FORMULA_STYLES)] for turn, policy in enumerate(formulas)}
    return [_POLICY_STYLES.get(policy) or free[policy] for policy in policies]
