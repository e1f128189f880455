"""Drift detection: detects changes of the hit rate, the share of served pages that had changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamsched.errors import SettingsError

__all__ = ["DETECTORS", "HitRateWatch"]

DETECTORS: Final = ("adwin", "page_hinkley")
_IGNORED: Final = 0.02  # of the rate; with river's 0.005, random hits and misses count as drift within a day
_THRESHOLD: Final = 50.0  # cumulated excess or lack of hits; river's default
_MOST: Final = 1_000  # outcomes per call, about 1 ms; more are thinned out


class HitRateWatch:
    """Monitors the hit rate of served pages, hit by hit, with one of river's detectors.

    `detector`: "adwin" (Bifet & Gavaldà 2007; false alarm probability 0.002 per check) or "page_hinkley" (Page 1954),
    which ignores changes of the rate below 2 points. Imports river, which takes a second. Raises SettingsError if the
    detector is unknown.
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
        """Reset the detector: earlier outcomes no longer count."""
        self._detector: Any = self._make()
        self.drifted = False

    def note(self, served: int, hits: int) -> None:
        """Add `served` pages, `hits` of them changed; `drifted` becomes True if the rate has moved. O(served).

        The hits of one call are spread evenly, because their order is unknown.
        """
        count = min(served, _MOST)
        carried = served // 2  # fraction of the next hit, in units of 1 / `served`
        for _ in range(count):
            carried += hits
            self._detector.update(carried >= served)
            carried -= served if carried >= served else 0
            self.drifted = self.drifted or bool(self._detector.drift_detected)
