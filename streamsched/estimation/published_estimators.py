"""The published estimators of how often a page changes, from the few counts that a page keeps.

Of ``n`` visits that could show a change, ``X`` did; I_i in {0, 1} is whether the i-th did. A page keeps, as in
`VisitCounts`: n, X, ``history``: uint64, the flags of the last 64 visits with the newest in bit 0 and 0 from bit n on,
and ``weighted_sum``: float64, the sum of i I_i. All functions take scalars, lists or arrays that broadcast, return
float64 of the broadcast shape (0-d for scalars), write into ``out`` if given, return 0 if n is 0, raise no warnings,
and are O(n) at the speed of NumPy's vector instructions.

GP4C is Santos et al. (2015), "A genetic programming framework to schedule webpage updates", whose section 5.1 defines
NAD to GAD after Tan and Mitra (2010); they are rates per cycle, to be used as `change_probability`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Floats, Hashes
from streamsched.numerics.jit import inlined_kernel, kernel

HISTORY_BITS: Final = 64  # of the history word; GAD's weight of an older visit is below 2**-64

# 2 - 2**(1 - n), the sum of GAD's weights over n visits when the newest weighs 1; infinite for none, so that g is 0.
_TOTALS: Final = np.array([np.inf, *(2.0 - 2.0 ** (1 - n) for n in range(1, HISTORY_BITS + 1))])


@dataclass(slots=True)
class VisitCounts:
    """The counts of one page's visits for every estimator of this module, as plain numbers.

    >>> counts = VisitCounts()
    >>> for changed in (True, False, True):
    ...     counts.observe(changed, interval=2.0)
    >>> counts
    VisitCounts(n=3, X=2, history=5, weighted_sum=4.0, total_time=6.0)
    """

    n: int = 0
    X: int = 0
    history: int = 0
    weighted_sum: float = 0.0
    total_time: float = 0.0

    def observe(self, changed: bool, interval: float) -> None:
        """Count one visit, `interval` cycles after the one before: each estimator's incremental form. O(1)."""
        self.n += 1
        self.X += changed
        self.history = (self.history << 1 | changed) & (1 << HISTORY_BITS) - 1
        self.weighted_sum += self.n * changed
        self.total_time += interval


def cg(n: npt.ArrayLike, X: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return -ln((n - X + 0.5)/(n + 0.5)): changes per visit, corrected for changes that a visit cannot see.

    Cho & Garcia-Molina (2003), "Estimating frequency of change", section 4.2; GP4C eq. 4.

    >>> cg([0, 4], [0, 4]).round(6).tolist()
    [0.0, 2.197225]
    """
    out = _allocate(out, n, X)
    np.subtract(n, X, out=out)
    out += 0.5
    np.divide(X, out, out=out)
    return np.log1p(out, out=out)


def nad(n: npt.ArrayLike, X: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return X/n: every visit weighs the same (nonadaptive). GP4C section 5.1.

    >>> nad([0, 4], [0, 3]).tolist()
    [0.0, 0.75]
    """
    out = _allocate(out, n, X)
    np.maximum(n, 1, out=out)
    return np.divide(X, out, out=out)


def sad(n: npt.ArrayLike, history: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return I_n: only the last visit weighs (shortsighted adaptive). GP4C section 5.1.

    >>> sad([0, 2, 2], [0b00, 0b10, 0b01]).tolist()
    [0.0, 0.0, 1.0]
    """
    out = _allocate(out, n, history)
    np.minimum(n, 1, out=out)
    return np.multiply(out, np.bitwise_and(np.asarray(history, np.uint64), np.uint64(1)), out=out)


def aad(n: npt.ArrayLike, weighted_sum: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return the sum of 2i I_i/(n(n + 1)): visit i weighs i (arithmetically adaptive). GP4C section 5.1.

    Incremental: visit n adds n I_n to `weighted_sum`, exactly up to 10^8 visits.

    >>> aad([0, 2, 2], [0.0, 1.0, 2.0]).round(6).tolist()
    [0.0, 0.333333, 0.666667]
    """
    out = _allocate(out, n, weighted_sum)
    np.maximum(n, 1, out=out)
    out *= out + 1.0
    np.divide(weighted_sum, out, out=out)
    return np.multiply(out, 2.0, out=out)


def gad(n: npt.ArrayLike, history: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return the sum of 2^(i-1) I_i/(2^n - 1): each visit weighs twice the one before it (geometrically adaptive).

    Incremental: g becomes g/2 + I_n, divided by 2 - 2^(1-n); here g is read from the history, with all
    of float64's precision unless each of the last 11 visits found nothing. GP4C section 5.1.

    >>> gad([0, 2, 2], [0b00, 0b10, 0b01]).round(6).tolist()
    [0.0, 0.333333, 0.666667]
    """
    out = _allocate(out, n, history)
    visits = np.minimum(n, HISTORY_BITS).astype(np.uint8)
    visits, flags = np.broadcast_arrays(visits, np.asarray(history, np.uint64))
    values = np.empty(out.size)
    _gad(visits.flatten(), flags.flatten(), values)
    out[...] = values.reshape(out.shape)
    return out


def naive_interval(total_time: npt.ArrayLike, X: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return T/X, cycles per change; too long, because a visit sees several changes as one. Infinite before a change.

    Grimes & O'Brien (2008), "Microscale evolution of web pages", section 1.

    >>> naive_interval([0.0, 6.0, 6.0], [0, 0, 4]).tolist()
    [0.0, inf, 1.5]
    """
    out = _allocate(out, total_time, X)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        np.divide(total_time, X, out=out)
    np.copyto(out, 0.0, where=np.equal(total_time, 0))
    return out


def modified_interval(N: npt.ArrayLike, X: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return -1/ln((N - X + 0.5)/(N + 0.5)), sampling intervals per change after N intervals. Infinite before a change.

    Grimes & O'Brien (2008), eq. 1, read with N for its T; after Cho & Garcia-Molina, so it is 1/`cg`.

    >>> modified_interval([0, 4, 4], [0, 0, 4]).round(6).tolist()
    [0.0, inf, 0.45512]
    """
    out = cg(N, X, out)
    with np.errstate(divide="ignore"):
        np.divide(1.0, out, out=out)
    np.copyto(out, 0.0, where=np.equal(N, 0))
    return out


def change_probability(rate: npt.ArrayLike, elapsed: npt.ArrayLike, out: Floats | None = None) -> Floats:
    """Return 1 - e^(-rate elapsed): P(a change within `elapsed` cycles) at `rate` per cycle; 0 for times before 0.

    GP4C eq. 5, whose print lacks the minus sign.

    >>> change_probability([0.0, 0.5, 0.5], [2.0, 2.0, -1.0]).round(6).tolist()
    [0.0, 0.632121, 0.0]
    """
    out = _allocate(out, rate, elapsed)
    np.maximum(elapsed, 0.0, out=out)
    np.multiply(out, rate, out=out)
    np.negative(out, out=out)
    np.expm1(out, out=out)
    return np.negative(out, out=out)


def _allocate(out: Floats | None, left: npt.ArrayLike, right: npt.ArrayLike) -> Floats:
    return np.empty(np.broadcast(left, right).shape) if out is None else out


@kernel
def _gad(visits: npt.NDArray[np.uint8], history: Hashes, out: Floats) -> None:
    for i in range(out.size):
        out[i] = weigh_geometrically(visits[i], history[i])


@inlined_kernel
def weigh_geometrically(visits: int, history: int) -> float:
    """Return `gad` of one page, for kernels. O(1).

    The history is read backwards as a binary fraction: bit j is worth 2^-j.
    """
    word = np.uint64(history)
    word = ((word >> np.uint64(1)) & np.uint64(0x5555555555555555)) | (
        (word & np.uint64(0x5555555555555555)) << np.uint64(1)
    )
    word = ((word >> np.uint64(2)) & np.uint64(0x3333333333333333)) | (
        (word & np.uint64(0x3333333333333333)) << np.uint64(2)
    )
    word = ((word >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)) | (
        (word & np.uint64(0x0F0F0F0F0F0F0F0F)) << np.uint64(4)
    )
    word = ((word >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)) | (
        (word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8)
    )
    word = ((word >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)) | (
        (word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16)
    )
    word = (word >> np.uint64(32)) | (word << np.uint64(32))
    return float(np.float64(word) * 2.0**-63 / _TOTALS[min(visits, HISTORY_BITS)])
