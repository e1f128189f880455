"""Drift detection: whether the hit rate, the share of served pages that had changed, has moved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamsched.errors import SettingsError

__all__ = ["DETECTORS", "HitRateWatch"]

DETECTORS: Final = ("adwin", "page_hinkley")
_IGNORED: Final = 0.02  # of the rate; with river's 0.005, random hits and misses count as drift within a day
_THRESHOLD: Final = 50.0  # hits too few or too many, river's own
_MOST: Final = 1_000  # outcomes of one call given to the detector, a millisecond's work; more are thinned out


class HitRateWatch:
    """Watches the hit rate of served pages, hit by hit, with one of river's detectors.

    `detector`: "adwin" (Bifet & Gavaldà 2007; a false alarm in a look has probability 0.002) or "page_hinkley" (Page
    1954), which ignores changes of the rate below 2 points.
    Imports river, which takes a second. Raises SettingsError for another detector.
    """

    def __init__(self, detector: str = "adwin") -> None:
        # river takes longer to import than all of streamsched, and only drift detection needs it.
        from river import drift  # noqa: PLC0415

        if detector not in DETECTORS:
            raise SettingsError("drift", detector, f"one of {', '.join(DETECTORS)}")
        self._make: Callable[[], Any] = drift.ADWIN
        if detector == "page_hinkley":
            self._make = partial(drift.PageHinkley, delta=_IGNORED, threshold=_THRESHOLD)
        self.forget()

    def forget(self) -> None:
        """Start again: earlier outcomes no longer count."""
        self._detector: Any = self._make()
        self.drifted = False

    def note(self, served: int, hits: int) -> None:
        """Add `served` pages of which `hits` had changed; `drifted` turns True if the rate has moved. O(served).

        The hits of one call are spread evenly, because their order is not known.
        """
        count = min(served, _MOST)
        carried = served // 2  # of the next hit, in parts of `served`
        for _ in range(count):
            carried += hits
            self._detector.update(carried >= served)
            carried -= served if carried >= served else 0
            self.drifted = self.drifted or bool(self._detector.drift_detected)
