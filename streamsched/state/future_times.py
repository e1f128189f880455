"""Times in the future that a state holds, as one wrong clock left them: found, and mended.

A page whose last visit lies in the future gets no further visit, a host's rest until then bars all of its pages, and
the newest visit of all stops the fading of rhythms. The effect of such a visit on a rate cannot be removed, so a mended
page learns its rate again, from its group.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.errors import shorten
from streamsched.numerics.argument_checks import TIME_LIMIT_S
from streamsched.numerics.arrays import Bools, Ints, Records
from streamsched.numerics.durations import format_moment
from streamsched.politeness.domain_shares import day_of
from streamsched.politeness.limits import ON_REQUEST
from streamsched.records.page_schema import LEASED, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_store import url_texts

_NAMED: Final = 3  # pages that a report names


class TimeBounds(NamedTuple):
    """What counts as the future: visits and leases after ``latest_s``, rests that end after ``wait_s``.

    ``present_s``: the time that replaces those in the future.
    """

    latest_s: float
    wait_s: float
    present_s: float

    @classmethod
    def up_to(cls, latest_s: float, shard: ShardArrays, backoff_s: float) -> TimeBounds:
        """Return the bounds of a shard whose longest back-off is `backoff_s`. O(pages)."""
        return cls(latest_s, latest_s + backoff_s, newest_time(shard, latest_s))


def newest_time(shard: ShardArrays, latest_s: float) -> float:
    """Return the newest outcome that is not later than `latest_s`; `latest_s` if there is none. O(pages)."""
    count = int(shard.corpus["pages"][0])
    pages, outcomes = shard.pages.records[:count], shard.pages.traces["last_outcome_s"][:count]
    visits = np.where(pages["flags"] & VISITED, pages["last_visit_s"], -np.inf)
    newest_s = max(float(times.max(initial=-np.inf, where=times <= latest_s)) for times in (outcomes, visits))
    return newest_s if newest_s > -np.inf else latest_s


def describe_future(shard: ShardArrays, latest_s: float) -> str | None:
    """Return what pages have of times later than `latest_s`: visits and leases; None if there is none. O(pages)."""
    pages, leased = describe_future_pages(shard, latest_s), find_future_leases(shard, latest_s)
    if not leased.size:
        return pages
    until_s = float(shard.pages.lease_until_s[leased].max())
    leases = f"{leased.size} pages have leases that began in the future and end by {format_moment(until_s)}"
    return leases if pages is None else f"{pages}; {leases}"


def describe_future_pages(shard: ShardArrays, latest_s: float) -> str | None:
    """Return how many pages were last visited later than `latest_s`, with examples; None if there is none. O(pages)."""
    rows = _find_future_pages(shard, latest_s)
    if not rows.size:
        return None
    named = rows[:_NAMED]
    times = np.maximum(shard.pages.records["last_visit_s"][named], shard.pages.traces["last_outcome_s"][named])
    examples = [
        f"{shorten(url)} ({format_moment(time_s)})"
        for url, time_s in zip(url_texts(shard.pages, named), times.tolist(), strict=True)
    ]
    more = ", …" if rows.size > _NAMED else ""
    pages = f"{rows.size} of {int(shard.corpus['pages'][0])} pages"
    return f"the last visit or discovery lies in the future for {pages}: {', '.join(examples)}{more}"


def _find_future_pages(shard: ShardArrays, latest_s: float) -> Ints:
    """Return the rows of pages whose last visit or outcome is later than `latest_s`: int64[m]. O(pages)."""
    count = int(shard.corpus["pages"][0])
    visits = shard.pages.records["last_visit_s"][:count]
    return np.flatnonzero((visits > latest_s) | (shard.pages.traces["last_outcome_s"][:count] > latest_s))


def find_future_leases(shard: ShardArrays, latest_s: float) -> Ints:
    """Return the rows of pages whose leases began after `latest_s`: int64[m]. O(pages)."""
    count = int(shard.corpus["pages"][0])
    leased = (shard.pages.records["flags"][:count] & LEASED) != 0
    return np.flatnonzero(leased & (shard.pages.lease_until_s[:count] - shard.pages.lease_s[:count] > latest_s))


def mend_times(shard: ShardArrays, bounds: TimeBounds) -> dict[str, int]:
    """Replace all times in the future, leases aside; return how many records of each kind were changed. O(pages).

    The caller saves the whole state afterwards: the records are not marked dirty.
    """
    rows = _find_future_pages(shard, bounds.latest_s)
    return {
        "pages": _mend_pages(shard, rows, bounds),
        "journal_visits": _drop_visits(shard, rows, bounds.latest_s),
        "schedules": _mend_schedules(shard, bounds),
        "hosts": _mend_hosts(shard, bounds),
        "domains": _mend_domains(shard, bounds),
        "surge_windows": _close_windows(shard, bounds.latest_s),
        "rhythms": _mend_rhythms(shard, bounds),
        "signals": _mend_signals(shard, rows, bounds),
    }


def _mend_pages(shard: ShardArrays, rows: Ints, bounds: TimeBounds) -> int:
    pages, traces = shard.pages.records, shard.pages.traces
    visited = rows[pages["last_visit_s"][rows] > bounds.latest_s]
    pages["last_visit_s"][visited] = bounds.present_s
    pages["own_shape"][visited] = 0.0  # an interval of centuries holds no information about the rate
    pages["own_exposure"][visited] = 0.0
    stride = int(shard.corpus["shadow_stride"][0])
    shard.shadows[visited[visited % stride == 0] // stride] = 0
    for name in ("last_outcome_s", "last_attempt_s"):
        traces[name][rows] = np.minimum(traces[name][rows], bounds.present_s)
    seen = visited[(pages["flags"][visited] & VISITED) != 0]
    traces["last_outcome_s"][seen] = traces["last_attempt_s"][seen] = bounds.present_s
    resting = rows[((pages["flags"][rows] & LEASED) == 0) & (shard.pages.lease_until_s[rows] > bounds.wait_s)]
    shard.pages.lease_until_s[resting] = -np.inf
    return int(rows.size)


def _drop_visits(shard: ShardArrays, rows: Ints, latest_s: float) -> int:
    """Remove the visits to the pages of `rows` from the journal, and those to pages with a visit in the future."""
    journaled = int(shard.corpus["journaled"][0])
    ring = shard.journal[:journaled]
    if journaled > ring.size:
        ring = np.roll(ring, -(journaled % ring.size))  # the oldest first
    future = np.union1d(rows, ring["row"][ring["at_s"] > latest_s].astype(np.int64))
    kept = ring[~np.isin(ring["row"], future)]
    dropped = ring.size - kept.size
    if dropped:
        shard.journal[: kept.size] = kept
        shard.corpus["journaled"] = kept.size
    return int(dropped)


def _mend_schedules(shard: ShardArrays, bounds: TimeBounds) -> int:
    schedules = shard.seasonality.schedules[1 : 1 + int(shard.seasonality.state["schedules"][0])]
    late = schedules["last_change_s"] > bounds.latest_s
    present_s = np.uint32(min(max(bounds.present_s, 1.0), 2.0**32 - 1.0))
    for name in ("first_change_s", "last_change_s"):
        schedules[name][late] = np.minimum(schedules[name][late], present_s)
    return int(np.count_nonzero(late))


def _mend_hosts(shard: ShardArrays, bounds: TimeBounds) -> int:
    """End rests in the future, except those that `block` asked for."""
    groups = _groups(shard)
    late = groups["ready_s"] > bounds.wait_s
    late &= (groups["wait_reason"] != ON_REQUEST) | (groups["ready_s"] >= TIME_LIMIT_S)
    groups["ready_s"][late] = bounds.present_s
    late |= (groups["refusals"] != 0) & (groups["refused_since_s"] > bounds.latest_s)
    late |= (groups["probe"] != 0) & (groups["probe_until_s"] > bounds.wait_s)
    for name in ("asked_to_wait", "refusals", "probe"):
        groups[name][late] = 0
    return int(np.count_nonzero(late))


def _mend_domains(shard: ShardArrays, bounds: TimeBounds) -> int:
    """Begin to count the visits of the present day, if those of a later day are counted."""
    if shard.corpus["day"][0] <= day_of(bounds.latest_s):
        return 0
    shard.corpus["day"], shard.corpus["day_visits"] = day_of(bounds.present_s), 0
    domains = shard.groups.domains[: int(shard.corpus["domains"][0])]
    counted = int(np.count_nonzero(domains["visits"]))
    domains["visits"], domains["day"] = 0, 0
    return counted


def _close_windows(shard: ShardArrays, latest_s: float) -> int:
    groups = _groups(shard)
    return int(np.count_nonzero(_clear_window(groups, "open", latest_s) | _clear_window(groups, "kept", latest_s)))


def _clear_window(groups: Records, name: str, latest_s: float) -> Bools:
    late: Bools = groups[f"{name}_s"] > latest_s
    groups[f"{name}_s"][late] = -np.inf
    for field in ("share", "unvisited", "weights"):
        groups[f"{name}_{field}"][late] = 0
    return late


def _mend_rhythms(shard: ShardArrays, bounds: TimeBounds) -> int:
    """Let profiles fade again from the present on."""
    shard.corpus["newest_s"] = np.minimum(shard.corpus["newest_s"], bounds.present_s)
    state = shard.seasonality.state
    if not state["newest_s"][0] > bounds.latest_s:
        return 0
    state["newest_s"] = bounds.present_s
    state["published_s"] = np.minimum(state["published_s"], bounds.present_s)
    return 1


def _mend_signals(shard: ShardArrays, rows: Ints, bounds: TimeBounds) -> int:
    """Forget signals that lie in the future or follow a visit there; their sources continue from the present."""
    sources = shard.signals.sources[: int(shard.signals.state["sources"][0])]
    late = sources["seen_s"] > bounds.latest_s
    sources["seen_s"][late] = bounds.present_s
    if not shard.pages.signals.size:
        return int(np.count_nonzero(late))
    count = int(shard.corpus["pages"][0])
    pages = shard.pages.signals[:count]
    wrong = shard.pages.records["last_visit_s"][:count] + pages["last_after_s"] > bounds.latest_s
    wrong[rows] = True
    wrong &= (pages["kinds"] != 0) | (pages["echoes"] != 0)
    for name in ("echoes", "first_after_s", "last_after_s", "signalled", "kinds", "lead", "latest", "counts"):
        pages[name][wrong] = 0
    return int(np.count_nonzero(wrong) + np.count_nonzero(late))


def _groups(shard: ShardArrays) -> Records:
    groups: Records = shard.groups.records[: int(shard.corpus["groups"][0])]
    return groups
