"""The signals of one run, simulated and recorded, in time order, and what a policy learns of their sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from streamsched.api.views import SourceReliability
from streamsched.connectors.opening import open_signals
from streamsched.connectors.source import Rejection
from streamsched.numerics.arrays import Floats, Ints
from streamsched.replay.ground_truth import Window
from streamsched.replay.simulation.signal_sources import (
    PageSignals,
    SimulatedSource,
    SourceFigures,
    known_since,
    simulate_signals,
)
from streamsched.signals import SignalBatch


class RecordedSignals(NamedTuple):
    """Signals of one file as they were read, the number of malformed records left out, and the last of these."""

    batches: tuple[SignalBatch, ...]
    rejected: int
    rejections: tuple[Rejection, ...]


class PlacedSignals(NamedTuple):
    """m recorded signals about pages of a window: ``pages``: int64[m], ``at``: float64[m], the names of their sources,
    and their significance, None where it was not recorded.
    """

    pages: Ints
    at: Floats
    kinds: list[str]
    significance: list[float | None]


def read_signals(path: str) -> RecordedSignals:
    """Return the signals in the file `path`, in any format of `open_signals`. O(records).

    Raises SourceError if it cannot be read.
    """
    with open_signals(path) as source:
        batches = tuple(delivery.records for delivery in source)
        return RecordedSignals(batches, source.rejected, tuple(source.rejections))


def place_signals(window: Window, batches: Sequence[SignalBatch]) -> PlacedSignals:
    """Return the signals about pages of `window` that the crawler knows by then, in their order. O(signals + pages)."""
    rows = {url: row for row, url in enumerate(window.urls)}
    since, end_s = known_since(window), window.edge(window.cycles)
    heard = [
        (rows[signal.url], signal.at, signal.source, signal.significance)
        for batch in batches
        for signal in batch
        if signal.url in rows and since[rows[signal.url]] <= signal.at < end_s
    ]
    pages, at, kinds, significance = (list(column) for column in zip(*heard, strict=True)) if heard else ([],) * 4
    return PlacedSignals(np.array(pages, np.int64), np.array(at, np.float64), kinds, significance)


class SourceSignals(NamedTuple):
    """One simulated source: its name and its signals."""

    kind: str
    signals: PageSignals


class SignalStream:
    """Signals in time order, handed out once.

    ``batch``: all of them; ``sources``: the simulated ones of them, by source.
    """

    def __init__(self, batch: SignalBatch, sources: Sequence[SourceSignals] = ()) -> None:
        self.batch = batch
        self.sources = tuple(sources)
        self._next = 0

    def take_until(self, now: float) -> SignalBatch:
        """Return the signals before `now` that no earlier call has returned. O(log n) and their number."""
        end = int(np.searchsorted(self.batch.at, now, "left"))
        taken = self.batch.take(np.arange(self._next, max(end, self._next)))
        self._next = max(end, self._next)
        return taken


def join_signals(
    window: Window, sources: Sequence[SimulatedSource], seed: int, recorded: Sequence[SignalBatch] = ()
) -> SignalStream:
    """Return the signals of `sources`, simulated with `seed`, and those `recorded`, in time order. O(n log n).

    Recorded signals that no crawler of `window` would use are left out, see `place_signals`. Signals of equal times are
    in the order of their sources, recorded ones last.
    """
    simulated = [SourceSignals(one.kind, simulate_signals(window, one, seed)) for one in sources]
    placed = place_signals(window, recorded)
    names: dict[str, int] = {}
    codes = [np.full(one.signals.at.size, names.setdefault(one.kind, len(names)), np.int32) for one in simulated]
    codes.append(np.array([names.setdefault(kind, len(names)) for kind in placed.kinds], np.int32))
    pages = np.concatenate([*(one.signals.pages for one in simulated), placed.pages])
    at = np.concatenate([*(one.signals.at for one in simulated), placed.at])
    order = np.argsort(at, kind="stable")
    known = [*repeat(None, at.size - placed.at.size), *placed.significance]
    significance = [known[row] for row in order.tolist()] if any(one is not None for one in known) else None
    batch = SignalBatch(
        window.urls.take(pages[order]), at[order], np.concatenate(codes)[order], significance, names=tuple(names)
    )
    return SignalStream(batch, simulated)


@dataclass(frozen=True, slots=True)
class LearnedSource:
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
    rows = [(one.precision, one.recall, one.lateness_s) for one in figures]
    columns = ([value for value in column if value is not None] for column in zip(*rows, strict=True))
    return SourceFigures(*(sum(known) / len(known) if known else None for known in columns))
