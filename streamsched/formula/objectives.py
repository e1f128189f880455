"""Objectives of a crawl, and the formulas that choose pages by them.

Each is a value per cost: times `worth`, the page's importance over the cost of a visit. `changes`: the expected gain of
a visit, see `expected_gain`. `freshness`: the cycles of currency that it buys, ∫ s λ e^(-λs) ds from 0 to t, and ∫
e^(-λs) ds, the time for which a new copy would stay current, if others say that the page has changed; for a known rate
without surges, the expected gain over the rate. `balanced(d)`: the geometric mean of both, with the weights 1 - d and
d. Another unit of time multiplies the second factor, and so all scores, by a constant; another unit of importance or
cost does likewise. So the order of pages depends on no unit. The order of two pages changes at most once while d moves
from 0 to 1. Each objective may be weighed by how much of a page its changes concern: ``changes * significance``.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from streamsched.errors import SettingsError

CHANGED: Final = "1 - (1 - due) * (1 - surge) * (1 - signalled)"
"""The probability that a page has changed since its last visit; batches are handed out in its order."""

_UNMOVED: Final = "(1 - surge) * (1 - signalled)"  # by what others say
_CURRENCY: Final = f"(1 - exp(-rate * t) * (1 + {_UNMOVED} * rate * t)) / rate"
_DIAL: Final = 0.5  # of `balanced` without a number
_DIGITS: Final = 12  # to which 1 - d is rounded: 1 - 0.9 is 0.09999999999999998
_BALANCED: Final = re.compile(r"balanced *\(([^()]*)\)")
_WEIGHED: Final = re.compile(r"(.+?) *\* *significance")
EXPECTED: Final = (
    "changes, freshness, balanced, balanced(0.3) or another dial from 0 to 1, any of them * significance, or a formula"
)


def _balance(dial: float) -> str:
    """Return the formula of `balanced` with that dial: `changes` at 0, `freshness` at 1."""
    if dial == 0.0:
        return "worth * gain"
    if dial == 1.0:
        return f"worth * ({_CURRENCY})"
    weights = round(1.0 - dial, _DIGITS), round(dial, _DIGITS)
    return f"worth * pow(gain, {weights[0]!r}) * pow({_CURRENCY}, {weights[1]!r})"


OBJECTIVES: Final = MappingProxyType(
    {"changes": _balance(0.0), "freshness": _balance(1.0), "balanced": _balance(_DIAL)}
)
"""Formulas by objective. Other dials and weights have names too: see `find_objective`."""


def find_objective(name: str) -> str | None:
    """Return the formula of the objective `name`; None if it is not the name of an objective. O(length).

    Raises SettingsError if the dial of ``balanced(d)`` is not a number from 0 to 1.

    >>> find_objective("balanced(0)") == OBJECTIVES["changes"], find_objective("rate * t")
    (True, None)
    >>> find_objective("changes * significance")
    'worth * gain * significance'
    """
    weighed = _WEIGHED.fullmatch(name.strip())
    if weighed is None:
        return _find_unweighed(name)
    formula = _find_unweighed(weighed[1])
    return None if formula is None else f"{formula} * significance"


def _find_unweighed(name: str) -> str | None:
    """Return the formula of an objective without a weight; None if it is not the name of one."""
    found = _BALANCED.fullmatch(name.strip())
    if found is None:
        return OBJECTIVES.get(name.strip())
    try:
        dial = float(found[1])
    except ValueError:
        dial = -1.0
    if not 0.0 <= dial <= 1.0:
        raise SettingsError("objective", name, "balanced(d) with a dial d from 0, changes, to 1, freshness")
    return _balance(dial)
