"""Cost families: how the costs of arms grow after a sync, as simulated costs that sync learners observe.

An arm is what is synchronised: a page, a cache entry. The families are those of section 7 of Kolobov, Bubeck and
Zimmert (2020), "Online learning for active cache synchronization", and of its authors' code.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Floats, Ints
from streamsched.optimal.array_checks import check_length, check_number, check_values
from streamsched.optimal.mirror_step import RateLimits
from streamsched.optimal.poisson_learning import PoissonLearner


@runtime_checkable
class CostFamily(Protocol):
    """Costs of arms as MirrorSync observes them, and the truth that it is compared with."""

    @property
    def arms(self) -> int:
        """Number of arms, n."""
        ...

    def sample(self, arm: Ints, probe_age: Floats, sync_age: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the costs seen by probes and by the syncs after them, all [p], at times since the last sync."""
        ...

    def cost(self, rates: Floats) -> float:
        """Return J, the mean over arms and time of the expected cost if arms are synchronised at `rates`: [n]."""
        ...

    def gradient(self, rates: Floats) -> Floats:
        """Return the derivatives of J, [n]; each increases with its arm's rate and depends on no other."""
        ...


class CostLearner(Protocol):
    """Learns the costs of a family's arms from what all syncs and probes saw."""

    def observe(self, arm: Ints, probe_age: Floats, sync_age: Floats, probe_cost: Floats, sync_cost: Floats) -> None:
        """Take in a sync of each `arm`, and the probe before it; all [s]. Without a probe, age and cost of it are 0."""
        ...

    def best_rates(self, rng: np.random.Generator | None = None) -> Floats:
        """Return the best rates, [n], for the costs as learned, or as drawn with `rng` from what they may be."""
        ...


@runtime_checkable
class LearnableFamily(CostFamily, Protocol):
    """A family whose form is known, so that all costs seen tell something of an arm, not only those of probes."""

    def learner(self, limits: RateLimits) -> CostLearner:
        """Return a learner of costs of this form that has seen none, for rates within `limits`."""
        ...


class SublinPoly:
    """Costs scale * age**exponent; the scale varies by a share of `noise` from sync to sync.

    - ``scale``: float64[n], 0 or more;
    - ``exponent``: float64[n], 0 to 1.

    >>> round(SublinPoly([1.0, 2.0], [1.0, 0.5]).cost(np.array([0.5, 1.0])), 6)
    1.166667
    """

    def __init__(self, scale: npt.ArrayLike, exponent: npt.ArrayLike, noise: float = 0.1) -> None:
        self.scale = check_values("scale", scale)
        self.exponent = check_values("exponent", exponent, most=1.0)
        check_length("exponent", self.exponent, self.scale.size, "arm")
        self.noise = check_number("noise", noise, most=1.0)

    @classmethod
    def draw(cls, arms: int = 100, seed: int = 0) -> SublinPoly:
        """Return random arms as in experiments 1 and 2: scales uniform in [0, 1), exponents mostly above 0.5."""
        rng = _generator(arms, seed)
        return cls(rng.random(arms), 1.0 / (1.0 + np.exp(-5.0 * rng.random(arms))))

    @property
    def arms(self) -> int:
        """Number of arms."""
        return self.scale.size

    def sample(self, arm: Ints, probe_age: Floats, sync_age: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the costs seen by probes and by the syncs after them, of one scale each."""
        scale = self.scale[arm] * (1.0 + self.noise * rng.uniform(-1.0, 1.0, arm.size))
        exponent = self.exponent[arm]
        return scale * probe_age**exponent, scale * sync_age**exponent

    def cost(self, rates: Floats) -> float:
        """Return the mean of scale/(exponent + 1) * rate**-exponent."""
        return float(np.mean(self.scale / (self.exponent + 1.0) * rates**-self.exponent))

    def gradient(self, rates: Floats) -> Floats:
        """Return the derivatives of `cost`."""
        slope = -self.scale * self.exponent / (self.exponent + 1.0) * rates ** -(self.exponent + 1.0)
        return slope / self.arms


class BinaryPoisson:
    """Costs 1 as soon as a page has changed since its last sync, else 0; changes are Poisson.

    - ``change_rate``: float64[n], above 0.

    >>> round(BinaryPoisson([1.0, 2.0]).cost(np.array([0.5, 1.0])), 6)
    0.567668
    """

    def __init__(self, change_rate: npt.ArrayLike) -> None:
        self.change_rate = check_values("change_rate", change_rate, 1e-300, expected="a finite number above 0")

    @classmethod
    def draw(cls, arms: int = 100, seed: int = 0) -> BinaryPoisson:
        """Return random arms as in experiments 1a and 2a: change rates uniform from 0.005 to 5."""
        return cls(_generator(arms, seed).uniform(0.005, 5.0, arms))

    @property
    def arms(self) -> int:
        """Number of arms."""
        return self.change_rate.size

    def sample(self, arm: Ints, probe_age: Floats, sync_age: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the costs seen by probes and by the syncs after them; what a probe saw, the sync sees too."""
        rate = self.change_rate[arm]
        by_probe = rng.random(arm.size) < -np.expm1(-rate * probe_age)
        by_sync = by_probe | (rng.random(arm.size) < -np.expm1(-rate * (sync_age - probe_age)))
        return by_probe.astype(np.float64), by_sync.astype(np.float64)

    def cost(self, rates: Floats) -> float:
        """Return the mean of 1 - (1 - e**-changes)/changes, for the expected changes from sync to sync."""
        changes = self.change_rate / rates
        return float(np.mean(1.0 + np.expm1(-changes) / changes))

    def gradient(self, rates: Floats) -> Floats:
        """Return the derivatives of `cost`."""
        changes = self.change_rate / rates
        slope = (np.expm1(-changes) + changes * np.exp(-changes)) / self.change_rate
        return slope / self.arms

    def learner(self, limits: RateLimits) -> PoissonLearner:
        """Return a learner of change rates that has seen nothing."""
        return PoissonLearner(self.arms, limits)


def _generator(arms: int, seed: int) -> np.random.Generator:
    check_whole("arms", arms, 1, "a whole number of arms, 1 or more")
    return np.random.default_rng(check_whole("seed", seed, 0, "a whole number, 0 or more"))
