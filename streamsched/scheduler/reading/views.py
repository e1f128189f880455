"""Views of a shard, as plain values: hosts, pages, rules, trials, surges, weeks, and what a batch would hold.

Each function takes the lock of the scheduler's core for as long as it reads. `Scheduler` documents what they return.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast, get_args

import numpy as np
from msgspec import structs

from streamsched.api.answers import LeasedPage, Offer, OfferedPage
from streamsched.api.views import (
    HostLimits,
    HostOrder,
    HostPage,
    HostView,
    PageLimits,
    PageView,
    RulesView,
    SurgeView,
    TrialCounts,
    TrialView,
    WeekView,
    finite,
)
from streamsched.errors import SettingsError
from streamsched.estimation.seasonality.regions import HOUR_S, local_hours, quarters_at, week_of
from streamsched.formula.terminals import TerminalColumns, context_of
from streamsched.numerics.argument_checks import check_type, check_whole
from streamsched.numerics.arrays import Floats, Ints, Record, Records
from streamsched.politeness.eligibility import are_leased
from streamsched.politeness.eligibility_reasons import CAUSE_NAMES, eligibility_reasons, held_back_by
from streamsched.politeness.limits import Limits
from streamsched.politeness.politeness_settings import Politeness
from streamsched.politeness.priority import read_overdue
from streamsched.politeness.rule_targets import read_host
from streamsched.reasons import ReasonCode
from streamsched.records.group_schema import BY_SETTINGS, GroupArrays
from streamsched.records.page_schema import DENIED, FORGOTTEN, MAX_PAGES, SHOWN_FLAGS, SUCCEEDED, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import NO_GROUP, WEEK_HOURS
from streamsched.records.url_patterns import find_host, group_name
from streamsched.records.url_store import url_text
from streamsched.records.validators import read_validators
from streamsched.scheduler.batches.batch_requests import BatchRequest
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.reason_text import describe_reasons

_GROUPS_READ: Final = 1 << 16  # at a time under the lock: some 2 ms
_FEWEST_READ: Final = 1 << 10  # groups at a time
_QUARTER_S: Final = 900.0
_EPOCH_HOURS: Final = 72.0  # from the Monday before 1970, which began on a Thursday


def view_host(core: SchedulerCore, name: str, now: float) -> HostView | None:
    """Return the host `name` at `now`, None for one without a known page. O(1). Raises SettingsError."""
    target = read_host(name, "name")
    if "*" in target.host:
        raise SettingsError("name", name, "a host without *: see `hosts`")
    with core.lock:
        group = find_host(core.pages.arrays.groups, target.host)
        if group < 0 or not core.pages.arrays.groups.records[group]["host_pages"]:
            return None
        return _describe_hosts(core, [group], now)[0]


def list_hosts(core: SchedulerCore, start: int | str, size: int, now: float, order: HostOrder) -> HostPage:
    """Return `size` hosts at `now` from `start` on, as `Scheduler.hosts` does. Raises SettingsError."""
    size = check_whole("size", size, 1, "1 or more hosts")
    if not isinstance(order, str) or order not in get_args(HostOrder):
        raise SettingsError("order", order, "'known' or 'failing'")
    with core.lock:
        shard = core.pages.arrays
        if order == "failing":
            first = check_whole("start", start, 0, "0, or the `next` of the part before")
            found, failing = _find_failing(shard, len(core.pages))
            part = slice(first, first + min(size, MAX_PAGES))
            views = zip(_describe_hosts(core, found[part].tolist(), now), failing[part].tolist(), strict=True)
            counted = tuple(structs.replace(view, failing=pages) for view, pages in views)
            return HostPage(counted, part.stop if part.stop < found.size else None)
        first = _find_start(shard.groups, start)
        groups = _find_hosts(shard.groups, shard.corpus, first, min(size, MAX_PAGES) + 1).tolist()
        following = groups[size] if len(groups) > size else None
        return HostPage(tuple(_describe_hosts(core, groups[:size], now)), following)


def _describe_hosts(core: SchedulerCore, groups: Sequence[int], now: float) -> list[HostView]:
    """Return the hosts of these groups at `now`; the caller holds the lock."""
    with core.batch_builder.leases_as_of(now):
        shard, politeness = core.pages.arrays, core.politeness_policy.politeness
        return [_describe_host(shard, group, now, politeness) for group in groups]


def _describe_host(shard: ShardArrays, host: int, now: float, politeness: Politeness) -> HostView:
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


def _find_start(groups: GroupArrays, start: int | str) -> int:
    """Return the group at which a list of hosts starts. Raises SettingsError for a host that is not known."""
    if not isinstance(start, str):
        return check_whole("start", start, 0, "0, the `next` of the part before, or a known host")
    group = find_host(groups, read_host(start, "start").host)
    if group < 0:
        raise SettingsError("start", start, "0, the `next` of the part before, or a known host")
    return group


def _find_hosts(groups: GroupArrays, corpus: Records, start: int, size: int) -> Ints:
    """Return the groups of the first `size` hosts from group `start` on: int64[m]. O(size + patterns between them)."""
    count, found, missing = int(corpus["groups"][0]), [np.empty(0, np.int64)], size
    while start < count and missing > 0:
        stop = min(start + max(_FEWEST_READ, missing), count)
        part = groups.records[start:stop]
        found.append(start + np.flatnonzero((part["depth"] == 0) & (part["host_pages"] > 0))[:missing])
        start, missing = stop, missing - found[-1].size
    return np.concatenate(found)


def _find_failing(shard: ShardArrays, count: int) -> tuple[Ints, Ints]:
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


def view_rules(core: SchedulerCore) -> RulesView:
    """Return the rules in force. O(rules)."""
    with core.lock:
        hosts, pages = core.politeness_policy.rules()
    return RulesView(
        hosts={target: HostLimits(**rule.to_json()) for target, rule in hosts.items()},
        pages={target: PageLimits(**rule.to_json()) for target, rule in pages.items()},
    )


def view_trial(core: SchedulerCore) -> TrialView | None:
    """Return the trial under way and its evidence so far, None without one. O(1)."""
    with core.lock:
        trial = core.trial.current
        if trial is None:
            return None
        evidence = core.trial.evidence(core.pages.arrays)
        return TrialView(challenger=trial.challenger.formula.text, since_s=trial.start_s, evidence=evidence)


def count_trial(core: SchedulerCore) -> TrialCounts:
    """Return the champion, the challenger on trial, and what the pages of both have shown. O(1)."""
    with core.lock:
        trial, corpus = core.trial.current, core.pages.arrays.corpus
        return TrialCounts(
            champion=core.champion.view(),
            challenger=None if trial is None else trial.challenger.view(),
            since_s=None if trial is None else trial.start_s,
            finds=corpus["trial_finds"][0].tolist(),
            costs=corpus["trial_costs"][0].tolist(),
            pages=len(core.pages),
        )


def view_page(core: SchedulerCore, url: str, now: float) -> PageView | None:
    """Return the page `url` at `now`, None for an unknown one. O(1)."""
    check_type("url", url, str, "a URL")
    with core.lock:
        row = int(core.find([url])[0])
        return None if row < 0 else _describe_page(core.pages.arrays, row, now, core.politeness_policy.limits)


def _describe_page(shard: ShardArrays, row: int, now: float, limits: Limits) -> PageView:
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


def list_surges(core: SchedulerCore, k: int) -> list[SurgeView]:
    """Return the `k` surges under way that the most changed pages wait for, the largest first. O(groups).

    Groups are read in parts, between which other calls may change them.
    """
    found = FoundSurges.none()
    for start in range(0, int(core.pages.corpus["groups"][0]), _GROUPS_READ):
        with core.lock:
            records = core.pages.arrays.groups.records[start : start + _GROUPS_READ]
            found = found.joined(find_surges(records, start)).first(k)
    with core.lock:
        groups = core.pages.arrays.groups
        return [_describe_surge(groups, int(group), kept=bool(kept)) for group, kept, _ in zip(*found, strict=True)]


def find_surges(groups: Records, start: int) -> FoundSurges:
    """Return the surges among ``groups``: GROUP[m], the first one is number `start`. O(m)."""
    waiting = np.stack([groups[f"{kind}_share"] * groups[f"{kind}_unvisited"] for kind in ("open", "kept")], axis=1)
    found, kept = np.nonzero(waiting > 0.0)
    return FoundSurges(found + start, kept, waiting[found, kept].astype(np.float64))


def _describe_surge(groups: GroupArrays, group: int, *, kept: bool) -> SurgeView:
    """Return the surge in the open or the kept window of `group`. O(length of its name)."""
    record, kind = groups.records[group], "kept" if kept else "open"
    return SurgeView(
        group=group_name(groups, group),
        pages=int(record["pages"]),
        since_s=float(record[f"{kind}_s"]),
        share=float(record[f"{kind}_share"]),
        unvisited=int(record[f"{kind}_unvisited"]),
    )


def view_week(
    core: SchedulerCore, now: float, *, url: str | None, host: str | None, region: str | None
) -> WeekView | None:
    """Return the week of a page, a host or a region around `now`, or that of all pages, as `Scheduler.week` does."""
    if sum(one is not None for one in (url, host, region)) > 1:
        raise SettingsError("week", "several of url, host and region", "at most one")
    regions = tuple(core.pages.regions or ())
    with core.lock:
        shard = core.pages.arrays
        if url is not None:
            check_type("url", url, str, "a URL")
            row = int(core.find([url])[0])
            return None if row < 0 else _view_page_week(shard, row, now, core.pages.cycle_s, regions)
        number = _find_profile(shard, regions, host, region)
        return None if number is None else _view_profile_week(shard, number, now, regions)


def _find_profile(shard: ShardArrays, regions: Sequence[str], host: str | None, region: str | None) -> int | None:
    """Return the number of the profile of a host, a region or all pages, None for an unknown host."""
    if region is not None:
        check_type("region", region, str, "the name of a region")
        if region not in regions:
            raise SettingsError("region", region, f"one of {', '.join(regions) or 'no regions'}")
        return 1 + regions.index(region)
    if host is None:
        return 0
    group = find_host(shard.groups, read_host(host, "host").host)
    return None if group < 0 else int(shard.seasonality.of_group[group])


def _view_page_week(shard: ShardArrays, row: int, now: float, cycle_s: float, regions: Sequence[str]) -> WeekView:
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
    return _describe_week(shard, int(link["profile"]), hours, offset_s, regions, scheduled=bool(link["schedule"]))


def _view_profile_week(shard: ShardArrays, number: int, now: float, regions: Sequence[str]) -> WeekView:
    """Return the week of the profile of that number, as it was last published. O(168).

    The profile of all pages is number 0, those of regions follow in their order.
    """
    profile: Record = shard.seasonality.profiles[number]
    version = int(shard.corpus["sweep"][0]) & 1
    weights = np.diff(profile["cumulative"][version * (WEEK_HOURS + 1) :][: WEEK_HOURS + 1].astype(np.float64))
    offset_s = _QUARTER_S * quarters_at(shard.seasonality.calendar, int(profile["region"]), now)
    return _describe_week(shard, number, (weights / weights.mean()).tolist(), offset_s, regions, scheduled=False)


def _describe_week(
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
