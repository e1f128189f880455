"""Evolutions within a replay: time, champion, challenger and decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from streamsched.evolution.records import EvolutionRecord

__all__ = ["Evolution"]


class Evolution(NamedTuple):
    """One evolution. ``cycle``: the first one ranked after its decision, counted from 0 over the replay; ``start_s``:
    UTC epoch seconds. ``gain`` and ``noise``: shares of the champion's fitness, None without a contest.
    """

    cycle: int
    start_s: float
    champion: str
    challenger: str | None
    gain: float | None
    noise: float | None
    metric: str | None
    promoted: bool
    why: str

    @classmethod
    def of(cls, record: EvolutionRecord, cycle: int) -> Evolution:
        """Return the summary of `record`, of an evolution before `cycle`. O(1)."""
        verdict = record.verdict
        gain = None if verdict is None else verdict.relative_gain
        noise = None if verdict is None else verdict.noise
        level = None if verdict is None else verdict.champion
        return cls(
            cycle,
            record.when_s,
            record.champion_before.formula.text,
            record.challenger,
            gain,
            noise / level if noise is not None and level else None,
            record.metric,
            record.decision == "promoted",
            record.why,
        )
