"""Recorded signals beside a log: read from a file, and delivered at their own times if they are about known pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsched.connectors.open_source import open_signals
from streamsched.replay.simulation.signals.signal_simulation import known_since

if TYPE_CHECKING:
    from streamsched.connectors.source import Rejection
    from streamsched.numerics.arrays import Floats, Ints
    from streamsched.replay.truth.ground_truth import Window
    from streamsched.signals import SignalBatch

__all__ = ["PlacedSignals", "RecordedSignals", "place_signals", "read_signals"]


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
