"""Results of an evolution: challenger, verdict, candidates and the data it used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from streamsched.evolution.promotion import Verdict

__all__ = ["Candidate", "DataSpan", "EvolutionResult", "checked_fields", "plain_values"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A formula that an evolution considered, and its mean fitness on three page sets; None if not evaluated there."""

    formula: str
    train: float | None = None
    validation: float | None = None
    held_out: float | None = None


@dataclass(frozen=True, slots=True)
class DataSpan:
    """Training data of an evolution: `cycles` cycles of `pages` pages from `start_s`, UTC epoch seconds.

    `observed`: share of page-cycles that visits observed; the rest was imputed from the pages' posteriors. `panel`:
    number of pages that were visited every cycle regardless of score. `newcomers`: number of pages left out because
    their first visit came after `start_s`.
    """

    start_s: float
    cycles: int
    pages: int
    observed: float = 1.0
    panel: int = 0
    newcomers: int = 0

    def __str__(self) -> str:
        rest = "" if self.observed >= 1.0 else ", the rest completed"
        pages = f"{self.pages:,} page{'s' if self.pages != 1 else ''}"
        cycles = f"{self.cycles} cycle{'s' if self.cycles != 1 else ''}"
        return f"{pages} × {cycles}, {self.observed:.1%} seen{rest}".replace("%", " %")


@dataclass(frozen=True, slots=True)
class EvolutionResult:
    """Result of an evolution: challenger and verdict, other candidates, elites.

    ``archive``: formulas for the next evolution to start from, best first. `challenger` is None if nothing beat the
    champion on the validation pages; then no contest was held.
    """

    challenger: str | None
    verdict: Verdict | None
    candidates: tuple[Candidate, ...] = ()
    archive: tuple[str, ...] = ()
    metric: str = "ndcg"
    data: DataSpan | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain JSON values; non-finite numbers become None."""
        return plain_values(asdict(self))

    @classmethod
    def from_json(cls, content: object) -> EvolutionResult:
        """Return the result with these fields. Raises ValueError if they are invalid."""
        values = checked_fields(cls, content)
        nested: dict[str, Any] = {
            "verdict": None if values.get("verdict") is None else Verdict.from_json(values["verdict"]),
            "candidates": tuple(Candidate(**checked_fields(Candidate, item)) for item in values.get("candidates", ())),
            "archive": tuple(values.get("archive", ())),
            "data": None if values.get("data") is None else DataSpan(**checked_fields(DataSpan, values["data"])),
        }
        result = cls(**values | nested)
        texts = (result.challenger or "", result.metric, *result.archive, *(item.formula for item in result.candidates))
        if not all(isinstance(text, str) for text in texts) or (result.verdict is not None and not result.challenger):
            raise ValueError("evolution result: expected formulas as text, and a challenger if there is a verdict")
        return result


def checked_fields(kind: type[Any], content: object) -> dict[str, Any]:
    """Return `content` as a dict of fields of the dataclass `kind`. Raises ValueError if one is unknown or missing."""
    if not isinstance(content, dict):
        raise ValueError(f"expected an object, found {type(content).__name__}")
    known = {item.name for item in fields(kind)}
    if not content.keys() <= known:
        raise ValueError(f"unknown field {min(content.keys() - known)!r}")
    missing = [
        item.name
        for item in fields(kind)
        if item.default is MISSING and item.default_factory is MISSING and item.name not in content
    ]
    if missing:
        raise ValueError(f"missing {', '.join(missing)}")
    return dict(content)


def plain_values(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return `value` as plain JSON values: dicts, lists, strings and numbers; non-finite numbers become None."""
    return {str(name): _plain(item) for name, item in value.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain_values(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
