"""Terminals: what a formula may read of a page, as a column for a block of rows at a time `now` (SPEC 5)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import numpy as np

from streamsched.arrays import Floats, Records
from streamsched.estimators import aad, cg, gad, nad, sad
from streamsched.jit import bare_kernel
from streamsched.posterior import probabilities_changed
from streamsched.tables import Tables

__all__ = ["PROVIDED", "TerminalColumns"]


class TerminalColumns:
    """Columns of the wanted terminals for blocks of up to `block` pages, at one time, in buffers that are reused.

    Every value is finite and 0 or more. For one thread; several may read the same tables while none writes them.
    """

    def __init__(self, tables: Tables, wanted: Collection[str], block: int) -> None:
        self.wanted = tuple(wanted)
        self._buffers = {name: np.empty(block) for name in self.wanted}
        rated = any(name in _RATED for name in self.wanted)
        self._rates = {name: np.empty(block if rated else 0) for name in ("shape", "exposure", "elapsed")}
        corpus = tables.corpus[0]
        self._shape = float(corpus["shape"])
        self._prior_exposure: Floats = self._shape / tables.groups["mean"][: int(corpus["groups"])]
        self._rated = rated

    def fill(self, pages: Records, traces: Records, now: float, cycle_s: float) -> dict[str, Floats]:
        """Return float64[m] for each wanted terminal of m pages: PAGE[m] and TRACE[m]; valid until the next call. O(m)."""
        size = pages.size
        rates = {name: buffer[:size] for name, buffer in self._rates.items()}
        if self._rated:
            parts = (rates["shape"], rates["exposure"], rates["elapsed"])
            _rate_pages(pages, self._prior_exposure, self._shape, now, cycle_s, *parts)
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
        out[i] = max((now - pages[i].last_visit_s) / cycle_s, 0.0)


def _posterior(rates: dict[str, Floats], out: Floats) -> None:
    probabilities_changed(rates["shape"], rates["exposure"], rates["elapsed"], out)


def _rate(rates: dict[str, Floats], out: Floats) -> None:
    np.divide(rates["shape"], rates["exposure"], out=out)


_RATED: Final[dict[str, Callable[[dict[str, Floats], Floats], None]]] = {"rate": _rate, "posterior": _posterior}

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
def _rate_pages(
    pages: Records,
    prior_exposure: Floats,
    prior_shape: float,
    now: float,
    cycle_s: float,
    shape: Floats,
    exposure: Floats,
    elapsed: Floats,
) -> None:
    """Fill each page's Gamma posterior and the cycles since its last visit, all float64[m], in one pass."""
    for i in range(pages.size):
        page = pages[i]
        shape[i] = prior_shape + page.own_shape
        exposure[i] = prior_exposure[page.group] + page.own_exposure
        elapsed[i] = max((now - page.last_visit_s) / cycle_s, 0.0)
