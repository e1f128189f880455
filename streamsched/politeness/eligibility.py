"""Which pages are eligible, what the others wait for, and the priority of overdue pages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.limits import (
    Limits,
    backoff_until,
    host_capacity,
    in_flight_capacity,
    overdue_at,
    probe_at,
    ready_at,
    retry_at,
    revisit_at,
)
from streamsched.records.page_schema import LEASED, OUT, PageArrays
from streamsched.records.schema import ShardArrays


class Waits(NamedTuple):
    """Waiting times of m pages, float64[m]; each field is the function of the same name in `politeness.limits`."""

    ready_at: Floats
    overdue_at: Floats
    revisit_at: Floats
    backoff_until: Floats
    retry_at: Floats
    probe_at: Floats
    host_ready_s: Floats
    host_capacity: Floats  # further pages of its host that may be in flight, below 1 if it is at its limit


def read_waits(shard: ShardArrays, rows: Ints, limits: Limits) -> Waits:
    """Return what the pages ``rows``: int64[m] wait for. O(m)."""
    waits = Waits(*(np.empty(rows.size) for _ in Waits._fields))
    _read_waits(shard.pages, shard.groups.records, rows, limits, waits)
    return waits


def are_leased(shard: ShardArrays, rows: Ints, now: float) -> Bools:
    """Return whether each of `rows`: int64[m] is out at `now`: bool[m]. At the second of its expiry it is not. O(m)."""
    flagged: Bools = (shard.pages.records["flags"][rows] & LEASED) != 0
    return flagged & (shard.pages.lease_until_s[rows] > now)


def are_eligible(shard: ShardArrays, rows: Ints, now: float, limits: Limits) -> Bools:
    """Return whether each of ``rows``: int64[m] is eligible at `now` on its own, without the others: bool[m]. O(m)."""
    eligible = np.empty(rows.size, np.bool_)
    _write_eligible(shard.pages, shard.groups.records, rows, limits, now, eligible)
    return eligible


@inlined_kernel
def is_eligible(pages: PageArrays, groups: Records, row: int, limits: Limits, now: float) -> bool:
    """Return whether the page of `row` is eligible at `now` on its own, without the others. O(1)."""
    page: Record = pages.records[row]
    if page.flags & LEASED and pages.lease_until_s[row] > now:
        return False
    group: Record = groups[page.group]
    return bool(host_capacity(groups[group.host], limits, now, np.inf) > 0 and ready_at(pages, row, limits) <= now)


@inlined_kernel
def not_before(pages: PageArrays, groups: Records, row: int, limits: Limits, now: float) -> float:
    """Return the earliest time the page is eligible (<= `now` if it is). Host concurrency limits are ignored. O(1).

    inf if the clock does not determine it: a rule excludes the page, or it is in flight under a lease, which an outcome
    may end and whose expiry `Leases.expire` reports.
    """
    group: Record = groups[pages.records[row].group]
    host: Record = groups[group.host]
    return float(max(host.ready_s, page_not_before(pages, row, limits, now)))


@inlined_kernel
def page_not_before(pages: PageArrays, row: int, limits: Limits, now: float) -> float:
    """Return `not_before` of the page without its host's back-off. O(1)."""
    page: Record = pages.records[row]
    leased = page.flags & LEASED and pages.lease_until_s[row] > now
    if leased and page.flags & OUT:
        return np.inf
    until = ready_at(pages, row, limits)
    # LEASED without OUT: `Leases.expire` has returned this lease, for a later `now`, and returns none twice.
    return float(max(until, pages.lease_until_s[row]) if leased else until)


@bare_kernel
def _read_waits(pages: PageArrays, groups: Records, rows: Ints, limits: Limits, waits: Waits) -> None:
    for i in range(rows.size):
        page: Record = pages.records[rows[i]]
        trace: Record = pages.traces[rows[i]]
        group: Record = groups[page.group]
        host: Record = groups[group.host]
        waits.ready_at[i] = ready_at(pages, rows[i], limits)
        waits.overdue_at[i] = overdue_at(page, limits)
        waits.revisit_at[i] = revisit_at(page, limits)
        waits.backoff_until[i] = backoff_until(page, trace, limits)
        waits.retry_at[i] = retry_at(pages, rows[i])
        waits.probe_at[i] = probe_at(page, trace, limits)
        waits.host_ready_s[i] = host.ready_s
        waits.host_capacity[i] = in_flight_capacity(host, limits)


@bare_kernel
def _write_eligible(pages: PageArrays, groups: Records, rows: Ints, limits: Limits, now: float, out: Bools) -> None:
    for i in range(rows.size):
        out[i] = is_eligible(pages, groups, rows[i], limits, now)
