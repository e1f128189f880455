"""What change signals say of a page, as terminals read it: from the page's SIGNAL alone.

A signal since the last visit is a reason to believe in a change. The silence of a source that misses little is a reason
to doubt one: of a page's changes, as few are still unannounced as change in a shorter time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.vector_math import exp, expm1, log

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Record, Records

__all__ = [
    "QUIET_UNIT",
    "SIGNAL_UNIT",
    "decode_lateness",
    "encode_lateness",
    "encode_signalled",
    "fill_signalled",
    "join_signals",
    "quieten_column",
    "quieten_probability",
    "quieten_time",
    "unsignalled",
]

SIGNAL_UNIT: Final = 1.0 / (1 << 16)  # of SIGNAL.signalled
QUIET_UNIT: Final = 1.0 / 255.0  # of SIGNAL.quiet: 255 is a source that announces nothing
_MOST_SIGNALLED: Final = (1 << 16) - 1
_STEPS: Final = 8.0  # of SIGNAL.lateness, in an octave of seconds
_MOST_LATENESS: Final = 255.0
_MOST_EXPONENT: Final = 700.0  # e to the power of it is finite
_LN_2: Final = math.log(2.0)


@inlined_kernel
def unsignalled(signal: Record) -> float:
    """Return the probability that no signal since the page's last visit is true. O(1)."""
    return 1.0 - SIGNAL_UNIT * float(signal.signalled)


@inlined_kernel
def encode_signalled(probability: float) -> int:
    """Return SIGNAL.signalled of a probability: below 1, as no signal is certain."""
    return min(int(np.int64(probability / SIGNAL_UNIT + 0.5)), _MOST_SIGNALLED)


@inlined_kernel
def encode_lateness(lateness_s: float) -> int:
    """Return SIGNAL.lateness of a mean lateness in seconds, to within 5 %."""
    return int(np.int64(min(max(_STEPS * np.log2(max(lateness_s, 1.0)) + 0.5, 0.0), _MOST_LATENESS)))


@inlined_kernel
def decode_lateness(lateness: int) -> float:
    """Return the seconds that `encode_lateness` encoded."""
    return float(np.exp((_LN_2 / _STEPS) * float(lateness)))


@inlined_kernel
def quieten_time(signal: Record, cycles: float, cycle_s: float) -> float:
    """Return the cycles in which as many changes are expected as are unannounced after `cycles` of silence. O(1).

    A source announces the part r of changes, each after a delay of mean d, exponentially distributed. Of those in a
    time t it leaves (1 - r)·t + r·d·(1 - e^(-t/d)) unannounced. It never falls when `cycles` rises.
    """
    if signal.quiet == 0:
        return cycles
    quiet = QUIET_UNIT * float(signal.quiet)
    delay = decode_lateness(signal.lateness) / cycle_s
    pending = 0.0 - expm1(-min(cycles / delay, _MOST_EXPONENT))
    return min(quiet * cycles + (1.0 - quiet) * delay * pending, cycles)


@inlined_kernel
def quieten_probability(signal: Record, probability: float) -> float:
    """Return the probability of one change that no signal has announced, by Bayes' rule. O(1).

    For a page with a schedule: `probability`: that it was updated.
    """
    if signal.quiet == 0:
        return probability
    quiet = QUIET_UNIT * float(signal.quiet)
    return min(probability * quiet / (1.0 - probability * (1.0 - quiet)), 1.0) if probability < 1.0 else 1.0


@bare_kernel
def quieten_column(signals: Records, cycle_s: float, out: Floats) -> None:
    """Replace cycles since each page's last visit by those of `quieten_time`: SIGNAL[m or 0], float64[m]. O(m)."""
    for i in range(min(signals.size, out.size)):
        out[i] = quieten_time(signals[i], out[i], cycle_s)


@bare_kernel
def fill_signalled(signals: Records, out: Floats) -> None:
    """Fill `out` with the probabilities that a signal since each page's last visit is true. O(m)."""
    out[:] = 0.0
    for i in range(min(signals.size, out.size)):
        out[i] = 1.0 - unsignalled(signals[i])


@bare_kernel
def join_signals(signals: Records, unseen: Floats, spared: Floats) -> None:
    """Add what signals say to what `expected_gain` reads: the probability that none is true. All: float64[m]. O(m).

    Of k signals, each true with the probability π, the part (1 - π)² of their evidence -k·log(1 - π) joins ``unseen``,
    as if more of it would come while the page waits; the rest joins ``spared``. So one signal of a good source makes a
    visit urgent, and a flood of worthless ones does not: the page's own rate says as much. The power was chosen on
    scoop-extras and openwrt: 1 finds fewer changes with a good source, 0 loses to a flood.
    """
    for i in range(min(signals.size, spared.size)):
        signal: Record = signals[i]
        if signal.signalled:
            left = unsignalled(signal)
            evidence = log(left)
            again = -evidence * exp(2.0 * evidence / max(float(signal.count), 1.0))
            unseen[i] += again
            spared[i] *= left * exp(again)
