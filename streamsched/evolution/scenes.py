"""What pages' rhythms were when a history was drawn: as its crawls read them, they stay what they are."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.arrays import Floats, Records
from streamsched.beats import DUE, TAU, Beats
from streamsched.evolution.arena import Ground
from streamsched.jit import bare_kernel
from streamsched.tables import LINK, PROFILE, SCHEDULE
from streamsched.terminals import TERMINAL_CODES, fill_terminal

__all__ = ["NO_BEATS", "fill_then"]

_ELAPSED: Final = TERMINAL_CODES["t"]
_POSTERIOR: Final = TERMINAL_CODES["posterior"]

NO_BEATS: Final = Beats(np.empty(0, LINK), np.empty(0, SCHEDULE), np.empty(0, PROFILE))


@bare_kernel
def fill_then(code: int, pages: Records, traces: Records, ground: Ground, cycle: int, out: Floats) -> None:
    """Fill `out`: float64[m] with a terminal of m classes at the end of `cycle`. O(m).

    Where nothing is known of rhythms all hours count as alike.
    """
    beats = ground.beats
    if code < TAU:
        fill_terminal(code, pages, traces, beats, float(cycle), 1.0, out)
    elif beats.links.size == 0:
        if code == TAU:
            fill_terminal(_ELAPSED, pages, traces, beats, float(cycle), 1.0, out)
        elif code == DUE:
            fill_terminal(_POSTERIOR, pages, traces, beats, float(cycle), 1.0, out)
        else:
            out[:] = 1.0
