"""How each policy is drawn, the same in every figure and every report: hue, dash and weight.

Hues are Okabe & Ito's, darkened or lightened until lines stand out from a light or a dark page; where two policies
share a hue their dashes differ, so that no line rests on colour alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["HUES", "Stroke", "choose_strokes"]

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
_SOLID: Final = ()
_DASHED: Final = (4.0, 2.0)
_DOTTED: Final = (1.0, 1.6)


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line's look: a hue of HUES, dashes as lengths on and off (none: solid), a width; lengths in points."""

    hue: str
    dashes: tuple[float, ...] = _SOLID
    width: float = 1.1


_KNOWN: Final = {
    "rand": Stroke("grey", _DOTTED),
    "age": Stroke("grey"),
    "cg": Stroke("olive"),
    "nad": Stroke("orange", _DASHED),
    "sad": Stroke("sky"),
    "aad": Stroke("purple", _DOTTED, 1.4),
    "gad": Stroke("purple"),
    "posterior": Stroke("blue", width=1.8),
    "freshness": Stroke("green", width=1.8),
    "default": Stroke("vermilion", _DASHED, 1.8),
    "gp4c": Stroke("vermilion", width=1.8),
    "gp4c-paper": Stroke("sky", _DASHED, 1.4),
    "oracle": Stroke("ink", _DASHED, 0.9),
}
_FREE: Final = tuple(  # for formulas, in turn
    Stroke(hue, dashes, 1.4)
    for dashes in (_SOLID, _DASHED, _DOTTED)
    for hue in ("vermilion", "sky", "olive", "purple", "green", "blue", "orange")
)


def choose_strokes(policies: Sequence[str]) -> list[Stroke]:
    """Return a stroke for each policy: its own where it has a name, else the next that is free. O(policies).

    >>> [stroke.hue for stroke in choose_strokes(["nad", "t * X", "n"])]
    ['orange', 'vermilion', 'sky']
    """
    formulas = [policy for policy in policies if policy not in _KNOWN]
    free = {policy: _FREE[turn % len(_FREE)] for turn, policy in enumerate(formulas)}
    return [_KNOWN.get(policy) or free[policy] for policy in policies]
