"""The names of replay policies, and the formulas behind them."""

from __future__ import annotations

import re
from typing import Final

from streamsched.errors import FormulaError, ReplayError
from streamsched.formula.champion import OBJECTIVES, parse_provided

__all__ = ["EVOLVING", "FORMULAS", "POLICIES", "STEADY", "check_policy", "formula_of"]

FORMULAS: Final[dict[str, str]] = {
    "age": "t",
    "cg": "CG",
    "nad": "1 - exp(-NAD * t)",
    "sad": "1 - exp(-SAD * t)",
    "aad": "1 - exp(-AAD * t)",
    "gad": "1 - exp(-GAD * t)",
    "posterior": "posterior",
    "freshness": OBJECTIVES["freshness"],
}
EVOLVING: Final = ("gp4c", "gp4c-paper")  # a minute or more for a year of 2,000 pages; the others take a second
STEADY: Final = ("rand", *FORMULAS, "default", "oracle")
POLICIES: Final = ("rand", *FORMULAS, "default", *EVOLVING, "oracle")
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")  # a single word is more likely a misspelt policy than a formula


def check_policy(name: str) -> None:
    """Raise ReplayError if `name` is not a policy, FormulaError if it is a formula that does not parse. O(length).

    >>> check_policy("t * X")
    >>> check_policy("nadd")
    Traceback (most recent call last):
    streamsched.errors.ReplayError: unknown policy 'nadd': expected a formula in quotes or one of rand, age, cg, ...
    """
    if name in POLICIES:
        return
    try:
        parse_provided(name)
    except FormulaError:
        if not _NAME.fullmatch(name):
            raise
        known = ", ".join(POLICIES)
        raise ReplayError(f"unknown policy {name!r}: expected a formula in quotes or one of {known}") from None


def formula_of(name: str) -> str | None:
    """Return the ranking formula of a policy; None for `rand`, `oracle` and policies that evolve formulas.

    >>> formula_of("age"), formula_of("X / n"), formula_of("rand")
    ('t', 'X / n', None)
    """
    if name in ("rand", "oracle", *EVOLVING):
        return None
    return OBJECTIVES["changes"] if name == "default" else FORMULAS.get(name, name)
