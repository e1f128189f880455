"""What an evolution within a replay came to: when, who challenged whom, and what was decided."""

from __future__ import annotations

from typing import NamedTuple

from streamsched.evolution.records import EvolutionRecord

__all__ = ["Evolution"]


class Evolution(NamedTuple):
    """One evolution. ``cycle``: the first that its decision ranks, of all cycles of the replay, from 0; ``start_s``: its
    start, UTC epoch seconds. ``gain`` and ``noise``: shares of the champion's fitness, None where there was no contest.
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
        """Return what `record` says of an evolution before `cycle`. O(1)."""
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
