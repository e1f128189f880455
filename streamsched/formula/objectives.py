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
from typing import Final, NamedTuple

from streamsched.errors import SettingsError

_UNMOVED: Final = "(1 - surge) * (1 - signalled)"  # by what others say
_CURRENCY: Final = f"(1 - exp(-rate * t) * (1 + {_UNMOVED} * rate * t)) / rate"
_DIALS: Final = MappingProxyType({"changes": 0.0, "freshness": 1.0, "balanced": 0.5})
_DIGITS: Final = 12  # to which 1 - d is rounded: 1 - 0.9 is 0.09999999999999998
_BALANCED: Final = re.compile(r"balanced *\(([^()]*)\)")
_WEIGHED: Final = re.compile(r"(.+?) *\* *significance")
_BY_SIGNIFICANCE: Final = " * significance"
_LAST_POWER: Final = re.compile(r", (0\.\d+|\d(?:\.\d+)?e-\d\d)\)$")  # as Python writes a dial between 0 and 1
OBJECTIVE_NAMES: Final = (
    "changes, freshness, balanced, balanced(0.3) or another dial from 0 to 1, any of them * significance"
)
EXPECTED: Final = f"{OBJECTIVE_NAMES}, or a formula"


def _balance(dial: float) -> str:
    """Return the formula of `balanced` with that dial: `changes` at 0, `freshness` at 1."""
    if dial == 0.0:
        return "worth * gain"
    if dial == 1.0:
        return f"worth * ({_CURRENCY})"
    weights = round(1.0 - dial, _DIGITS), round(dial, _DIGITS)
    return f"worth * pow(gain, {weights[0]!r}) * pow({_CURRENCY}, {weights[1]!r})"


OBJECTIVES: Final = MappingProxyType({name: _balance(dial) for name, dial in _DIALS.items()})
"""Formulas by objective. Other dials and weights have names too: see `find_objective`."""


class Aim(NamedTuple):
    """What an objective values.

    A change found counts c^dial, c being the cycles for which the copy then stays current: with 0 each change counts 1,
    with 1 it counts that time. `significant`: times the share of the page that it concerns.
    """

    dial: float
    significant: bool = False


def find_aim(name: str) -> Aim | None:
    """Return what the objective `name` values; None if it is not the name of an objective. O(length).

    Raises SettingsError if the dial of ``balanced(d)`` is not a number from 0 to 1.
    """
    weighed = _WEIGHED.fullmatch(name.strip())
    dial = _find_dial(name if weighed is None else weighed[1])
    return None if dial is None else Aim(dial, weighed is not None)


def find_objective(name: str) -> str | None:
    """Return the formula of the objective `name`; None if it is not the name of an objective. O(length).

    Raises SettingsError if the dial of ``balanced(d)`` is not a number from 0 to 1.

    >>> find_objective("balanced(0)") == OBJECTIVES["changes"], find_objective("rate * t")
    (True, None)
    >>> find_objective("changes * significance")
    'worth * gain * significance'
    """
    aim = find_aim(name)
    return None if aim is None else _balance(aim.dial) + (_BY_SIGNIFICANCE if aim.significant else "")


def name_objective(formula: str) -> str | None:
    """Return the name of the objective with this formula, None if there is none. O(length).

    >>> name_objective("worth * gain * significance"), name_objective("rate * t")
    ('changes * significance', None)
    """
    weight = _BY_SIGNIFICANCE if formula.endswith(_BY_SIGNIFICANCE) else ""
    plain = formula.removesuffix(weight)
    dial = _LAST_POWER.search(plain)
    names = [*OBJECTIVES, *([] if dial is None else [f"balanced({dial[1]})"])]
    return next((name + weight for name in names if _find_formula(name) == plain), None)


def _find_formula(name: str) -> str | None:
    dial = _find_dial(name)
    return None if dial is None else _balance(dial)


def _find_dial(name: str) -> float | None:
    """Return the dial of an objective without a weight; None if it is not the name of one."""
    name = name.strip()
    if name in _DIALS:
        return _DIALS[name]
    found = _BALANCED.fullmatch(name)
    if found is None:
        return None
    try:
        dial = float(found[1])
    except ValueError:
        dial = -1.0
    if not 0.0 <= dial <= 1.0:
        raise SettingsError("objective", name, "balanced(d) with a dial d from 0, changes, to 1, freshness")
    return dial
