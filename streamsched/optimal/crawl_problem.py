"""The pages among which an optimiser divides a budget of visits, checked; the result, how often to visit each; and what
it costs.

Costs say how stale the copies of pages are on average, under either of two measures. Pages change as Poisson processes
and are visited as such, or with a fixed probability after each change if a signal announces it. Kolobov et al. (2019),
"Staying up to date with online content changes using reinforcement learning for scheduling": harmonic cost,
propositions 1 and 4; binary cost, equations 12 and 13.

Kernels compute how often each page should be visited when a visit costs a given price, and what that sums to. The price
is the multiplier of the budget. It is given as its *level*, 1/sqrt(price): visit rates grow with the level and at high
levels linearly, so that Newton's method needs few steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.arrays import Bools, Floats, Ints, frozen
from streamsched.numerics.jit import inlined_kernel, kernel
from streamsched.optimal.array_checks import (
    check_amount,
    check_flags,
    check_length,
    check_values,
    check_whole_numbers,
)

_WIDEST: Final = 1e60  # of the ratios in a problem: their squares and cubes are far from overflow
HARMONIC: Final = 0  # minimise the mean of -importance * ln(visit rate/(visit rate + change rate))
BINARY: Final = 1  # minimise the mean of importance * change rate/(visit rate + change rate)


class PageColumns(NamedTuple):
    """The columns of pages that optimisers read, for kernels."""

    importance: Floats  # float64[n], 0 or more
    change_rate: Floats  # float64[n], changes per cycle, 0 or more
    complete: Bools  # bool[n]: a signal announces each change; empty if none does
    floor: Floats  # float64[n]: least visit rate; empty if it is 0


class Hosts(NamedTuple):
    """Which host serves each page, and how many visits per cycle it takes."""

    host: Ints  # int64[n]
    budget: Floats  # float64[h], infinite for no limit
    pages: Ints  # int64[h]


class Units(NamedTuple):
    """The units of a problem, powers of two, so that numbers of any size can be squared."""

    importance: float
    visits: float  # and changes, per cycle

    @property
    def price(self) -> float:
        """Importance per visit, which multipliers are measured in; infinite if it is above all floats."""
        with np.errstate(over="ignore"):
            return float(np.float64(self.importance) / self.visits)


@dataclass(frozen=True, slots=True)
class CrawlRates:
    """How often to visit each page, and at what cost.

    - ``visit_rate``: float64[n], visits per cycle. A completely observed page has its visit probability times its
      change rate.
    - ``visit_probability``: float64[n], the share of a completely observed page's changes to visit it after. NaN if
      observation is incomplete.
    - ``multiplier``: by how much the sum over pages of what the cost averages would fall per further visit; 0 if more
      visits would change nothing.
    - ``host_multiplier``: float64[h], the same for a visit to one host; above `multiplier` for a host at its limit,
      infinite for one that takes none above its pages' floors. Empty without hosts.
    - ``cost``: the cost that the optimiser minimises, per page.
    """

    visit_rate: Floats
    visit_probability: Floats
    multiplier: float
    host_multiplier: Floats
    cost: float


def check_pages(
    importance: npt.ArrayLike, change_rate: npt.ArrayLike, complete: npt.ArrayLike | None = None
) -> PageColumns:
    """Return the checked columns; raises SettingsError for NaN, negative or infinite values and unequal lengths. O(n).

    >>> check_pages([1.0, 2.0], [0.1])
    Traceback (most recent call last):
    streamsched.errors.SettingsError: change_rate: expected 2 values, one for each page, found '1 values'
    """
    weights = check_values("importance", importance)
    rates = check_values("change_rate", change_rate)
    check_length("change_rate", rates, weights.size, "page")
    flags = np.empty(0, np.bool_)
    if complete is not None:
        flags = check_flags("complete", complete)
        check_length("complete", flags, weights.size, "page")
    return PageColumns(weights, rates, frozen(flags), frozen(np.empty(0)))


def check_hosts(
    host: npt.ArrayLike | None, host_budget: npt.ArrayLike | None, pages: int, budget: float
) -> Hosts | None:
    """Return the checked hosts, None if there are none. O(n).

    Raises SettingsError for a host without a budget, and if the budgets of the pages' hosts do not add up to `budget`.
    """
    if host is None or host_budget is None:
        _check_neither(host, host_budget)
        return None
    limits = check_values("host_budget", host_budget, most=np.inf, expected="0 or more visits, or inf for no limit")
    expected = f"a whole number from 0 to {limits.size - 1}, an index of host_budget"
    numbers = check_whole_numbers("host", host, limits.size - 1, expected)
    check_length("host", numbers, pages, "page")
    counts = np.bincount(numbers, minlength=limits.size)
    total = float(limits[counts > 0].sum())
    if total < budget * (1.0 - 1e-12):
        raise SettingsError(
            "budget", budget, f"at most {total:g}, what the pages' hosts take together: lower it or raise host_budget"
        )
    return Hosts(numbers, limits, frozen(counts))


def _check_neither(host: npt.ArrayLike | None, host_budget: npt.ArrayLike | None) -> None:
    for name, missing, other in (("host", host, host_budget), ("host_budget", host_budget, host)):
        if missing is None and other is not None:
            raise SettingsError(name, None, "given together: the host of each page and the budget of each host")


def check_budget(budget: float) -> float:
    """Return the budget of visits per cycle as a float; raises SettingsError unless it is finite and above 0."""
    return check_amount("budget", budget, "a finite number of visits per cycle, above 0")


def in_units(pages: PageColumns, budget: float) -> tuple[PageColumns, Units]:
    """Return `pages` measured in units near the largest importance and `budget`, and these. O(n).

    Ratios beyond 1e60 become 1e60: such a page is visited next to never, or as often either way.
    """
    units = Units(_power_of_two(float(pages.importance.max())), _power_of_two(budget))
    importance, change_rate = _divide(pages.importance, units.importance), _divide(pages.change_rate, units.visits)
    return PageColumns(importance, change_rate, pages.complete, frozen(pages.floor / units.visits)), units


def _divide(column: Floats, unit: float) -> Floats:
    with np.errstate(over="ignore"):
        return frozen(np.where(column > 0.0, np.clip(column / unit, 1.0 / _WIDEST, _WIDEST), 0.0))


def _power_of_two(number: float) -> float:
    """Return the largest power of two up to `number`, 1 for 0."""
    return math.ldexp(1.0, math.frexp(number)[1] - 1) if number > 0.0 else 1.0


def harmonic_cost(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    visit_rate: npt.ArrayLike,
    visit_probability: npt.ArrayLike | None = None,
) -> float:
    """Return the mean over pages of -importance * ln(visit rate/(visit rate + change rate)). O(n).

    The i-th change that a copy misses costs 1/i. A page with a visit probability (not NaN) is completely observed and
    costs -importance * ln(probability). Infinite if an important page that changes is never visited. Raises
    SettingsError for invalid arrays.

    >>> harmonic_cost([1, 2, 3], [0.1, 0.5, 1], [0.124208, 0.333939, 0.541852])
    1.85275
    """
    return mean_harmonic_cost(*_check(importance, change_rate, visit_rate, visit_probability))


def binary_cost(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    visit_rate: npt.ArrayLike,
    visit_probability: npt.ArrayLike | None = None,
) -> float:
    """Return the mean over pages of importance * change rate/(visit rate + change rate): the stale share. O(n).

    A completely observed page costs importance * (1 - probability). Raises SettingsError for invalid arrays.

    >>> binary_cost([1, 2, 3], [0.1, 0.5, 1], [0.124208, 0.333939, 0.541852])
    1.19695
    """
    return mean_binary_cost(*_check(importance, change_rate, visit_rate, visit_probability))


def mean_harmonic_cost(
    importance: Floats, change_rate: Floats, visit_rate: Floats, visit_probability: Floats | None
) -> float:
    """Return `harmonic_cost` of checked columns."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        costs = importance * np.log1p(change_rate / visit_rate)
        if visit_probability is not None:
            costs = np.where(np.isnan(visit_probability), costs, -importance * np.log(visit_probability))
    return _mean(costs, importance, change_rate)


def mean_binary_cost(
    importance: Floats, change_rate: Floats, visit_rate: Floats, visit_probability: Floats | None
) -> float:
    """Return `binary_cost` of checked columns."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        costs = importance / (1.0 + visit_rate / change_rate)
        if visit_probability is not None:
            costs = np.where(np.isnan(visit_probability), costs, importance * (1.0 - visit_probability))
    return _mean(costs, importance, change_rate)


def _mean(costs: Floats, importance: Floats, change_rate: Floats) -> float:
    """Return the mean cost, where pages without importance or changes cost nothing however they are visited."""
    with np.errstate(over="ignore"):
        return float(np.where((importance > 0.0) & (change_rate > 0.0), costs, 0.0).mean())


def _check(
    importance: npt.ArrayLike,
    change_rate: npt.ArrayLike,
    visit_rate: npt.ArrayLike,
    visit_probability: npt.ArrayLike | None,
) -> tuple[Floats, Floats, Floats, Floats | None]:
    pages = check_pages(importance, change_rate)
    rates = check_values("visit_rate", visit_rate)
    check_length("visit_rate", rates, pages.importance.size, "page")
    if visit_probability is None:
        return pages.importance, pages.change_rate, rates, None
    chances = np.asarray(visit_probability)
    known = check_values("visit_probability", np.where(np.isnan(chances), 0.0, chances), most=1.0)
    check_length("visit_probability", known, rates.size, "page")
    return pages.importance, pages.change_rate, rates, np.where(np.isnan(chances), np.nan, known)


@kernel
def sum_needs(pages: PageColumns, offsets: Ints, needs: tuple[Floats, Floats, Floats, Floats]) -> None:
    """Set what the pages of each host add up to; those of host h are from offsets[h] to offsets[h + 1]. O(n).

    ``needs``: float64[h] of change rates, of sqrt(importance * change rate), of the least visits, and of the most that
    lower the cost.
    """
    changes, roots, least, most = needs
    for h in range(offsets.size - 1):
        for i in range(offsets[h], offsets[h + 1]):
            importance, change_rate = pages.importance[i], pages.change_rate[i]
            changes[h] += change_rate
            least[h] += _floor(pages, i)
            if importance > 0.0 and change_rate > 0.0:
                roots[h] += math.sqrt(importance) * math.sqrt(change_rate)
                most[h] += change_rate if _is_complete(pages, i) else math.inf
            else:
                most[h] += _floor(pages, i)


@inlined_kernel
def sum_visits(pages: PageColumns, begin: int, end: int, level: float, objective: int) -> tuple[float, float]:
    """Return the sums of the visit rates at a level, and of their slopes in it, of pages `begin` to `end`."""
    rates, slopes = 0.0, 0.0
    for i in range(begin, end):
        rate, slope = _visit(pages, i, level, objective)
        rates += rate
        slopes += slope
    return rates, slopes


@kernel
def fill_visit_rates(pages: PageColumns, host: Ints, levels: Floats, objective: int, out: Floats) -> None:
    """Set ``out``: float64[n] to the visit rate of each page at the level of its host. O(n)."""
    for i in range(pages.importance.size):
        h = host[i] if host.size > 0 else 0
        out[i] = _visit(pages, i, levels[h], objective)[0]


@inlined_kernel
def _visit(pages: PageColumns, i: int, level: float, objective: int) -> tuple[float, float]:
    """Return the visit rate of a page and its slope in the level.

    Where the level is infinite, every page has either no importance, or no changes, or a signal.
    """
    importance, change_rate = pages.importance[i], pages.change_rate[i]
    floor = _floor(pages, i)
    if importance == 0.0 or change_rate == 0.0:
        return floor, 0.0
    if objective == BINARY:
        root = math.sqrt(importance) * math.sqrt(change_rate)
        rate = root * level - change_rate
        return (rate, root) if rate > floor else (floor, 0.0)
    if _is_complete(pages, i):
        rate = importance * level * level
        return (rate, 2.0 * importance * level) if rate < change_rate else (change_rate, 0.0)
    product = importance * change_rate
    bend = math.sqrt(change_rate * change_rate + 4.0 * product * level * level)
    return 2.0 * product * level * level / (change_rate + bend), 2.0 * product * level / bend


@inlined_kernel
def _is_complete(pages: PageColumns, i: int) -> bool:
    return pages.complete.size > 0 and pages.complete[i]


@inlined_kernel
def _floor(pages: PageColumns, i: int) -> float:
    return pages.floor[i] if pages.floor.size > 0 else 0.0
