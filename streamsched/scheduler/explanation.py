"""Explanations: a page's score and place, what they are computed from, and the reasons as codes with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from streamsched.api.views import Explanation, finite
from streamsched.estimation.change_detection import UNPROVEN_MOST, unproven_share
from streamsched.estimation.related_pages import is_claimed, unclaimed
from streamsched.estimation.seasonality.periodicity import Periodicity, find_periodicity
from streamsched.estimation.source_list import find_announcement
from streamsched.estimation.surges import share_not_hit
from streamsched.formula.champion import Champion
from streamsched.formula.terminal_table import PROVIDED
from streamsched.formula.terminals import TerminalColumns, change_causes, change_probabilities, context_of
from streamsched.numerics.arrays import Record
from streamsched.politeness.eligibility import are_eligible, are_leased
from streamsched.politeness.eligibility_reasons import eligibility_reasons
from streamsched.politeness.limits import Limits
from streamsched.ranking.full_scan import FullScan, Query
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.page_schema import VISITED
from streamsched.records.related_schema import KIND_NAMES, SHARE_BITS
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_name
from streamsched.records.url_store import url_text
from streamsched.scheduler.reason_text import describe_reasons
from streamsched.state.crawl_plan import CrawlPlan

_LEAST_PROBABILITY: Final = 0.01  # a smaller probability, or difference of two, is no reason
_LEAST_UNEVENNESS: Final = 0.1  # least relative difference between weighted and elapsed time that is a reason
_PROBABILITY: Final = 0.9  # of the interval that is given for a page's rate
_DAY_S: Final = 86_400.0
_MAX_FAILURES: Final = 255  # consecutive failures are counted in a byte: there may have been more


class RankedBy(NamedTuple):
    """The champion, or the challenger of the page's trial, and the ranking that scores by it; the limits that decide
    which pages are eligible; the names of the kinds of sources of change signals; and the plan of the crawl rates.
    """

    champion: Champion
    ranking: FullScan
    limits: Limits
    signal_kinds: Sequence[str] = ()
    plan: CrawlPlan | None = None

    def score(self, shard: ShardArrays, query: Query, row: int) -> float:
        """Return the score of the page of `row` at ``query.now``. O(1)."""
        return float(self.ranking.score(shard, query.now, query.cycle_s, np.array([row]))[0])


def explain_page(shard: ShardArrays, ranked: RankedBy, query: Query, row: int) -> Explanation:
    """Return the explanation of the page of `row` at `query.now`. O(pages) for its place, at most 65,536."""
    rows = np.array([row])
    page = shard.pages.records[row]
    now = query.now
    fill = TerminalColumns(PROVIDED, 1).fill
    context = context_of(shard, rows)
    columns = fill(shard.pages.records[rows], shard.pages.traces[rows], context, now, query.cycle_s)
    terminals = {name: float(column[0]) for name, column in columns.items()}
    group = shard.groups.records[page["group"]]
    leased = bool(are_leased(shard, rows, now)[0])
    eligible = bool(are_eligible(shard, rows, now, ranked.limits)[0])
    eligible_from_s, reasons = eligibility_reasons(shard, row, now, ranked.limits)
    visited = bool(page["flags"] & VISITED)
    last_outcome_s = shard.pages.traces["last_outcome_s"][row]
    place = ranked.ranking.place(shard, query, row)
    return Explanation(
        url=url_text(shard.pages, row),
        host=group_name(shard.groups, int(group["host"])),
        pattern=group_name(shard.groups, int(page["group"])),
        formula=ranked.champion.formula.text,
        champion=ranked.champion.view(),
        score=finite(ranked.score(shard, query, row)),
        eligible=eligible,
        eligible_from_s=eligible_from_s,
        position=place.position if eligible else None,
        of_eligible=place.of_eligible,
        is_estimate=place.is_estimate,
        probability=float(change_probabilities(shard, now, query.cycle_s, rows)[0]),
        causes=change_causes(shard, now, query.cycle_s, row),
        terminals=terminals,
        prior_rate=_prior_rate(page),
        prior_pages=int(group["pages"]),
        first_visited=visited,
        last_visit_s=float(page["last_visit_s"]) if visited else None,
        last_outcome_s=float(last_outcome_s) if np.isfinite(last_outcome_s) else None,
        failures=int(page["failures"]),
        leased_until_s=float(shard.pages.lease_until_s[row]) if leased else None,
        reasons=describe_reasons(
            [
                *reasons,
                *_plan_reasons(ranked.plan, row, terminals["crawl_rate"], query.cycle_s),
                *_change_reasons(shard, query, row, terminals, ranked.signal_kinds),
            ]
        ),
    )


def _plan_reasons(plan: CrawlPlan | None, row: int, crawl_rate: float, cycle_s: float) -> list[Reason]:
    """Return what the plan in use gives the page of `row`, if there is one."""
    if plan is None:
        return []
    every_s = cycle_s / crawl_rate if crawl_rate > 0.0 else None
    made = {"policy": plan.policy, "planned_at_s": plan.planned_at_s, "known": row < plan.pages}
    return [Reason(ReasonCode.PLANNED, {**made, "visits_per_cycle": crawl_rate, "every_s": every_s})]


def _prior_rate(page: Record) -> float:
    """Return the mean of the prior that the page was last given."""
    return float(page["prior_shape"]) / float(page["prior_exposure"])


def _change_reasons(
    shard: ShardArrays, query: Query, row: int, terminals: dict[str, float], signal_kinds: Sequence[str]
) -> list[Reason]:
    """Return what is known of the page's changes, whether it is eligible or not."""
    page = shard.pages.records[row]
    group = shard.groups.records[page["group"]]
    pattern = group_name(shard.groups, int(page["group"]))
    reasons = _visit_reasons(page, query, terminals)
    rates = {"rate_per_cycle": terminals["rate"], "prior_rate_per_cycle": _prior_rate(page)}
    half_life_s = float(shard.corpus["half_life"][0]) * 86_400.0
    counted = {"pattern": pattern, "pages": int(group["pages"]), "half_life_s": half_life_s}
    reasons.append(Reason(ReasonCode.PRIOR, rates | counted))
    reasons.append(_change_rate_reason(terminals, query.cycle_s))
    reasons += _seasonality_reasons(terminals)
    reasons += _surge_reasons(group, page, pattern)
    link = shard.seasonality.links[row]
    unseen = 1.0 - (1.0 - terminals["surge"]) / (share_not_hit(group, page["last_visit_s"]) * unclaimed(link))
    if unseen >= _LEAST_PROBABILITY:
        reasons.append(Reason(ReasonCode.UNSEEN_SURGES, {"pattern": pattern, "probability": float(unseen)}))
    if is_claimed(link):
        keys = [name for name, claim in zip(KIND_NAMES, link["related"].tolist(), strict=True) if claim & SHARE_BITS]
        reasons.append(Reason(ReasonCode.RELATED_CHANGED, {"probability": 1.0 - unclaimed(link), "keys": keys}))
    reasons += _signal_reasons(shard, row, signal_kinds)
    if link["schedule"]:
        reasons.append(_periodicity_reason(find_periodicity(page, shard.seasonality, row)))
    share = unproven_share(shard.corpus)
    if share is not None and share > UNPROVEN_MOST:
        reasons.append(Reason(ReasonCode.NO_EVIDENCE, {"share": share}))
    if failures := int(page["failures"]):
        counted = {"failures": failures, "at_least": failures == _MAX_FAILURES}
        reasons.append(Reason(ReasonCode.FAILED_VISITS, counted))
    return reasons


def _visit_reasons(page: Record, query: Query, terminals: dict[str, float]) -> list[Reason]:
    elapsed_s = terminals["t"] * query.cycle_s
    if not page["flags"] & VISITED:
        return [Reason(ReasonCode.NEVER_VISITED, {"known_for_s": elapsed_s})]
    last_visit_s = float(page["last_visit_s"])
    in_future = last_visit_s > query.now
    visit = {"last_visit_s": last_visit_s, "elapsed_s": elapsed_s, "in_future": in_future}
    counts = {"changes": int(page["changes"]), "visits": int(page["visits"])}
    return [
        Reason(ReasonCode.LAST_VISITED, visit),
        Reason(ReasonCode.CHANGES_SEEN, {**counts, "probability": terminals["posterior"]}),
    ]


def _change_rate_reason(terminals: dict[str, float], cycle_s: float) -> Reason:
    """Return the page's rate with the interval that has `_PROBABILITY` of its posterior, equal parts to either side."""
    from scipy.special import gammaincinv  # noqa: PLC0415  slow to import

    shape, rate = terminals["confidence"], terminals["rate"] * _DAY_S / cycle_s
    tail = (1.0 - _PROBABILITY) / 2.0
    low, high = (rate * float(gammaincinv(shape, part)) / shape for part in (tail, 1.0 - tail))
    rates = {"changes_per_day": rate, "low_per_day": low, "high_per_day": high}
    return Reason(ReasonCode.CHANGE_RATE, {**rates, "probability": _PROBABILITY})


def _seasonality_reasons(terminals: dict[str, float]) -> list[Reason]:
    """Return how hours and days since the last visit count, if they or a schedule make a difference."""
    uneven = abs(terminals["tau"] - terminals["t"]) > _LEAST_UNEVENNESS * terminals["t"]
    if not uneven and abs(terminals["due"] - terminals["posterior"]) < _LEAST_PROBABILITY:
        return []
    cycles = {"elapsed_cycles": terminals["t"], "weighted_cycles": terminals["tau"]}
    return [Reason(ReasonCode.SEASONALITY, {**cycles, "probability": terminals["due"]})]


def _surge_reasons(group: Record, page: Record, pattern: str) -> list[Reason]:
    """Return the surges that the page's group shows and that may have hit the page, newest first."""
    return [
        Reason(
            ReasonCode.SURGE_SHOWN, {"pattern": pattern, "since_s": float(group[begin]), "share": float(group[shown])}
        )
        for begin, shown in (("open_s", "open_share"), ("kept_s", "kept_share"))
        if group[shown] > 0.0 and page["last_visit_s"] < group[begin]
    ]


def _signal_reasons(shard: ShardArrays, row: int, kinds: Sequence[str]) -> list[Reason]:
    """Return the source whose signals say most of the page since its last visit, if there is one."""
    found = find_announcement(shard, row, kinds)
    if found is None:
        return []
    source, said = found.source, {"since_s": found.since_s, "probability": found.probability}
    proved = {"precision": source.precision, "signals": source.signals, "checked": source.checked}
    return [Reason(ReasonCode.ANNOUNCED, {"kind": source.kind, "host": source.host, **said, **proved})]


def _periodicity_reason(periodicity: Periodicity) -> Reason:
    """Return the page's type, and its likeliest days and hour if a page of this type has any."""
    timed = periodicity.kind not in {"poisson", "hourly"}
    schedule = {
        "kind": periodicity.kind,
        "p_value": periodicity.p_value,
        "days": list(periodicity.days) if timed else [],
        "hour": periodicity.hour if timed else None,
        "utc_offset_minutes": 15 * periodicity.quarters,
    }
    return Reason(ReasonCode.PERIODICITY, schedule)
