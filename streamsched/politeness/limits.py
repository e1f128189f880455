"""When a page and a host may be visited: the settings and rules as kernels read them, and the times that follow.

When a page may be visited again follows from the number of its rule, its failures, and its 404 or 410 answers in a row.
A host's record says how many of its pages are out and before when it must not be visited: leasing pages moves that time
by the host's delay each, and answers of the host move it by the rest that they demand (`politeness.host_responses`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.politeness.politeness_settings import Politeness, Rule
from streamsched.records.dirty_tracking import mark_dirty_group
from streamsched.records.group_schema import BY_SETTINGS
from streamsched.records.page_schema import DENIED, FOR_PANEL, FORGOTTEN, LEASED, OUT, URGENT, VISITED, PageArrays
from streamsched.records.schema import DirtyArrays

# GROUP.wait_reason: why a host rests until ready_s; 0 for nothing.
FOR_DELAY: Final = 1
FOR_TOO_MANY: Final = 2
FOR_RETRY_AFTER: Final = 3
ON_REQUEST: Final = 4
FOR_UNAVAILABLE: Final = 5
HOST_CAUSES: Final = {  # by code: its name in views and reasons, and the end of a sentence
    FOR_DELAY: ("delay", "for the delay between two visits"),
    FOR_TOO_MANY: ("too_many_requests", "because it answered 429"),
    FOR_RETRY_AFTER: ("retry_after", "as its Retry-After header asked"),
    ON_REQUEST: ("blocked", "because it was blocked"),
    FOR_UNAVAILABLE: ("unavailable", "because several of its pages answered 503"),
}

RULES: Final = (
    256  # a page's record holds the number of its rule in a byte; 0 is for the settings, the last for FORGOTTEN
)
RULE: Final = np.dtype(
    [
        ("min_revisit_s", "<f8"),  # 0 for none
        ("max_revisit_s", "<f8"),  # inf for none
        ("never", "u1"),
        ("spare", "u1", 7),
    ]
)

_NO_LIMIT: Final = 1 << 62
_NEVER_GONE: Final = 256  # more answers in a row than a record counts
_BACKOFF_SALT: Final = np.uint64(0xB5C0FBCFEC4D3B2F)  # arbitrary, but not what salts ties and samples
_PROBE_SALT: Final = np.uint64(0x59F111F1B605D019)
_NEVER_REFUSED: Final = 256  # more pages in a row than a host's record counts


class Limits(NamedTuple):
    """`Politeness` as kernels read it, with every page rule."""

    delay_s: float
    in_flight: int
    per_batch: int
    backoff_s: float
    backoff_most_s: float
    retire_after: int
    probe_every_s: float
    retry_after_most_s: float
    clock_skew_s: float
    host_backoff_429: int
    host_backoff_503: int
    per_request: int  # most pages of a host in the batch that is asked for, whatever settings and rules allow
    rules: Records  # RULE[RULES], what a rule does not set filled in from the settings


def make_limits(politeness: Politeness) -> Limits:
    """Return the limits of `politeness`, with all rules equal to the settings. O(1)."""
    limits = Limits(
        float(politeness.delay),
        _NO_LIMIT if politeness.in_flight is None else politeness.in_flight,
        _NO_LIMIT if politeness.per_batch is None else politeness.per_batch,
        float(politeness.backoff),
        float(politeness.backoff_most),
        _NEVER_GONE if politeness.retire_after is None else politeness.retire_after,
        float(politeness.probe_every),
        float(politeness.retry_after_most),
        float(politeness.clock_skew),
        _NEVER_REFUSED if politeness.host_backoff_429 is None else politeness.host_backoff_429,
        _NEVER_REFUSED if politeness.host_backoff_503 is None else politeness.host_backoff_503,
        _NO_LIMIT,
        np.zeros(RULES, RULE),
    )
    for number in range(RULES):
        write_rule(limits, number, Rule(never=number == FORGOTTEN), politeness)
    return limits


def write_rule(limits: Limits, number: int, rule: Rule, politeness: Politeness) -> None:
    """Store `rule` under `number`, for every page that has this number. O(1)."""
    record = limits.rules[number]
    most = politeness.max_revisit if rule.max_revisit is None else rule.max_revisit
    record["min_revisit_s"] = politeness.min_revisit if rule.min_revisit is None else rule.min_revisit
    record["max_revisit_s"] = np.inf if most is None else most
    record["never"] = rule.never


DEFAULT_LIMITS: Final = make_limits(Politeness())


@inlined_kernel
def ready_at(pages: PageArrays, row: int, limits: Limits) -> float:
    """Return when a page may be visited, hosts and leases aside: inf for never, -inf for any time. O(1).

    The latest of `revisit_at`, `backoff_until`, `retry_at` and `probe_at`; a page asked for waits for none of them. inf
    for a page that robots.txt forbids, unless it was asked for.
    """
    page: Record = pages.records[row]
    trace: Record = pages.traces[row]
    rule: Record = limits.rules[page.rule]
    if rule.never:
        return np.inf
    if page.flags & URGENT:
        return -np.inf
    if page.flags & DENIED:
        return np.inf
    own = max(revisit_at(page, limits), backoff_until(page, trace, limits), probe_at(page, trace, limits))
    return float(max(own, retry_at(pages, row)))


@inlined_kernel
def revisit_at(page: Record, limits: Limits) -> float:
    """Return last successful visit + min_revisit, -inf if there is none. O(1)."""
    rule: Record = limits.rules[page.rule]
    if rule.min_revisit_s > 0.0 and page.flags & VISITED:
        return float(page.last_visit_s + rule.min_revisit_s)
    return -np.inf


@inlined_kernel
def backoff_until(page: Record, trace: Record, limits: Limits) -> float:
    """Return until when a page backs off after failures in a row, -inf after a success. O(1)."""
    if page.failures == 0 or limits.backoff_s <= 0.0:
        return -np.inf
    wait = backoff_length(limits, page.failures) * _jitter(page.url_hash ^ _BACKOFF_SALT, page.failures)
    return float(trace.last_attempt_s + wait)


@inlined_kernel
def retry_at(pages: PageArrays, row: int) -> float:
    """Return until when a page rests by the Retry-After of its last visit, if that failed, or its `not_before`. O(1).

    -inf if it does not.
    """
    page: Record = pages.records[row]
    until_s = pages.lease_until_s[row]
    if page.flags & LEASED:
        return -np.inf
    if -np.inf < until_s < 0.0:
        return float(-until_s)
    return -np.inf if page.failures == 0 else float(until_s)


@inlined_kernel
def probe_at(page: Record, trace: Record, limits: Limits) -> float:
    """Return when a page that is gone is to be probed, -inf if it is not gone. O(1)."""
    if page.gone < limits.retire_after:
        return -np.inf
    return float(trace.last_attempt_s + limits.probe_every_s * _jitter(page.url_hash ^ _PROBE_SALT, page.gone))


@inlined_kernel
def overdue_at(page: Record, limits: Limits) -> float:
    """Return from when a page comes before those that are not overdue: inf for never, -inf for always. O(1).

    -inf means that it was asked for. An overdue page may still have to wait: see `ready_at`.
    """
    rule: Record = limits.rules[page.rule]
    if rule.never:
        return np.inf
    if page.flags & URGENT:
        return -np.inf
    if page.flags & DENIED:
        return np.inf
    return float(page.last_visit_s + rule.max_revisit_s)


@inlined_kernel
def backoff_length(limits: Limits, times: int) -> float:
    """Return the rest after `times` failures in a row: doubled by each, up to the longest. O(1)."""
    return float(min(limits.backoff_s * 2.0 ** (times - 1.0), limits.backoff_most_s))


@inlined_kernel
def _jitter(salted: int, number: int) -> float:
    """Return a number from 0.75 to 1.25 that depends on both arguments alone. O(1)."""
    bits = mix(mix(salted) ^ np.uint64(number))
    return 0.75 + float(np.int64(bits >> np.uint64(11))) * (0.5 / (1 << 53))


@inlined_kernel
def host_delay(host: Record, limits: Limits) -> float:
    """Return the least time between two visits to a host, in seconds. O(1)."""
    return limits.delay_s if np.isnan(host.delay_s) else float(host.delay_s)


@inlined_kernel
def in_flight_capacity(host: Record, limits: Limits) -> int:
    """Return how many more pages of a host may be out at once; below 0 if a rule was set too late. O(1)."""
    most = limits.in_flight if host.max_out == BY_SETTINGS else np.int64(host.max_out)
    return int(most - np.int64(host.out))


@inlined_kernel
def host_capacity(host: Record, limits: Limits, now: float, lease_s: float) -> int:
    """Return how many more pages of a host a batch at `now` may hold; 0 while the host rests. O(1).

    Both limits apply; with a delay, also no more than can be visited within the lease's seconds, but at least one.
    After a rest that the host demanded it gives one page, its probe, and none while the probe is leased. Pages chosen
    for the batch but not yet leased are not counted.
    """
    if host.ready_s > now or (host.probe != 0 and host.probe_until_s > now):
        return 0
    most = limits.per_batch if host.max_batch == BY_SETTINGS else np.int64(host.max_batch)
    capacity: Any = min(most, limits.per_request, in_flight_capacity(host, limits))
    delay_s = host_delay(host, limits)
    if delay_s > 0.0:
        capacity = min(capacity, max(np.int64(min(lease_s / delay_s, 1e18)), 1))
    if host.asked_to_wait != 0:
        capacity = min(capacity, 1)
    return int(max(capacity, 0))


@bare_kernel
def count_leased(  # noqa: PLR0913, PLR0917  a kernel
    pages: Records, groups: Records, dirty: DirtyArrays, rows: Ints, limits: Limits, now: float, until_s: float
) -> None:
    """Add to the rest of each host its delay for each of its pages in ``rows``: int64[m], leased at `now`. O(m).

    If the host has to be probed, the page is its probe, until `until_s`.
    """
    for i in range(rows.size):
        page: Record = pages[rows[i]]
        group: Record = groups[page.group]
        host: Record = groups[group.host]
        mark_dirty_group(dirty, groups, np.int64(group.host))
        if host.asked_to_wait != 0:
            host.probe = rows[i] + 1
            host.probe_until_s = until_s
            host.wait_reason = FOR_DELAY  # the rest that it demanded is over
        delay_s = host_delay(host, limits)
        if delay_s > 0.0:
            host.ready_s = max(host.ready_s, now) + delay_s
            host.wait_reason = FOR_DELAY


@inlined_kernel
def take_slot(page: Record, host: Record) -> None:
    """Count a page among those of its host that are out, unless it is counted already. O(1).

    Both records must be marked dirty before.
    """
    if not page.flags & OUT:
        page.flags |= np.uint8(OUT)
        host.out += 1


@inlined_kernel
def release_slot(page: Record, host: Record) -> None:
    """Remove a page from the count of its host's pages that are out, if it is counted. O(1).

    Both records must be marked dirty before.
    """
    if page.flags & OUT:
        page.flags &= ~np.uint8(OUT)
        host.out -= 1


@inlined_kernel
def ends_lease(pages: PageArrays, row: int, limits: Limits, fetched_at: float) -> bool:
    """Return whether an outcome fetched then ends the lease of its page: not if it is older than the lease. O(1).

    True for a page without a lease.
    """
    page: Record = pages.records[row]
    if not page.flags & LEASED:
        return True
    return bool(fetched_at >= pages.lease_until_s[row] - pages.lease_s[row] - limits.clock_skew_s)


@inlined_kernel
def give_back(pages: PageArrays, row: int, host: Record) -> None:
    """End the lease of a page that was not visited, if it has one; it no longer probes its host. O(1).

    Both records must be marked dirty before.
    """
    page: Record = pages.records[row]
    release_slot(page, host)
    if page.flags & LEASED:
        pages.lease_until_s[row] = -np.inf  # without a lease it would be the end of a rest
    page.flags &= ~np.uint8(LEASED | FOR_PANEL)
    if host.probe == row + 1:
        host.probe = 0
