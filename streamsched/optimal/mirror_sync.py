"""MirrorSync: learns how often to synchronise each arm from the costs that syncs and rare probes see.

An arm is what is synchronised: a page, a cache entry. Its cost grows with the time since its last sync. Arm k is
synchronised every 1/rate_k. With a probability of `probe_share` a probe looks at it at a random time between two syncs.
The difference of the two costs is an unbiased estimate of the derivative of the mean cost by the rate, whatever the
costs are. Kolobov, Bubeck and Zimmert (2020), "Online learning for active cache synchronization", algorithms 1 and 2.

That way is slow for costs that are 1 or 0: at the learning rate of the paper, 240 rounds end 1.6 % above the least cost
even with exact derivatives, and larger steps follow the noise of the probes. So a `LearnableFamily`, whose form is
known, is by default fitted to the costs of all syncs and probes, and the rates go to the optimum of what was fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_part, check_whole
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.optimal.array_checks import check_amount, check_length, check_values, check_whole_numbers
from streamsched.optimal.cost_families import CostFamily, CostLearner, LearnableFamily
from streamsched.optimal.mirror_step import GRADIENT, MIRROR, RateLimits, project, spend_budget

_HALVINGS: Final = 60  # of a bisection, to all digits
_ROUNDING: Final = 1e-9  # of a sync: a time that is a whole number of intervals counts the last of them
_ESTIMATES: Final = ("fitted", "probes")
_PLAN_AGAIN: Final = 1.05  # times as long after a plan from fitted costs as it is from the start
_EXPLORING: Final = 0.5  # of the time: fitted costs are drawn from what they may be


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncSettings:
    """How MirrorSync learns; the defaults are those of the paper's experiments.

    - ``learning_rate``: η, by algorithm and costs: 2.7 for `mirror_sync`, 1.6 for `async_mirror_sync` and 0.08 for
      `async_psgd` on SublinPoly; 5, 1.3 and 0.5 on BinaryPoisson;
    - ``budget_per_arm``: syncs and probes per unit of time, divided by the number of arms;
    - ``lowest_rate``, ``highest_rate``: of an arm; the highest counts probes as well;
    - ``probe_share``: ε, the probability of a probe between two syncs;
    - ``rounds``: of learning, each of 1/lowest_rate, in which every arm is synchronised at least once;
    - ``cycle``: time from one update to the next of the asynchronous algorithms;
    - ``estimate``: "fitted" learns the parameters of a `LearnableFamily` from all syncs and probes, and moves all rates
      to the optimum, whatever the step and the learning rate; "probes" follows the probes since the last update, as
      the authors do, and so do other families at either value.

    Raises SettingsError for a value that is not above 0, a probe share above 1, a budget below the lowest rate or
    above the highest, another estimate.
    """

    learning_rate: float
    budget_per_arm: float = 0.4
    lowest_rate: float = 0.025
    highest_rate: float = 3.0
    probe_share: float = 0.05
    rounds: int = 240
    cycle: float = 20.0
    estimate: Literal["fitted", "probes"] = "fitted"

    def __post_init__(self) -> None:
        for name in ("learning_rate", "budget_per_arm", "lowest_rate", "highest_rate", "cycle"):
            check_amount(name, getattr(self, name))
        check_part("probe_share", self.probe_share)
        check_whole("rounds", self.rounds, 1, "a whole number of rounds, 1 or more")
        probed = 1.0 + self.probe_share
        if not self.lowest_rate * probed <= self.budget_per_arm <= self.highest_rate:
            expected = f"from lowest_rate * (1 + probe_share) = {self.lowest_rate * probed:g} to highest_rate"
            raise SettingsError("budget_per_arm", self.budget_per_arm, f"{expected} = {self.highest_rate:g}")
        if self.estimate not in _ESTIMATES:
            raise SettingsError("estimate", self.estimate, "fitted or probes")

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
    length = 1.0 / settings.lowest_rate
    if settings.estimate == "fitted" and isinstance(costs, LearnableFamily):
        return _learn_by_fitting(costs, settings, seed, length)
    rng, limits, rates = _begin(costs, settings, seed)
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
    least, most = (_rates_worth(costs, worth, lowest, highest) for worth in (worth_most, worth_least))
    return spend_budget(least, most, limits.budget)


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
    if settings.estimate == "fitted" and isinstance(costs, LearnableFamily):
        return _learn_by_fitting(costs, settings, seed, settings.cycle)
    rng, limits, rates = _begin(costs, settings, seed)
    last_sync = np.zeros(costs.arms)
    times = _update_times(settings, settings.cycle)
    found = [costs.cost(rates)]
    for now in times[1:]:
        syncs = _count_syncs(now - last_sync, rates)
        gradient = _observe_gradient(costs, rates, syncs, settings.probe_share, rng)
        moving = syncs > 0
        moved = _move(rates, gradient, moving, settings.learning_rate, limits, kind)
        last_sync = _next_starts(last_sync + syncs / rates, rates, moved, moving, now)
        rates = moved
        found.append(costs.cost(rates))
    return SyncRun(times, np.array(found), rates)


def _update_times(settings: SyncSettings, cycle: float) -> Floats:
    """Return the times of the start and of all updates, a `cycle` apart."""
    updates = math.ceil(settings.rounds / (settings.lowest_rate * cycle) - _ROUNDING)
    times: Floats = np.arange(updates + 1.0) * cycle
    return times


def _count_syncs(time: Floats, rates: Floats) -> Ints:
    """Return how many whole intervals lie in the `time` of each arm."""
    return np.maximum(np.floor(time * rates + _ROUNDING), 0.0).astype(np.int64)


def _learn_by_fitting(costs: LearnableFamily, settings: SyncSettings, seed: int, cycle: float) -> SyncRun:
    rng, limits, rates = _begin(costs, settings, seed)
    learner = costs.learner(limits)
    times = _update_times(settings, cycle)
    last_sync, plan_time = np.zeros(costs.arms), 0.0
    all_arms = np.ones(costs.arms, np.bool_)
    found = [costs.cost(rates)]
    for now in times[1:]:
        syncs = _count_syncs(now - last_sync, rates)
        _observe_costs(costs, learner, rates, syncs, settings.probe_share, rng)
        last_sync = last_sync + syncs / rates
        if now >= plan_time:
            moved = learner.best_rates(rng if now <= _EXPLORING * times[-1] else None)
            last_sync = _next_starts(last_sync, rates, moved, all_arms, now)
            rates, plan_time = moved, _PLAN_AGAIN * now
        found.append(costs.cost(rates))
    return SyncRun(times, np.array(found), rates)


def _observe_costs(
    costs: CostFamily, learner: CostLearner, rates: Floats, syncs: Ints, probe_share: float, rng: np.random.Generator
) -> None:
    """Show the learner the costs of simulated syncs, a number for each arm, and of the probes before some of them."""
    arm = np.repeat(np.arange(rates.size), syncs)
    sync_age = 1.0 / rates[arm]
    probed = rng.random(arm.size) < probe_share
    probe_age = np.where(probed, sync_age * rng.random(arm.size), 0.0)
    learner.observe(arm, probe_age, sync_age, *costs.sample(arm, probe_age, sync_age, rng))


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
