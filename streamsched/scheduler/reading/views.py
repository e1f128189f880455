"""Views of a shard, as plain values.

Hosts, pages, surges under way, the week of a page or of a profile, and what a batch would hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

import numpy as np

from streamsched.api.answers import LeasedPage, Offer, OfferedPage
from streamsched.api.views import HostLimits, HostView, PageView, SurgeView, WeekView, finite
from streamsched.errors import SettingsError
from streamsched.estimation.seasonality.regions import HOUR_S, local_hours, quarters_at, week_of
from streamsched.formula.terminals import TerminalColumns, context_of
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.arrays import Floats, Ints, Record, Records
from streamsched.politeness.eligibility import are_leased
from streamsched.politeness.eligibility_reasons import CAUSE_NAMES, eligibility_reasons, held_back_by
from streamsched.politeness.limits import Limits
from streamsched.politeness.politeness_settings import Politeness
from streamsched.politeness.priority import read_overdue
from streamsched.politeness.rule_targets import read_host
from streamsched.reasons import ReasonCode
from streamsched.records.group_schema import BY_SETTINGS, GroupArrays
from streamsched.records.page_schema import DENIED, FORGOTTEN, SHOWN_FLAGS, SUCCEEDED, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import NO_GROUP, WEEK_HOURS
from streamsched.records.url_patterns import find_host, group_name
from streamsched.records.url_store import url_text
from streamsched.records.validators import read_validators
from streamsched.scheduler.batches.batch_requests import BatchRequest
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.reason_text import describe_reasons

_FEWEST_READ: Final = 1 << 10  # groups at a time
_QUARTER_S: Final = 900.0
_EPOCH_HOURS: Final = 72.0  # from the Monday before 1970, which began on a Thursday


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


def view_page(shard: ShardArrays, row: int, now: float, limits: Limits) -> PageView:
    """Return the page of `row` at `now`. O(1)."""
    page, trace = shard.pages.records[row], shard.pages.traces[row]
    flags, visit_s = int(page["flags"]), float(page["last_visit_s"])
    is_leased = bool(are_leased(shard, np.array([row]), now)[0])
    eligible_from_s, reasons = eligibility_reasons(shard, row, now, limits)
    group = int(page["group"])
    plain: dict[str, Any] = {name: int(page[name]) for name in ("visits", "changes", "failures", "gone")}
    etags, modified = read_validators(shard.pages.validators, shard.pages.validator_texts, np.array([row]))
    plain |= {name: bool(flags & bit) for name, (bit, _) in SHOWN_FLAGS.items()}
    return PageView(
        url=url_text(shard.pages, row),
        host=group_name(shard.groups, int(shard.groups.records["host"][group])),
        pattern=group_name(shard.groups, group),
        importance=float(page["importance"]),
        cost=float(page["cost"]),
        known_since_s=None if flags & VISITED else visit_s,
        last_visit_s=visit_s if flags & VISITED else None,
        last_outcome_s=float(trace["last_outcome_s"]) if np.isfinite(trace["last_outcome_s"]) else None,
        **plain,
        rate=float((page["prior_shape"] + page["own_shape"]) / (page["prior_exposure"] + page["own_exposure"])),
        etag=etags[0],
        last_modified=modified[0],
        lease_until_s=float(shard.pages.lease_until_s[row]) if is_leased else None,
        eligible_from_s=eligible_from_s,
        reasons=describe_reasons(reasons),
        held_back=held_back_by(reasons),
    )


class FoundSurges(NamedTuple):
    """Windows of groups with a surge that pages wait for. ``kept``: 1 for the kept window, 0 for the open one."""

    groups: Ints
    kept: Ints
    waiting: Floats  # expected pages that the surge has changed and no visit has seen

    @classmethod
    def none(cls) -> FoundSurges:
        """Return no surges."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def joined(self, other: FoundSurges) -> FoundSurges:
        """Return the surges of both."""
        groups, kept = np.concatenate([self.groups, other.groups]), np.concatenate([self.kept, other.kept])
        return FoundSurges(groups, kept, np.concatenate([self.waiting, other.waiting]))

    def first(self, most: int) -> FoundSurges:
        """Return the `most` windows with the most waiting pages; of equals, the lower group comes first."""
        order = np.lexsort((self.kept, self.groups, -self.waiting))[:most]
        return FoundSurges(self.groups[order], self.kept[order], self.waiting[order])


def find_surges(groups: Records, start: int) -> FoundSurges:
    """Return the surges among ``groups``: GROUP[m], the first one is number `start`. O(m)."""
    waiting = np.stack([groups[f"{kind}_share"] * groups[f"{kind}_unvisited"] for kind in ("open", "kept")], axis=1)
    found, kept = np.nonzero(waiting > 0.0)
    return FoundSurges(found + start, kept, waiting[found, kept].astype(np.float64))


def view_surge(groups: GroupArrays, group: int, *, kept: bool) -> SurgeView:
    """Return the surge in the open or the kept window of `group`. O(length of its name)."""
    record, kind = groups.records[group], "kept" if kept else "open"
    return SurgeView(
        group=group_name(groups, group),
        pages=int(record["pages"]),
        since_s=float(record[f"{kind}_s"]),
        share=float(record[f"{kind}_share"]),
        unvisited=int(record[f"{kind}_unvisited"]),
    )


def view_page_week(shard: ShardArrays, row: int, now: float, cycle_s: float, regions: Sequence[str]) -> WeekView:
    """Return the week of the page of `row`: its terminal `rhythm` at each hour of the week around `now`. O(168).

    `regions`: the names of the regions by number, from 1.
    """
    rows = np.array([row])
    link: Record = shard.seasonality.links[row]
    pages, traces, context = shard.pages.records[rows], shard.pages.traces[rows], context_of(shard, rows)
    fill = TerminalColumns(["rhythm"], 1).fill
    offset_s = _QUARTER_S * int(link["quarters"])
    monday = WEEK_HOURS * week_of(local_hours(now, int(link["quarters"]))) - _EPOCH_HOURS
    times = ((monday + np.arange(WEEK_HOURS) + 0.5) * HOUR_S - offset_s).tolist()
    hours = [float(fill(pages, traces, context, at_s, cycle_s)["rhythm"][0]) for at_s in times]
    return _describe(shard, int(link["profile"]), hours, offset_s, regions, scheduled=bool(link["schedule"]))


def view_profile_week(shard: ShardArrays, number: int, now: float, regions: Sequence[str]) -> WeekView:
    """Return the week of the profile of that number, as it was last published. O(168).

    The profile of all pages is number 0, those of regions follow in their order.
    """
    profile: Record = shard.seasonality.profiles[number]
    version = int(shard.corpus["sweep"][0]) & 1
    weights = np.diff(profile["cumulative"][version * (WEEK_HOURS + 1) :][: WEEK_HOURS + 1].astype(np.float64))
    offset_s = _QUARTER_S * quarters_at(shard.seasonality.calendar, int(profile["region"]), now)
    return _describe(shard, number, (weights / weights.mean()).tolist(), offset_s, regions, scheduled=False)


def _describe(
    shard: ShardArrays, number: int, hours: Sequence[float], offset_s: float, regions: Sequence[str], *, scheduled: bool
) -> WeekView:
    profile: Record = shard.seasonality.profiles[number]
    group, region = int(profile["group"]), int(profile["region"])
    return WeekView(
        hours=tuple(hours),
        utc_offset_s=offset_s,
        profile=None if group == NO_GROUP else group_name(shard.groups, group),
        region=regions[region - 1] if region else None,
        scheduled=scheduled,
        regions=tuple(regions),
    )


def view_offer(core: SchedulerCore, request: BatchRequest, keys: Sequence[str]) -> Offer:
    """Return the batch that `request` would lease, and what is leased under `keys`. Nothing changes. O(batch)."""
    builder, shard, now = core.batches, core.pages.arrays, request.now
    with core.lock:
        batch = builder.offer(request)
        ties = core.tie_keys(now=now, rows=batch.rows).tolist()
        overdue_s = read_overdue(shard, batch.rows, builder.politeness_policy.limits, now).tolist()
        new = ((shard.pages.records["flags"][batch.rows] & VISITED) == 0).tolist()
        kept = [found for key in keys if (found := builder.find_kept(key, now)) is not None]
        granted = [cast("LeasedPage", page) for found in kept for page in found] if kept else None
        hosts, reasons = batch.hosts, batch.reasons
        shares = builder.quotas.new, builder.quotas.explore, builder.panel.share
    ranked = batch.urls, hosts, map(finite, batch.scores.tolist()), batch.tiers.tolist(), batch.probabilities.tolist()
    pages = [
        OfferedPage(
            url=url,
            host=host,
            score=score,
            tier=tier,
            probability=probability,
            why=why.value,
            tie=tie,
            overdue_since=since_s if tier and math.isfinite(since_s) else None,
            new=is_new,
            etag=etag,
            last_modified=modified,
        )
        for url, host, score, tier, probability, why, tie, since_s, is_new, etag, modified in zip(
            *ranked, reasons, ties, overdue_s, new, batch.etags, batch.last_modified, strict=True
        )
    ]
    new_share, explore_share, panel_share = shares
    return Offer(
        pages=pages,
        now=now,
        new_share=new_share,
        explore_share=explore_share,
        panel_share=panel_share,
        granted=granted,
    )
