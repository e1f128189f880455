"""The names of replay policies, and the formulas behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from streamsched.errors import FormulaError, ReplayError, SettingsError, shorten
from streamsched.formula.bounds.ranges import TERMINAL, Range, range_of
from streamsched.formula.champion import parse_provided
from streamsched.formula.objectives import OBJECTIVES, find_objective
from streamsched.formula.syntax.nodes import Constant, Node, Terminal, fold
from streamsched.formula.terminals import RANGES
from streamsched.scheduler.planning.optimiser_settings import POLICIES as PLANNED

__all__ = [
    "EVOLVING",
    "FORMULAS",
    "PLANNED",
    "POLICIES",
    "STEADY",
    "WITHOUT_SIGNALS",
    "check_policy",
    "evolves",
    "foretells_changes",
    "formula_of",
    "is_objective",
    "is_signalled",
    "without_signals",
]

FORMULAS: Final[dict[str, str]] = {
    "age": "t",
    "cg": "CG",
    "nad": "1 - exp(-NAD * t)",
    "sad": "1 - exp(-SAD * t)",
    "aad": "1 - exp(-AAD * t)",
    "gad": "1 - exp(-GAD * t)",
    "posterior": "posterior",
    "freshness": OBJECTIVES["freshness"],
    "balanced": OBJECTIVES["balanced"],
}
# These take a minute or more for a year of 2,000 pages, the others a second.
EVOLVING: Final = ("gp4c", "gp4c-panel", "gp4c-paper")
STEADY: Final = ("rand", *FORMULAS, "default", "oracle")
POLICIES: Final = ("rand", *FORMULAS, "default", *PLANNED, *EVOLVING, "oracle")
WITHOUT_SIGNALS: Final = " without signals"  # after the name of a policy that gets none of the replay's signals
_SLACK: Final = 1e-5  # ranges of functions are wider than their values by a relative 1e-6
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")  # a single word is more likely a misspelt policy than a formula


def check_policy(name: str) -> None:
    """Raise ReplayError if `name` is not a policy, FormulaError if it is a formula that does not parse. O(length).

    >>> check_policy("t * X")
    >>> check_policy("nadd")
    Traceback (most recent call last):
    streamsched.errors.ReplayError: unknown policy 'nadd': expected a formula in quotes or one of rand, age, cg, ...
    """
    name = name.removesuffix(WITHOUT_SIGNALS)
    if name in POLICIES:
        return
    try:
        parse_provided(name)
    except SettingsError as error:
        raise ReplayError(f"policy {name!r}: expected {error.expected}") from error
    except FormulaError:
        if not _NAME.fullmatch(name):
            raise
        known = ", ".join(POLICIES)
        raise ReplayError(f"unknown policy {shorten(name)}: expected a formula in quotes or one of {known}") from None


def formula_of(name: str) -> str | None:
    """Return the ranking formula of a policy; None for `rand`, `oracle` and policies that plan or evolve formulas.

    >>> formula_of("age"), formula_of("X / n"), formula_of("rand")
    ('t', 'X / n', None)
    """
    name = name.removesuffix(WITHOUT_SIGNALS)
    if name in ("rand", "oracle", *PLANNED) or evolves(name):
        return None
    if name == "default":
        return OBJECTIVES["changes"]
    return FORMULAS.get(name) or find_objective(name) or name


def evolves(name: str) -> bool:
    """Return whether a policy evolves formulas.

    >>> evolves("gp4c"), evolves("gp4c without signals"), evolves("default")
    (True, True, False)
    """
    return name.removesuffix(WITHOUT_SIGNALS) in EVOLVING


def is_objective(name: str) -> bool:
    """Return whether a policy is an objective of a Scheduler, which orders its batches by probabilities. O(length).

    One weighed by significance keeps the order of its scores, as NDCG is weighed too.

    >>> [is_objective(policy) for policy in ("default", "balanced(0.3)", "changes * significance", "rate * t")]
    [True, True, False, False]
    """
    name = name.removesuffix(WITHOUT_SIGNALS)
    return name == "default" or (find_objective(name) is not None and not name.rstrip().endswith("significance"))


def is_signalled(name: str) -> bool:
    """Return whether a policy gets the signals of its replay. O(length).

    >>> is_signalled("default"), is_signalled("default without signals")
    (True, False)
    """
    return not name.endswith(WITHOUT_SIGNALS)


def without_signals(policies: Iterable[str]) -> list[str]:
    """Return `policies`, each objective followed by the same one without signals, unless it is there. O(n).

    >>> without_signals(["age", "default"])
    ['age', 'default', 'default without signals']
    """
    extended: list[str] = []
    for name in policies:
        twin = [f"{name}{WITHOUT_SIGNALS}"] if is_objective(name) and is_signalled(name) else []
        extended += [one for one in (name, *twin) if one not in extended]
    return extended


def foretells_changes(policy: str) -> bool:
    """Return whether a policy foretells changes: an objective, or a formula with values from 0 to 1 only. O(size).

    >>> [foretells_changes(policy) for policy in ("default", "nad", "age", "freshness", "1 - exp(-rate * t)", "rand")]
    [True, True, False, True, True, False]
    """
    if is_objective(policy):
        return True
    formula = formula_of(policy)
    if formula is None:
        return False
    span = fold(parse_provided(formula).root, _range_of)
    return span.least >= -_SLACK and span.most <= 1.0 + _SLACK


def _range_of(node: Node, below: tuple[Range, ...]) -> Range:
    """Return the range of a node's values, from those of its operands."""
    if isinstance(node, Terminal):
        return Range(*RANGES.get(node.name, TERMINAL))
    if isinstance(node, Constant):
        return Range(float(node.value), float(node.value))
    return range_of(node.op, *below)
