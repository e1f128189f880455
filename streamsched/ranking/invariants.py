"""Invariants of a maintained ranking, checked page by page: for tests, after each step."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.politeness.eligibility import read_waits
from streamsched.ranking.certificates import BELOW_FLOOR, CHUNK, FOLLOWING, FOREVER, POOLED, Certificates
from streamsched.ranking.full_scan import FullScan
from streamsched.ranking.host_slots import Singles
from streamsched.ranking.line_control import Line, levels_of
from streamsched.records.page_schema import LEASED, OUT
from streamsched.records.schema import ShardArrays

_TIMES: Final = 8  # times besides the clock at which certificates are compared with levels


def find_false_certificates(
    shard: ShardArrays, certificates: Certificates, floors: Singles, pool: Ints, scan: FullScan, line: Line
) -> list[str]:
    """Return which invariants of certificates and pool do not hold; empty if they are sound. O(pages)."""
    ticks = certificates.tick.astype(np.int64)
    pooled, below = np.flatnonzero(ticks == POOLED), np.flatnonzero((ticks & BELOW_FLOOR != 0) & (ticks != BELOW_FLOOR))
    hosts = shard.groups.records["host"][shard.pages.records["group"][below]]
    tops = floors[hosts] if floors.size else np.full(below.size, -np.inf)
    holds = {
        "the pool has each of its pages once": np.array_equal(np.sort(pool), pooled),
        "pages of the pool have no bound": bool(np.isnan(certificates.bound[pooled]).all()),
        "pages kept out of the pool are below their hosts' floors": bool((certificates.bound[below] <= tops).all()),
        "chunks summarise their pages": _chunks_match(certificates),
    }
    faults = [name for name, fits in holds.items() if not fits]
    ends = ends_of(certificates)
    timed = np.unique(ends[np.isfinite(ends) & (ends > line.now)])
    chosen = timed[np.linspace(0, timed.size - 1, min(timed.size, _TIMES)).astype(np.int64)]
    for time_s in [line.since, line.now, *np.nextafter(chosen, -np.inf)]:
        faults += _find_exceeded(
            shard, certificates, scan, line._replace(now=float(time_s)), ends > max(time_s, line.now)
        )
    return faults


def ends_of(certificates: Certificates) -> Floats:
    """Return when each certificate ends: float64[pages]; -inf in the pool, for none and for a page that follows."""
    ticks = certificates.tick.astype(np.int64) & POOLED
    ends = certificates.start_s + certificates.tick_s * ticks
    return np.where(np.isin(ticks, (0, POOLED, FOLLOWING)), -np.inf, np.where(ticks == FOREVER, np.inf, ends))


def _chunks_match(certificates: Certificates) -> bool:
    """Return whether each chunk has the greatest bound and the least tick of its pages."""
    ticks = certificates.tick.astype(np.int64)
    for chunk in range(certificates.peak.size):
        part = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        bounds = certificates.bound[part][(ticks[part] > 0) & (ticks[part] < BELOW_FLOOR)]
        bounds = bounds[~np.isnan(bounds)]
        peak, soonest = certificates.peak[chunk], certificates.soonest[chunk]
        if soonest > (ticks[part] & POOLED).min() or (bounds.size and not peak >= bounds.max()):
            return False
    return True


def _find_exceeded(
    shard: ShardArrays, certificates: Certificates, scan: FullScan, line: Line, certified: Bools
) -> list[str]:
    """Return which certificates are exceeded by a page that is eligible at `line.now`."""
    rows = np.arange(certificates.tick.size)
    flags = shard.pages.records["flags"][rows]
    waits = read_waits(shard, rows, line.limits)
    counted = certified & ((flags & certificates.mask) == certificates.want) & (waits.ready_at <= line.now)
    counted &= (flags & OUT) == 0  # the end of their lease is reported
    counted &= ((flags & LEASED) == 0) | (shard.pages.lease_until_s[rows] <= line.now)
    overdue_s = np.where(waits.overdue_at <= line.now, waits.overdue_at, np.inf)
    levels = levels_of(scan.score(shard, line.now, line.cycle_s, rows), overdue_s, line)
    exceeded = counted & ~(levels <= certificates.bound)
    return [
        f"page {row} has level {levels[row]} at {line.now}, certified {certificates.bound[row]}"
        for row in np.flatnonzero(exceeded)[:3]
    ]
