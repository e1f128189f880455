"""One observed interval of a page: from its last visit that could show a change to one that did or did not show it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Announced", "ObservedInterval"]


class ObservedInterval(NamedTuple):
    """What a visit observed of the time since ``last_visit_s`` in the page's record, as kernels pass it on."""

    end_s: float  # end of the visit, UTC epoch seconds
    cycles: float  # length of the interval in cycles, not yet clipped
    cycle_s: float  # seconds per cycle
    changed: bool


class Announced(NamedTuple):
    """What change signals had said of an interval before the visit: see `estimation.signals`."""

    spared: float  # probability that no signal was true; 1 without signals
    effective: float  # part of the interval in which changes would have been unannounced; 1 without sources
    alone: float  # probability that the page itself changed in that part
