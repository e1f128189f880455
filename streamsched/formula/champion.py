"""The champion: the formula in use, and how it came to be that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from streamsched.errors import FormulaError, SettingsError, shorten
from streamsched.formula.formula import Formula
from streamsched.formula.syntax.vocabulary import TERMINALS
from streamsched.formula.terminals import PROVIDED
from streamsched.numerics.durations import format_date

__all__ = [
    "BY_EVOLUTION",
    "BY_HAND",
    "FIRST",
    "METRIC_NAMES",
    "OBJECTIVES",
    "Champion",
    "find_formula",
    "parse_provided",
]

FIRST: Final = "first"
BY_HAND: Final = "hand"
BY_EVOLUTION: Final = "evolution"
_ORIGINS: Final = (FIRST, BY_HAND, BY_EVOLUTION)
# What a crawl may be for, and the formula that serves it: most changes found in a visit, or most copies current for
# most of the time, weighted by importance.
OBJECTIVES: Final = MappingProxyType(
    {
        "changes": "1 - (1 - due) * (1 - surge)",
        "freshness": "importance * (1 - exp(-rate * t) * (1 + rate * t)) / rate",
    }
)
METRIC_NAMES: Final = {"ndcg": "NDCG", "change_rate": "ChangeRate"}


@dataclass(frozen=True, slots=True)
class Champion:
    """A formula in use. `origin`: "first", "hand" or "evolution"; `record`: the number of the record of its rise, if
    one was kept; `since_s`: when it rose, UTC epoch seconds; `gain`: by what share of its predecessor's fitness it beat
    it on held-out pages, in the `metric`.

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
        words = [f"champion of evolution {self.record}"]
        if self.since_s is not None:
            words.append(f"promoted {format_date(self.since_s)}")
        if self.gain is not None:
            metric = METRIC_NAMES.get(self.metric or "", self.metric or "")
            words.append(f"{100 * self.gain:+.1f} % {metric} on held-out pages")
        return ", ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        names = ("origin", "record", "since_s", "gain", "metric")
        return {"formula": self.formula.text} | {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Champion:
        """Return the champion of these fields. Raises FormulaError or ValueError where they are not those of one."""
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
    """Return the formula that was asked for, by one of the two or by neither. Raises SettingsError."""
    if formula is not None and objective is not None:
        raise SettingsError("objective", objective, "an objective or a formula, not both")
    if objective is not None and objective not in OBJECTIVES and str(objective).isalpha() and objective not in PROVIDED:
        raise SettingsError("objective", objective, f"{', '.join(OBJECTIVES)} or a formula")
    return OBJECTIVES.get(objective or "changes", objective or "") if formula is None else formula


def parse_provided(formula: str | Formula) -> Formula:
    """Return the formula, as text or parsed; raises FormulaError, also at a terminal that no page tells yet.

    >>> parse_provided("X / t").terminals
    ('X', 't')
    """
    if not isinstance(formula, str | Formula):
        raise SettingsError("formula", formula, "a formula, as text or parsed")
    parsed = Formula.parse(formula) if isinstance(formula, str) else formula
    missing = [name for name in parsed.terminals if name not in PROVIDED]
    if missing:
        text = formula if isinstance(formula, str) else formula.text
        found = ((re.search(rf"\b{re.escape(name)}\b", text), name) for name in missing)
        column, name = min((place.start() + 1 if place else 1, name) for place, name in found)
        meaning = f" ({TERMINALS[name]})" if name in TERMINALS else ""
        raise FormulaError(text, column, f"terminal {name!r}{meaning} is not provided by this version")
    return parsed
