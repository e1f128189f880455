"""What the answers of a host demand: rests of the host or of one page, and a probe after the rest.

A host rests when it answers 429, or when several of its pages answer 503 one after another: for as long as Retry-After
says, otherwise in the steps of the back-off. After the rest one of its pages is leased, the probe. The host is free
again once a visit after the rest has not failed; while the probe is leased, only its outcome decides that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streamsched.estimation.change_detection import is_failure
from streamsched.numerics.arrays import Record
from streamsched.numerics.jit import inlined_kernel
from streamsched.outcomes import RETRY_AFTER
from streamsched.politeness.limits import (
    FOR_DELAY,
    FOR_RETRY_AFTER,
    FOR_TOO_MANY,
    FOR_UNAVAILABLE,
    Limits,
    backoff_length,
)

_TOO_MANY_REQUESTS: Final = 429
_UNAVAILABLE: Final = 503
_MOST: Final = 255  # of what a byte of a host's record counts


class HostResponse(NamedTuple):
    """An outcome of the page of `row`, as far as its host is concerned; ``wait_s``: its `demanded_wait`.

    ``ends_lease``: as `politeness.limits.ends_lease` says; ``newest_s``: the newest outcome before it, its own time if
    it is the first.
    """

    row: int
    status: int
    wait_s: float
    fetched_at: float
    ends_lease: bool
    newest_s: float


@inlined_kernel
def demanded_wait(limits: Limits, given: int, status: int, asked_s: float) -> float:
    """Return how many seconds an answer of 429 or 503 asks to wait, at most `retry_after_most`; -1 if it does not.

    `asked_s`: by its Retry-After, if it has one. O(1).
    """
    if given & RETRY_AFTER and is_refusal(status):
        return float(min(asked_s, limits.retry_after_most_s))
    return -1.0


@inlined_kernel
def apply_host_response(host: Record, page: Record, trace: Record, limits: Limits, response: HostResponse) -> bool:
    """Apply an outcome to its host, before it is applied to the records of its page. O(1).

    Returns whether the answer demands a rest of the host; if not, a `demanded_wait` is a rest of the page alone.
    Outcomes of visits before the end of a rest may prolong it, but do not change its step. If the delays of earlier
    leases end later, the rest ends with them: those leases were granted without it.
    """
    is_probe = host.probe == response.row + 1 and response.ends_lease
    early = response.fetched_at < host.ready_s
    if is_probe:
        early = early and host.wait_reason != FOR_DELAY  # only a rest that was demanded since it was leased counts
    elif host.probe != 0:
        early = early or response.fetched_at < host.probe_until_s
    resting = early and host.asked_to_wait != 0
    demanded = False
    if is_refusal(response.status):
        _count_refusal(host, page, trace, response)
        pages = limits.host_backoff_429 if response.status == _TOO_MANY_REQUESTS else limits.host_backoff_503
        demanded = host.refusals >= pages
        if demanded:
            _demand_rest(host, limits, response, resting)
    elif not resting:
        host.refusals = 0
        if not is_failure(response.status):
            host.backoffs = 0
            host.asked_to_wait = 0
    if is_probe or host.asked_to_wait == 0:
        host.probe = 0
    return bool(demanded)


@inlined_kernel
def rest_end(response: HostResponse, wait_s: float, most_s: float) -> float:
    """Return when a rest of `wait_s` that an answer demands ends; `most_s`: the longest rest of its kind. O(1).

    An answer that is further ahead of the newest outcome before it counts as of that time: its clock may be wrong, as
    a stream accepts times somewhat ahead, and a host must not rest until then.
    """
    is_far_ahead = response.fetched_at - response.newest_s > most_s
    return float((response.newest_s if is_far_ahead else response.fetched_at) + wait_s)


@inlined_kernel
def is_refusal(status: int) -> bool:
    """Return whether an answer may demand a rest: 429 or 503. O(1)."""
    return status == _TOO_MANY_REQUESTS or status == _UNAVAILABLE  # noqa: PLR1714  a kernel


@inlined_kernel
def _count_refusal(host: Record, page: Record, trace: Record, response: HostResponse) -> None:
    """Count the pages that gave this answer one after another: a page whose last visit was one of them counts once."""
    if host.refusals == 0 or host.refusal != response.status:
        host.refusal = response.status
        host.refusals = 1
        host.refused_since_s = response.fetched_at
    else:
        if page.failures == 0 or trace.last_attempt_s < host.refused_since_s:
            host.refusals = min(host.refusals + 1, _MOST)
        host.refused_since_s = min(host.refused_since_s, response.fetched_at)


@inlined_kernel
def _demand_rest(host: Record, limits: Limits, response: HostResponse, resting: bool) -> None:
    """Let the host rest: by Retry-After, or by the next step of the back-off unless it is `resting` already."""
    if not resting:
        host.backoffs = min(host.backoffs + 1, _MOST)
    if response.wait_s >= 0.0:
        _rest(host, rest_end(response, response.wait_s, limits.retry_after_most_s), FOR_RETRY_AFTER)
    elif not resting and limits.backoff_s > 0.0:
        why = FOR_TOO_MANY if response.status == _TOO_MANY_REQUESTS else FOR_UNAVAILABLE
        _rest(host, rest_end(response, backoff_length(limits, host.backoffs), limits.backoff_most_s), why)


@inlined_kernel
def _rest(host: Record, until_s: float, why: int) -> None:
    host.asked_to_wait = 1
    if until_s > host.ready_s:
        host.ready_s = until_s
        host.wait_reason = why
