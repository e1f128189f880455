"""The pages among which an optimiser divides a budget of visits, checked; and the result: how often to visit each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.arrays import Bools, Floats, Ints, frozen
from streamsched.optimal.array_checks import (
    check_amount,
    check_flags,
    check_length,
    check_values,
    check_whole_numbers,
)

__all__ = ["CrawlRates", "Hosts", "PageColumns", "Units", "check_budget", "check_hosts", "check_pages", "in_units"]

_WIDEST: Final = 1e60  # of the ratios in a problem: their squares and cubes are far from overflow


class PageColumns(NamedTuple):
    """What the optimisers read of each page, for kernels."""

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
    """What a problem is measured in, so that numbers of any size can be squared: powers of two."""

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
