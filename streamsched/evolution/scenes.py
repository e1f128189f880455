"""Terminals as simulated crawls read them: what goes by surges from the tolls; of rhythms nothing is known."""

from __future__ import annotations

from typing import Final

from streamsched.arrays import Floats, Records
from streamsched.beats import DUE, RHYTHM, TAU
from streamsched.evolution.arena import Crawl
from streamsched.evolution.tolls import fill_surge
from streamsched.jit import bare_kernel
from streamsched.terminals import TERMINAL_CODES, fill_terminal

__all__ = ["fill_then"]

_ELAPSED: Final = TERMINAL_CODES["t"]
_POSTERIOR: Final = TERMINAL_CODES["posterior"]
_SURGE: Final = TERMINAL_CODES["surge"]


@bare_kernel
def fill_then(code: int, pages: Records, traces: Records, crawl: Crawl, cycle: int, out: Floats) -> None:
    """Fill `out`: float64[m] with a terminal of m classes at the end of `cycle`. O(m).

    All hours count as alike.
    """
    if code == _SURGE:
        fill_surge(crawl.ground.tolls, pages, cycle, out)
    elif code == RHYTHM:
        out[:] = 1.0
    else:
        if code == TAU:
            code = _ELAPSED
        elif code == DUE:
            code = _POSTERIOR
        fill_terminal(code, pages, traces, crawl.arena.context, float(cycle), 1.0, out)
