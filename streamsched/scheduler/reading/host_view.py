"""One host of a scheduler as plain values: its limits, its leases, and what holds it back; and a listing of hosts."""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.api.views import HostLimits, HostView
from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Ints, Record, Records
from streamsched.politeness.eligibility_reasons import CAUSE_NAMES
from streamsched.politeness.politeness_settings import Politeness
from streamsched.politeness.rule_targets import read_host
from streamsched.reasons import ReasonCode
from streamsched.records.group_schema import BY_SETTINGS, GroupArrays
from streamsched.records.page_schema import DENIED, FORGOTTEN, SUCCEEDED, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import find_host, group_name
from streamsched.records.url_store import url_text

_FEWEST_READ: Final = 1 << 10  # groups at a time


def view_host(shard: ShardArrays, host: int, now: float, politeness: Politeness) -> HostView:
    """Return the host of the group `host` at `now`, whose leases must have ended if they have expired. O(1)."""
    record: Record = shard.groups.records[host]
    rule = _rule_of(record)
    most = politeness.in_flight if rule.in_flight is None else rule.in_flight
    held_back, eligible_from_s = _find_wait(record, now, most)
    resting, cause = float(record["ready_s"]), CAUSE_NAMES.get(int(record["wait_reason"]))
    return HostView(
        host=group_name(shard.groups, host),
        pages=int(record["host_pages"]),
        patterns=int(record["host_patterns"]),
        leased=int(record["out"]),
        rule=None if rule == HostLimits() else rule,
        delay_s=float(politeness.delay if rule.delay is None else rule.delay),
        in_flight=most,
        per_batch=politeness.per_batch if rule.per_batch is None else rule.per_batch,
        resting_until_s=resting if resting > now else None,
        cause=cause,
        backoffs=int(record["backoffs"]),
        refusals=int(record["refusals"]),
        refusal=int(record["refusal"]) if record["refusals"] else None,
        probe=url_text(shard.pages, int(record["probe"]) - 1) if record["probe"] else None,
        held_back=held_back,
        eligible_from_s=eligible_from_s,
    )


def find_start(groups: GroupArrays, start: int | str) -> int:
    """Return the group at which a list of hosts starts. Raises SettingsError for a host that is not known."""
    if not isinstance(start, str):
        return check_whole("start", start, 0, "0, the `next` of the part before, or a known host")
    group = find_host(groups, read_host(start, "start").host)
    if group < 0:
        raise SettingsError("start", start, "0, the `next` of the part before, or a known host")
    return group


def list_hosts(groups: GroupArrays, corpus: Records, start: int, size: int) -> Ints:
    """Return the groups of the first `size` hosts from group `start` on: int64[m]. O(size + patterns between them)."""
    count, found, missing = int(corpus["groups"][0]), [np.empty(0, np.int64)], size
    while start < count and missing > 0:
        stop = min(start + max(_FEWEST_READ, missing), count)
        part = groups.records[start:stop]
        found.append(start + np.flatnonzero((part["depth"] == 0) & (part["host_pages"] > 0))[:missing])
        start, missing = stop, missing - found[-1].size
    return np.concatenate(found)


def list_failing(shard: ShardArrays, count: int) -> tuple[Ints, Ints]:
    """Return the groups of hosts with failing pages, and how many of the `count` rows fail, most first: int64[m] each.

    A page fails if its last fetch brought none: see ``FETCHES`` of `streamsched.scheduler.monitoring`. Hosts with
    equally many are in the order in which they became known. O(rows).
    """
    pages = shard.pages.records[:count]
    flags = pages["flags"]
    fails = (pages["failures"] > 0) | (flags & (VISITED | SUCCEEDED) == VISITED) | (flags & DENIED != 0)
    hosts = shard.groups.records["host"][pages["group"][fails & (pages["rule"] != FORGOTTEN)]]
    failing = np.bincount(hosts)
    found = np.flatnonzero(failing)
    found = found[np.argsort(-failing[found], kind="stable")]
    return found, failing[found]


def _rule_of(record: Record) -> HostLimits:
    """Return the rule that a host's record holds; what it does not set is None."""
    limits = {"in_flight": int(record["max_out"]), "per_batch": int(record["max_batch"])}
    delay_s = float(record["delay_s"])
    set_limits = {name: limit for name, limit in limits.items() if limit != BY_SETTINGS}
    return HostLimits(delay=None if np.isnan(delay_s) else delay_s, **set_limits)


def _find_wait(record: Record, now: float, most: int | None) -> tuple[ReasonCode | None, float | None]:
    """Return why no page of a host may be visited at `now`, None if one may, and from when one may."""
    probing_s = float(record["probe_until_s"]) if record["probe"] else -np.inf
    from_s = max(float(record["ready_s"]), probing_s, now)
    is_full = most is not None and int(record["out"]) >= most
    if record["ready_s"] > now:
        return ReasonCode.HOST_RESTING, None if is_full else from_s
    if probing_s > now:
        return ReasonCode.HOST_PROBING, None if is_full else from_s
    return (ReasonCode.HOST_FULL, None) if is_full else (None, from_s)
