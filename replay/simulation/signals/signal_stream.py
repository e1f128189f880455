"""All signals of one run in time order: what the crawler gets between two cycles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsched.replay.simulation.signals.recorded_signals import place_signals
from streamsched.replay.simulation.signals.signal_simulation import PageSignals, simulate_signals
from streamsched.signals import SignalBatch

if TYPE_CHECKING:
    from streamsched.replay.simulation.signals.simulated_source import SimulatedSource
    from streamsched.replay.truth.ground_truth import Window

__all__ = ["SignalStream", "SourceSignals", "join_signals"]


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
