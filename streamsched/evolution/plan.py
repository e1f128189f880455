"""When and how a running scheduler evolves new score functions: its settings, and the detection of drift.

Drift is a change of the hit rate, the share of served pages that had changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from streamsched.errors import SettingsError
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS, EvolutionSettings, is_metric
from streamsched.formula.objectives import OBJECTIVE_NAMES
from streamsched.numerics.argument_checks import check_whole

Detector: TypeAlias = Literal["adwin", "page_hinkley"]

_BOUNDS: Final = {  # minimum and maximum; larger values would exhaust memory or time first
    "every": (1, 10**9),
    "rest": (1, 10**9),
    "history": (8, 100_000),
    "draws": (1, 1_000),
    "archive": (0, 10_000),
    "seed": (0, 2**62),
}
_IGNORED: Final = 0.02  # of the rate; with river's 0.005, random hits and misses count as drift within a day
_THRESHOLD: Final = 50.0  # cumulated excess or lack of hits; river's default
_MOST: Final = 1_000  # outcomes per call, about 1 ms; more are thinned out


@dataclass(frozen=True, slots=True, kw_only=True)
class EvolutionPlan:
    """When a running scheduler evolves, on which data, and within which limits.

    - ``every``: cycles between scheduled evolutions, None for none; the default is one week of daily cycles, which
      covers the weekly seasonality;
    - ``drift``: river's detector for changes of the hit rate of served pages, "adwin" (Bifet & Gavaldà 2007) or
      "page_hinkley" (Page 1954); None for none;
    - ``rest``: cycles after an evolution during which drift starts no other;
    - ``history``: maximum number of cycles to learn from; half a year by default, because changes that old still help
      to predict. A younger crawl has fewer;
    - ``draws``: maximum number of imputations of the gaps in the history; by default one for each replicate of the
      contest. Many pages over many cycles need fewer;
    - ``archive``: number of formulas that the next evolution starts with;
    - ``time_limit_s``: wall-clock seconds for an evolution's process; the first tick after that kills it;
    - ``objective``: what formulas are bred for: an objective, see `formula.objectives.find_aim`, or "ndcg"; by default
      the one whose formula is the champion when an evolution begins. Hits are weighed by importance;
    - ``trial``: whether a challenger that won the contest first ranks a share of the pages, and replaces the champion
      only if it finds more there; else it replaces it at once, as it does for objectives that a trial cannot judge:
      "freshness", "balanced", and those times significance;
    - ``seed``: random seed; evolution number i uses ``seed + i``;
    - ``settings``: of the evolution, by default `streamsched.evolution.evolution_settings.REEVOLUTION_SETTINGS`; its
      metric is that of the objective.

    Raises SettingsError if a value is out of range: ``every`` is 1 or more, ``history`` 8 to 100,000, ``draws`` 1 to
    1,000, ``archive`` at most 10,000, ``seed`` from 0 to 2**62.
    """

    every: int | None = 7
    drift: Detector | None = "adwin"
    rest: int = 2
    history: int = 180
    draws: int = 12
    archive: int = 30
    time_limit_s: float = 600.0
    objective: str | None = None
    trial: bool = True
    seed: int = 0
    settings: EvolutionSettings = REEVOLUTION_SETTINGS

    def __post_init__(self) -> None:
        for name, (minimum, maximum) in _BOUNDS.items():
            if name == "every" and self.every is None:
                continue
            check_whole(name, getattr(self, name), minimum, f"a whole number from {minimum} to {maximum}", most=maximum)
        if self.drift is not None and not (isinstance(self.drift, str) and self.drift in get_args(Detector)):
            raise SettingsError("drift", self.drift, f"one of {', '.join(get_args(Detector))}, or None")
        limit = self.time_limit_s
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
            raise SettingsError("time_limit_s", limit, "seconds above 0")
        objective = self.objective
        if objective is not None and not (isinstance(objective, str) and is_metric(objective)):
            raise SettingsError("objective", objective, f"ndcg, {OBJECTIVE_NAMES}, or None")
        if not isinstance(self.trial, bool):
            raise SettingsError("trial", self.trial, "true or false")
        if not isinstance(self.settings, EvolutionSettings):
            raise SettingsError("settings", self.settings, "an EvolutionSettings")

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON values, with its `settings` nested by name."""
        plain = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return plain | {"settings": self.settings.to_json()}


class HitRateWatch:
    """Monitors the hit rate of served pages, hit by hit, with one of river's detectors.

    `detector`: "adwin" (Bifet & Gavaldà 2007; false alarm probability 0.002 per check) or "page_hinkley" (Page 1954),
    which ignores changes of the rate below 2 points. Imports river, which takes a second.
    """

    def __init__(self, detector: Detector = "adwin") -> None:
        # river takes longer to import than all of streamsched, and only drift detection needs it.
        from river import drift  # noqa: PLC0415

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
