"""Terminals in simulated crawls: surges from cumulative hazards, seasonality by the history's times."""

from __future__ import annotations

from typing import Final

from streamsched.estimation.content import fill_significance
from streamsched.estimation.seasonality.seasonal_terminals import DUE, RHYTHM, TAU
from streamsched.evolution.simulation.arena import READS_SEASONALITY, SimulatedCrawl
from streamsched.evolution.simulation.simulated_events import (
    SeasonalityInputs,
    fill_simulated_seasonal_terminal,
    fill_surge,
    simulated_surge,
)
from streamsched.formula.expected_gain import expected_gain
from streamsched.formula.terminal_table import TERMINAL_CODES
from streamsched.formula.terminals import fill_terminal
from streamsched.numerics.arrays import Floats
from streamsched.numerics.jit import bare_kernel

_ELAPSED: Final = TERMINAL_CODES["t"]
_POSTERIOR: Final = TERMINAL_CODES["posterior"]
_SURGE: Final = TERMINAL_CODES["surge"]
_GAIN: Final = TERMINAL_CODES["gain"]
_SIGNIFICANCE: Final = TERMINAL_CODES["significance"]


@bare_kernel
def fill_class_terminal(code: int, start: int, crawl: SimulatedCrawl, cycle: int, out: Floats) -> None:
    """Fill `out`: float64[m] with a terminal of the m classes from number `start` on, at the end of `cycle`. O(m).

    All hours count alike if the history has no timing.
    """
    if code == _GAIN:
        _fill_due_and_others(DUE, start, crawl, cycle, out)
        pages = crawl.arena.pages[start : start + out.size]
        for i in range(out.size):
            spared = 1.0 - simulated_surge(crawl.history.surge_hazard, pages[i], cycle)
            out[i] = expected_gain(out[i], pages[i].prior_shape + pages[i].own_shape, 0.0, spared)
    elif code == _SIGNIFICANCE:
        fill_significance(crawl.arena.links[start : start + out.size], out)
    else:
        _fill_due_and_others(code, start, crawl, cycle, out)


@bare_kernel
def _fill_due_and_others(code: int, start: int, crawl: SimulatedCrawl, cycle: int, out: Floats) -> None:
    """Fill `out` with any other terminal."""
    arena = crawl.arena
    pages, traces = arena.pages[start : start + out.size], arena.traces[start : start + out.size]
    if code == _SURGE:
        fill_surge(crawl.history.surge_hazard, pages, cycle, out)
    elif crawl.program.reads & READS_SEASONALITY and code in (TAU, RHYTHM, DUE):
        links = arena.links[start : start + out.size]
        fill_simulated_seasonal_terminal(
            code, SeasonalityInputs(links, arena.schedules, crawl.history.clock), pages, cycle, out
        )
    elif code == RHYTHM:
        out[:] = 1.0
    else:
        if code == TAU:
            code = _ELAPSED
        elif code == DUE:
            code = _POSTERIOR
        fill_terminal(code, pages, traces, arena.context, float(cycle), 1.0, out)
