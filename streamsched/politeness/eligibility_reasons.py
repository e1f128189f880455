"""Why a page is not eligible or has priority, and from when it is eligible."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from streamsched.numerics.arrays import Record
from streamsched.politeness.eligibility import Waits, are_leased, read_waits
from streamsched.politeness.limits import HOST_CAUSES, Limits
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.page_schema import URGENT
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_name
from streamsched.records.url_store import url_text

CAUSE_NAMES: Final = {code: name for code, (name, _) in HOST_CAUSES.items()}
_PRIORITIES: Final = (ReasonCode.ASKED_FOR, ReasonCode.OVERDUE)


def held_back_by(reasons: Iterable[Reason]) -> ReasonCode | None:
    """Return the first of `eligibility_reasons` why a page is not eligible, None if it is."""
    return next((ReasonCode(reason.code) for reason in reasons if reason.code not in _PRIORITIES), None)


def eligibility_reasons(shard: ShardArrays, row: int, now: float, limits: Limits) -> tuple[float | None, list[Reason]]:
    """Return the earliest time >= `now` at which the page of `row` is eligible, and the reasons. O(1).

    The time is None if it depends on outcomes or rules rather than on the clock. Reasons why the page is not eligible
    at `now` come first, then the one why it has priority, if any.
    """
    page, waits = shard.pages.records[row], read_waits(shard, np.array([row]), limits)
    if waits.ready_at[0] == math.inf:
        by_rule = bool(limits.rules["never"][page["rule"]])
        return None, [Reason(ReasonCode.NEVER_BY_RULE if by_rule else ReasonCode.ROBOTS_DENIED)]
    reasons = _waits_for(shard, row, now, waits)
    eligible_from_s = max((reason.fields["until_s"] for reason in reasons), default=now)
    host = shard.groups.records[shard.groups.records["host"][page["group"]]]
    full = bool(waits.host_capacity[0] < 1)
    if full:
        out = int(host["out"])
        fields = {"host": _host_name(shard, row), "out": out, "limit": out + int(waits.host_capacity[0])}
        reasons.append(Reason(ReasonCode.HOST_FULL, fields))
    reasons += _priority(page, float(waits.overdue_at[0]), now, waiting=bool(reasons))
    return None if full else eligible_from_s, reasons


def _waits_for(shard: ShardArrays, row: int, now: float, waits: Waits) -> list[Reason]:
    """Return the reasons that end at a known time, in ``until_s``."""
    page = shard.pages.records[row]
    reasons: list[Reason] = []

    def wait(code: ReasonCode, until_s: float, **fields: Any) -> None:
        if until_s > now:
            until_s = float(until_s)
            reasons.append(Reason(code, {**fields, "until_s": until_s, "wait_s": until_s - now}))

    if are_leased(shard, np.array([row]), now)[0]:
        wait(ReasonCode.LEASED, shard.pages.lease_until_s[row])
    host = shard.groups.records[shard.groups.records["host"][page["group"]]]
    cause = CAUSE_NAMES.get(int(host["wait_reason"]))
    wait(ReasonCode.HOST_RESTING, waits.host_ready_s[0], host=_host_name(shard, row), cause=cause)
    if host["probe"] not in (0, row + 1):
        probe = url_text(shard.pages, int(host["probe"]) - 1)
        wait(ReasonCode.HOST_PROBING, float(host["probe_until_s"]), host=_host_name(shard, row), probe=probe)
    if not page["flags"] & URGENT:  # a page asked for waits only for its lease and its host
        wait(ReasonCode.BELOW_MIN_REVISIT, waits.revisit_at[0])
        wait(ReasonCode.BACKING_OFF, waits.backoff_until[0], failures=int(page["failures"]))
        by_crawler = shard.pages.lease_until_s[row] < 0.0
        wait(ReasonCode.NOT_BEFORE if by_crawler else ReasonCode.RETRY_AFTER, waits.retry_at[0])
        wait(ReasonCode.RETIRED, waits.probe_at[0], gone_answers=int(page["gone"]))
    return reasons


def _priority(page: Record, overdue_s: float, now: float, *, waiting: bool) -> list[Reason]:
    if page["flags"] & URGENT:
        return [Reason(ReasonCode.ASKED_FOR, {"waiting": waiting})]
    if overdue_s <= now:
        return [Reason(ReasonCode.OVERDUE, {"since_s": overdue_s, "waiting": waiting})]
    return []


def _host_name(shard: ShardArrays, row: int) -> str:
    return group_name(shard.groups, int(shard.groups.records["host"][shard.pages.records["group"][row]]))
