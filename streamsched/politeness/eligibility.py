"""Whether pages may be handed out now, and for a single one why not, and when it may be, in words."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints, Record, Records
from streamsched.numerics.durations import format_duration, format_moment
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.politeness.leases import are_leased
from streamsched.politeness.limits import (
    FOR_DELAY,
    FOR_RETRY_AFTER,
    FOR_TOO_MANY,
    ON_REQUEST,
    Limits,
    backoff_until,
    host_capacity,
    in_flight_capacity,
    overdue_at,
    probe_at,
    ready_at,
    revisit_at,
)
from streamsched.records.page_schema import LEASED, OUT, URGENT, PageArrays
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_name

__all__ = [
    "Waits",
    "are_eligible",
    "describe_eligibility",
    "not_before",
    "page_not_before",
    "read_waits",
]

_WHY: Final = {
    FOR_DELAY: "for the delay between two visits",
    FOR_TOO_MANY: "for it answered 429",
    FOR_RETRY_AFTER: "as its Retry-After asked",
    ON_REQUEST: "as it was blocked",
}


class Waits(NamedTuple):
    """What pages wait for: columns of times, float64[m], as the functions of `politeness` tell them of each page."""

    ready_at: Floats
    overdue_at: Floats
    revisit_at: Floats
    backoff_until: Floats
    probe_at: Floats
    host_ready_s: Floats
    host_capacity: Floats  # pages of its host that may be out besides, below 1 where it has enough


def read_waits(shard: ShardArrays, rows: Ints, limits: Limits) -> Waits:
    """Return what the pages of ``rows``: int64[m] wait for. O(m)."""
    waits = Waits(*(np.empty(rows.size) for _ in Waits._fields))
    _read_waits(shard.pages, shard.groups.records, rows, limits, waits)
    return waits


def are_eligible(shard: ShardArrays, rows: Ints, now: float, limits: Limits) -> Bools:
    """Return whether each of ``rows``: int64[m] may be handed out at `now`, were it alone: bool[m]. O(m)."""
    open_ = np.empty(rows.size, np.bool_)
    _are_open(shard.pages, shard.groups.records, rows, limits, now, open_)
    return open_ & ~are_leased(shard, rows, now)


@inlined_kernel
def not_before(pages: PageArrays, groups: Records, row: int, limits: Limits, now: float) -> float:
    """Return until when a page must not be handed out, how many of its host may be aside: by `now` where it may. O(1).

    inf where no clock tells it: never, or out on a lease, which an outcome may end and whose expiry is told.
    """
    group: Record = groups[pages.records[row].group]
    host: Record = groups[group.host]
    return float(max(host.ready_s, page_not_before(pages, row, limits, now)))


@inlined_kernel
def page_not_before(pages: PageArrays, row: int, limits: Limits, now: float) -> float:
    """Return what `not_before` does, but that the page's host may rest for longer. O(1)."""
    page: Record = pages.records[row]
    leased = page.flags & LEASED and pages.lease_until_s[row] > now
    if leased and page.flags & OUT:
        return np.inf
    until = ready_at(page, pages.traces[row], limits)
    return float(max(until, pages.lease_until_s[row]) if leased else until)  # what was told once is not told again


def describe_eligibility(shard: ShardArrays, row: int, now: float, limits: Limits) -> tuple[float | None, list[str]]:
    """Return from when the page of `row` may be handed out and all that keeps it from that at `now`, if anything. O(1).

    The time is None where no clock tells it. What makes the page go before others is said behind.
    """
    rows = np.array([row])
    page, waits = shard.pages.records[row], read_waits(shard, rows, limits)
    if waits.ready_at[0] == math.inf:
        return None, ["not eligible: never to be visited, by its rule"]
    until_s: list[float] = []
    reasons: list[str] = []

    def wait(time_s: float, words: str) -> None:
        if time_s > now:
            until_s.append(float(time_s))
            left = format_duration(float(time_s) - now)
            reasons.append(f"not eligible: {words.format(f'until {format_moment(time_s)}, {left} from now')}")

    if are_leased(shard, rows, now)[0]:
        wait(shard.pages.lease_until_s[row], "handed out {}")
    host = shard.groups.records[shard.groups.records["host"][page["group"]]]
    name = _escape(group_name(shard.groups, int(shard.groups.records["host"][page["group"]])))
    wait(waits.host_ready_s[0], f"{name} rests {{}}, {_WHY.get(int(host['wait_reason']), '')}")
    if not page["flags"] & URGENT:
        wait(waits.revisit_at[0], "it was visited less than its least interval ago: not {}")
        wait(waits.backoff_until[0], f"backing off {{}}, after {_times(page['failures'], 'failed visit')}")
        wait(waits.probe_at[0], f"retired after {_times(page['gone'], 'answer')} of 404 or 410: not probed again {{}}")
    full = waits.host_capacity[0] < 1
    if full:
        most = int(host["out"]) + int(waits.host_capacity[0])
        reasons.append(f"not eligible: its host has {_times(int(host['out']), 'page')} out and may have {most}")
    return (None if full else max(until_s, default=now)), [
        *reasons,
        *_describe_priority(page, float(waits.overdue_at[0]), now, waits=bool(reasons)),
    ]


def _describe_priority(page: Record, overdue_s: float, now: float, *, waits: bool) -> list[str]:
    once = ", once it may be visited" if waits else ""
    if page["flags"] & URGENT:
        return [f"asked for: goes before others until its next outcome{once}"]
    if overdue_s <= now:
        return [f"overdue since {format_moment(overdue_s)}: goes before others{once}"]
    return []


def _times(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _escape(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")


@bare_kernel
def _read_waits(pages: PageArrays, groups: Records, rows: Ints, limits: Limits, waits: Waits) -> None:
    for i in range(rows.size):
        page: Record = pages.records[rows[i]]
        trace: Record = pages.traces[rows[i]]
        group: Record = groups[page.group]
        host: Record = groups[group.host]
        waits.ready_at[i] = ready_at(page, trace, limits)
        waits.overdue_at[i] = overdue_at(page, limits)
        waits.revisit_at[i] = revisit_at(page, limits)
        waits.backoff_until[i] = backoff_until(page, trace, limits)
        waits.probe_at[i] = probe_at(page, trace, limits)
        waits.host_ready_s[i] = host.ready_s
        waits.host_capacity[i] = in_flight_capacity(host, limits)


@bare_kernel
def _are_open(pages: PageArrays, groups: Records, rows: Ints, limits: Limits, now: float, out: Bools) -> None:
    for i in range(rows.size):
        page: Record = pages.records[rows[i]]
        group: Record = groups[page.group]
        open_ = host_capacity(groups[group.host], limits, now, np.inf) > 0
        out[i] = open_ and ready_at(page, pages.traces[rows[i]], limits) <= now
