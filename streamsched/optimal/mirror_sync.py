"""MirrorSync: learns how often to synchronise each arm from the costs that syncs and rare probes see, assuming nothing.

An arm is what is synchronised: a page, a cache entry. Its cost grows with the time since its last sync. Arm k is
synchronised every 1/rate_k. With a probability of `probe_share` a probe looks at it at a random time between two syncs.
The difference of the two costs is an unbiased estimate of the derivative of the mean cost by the rate. Kolobov, Bubeck
and Zimmert (2020), "Online learning for active cache synchronization", algorithms 1 and 2. The simulated costs are the
cost families of its section 7 and its authors' code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_part, check_whole
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.optimal.array_checks import check_amount, check_length, check_number, check_values, check_whole_numbers
from streamsched.optimal.mirror_step import GRADIENT, MIRROR, RateLimits, project

_HALVINGS: Final = 60  # of a bisection, to all digits
_ROUNDING: Final = 1e-9  # of a sync: a time that is a whole number of intervals counts the last of them


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


def _generator(arms: int, seed: int) -> np.random.Generator:
    check_whole("arms", arms, 1, "a whole number of arms, 1 or more")
    return np.random.default_rng(check_whole("seed", seed, 0, "a whole number, 0 or more"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """How MirrorSync learns; the defaults are those of the paper's experiments.

    - ``learning_rate``: η, by algorithm and costs: 2.7 for `mirror_sync`, 1.6 for `async_mirror_sync` and 0.08 for
      `async_psgd` on SublinPoly; 5, 1.3 and 0.5 on BinaryPoisson;
    - ``budget_per_arm``: syncs and probes per unit of time, divided by the number of arms;
    - ``lowest_rate``, ``highest_rate``: of an arm; the highest counts probes as well;
    - ``probe_share``: ε, the probability of a probe between two syncs;
    - ``rounds``: of learning, each of 1/lowest_rate, in which every arm is synchronised at least once;
    - ``cycle``: time from one update to the next of the asynchronous algorithms.

    Raises SettingsError for a value that is not above 0, a probe share above 1, a budget below the lowest rate or
    above the highest.
    """

    learning_rate: float
    budget_per_arm: float = 0.4
    lowest_rate: float = 0.025
    highest_rate: float = 3.0
    probe_share: float = 0.05
    rounds: int = 240
    cycle: float = 20.0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "budget_per_arm", "lowest_rate", "highest_rate", "cycle"):
            check_amount(name, getattr(self, name))
        check_part("probe_share", self.probe_share)
        check_whole("rounds", self.rounds, 1, "a whole number of rounds, 1 or more")
        probed = 1.0 + self.probe_share
        if not self.lowest_rate * probed <= self.budget_per_arm <= self.highest_rate:
            expected = f"from lowest_rate * (1 + probe_share) = {self.lowest_rate * probed:g} to highest_rate"
            raise SettingsError("budget_per_arm", self.budget_per_arm, f"{expected} = {self.highest_rate:g}")

    def limits(self, arms: int) -> RateLimits:
        """Return the limits of sync rates, less what probes take."""
        probed = 1.0 + self.probe_share
        highest, budget = self.highest_rate / probed, self.budget_per_arm * arms / probed
        return RateLimits(lowest=self.lowest_rate, highest=highest, budget=budget)


@dataclass(frozen=True, slots=True)
class SyncRun:
    """A run of learning.

    - ``time``, ``cost``: float64[updates + 1], the true mean cost of the rates before the first update and after each;
    - ``rates``: float64[n], at the end.
    """

    time: Floats
    cost: Floats
    rates: Floats


def mirror_sync(costs: CostFamily, settings: SyncSettings, *, seed: int = 0) -> SyncRun:
    """Learn in rounds after which every arm has an estimate, all arms moving at once. O(syncs).

    >>> from streamsched.optimal import SublinPoly
    >>> costs = SublinPoly.draw(seed=1)
    >>> run = mirror_sync(costs, SyncSettings(learning_rate=2.7))
    >>> best = costs.cost(optimal_sync_rates(costs, SyncSettings(learning_rate=2.7)))
    >>> bool(best <= run.cost[-1] < 1.01 * best)
    True
    """
    rng, limits, rates = _begin(costs, settings, seed)
    length = 1.0 / settings.lowest_rate
    found = [costs.cost(rates)]
    for _ in range(settings.rounds):
        syncs = np.floor(length * rates + _ROUNDING).astype(np.int64)
        gradient = _observe_gradient(costs, rates, syncs, settings.probe_share, rng)
        rates = project(rates, gradient, settings.learning_rate, limits, MIRROR)
        found.append(costs.cost(rates))
    return SyncRun(np.arange(settings.rounds + 1.0) * length, np.array(found), rates)


def async_mirror_sync(costs: CostFamily, settings: SyncSettings, *, seed: int = 0) -> SyncRun:
    """Learn in cycles after which the arms that were synchronised move, sharing their present total rate. O(syncs).

    It lasts as long as `rounds` of `mirror_sync`, and moves often synchronised arms earlier.
    """
    return _learn_in_cycles(costs, settings, seed, MIRROR)


def async_psgd(costs: CostFamily, settings: SyncSettings, *, seed: int = 0) -> SyncRun:
    """Learn as `async_mirror_sync` does, by steps of projected stochastic gradient descent. O(syncs)."""
    return _learn_in_cycles(costs, settings, seed, GRADIENT)


def estimate_gradient(
    rates: Floats, syncs: Ints, arm: Ints, probe_cost: Floats, sync_cost: Floats, probe_share: float
) -> Floats:
    """Return unbiased estimates of the derivatives of the mean cost by the sync rates, 0 for arms without syncs. O(n).

    ``rates``, ``syncs``: [n], since the last update; ``arm``, ``probe_cost``, ``sync_cost``: [p], of each probe and of
    the sync after it; ``probe_share``: the probability of a probe before a sync. Raises SettingsError for rates that
    are not above 0, unknown arms, and costs that are not one for each probe.
    """
    check_values("rates", rates, 1e-300, expected="a finite number above 0")
    check_length("syncs", syncs, rates.size, "arm")
    if arm.size:
        check_whole_numbers("arm", arm, rates.size - 1, f"a whole number from 0 to {rates.size - 1}, an arm")
    for name, costs in (("probe_cost", probe_cost), ("sync_cost", sync_cost)):
        check_length(name, costs, arm.size, "probe")
    differences = np.bincount(arm, probe_cost - sync_cost, rates.size)
    estimates: Floats = differences / (probe_share * rates * np.maximum(syncs, 1))
    return estimates / max(1, int(np.count_nonzero(syncs)))


def optimal_sync_rates(costs: CostFamily, settings: SyncSettings) -> Floats:
    """Return the rates of the least cost within the limits, float64[n], by bisection of the true gradient.

    What learning is compared with: it gives up the same share of the budget to probes.
    """
    limits = settings.limits(costs.arms)
    lowest, highest = np.full(costs.arms, limits.lowest), np.full(costs.arms, limits.highest)
    if costs.arms * limits.highest <= limits.budget:
        return highest
    worth_least, worth_most = 0.0, float(-costs.gradient(lowest).min())
    for _ in range(_HALVINGS):
        worth = 0.5 * (worth_least + worth_most)
        rates = _rates_worth(costs, worth, lowest, highest)
        worth_least, worth_most = (worth, worth_most) if rates.sum() > limits.budget else (worth_least, worth)
    return _rates_worth(costs, worth_most, lowest, highest)


def _rates_worth(costs: CostFamily, worth: float, low: Floats, high: Floats) -> Floats:
    """Return the rates from `low` to `high` at which a further sync lowers the cost by `worth`."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        more = -costs.gradient(middle) > worth
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return low


def _begin(costs: CostFamily, settings: SyncSettings, seed: int) -> tuple[np.random.Generator, RateLimits, Floats]:
    """Return what a run starts with: the random generator, the limits, and equal rates."""
    rng = np.random.default_rng(check_whole("seed", seed, 0, "a whole number, 0 or more"))
    limits = settings.limits(costs.arms)
    return rng, limits, np.full(costs.arms, min(limits.budget / costs.arms, limits.highest))


def _observe_gradient(
    costs: CostFamily, rates: Floats, syncs: Ints, probe_share: float, rng: np.random.Generator
) -> Floats:
    """Return the gradient as estimated from simulated syncs, a number for each arm, and the probes before them."""
    arm = np.repeat(np.arange(rates.size), rng.binomial(syncs, probe_share))
    sync_age = 1.0 / rates[arm]
    probe_cost, sync_cost = costs.sample(arm, sync_age * rng.random(arm.size), sync_age, rng)
    return estimate_gradient(rates, syncs, arm, probe_cost, sync_cost, probe_share)


def _learn_in_cycles(costs: CostFamily, settings: SyncSettings, seed: int, kind: int) -> SyncRun:
    rng, limits, rates = _begin(costs, settings, seed)
    last_sync = np.zeros(costs.arms)
    updates = math.ceil(settings.rounds / (settings.lowest_rate * settings.cycle) - _ROUNDING)
    times = np.arange(updates + 1.0) * settings.cycle
    found = [costs.cost(rates)]
    for now in times[1:]:
        syncs = np.maximum(np.floor((now - last_sync) * rates + _ROUNDING), 0.0).astype(np.int64)
        gradient = _observe_gradient(costs, rates, syncs, settings.probe_share, rng)
        moving = syncs > 0
        moved = _move(rates, gradient, moving, settings.learning_rate, limits, kind)
        last_sync = _next_starts(last_sync + syncs / rates, rates, moved, moving, now)
        rates = moved
        found.append(costs.cost(rates))
    return SyncRun(times, np.array(found), rates)


def _move(
    rates: Floats, gradient: Floats, moving: Bools, learning_rate: float, limits: RateLimits, kind: int
) -> Floats:
    """Return the rates after a step of the `moving` arms, which share their present total."""
    moved = rates.copy()
    if moving.any():
        shared = replace(limits, budget=float(rates[moving].sum()))
        moved[moving] = project(rates[moving], gradient[moving], learning_rate, shared, kind)
    return moved


def _next_starts(last_sync: Floats, rates: Floats, moved: Floats, moving: Bools, now: float) -> Floats:
    """Return the starts of the next intervals that count: of an arm that moved, the sync that was due, or is now.

    The interval in which its rate moved has neither length, so it is no evidence.
    """
    return np.where(moving, np.maximum(now, last_sync + 1.0 / np.maximum(rates, moved)), last_sync)
