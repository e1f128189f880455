"""Every estimator as a river object for one page, updated visit by visit.

Each has both of river's interfaces. As a statistic it has ``update(changed)`` and ``get()``, so that
``feature_extraction.Agg(on="changed", by="url", how=NAD())`` keeps one for each page. As a binary classifier it has
``learn_one(x, y)`` and ``predict_proba_one(x)``: y is whether a visit found a change, ``x["interval"]`` the cycles
since the visit before, or, to predict, the cycles from the last visit to the next.

Only this module imports river, and `import streamsched` does not import this module.
"""

from __future__ import annotations

import abc
import math
from typing import Any

import numpy as np
from river import base, stats

from streamsched.errors import SettingsError
from streamsched.estimation.gamma_posterior import after_change, after_no_change, probability_changed
from streamsched.estimation.published_estimators import (
    VisitCounts,
    aad,
    cg,
    change_probability,
    gad,
    modified_interval,
    nad,
    naive_interval,
    sad,
)

_NUMBERS = (int, float, np.integer, np.floating)


class OnlineEstimator(base.Classifier):
    """The interface of all estimators here: update by one visit, return the rate and the probability of a change.

    `interval`: the cycles between visits to assume if the caller gives none: ``x[key]`` missing, no number, negative or
    not finite. O(1) a visit and O(1) memory. Raises SettingsError if a parameter is not a positive finite number.
    """

    def __init__(self, interval: float = 1.0, key: str = "interval") -> None:
        _require_positive("interval", interval)
        self.interval = interval
        self.key = key

    @abc.abstractmethod
    def observe(self, changed: bool, interval: float) -> None:
        """Update by a visit `interval` cycles after the one before, which found a change or not. O(1)."""

    @abc.abstractmethod
    def get(self) -> float:
        """Return the estimate; 0 before the first visit. O(1)."""

    @property
    def name(self) -> str:
        """The name of the statistic in river's feature names."""
        return type(self).__name__.lower()

    @property
    def rate(self) -> float:
        """The estimated changes per cycle."""
        return self.get()

    def probability(self, elapsed: float) -> float:
        """Return P(changed within `elapsed` cycles of the last visit); 0 if `elapsed` is 0 or less. O(1)."""
        return float(change_probability(self.rate, elapsed)) if elapsed > 0.0 else 0.0

    def update(self, x: float, interval: float | None = None) -> None:
        """Update by one visit: `x` is 1 or True if it found a change, else 0 or False. O(1)."""
        self.observe(bool(x), self._cycles(interval))

    def learn_one(self, x: dict[base.typing.FeatureName, Any], y: base.typing.ClfTarget) -> None:
        """Update by one visit: `y` is True if it found a change, ``x[key]`` the interval it ended. O(1)."""
        self.observe(bool(y), self._cycles(x.get(self.key)))

    def predict_proba_one(self, x: dict[base.typing.FeatureName, Any], **_: Any) -> dict[base.typing.ClfTarget, float]:
        """Return the probabilities of False and True for a visit ``x[key]`` cycles after the last. O(1)."""
        changed = self.probability(self._cycles(x.get(self.key)))
        return {False: 1.0 - changed, True: changed}

    def _cycles(self, value: object) -> float:
        cycles = _as_float(value)
        return cycles if 0.0 <= cycles < math.inf else self.interval


# river's two classes have no common order of inheritance, so the second is declared.
stats.base.Univariate.register(OnlineEstimator)  # type: ignore[type-abstract]


class CountingEstimator(OnlineEstimator):
    """Base of the published estimators, which keep the `VisitCounts` of a page."""

    def __init__(self, interval: float = 1.0, key: str = "interval") -> None:
        super().__init__(interval, key)
        self.counts = VisitCounts()

    def observe(self, changed: bool, interval: float) -> None:
        """Count the visit. O(1)."""
        self.counts.observe(changed, interval)


class CG(CountingEstimator):
    """Cho and Garcia-Molina's bias-corrected rate, changes per visit; see `published_estimators.cg`.

    >>> page = CG()
    >>> for changed in (0, 1, 1):
    ...     page.update(changed)
    >>> round(page.get(), 6)
    0.847298
    """

    def get(self) -> float:
        """Return the rate. O(1)."""
        return float(cg(self.counts.n, self.counts.X))


class NAD(CountingEstimator):
    """The share of visits that found a change; see `streamsched.estimation.published_estimators.nad`.

    >>> page = NAD()
    >>> for changed in (0, 1, 1, 1):
    ...     page.learn_one({"interval": 1.0}, bool(changed))
    >>> page.get(), round(page.predict_proba_one({"interval": 2.0})[True], 6)
    (0.75, 0.77687)
    """

    def get(self) -> float:
        """Return the rate. O(1)."""
        return float(nad(self.counts.n, self.counts.X))


class SAD(CountingEstimator):
    """Whether the last visit found a change; see `streamsched.estimation.published_estimators.sad`.

    >>> page = SAD()
    >>> page.update(1)
    >>> page.get()
    1.0
    """

    def get(self) -> float:
        """Return the rate. O(1)."""
        return float(sad(self.counts.n, self.counts.history))


class AAD(CountingEstimator):
    """The share of changes among visits that weigh 1, 2, 3 and so on; see `published_estimators.aad`.

    >>> page = AAD()
    >>> for changed in (1, 0):
    ...     page.update(changed)
    >>> round(page.get(), 6)
    0.333333
    """

    def get(self) -> float:
        """Return the rate. O(1)."""
        return float(aad(self.counts.n, self.counts.weighted_sum))


class GAD(CountingEstimator):
    """The share of changes among visits, each with twice the weight of the one before; see `published_estimators.gad`.

    >>> page = GAD()
    >>> for changed in (0, 1, 0):
    ...     page.update(changed)
    >>> round(page.get(), 6)
    0.285714
    """

    def get(self) -> float:
        """Return the rate. O(1)."""
        return float(gad(self.counts.n, self.counts.history))


class NaiveInterval(CountingEstimator):
    """Cycles per change, infinite before a change; see `streamsched.estimation.published_estimators.naive_interval`.

    >>> page = NaiveInterval()
    >>> page.update(0, 4.0), page.update(1, 2.0)
    (None, None)
    >>> page.get()
    6.0
    """

    def get(self) -> float:
        """Return the interval. O(1)."""
        return float(naive_interval(self.counts.total_time, self.counts.X))

    @property
    def rate(self) -> float:
        """The estimated changes per cycle; infinite if all changes were found within no time."""
        return _inverse(self.get()) if self.counts.X else 0.0


class ModifiedInterval(CountingEstimator):
    """Grimes and O'Brien's corrected interval, in visits per change; see `published_estimators.modified_interval`.

    A sampling interval is the mean of the intervals seen, so `rate` is per cycle. Infinite before a change.

    >>> page = ModifiedInterval()
    >>> page.update(0, 4.0), page.update(1, 2.0)
    (None, None)
    >>> round(page.get(), 6), round(page.rate, 6)
    (1.95762, 0.170275)
    """

    def get(self) -> float:
        """Return the interval. O(1)."""
        return float(modified_interval(self.counts.n, self.counts.X))

    @property
    def rate(self) -> float:
        """The estimated changes per cycle; infinite if all changes were found within no time."""
        counts = self.counts
        return _inverse(self.get() * counts.total_time / counts.n) if counts.X else 0.0


class GammaPosterior(OnlineEstimator):
    """The mean of a Gamma posterior of the rate; see `streamsched.estimation.gamma_posterior`.

    The prior, Gamma(`shape`, `exposure`), counts as `shape` changes in `exposure` cycles, by default half a change in
    five. Unlike the others it never returns 0: before the first visit `get` is the prior's mean.

    >>> page = GammaPosterior()
    >>> page.get(), page.update(1), round(page.get(), 6)
    (0.1, None, 0.27462)
    >>> round(page.predict_proba_one({"interval": 7.0})[True], 6)
    0.709041
    """

    def __init__(self, shape: float = 0.5, exposure: float = 5.0, interval: float = 1.0, key: str = "interval") -> None:
        super().__init__(interval, key)
        _require_positive("shape", shape)
        _require_positive("exposure", exposure)
        self.shape = shape
        self.exposure = exposure
        self.posterior = (float(shape), float(exposure))

    def observe(self, changed: bool, interval: float) -> None:
        """Update the posterior by the visit. O(1)."""
        step = after_change if changed else after_no_change
        self.posterior = step(*self.posterior, interval)

    def get(self) -> float:
        """Return the posterior mean of the rate. O(1)."""
        return self.posterior[0] / self.posterior[1]

    def probability(self, elapsed: float) -> float:
        """Return P(changed within `elapsed` cycles of the last visit), averaged over the posterior. O(1)."""
        return probability_changed(*self.posterior, elapsed)


def _inverse(cycles: float) -> float:
    return 1.0 / cycles if cycles > 0.0 else math.inf


def _as_float(value: object) -> float:
    """Return a number as float; NaN for anything else, and for an int beyond float64."""
    try:
        return float(value) if isinstance(value, _NUMBERS) else math.nan
    except OverflowError:
        return math.nan


def _require_positive(setting: str, value: object) -> None:
    if not 0.0 < _as_float(value) < math.inf:
        raise SettingsError(setting, value, "a positive finite number")
