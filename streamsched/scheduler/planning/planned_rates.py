"""Planners by name, and the crawl rates of all pages by one: its solver over the pages that may be visited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, Rows
from streamsched.optimal.lambda_crawl import binary_crawl, lambda_crawl
from streamsched.optimal.webfountain import import_casadi
from streamsched.scheduler.planning.learned_rates import SeenCosts, plan_buckets, step_rates
from streamsched.scheduler.planning.page_snapshot import PageSnapshot

_WITHIN: Final = 1.0 - 1e-9  # of what all hosts take together: the budget may not exceed it


class PlannedRates(NamedTuple):
    """The crawl rates of n pages, and the share of the visits that goes to new pages, None if it is not planned."""

    rates: npt.NDArray[np.float32]  # float32[n], visits per cycle
    new_share: float | None


class Question(NamedTuple):
    """The input of a planner.

    - ``pages``: all pages; ``visits``: the budget, visits per cycle; ``every``: cycles between two plans;
    - ``seen``: what visits since the last plan have observed;
    - ``floor``, ``complete_from``: of `OptimiserSettings`.
    """

    pages: PageSnapshot
    visits: float
    every: float
    seen: SeenCosts
    floor: float
    complete_from: float


@dataclass(frozen=True, slots=True)
class Planner:
    """A way to plan crawl rates.

    - ``solve``: returns the crawl rates of some rows, and the share of the visits that goes to new pages or None;
    - ``every``: cycles between two plans of a replay;
    - ``probe_share``: of each batch that is drawn at random, for a planner that learns from these visits alone;
    - ``check_installed``: raises SettingsError without the packages that it needs.
    """

    solve: Callable[[Question, Rows], tuple[Floats, float | None]]
    every: int = 1
    probe_share: float = 0.0
    check_installed: Callable[[], object] | None = None


def plan_rates(planner: Planner, question: Question) -> PlannedRates:
    """Return the crawl rates of all pages. O(n), and what the planner takes.

    Pages that are not available, of no importance, or on hosts that take no visits have a rate of 0.
    """
    pages = question.pages
    rates, new_share = np.zeros(pages.available.size, np.float32), None
    rows = np.flatnonzero(pages.available & (pages.importance > 0.0))
    if rows.size:
        solved, new_share = planner.solve(question, rows)
        rates[rows] = np.minimum(solved, np.finfo(np.float32).max)
    return PlannedRates(rates, new_share)


def _solve_binary(question: Question, rows: Rows) -> tuple[Floats, None]:
    pages = question.pages
    budget = {"budget": question.visits, "floor": question.floor}
    return binary_crawl(pages.importance[rows], pages.change_rate[rows], **budget).visit_rate, None


def _solve_harmonic(question: Question, rows: Rows) -> tuple[Floats, None]:
    return _solve_lambda(question, rows, question.visits), None


def _solve_polite(question: Question, rows: Rows) -> tuple[Floats, None]:
    pages = question.pages
    host = pages.host[rows]
    visits = min(question.visits, float(pages.host_visits[np.unique(host)].sum()) * _WITHIN)
    return _solve_lambda(question, rows, visits, host=host, host_budget=pages.host_visits), None


def _solve_lambda(question: Question, rows: Rows, visits: float, **hosts: Any) -> Floats:
    pages = question.pages
    complete = pages.recall[rows] >= question.complete_from
    importance, change_rate = pages.importance[rows], pages.change_rate[rows]
    rates = lambda_crawl(importance, change_rate, budget=visits, complete=complete, **hosts).visit_rate
    return np.where(complete, rates * (1.0 - pages.recall[rows]), rates)


def _solve_sync(question: Question, rows: Rows) -> tuple[Floats, None]:
    return step_rates(question.pages, rows, question.visits, question.seen), None


def _solve_buckets(question: Question, rows: Rows) -> tuple[Floats, float]:
    return plan_buckets(question.pages, rows, question.visits, question.every)


PLANNERS: Final = {
    "lambdacrawl": Planner(_solve_harmonic),
    "polite": Planner(_solve_polite),
    "binary": Planner(_solve_binary),
    "mirrorsync": Planner(_solve_sync, probe_share=0.1),
    "webfountain": Planner(_solve_buckets, every=7, check_installed=import_casadi),
}
