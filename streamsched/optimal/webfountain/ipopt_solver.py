"""Solves WebFountain's model with CasADi's IPOPT, the states eliminated. ``pip install streamsched[webfountain]``.

The variables are the share of each bucket and the number of new pages that each period crawls: the balance equations
(2) to (4) hold by construction. The problem is not convex, so IPOPT improves plans that crawl whole buckets.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import NOTHING, SettingsError
from streamsched.numerics.argument_checks import check_type, check_whole
from streamsched.optimal.array_checks import check_length, check_values
from streamsched.optimal.webfountain.bucket_model import BucketModel, CrawlPlan, follow_plan
from streamsched.optimal.webfountain.schedules import scheduled_shares

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats

__all__ = ["import_casadi", "webfountain"]

_OPTIONS: Final = {
    "print_time": False,
    "ipopt.print_level": 0,
    "ipopt.sb": "yes",  # no banner
    "ipopt.max_iter": 150,  # what further steps gain is less than what another start does
    "ipopt.tol": 1e-5,
    "ipopt.mu_init": 1e-7,  # a start is mostly 0s and 1s, as solutions are: a larger barrier would leave it
    "ipopt.bound_push": 1e-6,
    "ipopt.bound_frac": 1e-6,
}

_OTHER_RATES: Final = (0.8, 1.2)  # times the change shares: from which and to which random starts assume them
_CRAWL_WEIGHT: Final = 1e-3  # obsolete pages that a crawl counts as, so that none is made to no effect


def webfountain(model: BucketModel, weights: npt.ArrayLike, *, starts: int = 3, seed: int = 0) -> CrawlPlan:
    """Return the best plan found from `starts` points: the least weighted sum of obsolete and new pages.

    ``weights``: float64[T], of each period, as `strategy_weights` gives them. The first start crawls new pages at once
    and whole buckets in the periods that are best for them; further ones do so for random other change rates. A local
    optimum: another start may find a better one. Crawls that would change little are left out. The paper's size, 14
    periods of 255 buckets, takes about 1.5 s a start and 1 s once. Raises SettingsError for invalid arguments, and if
    CasADi is not installed.
    """
    check_type("model", model, BucketModel, "a BucketModel")
    shares = check_values("weights", weights)
    check_length("weights", shares, model.budget.size, "period")
    if not shares.any():
        raise SettingsError("weights", shares.tolist(), "one or more weights above 0")
    count = check_whole("starts", starts, 1, "a whole number of starts, 1 or more")
    rng = np.random.default_rng(check_whole("seed", seed, 0, "a whole number, 0 or more"))
    solve = _build(import_casadi(), model, shares)
    plans = []
    for start in range(count):
        begin = follow_plan(model, shares, *_start(model, shares, start, rng))
        plans += [begin, follow_plan(model, shares, *solve(begin))]
    return min(plans, key=lambda plan: plan.objective)


def import_casadi() -> Any:
    """Return CasADi. Raises SettingsError if it is not installed."""
    try:
        return import_module("casadi")  # an optional dependency, used here only
    except ImportError as error:
        raise SettingsError(
            "casadi", NOTHING, "an installed package: pip install 'streamsched[webfountain]'"
        ) from error


def _build(casadi: Any, model: BucketModel, weights: Floats) -> Any:
    """Return a function that improves a plan: from one to the shares and the new pages crawled of a better one."""
    periods, buckets = model.budget.size, model.pages.size
    unit = float(model.pages.mean())  # so that all quantities are near 1
    shares, chosen = casadi.SX.sym("shares", buckets, periods), casadi.SX.sym("chosen", periods)
    pages, change = casadi.DM(model.pages / unit), casadi.DM(model.change_share)
    stale, grown, new = casadi.DM(model.obsolete / unit), 1.0, model.new.waiting / unit
    objective, spare = 0.0, []
    for t in range(periods):
        bucket, share = pages * grown, shares[:, t]
        crawled = casadi.dot(share, bucket)
        spare += [1.0 - (crawled + model.new.cost * chosen[t]) * unit / model.budget[t], new - chosen[t]]
        stale = (1.0 - share) * ((1.0 - change) * stale + change * bucket)
        found = model.new.arrivals / unit + model.new.found_by_old * crawled + model.new.found_by_new * chosen[t]
        new = new - chosen[t] + found
        grown = grown + chosen[t] / buckets
        objective += weights[t] * (casadi.sum1(stale) + new) + _CRAWL_WEIGHT * weights.max() * crawled
    problem = {
        "x": casadi.veccat(shares, chosen),
        "f": objective / (weights.sum() * buckets / 50.0),  # about 1 where a fiftieth of the pages is obsolete
        "g": casadi.vertcat(*spare),
    }
    solver = casadi.nlpsol("webfountain", "ipopt", problem, _OPTIONS)
    bounds = np.concatenate((np.ones(periods * buckets), np.full(periods, np.inf)))

    def solve(plan: CrawlPlan) -> tuple[Floats, Floats]:
        begin = np.concatenate((plan.crawl_share.ravel(), plan.new_crawled / unit))
        found = np.array(solver(x0=begin, lbx=0.0, ubx=bounds, lbg=0.0, ubg=np.inf)["x"]).ravel()
        return found[: bounds.size - periods].reshape(periods, buckets), found[bounds.size - periods :] * unit

    return solve


def _start(model: BucketModel, weights: Floats, start: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the shares, [T, B], and the new pages, [T], that the search starts from."""
    eager, planned = 1.0, model
    if start > 0:
        eager = rng.random()
        change = np.minimum(1.0, model.change_share * rng.uniform(*_OTHER_RATES, model.pages.size))
        planned = replace(model, change_share=change)
    known, chosen = model.new.waiting, np.empty(weights.size)
    for t, budget in enumerate(model.budget.tolist()):
        chosen[t] = eager * min(known, budget / model.new.cost)
        known += model.new.arrivals - chosen[t]
    return scheduled_shares(planned, weights, chosen), chosen
