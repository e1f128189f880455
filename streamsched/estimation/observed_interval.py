"""One observed interval of a page: from its last visit that could show a change to one that did or did not show it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ObservedInterval"]


class ObservedInterval(NamedTuple):
    """What a visit observed of the time since ``last_visit_s`` in the page's record, as kernels pass it on."""

    end_s: float  # end of the visit, UTC epoch seconds
    cycles: float  # length of the interval in cycles, not yet clipped
    cycle_s: float  # seconds per cycle
    changed: bool
