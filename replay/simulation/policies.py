"""Policies by name. All but `rand` and `oracle` rank pages with the real Scheduler.

The published estimators are used as GP4C uses its baselines (section 5.1): CG ranks by its value, equation 4, and
ignores the time since the last visit; NAD, SAD, AAD and GAD are rates λ and rank by the probability of a change since
the last visit, equation 5 with the minus sign that is missing in print.

Every policy orders ties at random, differently in each cycle, as the Scheduler does. This matters: the published
estimators give score 0 to every page without a change so far, more pages than a budget reaches. With one order for the
whole replay some of them would never be visited, and NAD would find 0.05 changed pages per visit in the last year of
the shipped `scoop-extras` log, not 0.09.

The policy `posterior` is the posterior without surges, the baseline of the default policy.

The objectives (`default` is `changes`) choose pages by their formulas, and visit them in the order in which a Scheduler
hands out a batch: by the probability of a change. All other formulas keep the order of their scores.

A name with " without signals" after it is the same policy, which gets none of the signals of its replay.

Three policies change their formula as they learn: see `streamsched.replay.simulation.evolving_policies`. Those of
`PLANNED` visit each page as often as an optimiser plans: see `streamsched.replay.simulation.planned_policies`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.numerics.topk_order import select_top
from streamsched.replay.simulation.evolving_policies import (
    PANEL,
    EvolvingPolicy,
    PaperPolicy,
    make_paper_settings,
    make_plan,
)
from streamsched.replay.simulation.planned_policies import PROBED, PlannedPolicy
from streamsched.replay.simulation.policy_names import (
    FORMULAS,
    PLANNED,
    WITHOUT_SIGNALS,
    check_policy,
    is_objective,
    is_signalled,
)
from streamsched.replay.simulation.scheduler_policy import ScheduledPolicy, SignalledPolicy
from streamsched.replay.simulation.signals.signal_stream import join_signals
from streamsched.replay.simulation.simulator import Policy, PolicyQuery, Schedule
from streamsched.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Rows
    from streamsched.numerics.packed_urls import PackedUrls
    from streamsched.outcomes import OutcomeBatch
    from streamsched.replay.simulation.signals.signal_stream import SignalStream
    from streamsched.replay.simulation.signals.simulated_source import SimulatedSource
    from streamsched.replay.truth.ground_truth import Window
    from streamsched.signals import SignalBatch

__all__ = [
    "ReplayedSignals",
    "ScheduledPolicy",
    "deliver_signals",
    "make_policy",
]

_DEFAULT_SCHEDULE: Final = Schedule(0.05, 2, "since_visit")


def make_policy(
    name: str, cycle_s: float, seed: int, schedule: Schedule = _DEFAULT_SCHEDULE, workers: int = 1
) -> Policy:
    """Return a new policy of that name or formula; `seed` determines the order of ties and all randomness. O(1).

    `schedule`: the budget and reading for evolutions; `workers`: their threads, which do not affect results. Raises the
    errors of `check_policy`.
    """
    check_policy(name)
    name = name.removesuffix(WITHOUT_SIGNALS)
    if name == "rand":
        return _StatelessPolicy(_score_equally, cycle_s, seed)
    if name == "oracle":
        return _StatelessPolicy(_score_by_truth, cycle_s, seed)
    panel = PANEL if name == "gp4c-panel" else 0.0
    explored = PROBED if name == "mirrorsync" else 0.0
    scheduler = Scheduler(cycle=cycle_s, seed=seed, surges=name != "posterior", panel=panel, explore_share=explored)
    if name in PLANNED:
        return PlannedPolicy(scheduler, name, schedule)
    if name in ("gp4c", "gp4c-panel"):
        return EvolvingPolicy(scheduler, make_plan(schedule, seed, workers))
    if name == "gp4c-paper":
        scheduler.use(FORMULAS["nad"])
        return PaperPolicy(scheduler, make_paper_settings(schedule, workers), seed)
    if name != "default":
        scheduler.use(FORMULAS.get(name, name))
    return ScheduledPolicy(scheduler, by_probability=is_objective(name))


class ReplayedSignals(NamedTuple):
    """What a replay tells its policies: ``sources`` to simulate, and ``recorded`` signals."""

    sources: tuple[SimulatedSource, ...] = ()
    recorded: tuple[SignalBatch, ...] = ()


def deliver_signals(
    name: str, policy: Policy, window: Window, signals: ReplayedSignals, seed: int
) -> tuple[Policy, SignalStream | None]:
    """Return what to simulate in place of `policy`, called `name`, and the `signals` that it will get.

    The policy itself and None if there are none, or it takes no signals. O(n log n) in the signals.
    """
    if not (any(signals) and is_signalled(name) and isinstance(policy, ScheduledPolicy)):
        return policy, None
    stream = join_signals(window, signals.sources, seed, signals.recorded)
    return SignalledPolicy(policy, stream), stream


class _StatelessPolicy:
    """A policy that scores pages from the query alone; ties are in random order, which differs each cycle."""

    def __init__(self, score: Callable[[PolicyQuery], Floats], cycle_s: float, seed: int) -> None:
        self._score = score
        self._pages = Scheduler(cycle=cycle_s, seed=seed)

    def discover(self, urls: PackedUrls, now: float) -> None:
        self._pages.discover(urls, now=now)

    def rank(self, query: PolicyQuery) -> Rows:
        return select_top(self._score(query), self._pages.core.tie_keys(now=query.now), query.k)

    def observe(self, outcomes: OutcomeBatch) -> None:
        pass


def _score_equally(query: PolicyQuery) -> Floats:
    return np.zeros(query.known)


def _score_by_truth(query: PolicyQuery) -> Floats:
    return query.changed.astype(np.float64)
