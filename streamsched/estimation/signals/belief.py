"""How far a single signal is believed, and all signals of a page together.

True signals, false ones, and late announcements of a change that a visit has already seen are independent Poisson
processes. So a signal is one of each with a probability in proportion to their rates at its time. Signals of one kind
say more together than each by itself, 1 - Π(1 - π). Those of other kinds may repeat the same announcement, so only the
kind that says most counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.estimation.signals.page_signals import SIGNAL_UNIT, encode_signalled
from streamsched.numerics.jit import inlined_kernel
from streamsched.numerics.vector_math import expm1

if TYPE_CHECKING:
    from streamsched.estimation.signals.reliability import Reliability
    from streamsched.numerics.arrays import Record

__all__ = ["DAY_S", "Belief", "add_signal", "believe", "pending_days", "promptness", "rate_per_day"]

_MOST_COUNTED: Final = 255
_MOST_EXPONENT: Final = 700.0
_SMALL: Final = 1e-4  # of a ratio below which e^x - 1 is x, nearly
DAY_S: Final = 86_400.0


class Belief(NamedTuple):
    """The probabilities that a signal announces a change since the last visit, or one that the visit has seen."""

    true: float
    echo: float


@inlined_kernel
def rate_per_day(page: Record, cycle_s: float) -> float:
    """Return the posterior mean of a page's rate, in changes per day."""
    rate = (page.prior_shape + page.own_shape) / (page.prior_exposure + page.own_exposure)
    return float(rate * (DAY_S / cycle_s))


@inlined_kernel
def pending_days(days: float, lateness_days: float) -> float:
    """Return of how many of the last `days` the announced changes are not announced yet: d·(1 - e^(-t/d))."""
    return float(lateness_days * (0.0 - expm1(-min(days / lateness_days, _MOST_EXPONENT))))


@inlined_kernel
def promptness(days: float, lateness_days: float) -> float:
    """Return how much a true signal lowers the mean delay d, if its change came within `days` before it, uniformly.

    Such a delay has the mean d - h/(e^(h/d) - 1) with h days: d·x/(e^x - 1) less than d, x = h/d. An announcement of a
    change that a visit h days ago has seen has the mean d + h. The d that explains all signals balances both. So the
    first count x/(e^x - 1) with a delay of 0, the second 1 with d + h, and d is the mean.
    """
    ratio = min(days / lateness_days, _MOST_EXPONENT)
    return float(ratio / expm1(ratio)) if ratio > _SMALL else 1.0


@inlined_kernel
def believe(signal: Record, rate: float, source: Reliability, after_days: float) -> Belief:
    """Return the probabilities of a signal `after_days` after the last visit of a page of that rate a day. O(1)."""
    late = source.lateness_days
    announced = 0.0 - expm1(-min(after_days / late, _MOST_EXPONENT))  # the part that is announced by then
    true = rate * source.recall * announced
    echo = max(-float(signal.first_after_s), 0.0) * (1.0 - announced) / late
    every = true + source.false_per_day + echo
    return Belief(true / every, echo / every)


@inlined_kernel
def add_signal(signal: Record, kind: int, after_s: float, true: float) -> None:
    """Add a signal of a kind, true with probability `true`, to those since the page's last visit. O(1)."""
    before = SIGNAL_UNIT * float(signal.signalled)
    bit = np.uint8(1 << kind)
    if signal.kinds == 0 or (signal.lead != kind and true > before):
        signal.lead, signal.count = kind, 1
        signal.signalled = encode_signalled(true)
    elif signal.lead == kind:
        signal.count = min(np.int64(signal.count) + 1, _MOST_COUNTED)
        signal.signalled = encode_signalled(1.0 - (1.0 - before) * (1.0 - true))
    signal.first_after_s = after_s if signal.kinds == 0 else min(signal.first_after_s, np.float32(after_s))
    signal.last_after_s = max(signal.last_after_s, np.float32(after_s))
    signal.kinds |= bit
