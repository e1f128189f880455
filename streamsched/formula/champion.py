"""The champion: the formula in use and its origin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from streamsched.api.views import ChampionView
from streamsched.errors import FormulaError, SettingsError, shorten
from streamsched.formula.evaluation.simplify import find_nan
from streamsched.formula.formula import Formula
from streamsched.formula.objectives import EXPECTED, OBJECTIVES, find_objective
from streamsched.formula.syntax.printer import print_tree
from streamsched.formula.terminal_table import PROVIDED, TERMINALS
from streamsched.numerics.durations import format_date

FIRST: Final = "first"
BY_HAND: Final = "hand"
BY_PLAN: Final = "plan"
BY_EVOLUTION: Final = "evolution"
_ORIGINS: Final = (FIRST, BY_HAND, BY_PLAN, BY_EVOLUTION)
METRIC_NAMES: Final = {"ndcg": "NDCG", "change_rate": "ChangeRate", "changes": "ChangeRate", "trial": "changes found"}


@dataclass(frozen=True, slots=True)
class Champion:
    """A formula in use and its origin.

    ``origin``: "first", "hand", "plan" (set by an optimiser) or "evolution"; ``record``: number of the record of its
    promotion, if one was kept; ``since_s``: when it was promoted, UTC epoch seconds; ``gain``: relative improvement of
    ``metric`` over its predecessor on held-out pages. `str` gives these as a sentence.

    >>> print(Champion(Formula.parse("t"), "evolution", 7, 1_790_000_000.0, 0.031, "ndcg"))
    champion of evolution 7, promoted 2026-09-21, +3.1 % NDCG on held-out pages
    """

    formula: Formula
    origin: str = FIRST
    record: int | None = None
    since_s: float | None = None
    gain: float | None = None
    metric: str | None = None

    def __str__(self) -> str:
        if self.origin == FIRST:
            return "the first champion"
        if self.origin == BY_HAND:
            return "set by hand" + (f", record {self.record}" if self.record is not None else "")
        if self.origin == BY_PLAN:
            return "set with the first plan"
        parts = [f"champion of evolution {self.record}"]
        if self.since_s is not None:
            parts.append(f"promoted {format_date(self.since_s)}")
        if self.gain is not None:
            metric = METRIC_NAMES.get(self.metric or "", self.metric or "")
            where = "in its trial" if self.metric == "trial" else "on held-out pages"
            parts.append(f"{100 * self.gain:+.1f} % {metric} {where}")
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        names = ("origin", "record", "since_s", "gain", "metric")
        return {"formula": self.formula.text} | {name: getattr(self, name) for name in names}

    def view(self) -> ChampionView:
        """Return the champion for readers."""
        return ChampionView(**self.to_json(), text=str(self))

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Champion:
        """Return the champion with these fields, as `to_json` returns them.

        Raises FormulaError if the formula cannot be parsed, ValueError if fields are missing, unknown or mistyped.
        """
        try:
            formula: Any = Formula.parse(fields["formula"])
            champion = cls(**fields | {"formula": formula})
        except (KeyError, TypeError) as error:
            raise ValueError(f"champion: expected its fields, found {shorten(fields)}") from error
        numbers = (champion.record, champion.since_s, champion.gain)
        if champion.origin not in _ORIGINS or not all(one is None or isinstance(one, int | float) for one in numbers):
            raise ValueError(f"champion: expected an origin of {', '.join(_ORIGINS)} and numbers, found {fields}")
        return champion


def find_formula(objective: str | None, formula: str | Formula | None) -> str | Formula:
    """Return the `formula` or that of the `objective`: ``"changes"`` if both are None.

    An objective may itself be a formula. Raises SettingsError if both are given or the objective is unknown.
    """
    if not isinstance(objective, str | None):
        raise SettingsError("objective", objective, EXPECTED)
    if formula is not None and objective is not None:
        raise SettingsError("objective", objective, "an objective or a formula, not both")
    if formula is not None:
        return formula
    if objective is None:
        return OBJECTIVES["changes"]
    found = find_objective(objective)
    if found is None and objective.isalpha() and objective not in PROVIDED:
        raise SettingsError("objective", objective, EXPECTED)
    return objective if found is None else found


def parse_provided(formula: str | Formula) -> Formula:
    """Return `formula`, text, the name of an objective or parsed, as a parsed formula.

    Raises FormulaError if it cannot be parsed, reads a terminal that this version does not provide, or as text has a
    part without terminals that is NaN; SettingsError if it is neither text nor a Formula.

    >>> parse_provided("X / t").terminals
    ('X', 't')
    """
    if not isinstance(formula, str | Formula):
        raise SettingsError("formula", formula, "a formula, as text or parsed")
    parsed = Formula.parse(find_objective(formula) or formula) if isinstance(formula, str) else formula
    missing = [name for name in parsed.terminals if name not in PROVIDED]
    if missing:
        text = formula if isinstance(formula, str) else formula.text
        found = ((re.search(rf"\b{re.escape(name)}\b", text), name) for name in missing)
        column, name = min((place.start() + 1 if place else 1, name) for place, name in found)
        meaning = f" ({TERMINALS[name].text})" if name in TERMINALS else ""
        raise FormulaError(text, column, f"terminal {name!r}{meaning} is not provided by this version")
    nan = find_nan(parsed.root)
    if nan is not None and isinstance(formula, str):
        raise FormulaError(formula, 1, f"the value of {print_tree(nan)} is not a number")
    return parsed
