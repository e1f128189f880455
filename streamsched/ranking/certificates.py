"""Certificates: for each page a level that it does not exceed before a stated time while it is eligible.

A certificate is a bound and a tick. Until the tick the page's level stays at or below the bound. NaN means that the
page is not eligible until then. Ticks count from a start in units of a few seconds or less, so that two bytes hold
them; tick 0 is no certificate. Pages in the pool have none: a query examines them all. BELOW_FLOOR marks pages that
only the floor of their host keeps out of the pool (see `host_floors`). Chunks summarise CHUNK pages each.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Ints
from streamsched.numerics.compilation.machine_operations import prefetch
from streamsched.numerics.growable_array import GrowableArray
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix

CHUNK: Final = 64  # pages: two cache lines of ticks
POOLED: Final = 0x7FFF  # as a tick: the page is in the pool
FOREVER: Final = 0x7FFE  # as a tick: until the page changes
FOLLOWING: Final = 0x7FFD  # as a tick: until it is released, see `tie_classes`
_LAST: Final = 0x7FFC
_TICKS: Final = 0x7FFF  # mask
BELOW_FLOOR: Final = 0x8000  # bit of a tick
_HALF: Final = 1 << 14
_TICKS_A_STEP: Final = 2  # between two queries
_DEFAULT_TICKS: Final = 1 << 15  # a cycle, while the time between queries is unknown
_SHORTEST_S: Final = 1e-3  # a tick: far more than the rounding of times
_RESERVED_PAGES: Final = 1 << 27  # address space only
_PREFETCH_AHEAD: Final = 8  # chunks or pages

Singles = npt.NDArray[np.float32]
Ticks = npt.NDArray[np.uint16]


class Certificates(NamedTuple):
    """The certificates of one ranking as kernels read them."""

    bound: Singles  # float32[pages]; NaN in the pool
    tick: Ticks  # uint16[pages]
    peak: Singles  # float32[chunks]: no bound is greater, but of pages below floors; NaN if none has a bound
    soonest: Ticks  # uint16[chunks]: no tick is less
    start_s: float
    tick_s: float
    mask: int  # pages are ranked if (flags & mask) == want
    want: int


class CertificateTable:
    """The certificates of one ranking: 6.1 bytes a page."""

    def __init__(self, mask: int = 0, want: int = 0) -> None:
        self.pages = 0
        self._flags = mask, want
        self._bound = GrowableArray(np.float32, _RESERVED_PAGES)
        self._tick = GrowableArray(np.uint16, _RESERVED_PAGES)
        self._peak = GrowableArray(np.float32, _RESERVED_PAGES // CHUNK)
        self._soonest = GrowableArray(np.uint16, _RESERVED_PAGES // CHUNK)
        self._start_s, self._tick_s = -np.inf, 1.0

    @property
    def arrays(self) -> Certificates:
        """The certificates as kernels read them, valid until the next `cover` or `keep_time`."""
        chunks = -(-self.pages // CHUNK)
        return Certificates(
            self._bound.array[: self.pages],
            self._tick.array[: self.pages],
            self._peak.array[:chunks],
            self._soonest.array[:chunks],
            self._start_s,
            self._tick_s,
            *self._flags,
        )

    @property
    def range_s(self) -> float:
        """How far ahead ticks reach at least."""
        return (_LAST - _HALF) * self._tick_s

    def cover(self, pages: int) -> None:
        """Make room for `pages` pages; new ones have no certificate. O(new pages)."""
        before, self.pages = self.pages, pages
        for region in (self._bound, self._tick):
            region.ensure(pages)
        for region in (self._peak, self._soonest):
            region.ensure(-(-pages // CHUNK))
        self._tick.array[before:pages] = 0
        self._soonest.array[before // CHUNK : -(-pages // CHUNK)] = 0

    def clear(self) -> None:
        """Remove all certificates. O(pages)."""
        arrays = self.arrays
        arrays.tick[:] = 0
        arrays.soonest[:] = 0
        arrays.peak[:] = np.nan

    def remove(self, rows: Ints) -> None:
        """Remove the certificates of ``rows``: int64[m]; pages of the pool stay in it. O(m)."""
        arrays = self.arrays
        rows = rows[arrays.tick[rows] != POOLED]
        arrays.tick[rows] = 0
        arrays.soonest[rows // CHUNK] = 0

    def keep_time(self, now: float, step_s: float, cycle_s: float) -> None:
        """Choose ticks that suit queries at about `now` and every `step_s`. O(1), O(pages) every thousands of steps."""
        length_s = max(step_s / _TICKS_A_STEP if step_s > 0.0 else cycle_s / _DEFAULT_TICKS, _SHORTEST_S)
        before = self.arrays
        is_fine = length_s / 4.0 <= before.tick_s <= 4.0 * length_s
        if is_fine and 0.0 <= now - before.start_s < _HALF * before.tick_s:
            return
        self._start_s, self._tick_s = now, length_s
        if np.isfinite(before.start_s):
            _convert(before, now, length_s)

    def chunks_expired(self, now: float) -> Ints:
        """Return the chunks in which a certificate may have expired by `now`: int64[m]. O(chunks)."""
        passed = min(max((now - self._start_s) / self._tick_s, 0.0), float(_LAST))
        return np.flatnonzero(self.arrays.soonest <= int(passed))

    def chunks_above(self, level: float) -> Ints:
        """Return the chunks with pages that may reach `level`, but for those below floors: int64[m]. O(chunks)."""
        with np.errstate(over="ignore"):
            return np.flatnonzero(self.arrays.peak >= np.float32(level))

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        chunks = -(-self.pages // CHUNK)
        of_pages, of_chunks = (self._bound, self._tick), (self._peak, self._soonest)
        return sum(array.resident_bytes(self.pages) for array in of_pages) + sum(
            array.resident_bytes(chunks) for array in of_chunks
        )


@inlined_kernel
def present_tick(certificates: Certificates, now: float) -> int:
    """Return the last tick that has passed at `now`, 0 at least: certificates up to it say nothing. O(1)."""
    passed = (now - certificates.start_s) / certificates.tick_s
    return int(min(max(passed, 0.0), float(_LAST)))


@inlined_kernel
def set_certificate(certificates: Certificates, row: int, bound: float, until_s: float, now: float) -> bool:
    """Set the bound of a page until `until_s`, rounded outwards; return False if that is before the next tick. O(1).

    Times too far for ticks are brought forward to different ones, lest such pages are all examined at once.
    """
    tick = FOREVER
    if until_s < np.inf:
        passed = (until_s - certificates.start_s) / certificates.tick_s
        if passed < _LAST:
            tick = int(max(passed, 0.0))
        else:
            tick = _LAST - int(np.int64(mix(np.uint64(row)) >> np.uint64(51)))  # up to a quarter of the range
        if tick <= present_tick(certificates, now):
            return False
    certificates.bound[row] = round_up(bound)
    certificates.tick[row] = tick
    return True


@inlined_kernel
def round_up(level: float) -> np.float32:
    """Return the least float32 that is not below `level`. O(1)."""
    single = np.float32(level)
    bits = single.view(np.int32)  # in the order of magnitudes; without a branch that goes either way
    return np.int32(bits + (np.int32(1) - ((bits >> 31) & 2)) * np.int32(single < level)).view(np.float32)


@bare_kernel
def list_expired(certificates: Certificates, chunks: Ints, now: float, out: Ints) -> int:
    """Write the pages of ``chunks``: int64[m] without a certificate at `now` to `out`; return their number.

    ``out.size + 1`` if there are more. The chunks forget them: see `summarise`. O(m).
    """
    present, count = present_tick(certificates, now), 0
    for i in range(chunks.size):
        ahead = chunks[min(i + _PREFETCH_AHEAD, chunks.size - 1)] * CHUNK
        prefetch(certificates.tick, ahead)
        prefetch(certificates.tick, ahead + CHUNK // 2)
        soonest: Any = POOLED
        for row in range(chunks[i] * CHUNK, min((chunks[i] + 1) * CHUNK, certificates.tick.size)):
            tick = np.int64(certificates.tick[row]) & _TICKS
            if tick > present:
                soonest = min(soonest, tick)
            else:
                if count == out.size:
                    return count + 1
                out[count] = row
                count += 1
        certificates.soonest[chunks[i]] = soonest
    return count


@bare_kernel
def list_above(certificates: Certificates, chunks: Ints, level: float, now: float, out: Ints) -> int:
    """Write the pages of ``chunks``: int64[m] that may reach `level` to `out`; none of the pool or below floors.

    Returns their number, or ``out.size + 1`` if there are more. O(m).
    """
    present, count = present_tick(certificates, now), 0
    for i in range(chunks.size):
        peak = np.float32(np.nan)
        for row in range(chunks[i] * CHUNK, min((chunks[i] + 1) * CHUNK, certificates.tick.size)):
            bound, tick = certificates.bound[row], certificates.tick[row]
            if bound >= level and present < tick < BELOW_FLOOR:
                if count == out.size:
                    return count + 1
                out[count] = row
                count += 1
            if tick < BELOW_FLOOR and not np.isnan(bound) and not bound <= peak:
                peak = bound
        certificates.peak[chunks[i]] = peak
    return count


@bare_kernel
def summarise(certificates: Certificates, rows: Ints) -> None:
    """Let the chunks of ``rows``: int64[m] take in their certificates. O(m)."""
    for i in range(rows.size):
        ahead = rows[min(i + _PREFETCH_AHEAD, rows.size - 1)]
        prefetch(certificates.tick, ahead)
        prefetch(certificates.bound, ahead)
        chunk, tick, bound = rows[i] // CHUNK, certificates.tick[rows[i]], certificates.bound[rows[i]]
        certificates.soonest[chunk] = min(certificates.soonest[chunk], tick & np.uint16(_TICKS))
        if tick < BELOW_FLOOR and not np.isnan(bound) and not bound <= certificates.peak[chunk]:
            certificates.peak[chunk] = bound


@bare_kernel
def _convert(certificates: Certificates, start_s: float, tick_s: float) -> None:
    """Express all ticks from `start_s` on in units of `tick_s`, rounded down; those that have passed become 0."""
    for row in range(certificates.tick.size):
        tick = np.int64(certificates.tick[row])
        certificates.tick[row] = _converted(tick & _TICKS, certificates, start_s, tick_s) | (tick & BELOW_FLOOR)
    for chunk in range(certificates.soonest.size):
        certificates.soonest[chunk] = _converted(np.int64(certificates.soonest[chunk]), certificates, start_s, tick_s)


@inlined_kernel
def _converted(tick: int, certificates: Certificates, start_s: float, tick_s: float) -> int:
    if tick == 0 or tick >= FOLLOWING:
        return tick
    until_s = certificates.start_s + certificates.tick_s * tick
    return int(min(max((until_s - start_s) / tick_s - 1.0, 0.0), float(_LAST)))  # 1: whatever was rounded
