"""What a policy has learned of the sources of its signals, beside what is true of the simulated ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from streamsched.replay.simulation.signals.signal_simulation import SourceFigures

if TYPE_CHECKING:
    from streamsched.estimation.signals.source_list import SourceReliability
    from streamsched.replay.simulation.signals.signal_stream import SignalStream

__all__ = ["LearnedSource", "average_sources", "compare_sources"]


class LearnedSource(NamedTuple):
    """One source of a run, its hosts together: ``kind``, its number of ``signals``, the ``true`` figures of these
    signals, None for recorded ones, and those that the policy ``learned``.
    """

    kind: str
    signals: float
    true: SourceFigures | None
    learned: SourceFigures


def compare_sources(stream: SignalStream, found: Iterable[SourceReliability]) -> tuple[LearnedSource, ...]:
    """Return each source that a scheduler has `found`, by the row of all its hosts, in the order of `stream`.

    O(sources).
    """
    true = {one.kind: one.signals.figures for one in stream.sources}
    places = {kind: place for place, kind in enumerate(true)}
    return tuple(
        LearnedSource(
            one.kind, one.signals, true.get(one.kind), SourceFigures(one.precision, one.recall, one.lateness_s)
        )
        for one in sorted(found, key=lambda one: places.get(one.kind, len(places)))
        if one.host is None
    )


def average_sources(runs: Sequence[Sequence[LearnedSource]]) -> list[LearnedSource]:
    """Return each source with the means of its figures over the runs that have them, one run a seed. O(runs)."""
    by_kind: dict[str, list[LearnedSource]] = {}
    for one in chain.from_iterable(runs):
        by_kind.setdefault(one.kind, []).append(one)
    return [
        LearnedSource(
            kind,
            sum(one.signals for one in found) / len(found),
            None if found[0].true is None else _average([one.true for one in found if one.true is not None]),
            _average([one.learned for one in found]),
        )
        for kind, found in by_kind.items()
    ]


def _average(figures: Sequence[SourceFigures]) -> SourceFigures:
    columns = ([value for value in column if value is not None] for column in zip(*figures, strict=True))
    return SourceFigures(*(sum(known) / len(known) if known else None for known in columns))
