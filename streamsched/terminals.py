"""Terminals: what a formula may read of a page, as a column for a block of rows at a time `now` (SPEC 5)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import numpy as np

from streamsched.arrays import Floats, Records
from streamsched.estimators import aad, cg, gad, nad, sad
from streamsched.jit import bare_kernel
from streamsched.posterior import probabilities_changed
from streamsched.tables import LONGEST_INTERVAL, Tables

__all__ = ["PROVIDED", "Priors", "TerminalColumns", "read_priors"]


class Priors(NamedTuple):
    """The prior Gammas of all groups at one time: one shape, and ``exposure``: float64[groups], in cycles."""

    shape: float
    exposure: Floats


def read_priors(tables: Tables) -> Priors:
    """Return the priors as learned so far. O(groups)."""
    shape = float(tables.corpus["shape"][0])
    return Priors(shape, shape / tables.groups["mean"][: int(tables.corpus["groups"][0])])


class _Rates(NamedTuple):
    """The Gamma posterior of each page and the cycles since its last visit, float64[m] each."""

    shape: Floats
    exposure: Floats
    elapsed: Floats


class TerminalColumns:
    """Columns of the wanted terminals for blocks of up to `block` pages, in buffers that are reused; for one thread.

    Every value is finite and 0 or more.
    """

    def __init__(self, wanted: Collection[str], block: int) -> None:
        self.wanted = tuple(wanted)
        self._buffers = {name: np.empty(block) for name in self.wanted}
        self._rated = any(name in _RATED for name in self.wanted)
        self._rates = [np.empty(block if self._rated else 0) for _ in range(3)]

    def fill(self, pages: Records, traces: Records, priors: Priors, now: float, cycle_s: float) -> dict[str, Floats]:
        """Return float64[m] for each wanted terminal of m pages, valid until the next call. O(m).

        `pages`: PAGE[m]; `traces`: TRACE[m]; `now`: UTC epoch seconds.
        """
        size = pages.size
        rates = _Rates(*(buffer[:size] for buffer in self._rates))
        if self._rated:
            _rate_pages(pages, priors, now, cycle_s, rates)
        columns = {}
        for name in self.wanted:
            out = self._buffers[name][:size]
            if name in _RATED:
                _RATED[name](rates, out)
            else:
                PROVIDED[name](pages, traces, now, cycle_s, out)
            columns[name] = out
        return columns


Fill = Callable[[Records, Records, float, float, Floats], object]


def _fill(copy: Callable[[Records, Floats], None]) -> Fill:
    return lambda pages, traces, now, cycle_s, out: copy(pages, out)


@bare_kernel
def _copy_visits(pages: Records, out: Floats) -> None:
    for i in range(pages.size):
        out[i] = pages[i].visits


@bare_kernel
def _copy_changes(pages: Records, out: Floats) -> None:
    for i in range(pages.size):
        out[i] = pages[i].changes


@bare_kernel
def _copy_importance(pages: Records, out: Floats) -> None:
    for i in range(pages.size):
        out[i] = pages[i].importance


@bare_kernel
def _copy_cost(pages: Records, out: Floats) -> None:
    for i in range(pages.size):
        out[i] = pages[i].cost


@bare_kernel
def _elapsed(pages: Records, now: float, cycle_s: float, out: Floats) -> None:
    for i in range(pages.size):
        out[i] = min(max((now - pages[i].last_visit_s) / cycle_s, 0.0), LONGEST_INTERVAL)


def _rate(rates: _Rates, out: Floats) -> None:
    np.divide(rates.shape, rates.exposure, out=out)


def _posterior(rates: _Rates, out: Floats) -> None:
    probabilities_changed(rates.shape, rates.exposure, rates.elapsed, out)


_RATED: Final[dict[str, Callable[[_Rates, Floats], None]]] = {"rate": _rate, "posterior": _posterior}

# The terminals that a page's record tells; those of SPEC 4 (rhythm and surge) are not among them yet.
PROVIDED: Final[dict[str, Fill]] = {
    "n": _fill(_copy_visits),
    "X": _fill(_copy_changes),
    "t": lambda pages, traces, now, cycle_s, out: _elapsed(pages, now, cycle_s, out),
    "CG": lambda pages, traces, now, cycle_s, out: cg(pages["visits"], pages["changes"], out=out),
    "NAD": lambda pages, traces, now, cycle_s, out: nad(pages["visits"], pages["changes"], out=out),
    "SAD": lambda pages, traces, now, cycle_s, out: sad(pages["visits"], traces["history"], out=out),
    "AAD": lambda pages, traces, now, cycle_s, out: aad(pages["visits"], traces["weighted_changes"], out=out),
    "GAD": lambda pages, traces, now, cycle_s, out: gad(pages["visits"], traces["history"], out=out),
    "importance": _fill(_copy_importance),
    "cost": _fill(_copy_cost),
    "rate": lambda *_: None,
    "posterior": lambda *_: None,
}


@bare_kernel
def _rate_pages(pages: Records, priors: Priors, now: float, cycle_s: float, out: _Rates) -> None:
    """Fill each page's Gamma posterior and the cycles since its last visit, in one pass. O(m)."""
    for i in range(pages.size):
        page = pages[i]
        out.shape[i] = priors.shape + page.own_shape
        out.exposure[i] = priors.exposure[page.group] + page.own_exposure
        out.elapsed[i] = min(max((now - page.last_visit_s) / cycle_s, 0.0), LONGEST_INTERVAL)
