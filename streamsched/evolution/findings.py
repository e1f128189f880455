"""What an evolution comes back with: its challenger, the verdict on it, what it considered, and what from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from streamsched.evolution.promotion import Verdict

__all__ = ["Candidate", "DataSpan", "EvolutionResult", "checked_fields", "plain_values"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A formula that evolution considered, and its mean fitness on three sets of pages; None where it was not tried."""

    formula: str
    train: float | None = None
    validation: float | None = None
    held_out: float | None = None


@dataclass(frozen=True, slots=True)
class DataSpan:
    """What an evolution learned from: `cycles` cycles of `pages` pages from `start_s`, UTC epoch seconds.

    `observed`: the share of page cycles that visits saw; the rest was completed, drawn from the pages' posteriors.
    `panel`: how many of the pages were visited every cycle whatever their score; `newcomers`: how many were left out,
    because their first visit came later than `start_s`.
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
    """What an evolution comes back with: its challenger and the verdict on it, what else it considered, its elites.

    ``archive``: formulas for the next evolution to start from, the best first. No challenger: nothing beat the champion
    on the validation pages, and no contest was held.
    """

    challenger: str | None
    verdict: Verdict | None
    candidates: tuple[Candidate, ...] = ()
    archive: tuple[str, ...] = ()
    metric: str = "ndcg"
    data: DataSpan | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON; numbers that are not finite are None."""
        return plain_values(asdict(self))

    @classmethod
    def from_json(cls, content: object) -> EvolutionResult:
        """Return the breeding of these fields. Raises ValueError where they are not those of one."""
        values = checked_fields(cls, content)
        nested: dict[str, Any] = {
            "verdict": None if values.get("verdict") is None else Verdict.from_json(values["verdict"]),
            "candidates": tuple(Candidate(**checked_fields(Candidate, one)) for one in values.get("candidates", ())),
            "archive": tuple(values.get("archive", ())),
            "data": None if values.get("data") is None else DataSpan(**checked_fields(DataSpan, values["data"])),
        }
        result = cls(**values | nested)
        texts = (result.challenger or "", result.metric, *result.archive, *(one.formula for one in result.candidates))
        if not all(isinstance(text, str) for text in texts) or (result.verdict is not None and not result.challenger):
            raise ValueError("breeding: expected formulas as text, and a challenger for its verdict")
        return result


def checked_fields(kind: type[Any], content: object) -> dict[str, Any]:
    """Return `content` as a dict of fields of the dataclass `kind`; ValueError where one is unknown or missing."""
    if not isinstance(content, dict):
        raise ValueError(f"expected an object, found {type(content).__name__}")
    known = {one.name for one in fields(kind)}
    if not content.keys() <= known:
        raise ValueError(f"unknown field {min(content.keys() - known)!r}")
    missing = [
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING and one.name not in content
    ]
    if missing:
        raise ValueError(f"missing {', '.join(missing)}")
    return dict(content)


def plain_values(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return `value` as plain values for JSON: dicts, lists, text and numbers, None for those not finite."""
    return {str(name): _plain(one) for name, one in value.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain_values(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
