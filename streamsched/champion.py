"""The champion: the formula in use, and how it came to be that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from streamsched.durations import format_date
from streamsched.errors import shorten
from streamsched.formula import Formula

__all__ = ["BY_EVOLUTION", "BY_HAND", "FIRST", "METRIC_NAMES", "Champion"]

FIRST: Final = "first"
BY_HAND: Final = "hand"
BY_EVOLUTION: Final = "evolution"
_ORIGINS: Final = (FIRST, BY_HAND, BY_EVOLUTION)
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
