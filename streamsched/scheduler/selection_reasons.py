"""Why a page is in a batch or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Ints, Records
from streamsched.numerics.topk_order import sort_keys
from streamsched.politeness.domain_shares import domain_capacities, find_domains
from streamsched.politeness.limits import Limits, host_capacity
from streamsched.politeness.priority import overdue_times
from streamsched.ranking.full_scan import Query, Ranked
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.page_schema import URGENT, VISITED
from streamsched.records.registrable_domains import registrable_domain
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_name

# Grounds of selection, that is what gave a page its place: indexes into _GROUNDS and _CODES. _BETTER and _SAME are
# _SCORE after a comparison with one page's score.
_SCORE, _BETTER, _SAME, _PANEL, _ASKED, _OVERDUE, _NEW, _EXPLORATION, _SURGE_PROBE, _TRIAL = range(10)
_GROUNDS: Final = (
    "lower_score",
    "higher_score",
    "equal_score",
    "panel",
    "asked_for",
    "overdue",
    "new_share",
    "exploration",
    "surge_probe",
    "trial",
)
_CODES: Final = (
    ReasonCode.IN_BATCH_BY_SCORE,
    ReasonCode.IN_BATCH_BY_SCORE,
    ReasonCode.IN_BATCH_BY_SCORE,
    ReasonCode.IN_BATCH_PANEL,
    ReasonCode.IN_BATCH_ASKED_FOR,
    ReasonCode.IN_BATCH_OVERDUE,
    ReasonCode.IN_BATCH_NEW_SHARE,
    ReasonCode.IN_BATCH_EXPLORATION,
    ReasonCode.IN_BATCH_SURGE_PROBE,
    ReasonCode.IN_BATCH_TRIAL,
)
NO_ROWS: Final = np.empty(0, np.int64)


class ComposedBatch(NamedTuple):
    """A batch and the steps that led to it."""

    query: Query
    best: Ranked  # the panel's pages and the best that host limits allow
    batch: Ranked  # `best` after quotas and surge probes
    panel: int = 0  # how many pages are the panel's: the first ones
    new_share: float = 0.0
    surge_probes: Ints = NO_ROWS  # rows
    tried: Ints = NO_ROWS  # rows that the challenger of a trial chose
    probabilities: Floats | None = None  # of a change, if they were needed to order `batch`


class _Subject(NamedTuple):
    """The page whose absence from the batch is explained."""

    row: int
    score: float
    ground: int  # _ASKED, _OVERDUE, or _SCORE if it has no priority


def batch_reasons(shard: ShardArrays, composed: ComposedBatch) -> Callable[[], list[ReasonCode]]:
    """Return a function that returns what gave each page of the batch its place, computed at its first call. O(k).

    The pages' records and the limits are copied now, so that later outcomes and rules do not change the answer.
    """
    pages = shard.pages.records.take(composed.batch.rows)  # 5 µs for 1,000 pages; records[rows] takes 240 µs
    limits = composed.query.limits
    limits = limits._replace(rules=limits.rules.copy())
    return cache(lambda: [_CODES[ground] for ground in _find_grounds(pages, limits, composed).tolist()])


def membership_reasons(
    shard: ShardArrays, composed: ComposedBatch, row: int, *, score: float, eligible: bool
) -> list[Reason]:
    """Return why the page of `row` is in the batch or not; nothing if it is absent because it is not eligible. O(k)."""
    query, rows = composed.query, composed.batch.rows
    grounds = _find_grounds(shard.pages.records[rows], query.limits, composed)
    place = np.flatnonzero(rows == row)
    if place.size:
        return [Reason(_CODES[grounds[place[0]]], {"k": query.k, "place": int(place[0]) + 1})]
    if not eligible:
        return []
    ground = int(_find_priorities(shard.pages.records[[row]], query.limits, query.now)[0])
    return [_why_absent(shard, composed, _Subject(row, score, ground), grounds)]


def _find_priorities(pages: Records, limits: Limits, now: float) -> Ints:
    """Return whether each of ``pages``: PAGE[m] is _ASKED, _OVERDUE, or ranked by its _SCORE: int64[m]. O(m)."""
    overdue = overdue_times(pages, limits) <= now  # also if asked for; never if a rule excludes the page
    asked = (pages["flags"] & URGENT) != 0
    return np.where(overdue, np.where(asked, _ASKED, _OVERDUE), _SCORE)


def _find_grounds(pages: Records, limits: Limits, composed: ComposedBatch) -> Ints:
    """Return what gave each page of the batch its place: int64[m]. O(k).

    ``pages``: PAGE[m], the records of the batch's pages when it was composed.
    """
    rows = composed.batch.rows
    new = (pages["flags"] & VISITED) == 0
    quota = np.where(new & (composed.new_share > 0.0), _NEW, _EXPLORATION)
    ranked = np.isin(rows, composed.best.rows)
    grounds = np.where(ranked, _find_priorities(pages, limits, composed.query.now), quota)
    grounds[(grounds == _SCORE) & np.isin(rows, composed.tried)] = _TRIAL
    grounds[np.isin(rows, composed.surge_probes)] = _SURGE_PROBE
    grounds[: composed.panel] = _PANEL
    return grounds


def _compare_scores(composed: ComposedBatch, grounds: Ints, score: float) -> Ints:
    """Return ``grounds``: int64[m] with _BETTER or _SAME for pages ranked by scores above or equal to `score`."""
    keys, own = sort_keys(composed.batch.scores), sort_keys(np.array([score]))[0]
    grounds = np.where((grounds == _SCORE) & (keys > own), _BETTER, grounds)
    return np.where((grounds == _SCORE) & (keys == own), _SAME, grounds)


def _why_absent(shard: ShardArrays, composed: ComposedBatch, subject: _Subject, grounds: Ints) -> Reason:
    k = composed.query.k
    merit = "score" if subject.ground == _SCORE else _GROUNDS[subject.ground]
    displaced = Reason(ReasonCode.DISPLACED, {"k": k, "merit": merit, "surge_probes": int(composed.surge_probes.size)})
    if np.isin(subject.row, composed.best.rows):
        return displaced
    grounds = _compare_scores(composed, grounds, subject.score)
    if full := _why_host_full(shard, composed, subject, grounds) or _why_domain_full(shard, composed, subject, grounds):
        return full
    if subject.ground != _SCORE or not np.isin(grounds, (_BETTER, _SAME, _SCORE)).any():
        tie_lost = bool(subject.ground != _SCORE and np.isin(grounds, (_ASKED, _OVERDUE)).any())
        return Reason(ReasonCode.BATCH_FULL, {"k": k, "taken_by": _count(grounds), "tie_lost": tie_lost})
    if np.any(grounds == _SCORE):
        return displaced  # a page with a lower score stays because it counts towards new_share
    if np.any(grounds == _SAME):
        return Reason(ReasonCode.TIE_LOST, {"k": k, "score": subject.score})
    lowest = float(composed.batch.scores[grounds == _BETTER].min())
    return Reason(ReasonCode.OUTRANKED, {"k": k, "score": subject.score, "lowest_score": lowest})


def _why_host_full(shard: ShardArrays, composed: ComposedBatch, subject: _Subject, grounds: Ints) -> Reason | None:
    """Return what took all places of the page's host, or None if the host had places left."""
    query, host = composed.query, int(shard.groups.records["host"][shard.pages.records["group"][subject.row]])
    capacity = host_capacity(shard.groups.records[host], query.limits, query.now, query.lease_s)
    best, batch = (
        shard.groups.records["host"][shard.pages.records["group"][ranked.rows]] == host
        for ranked in (composed.best, composed.batch)
    )
    if np.count_nonzero(best) < capacity or np.count_nonzero(batch) < capacity:
        return None
    taken = grounds[batch]
    equal_priority = subject.ground != _SCORE and np.isin(taken, (_ASKED, _OVERDUE)).any()
    fields: dict[str, Any] = {
        "k": query.k,
        "host": group_name(shard.groups, host),
        "taken_by": _count(taken),
        "tie_lost": bool(np.any(taken == _SAME) or equal_priority),
        "probing": bool(shard.groups.records["asked_to_wait"][host]),
    }
    return Reason(ReasonCode.HOST_SHARE_USED, fields)


def _why_domain_full(shard: ShardArrays, composed: ComposedBatch, subject: _Subject, grounds: Ints) -> Reason | None:
    """Return that the page's domain has had its share of visits, None if that is not why the page is absent."""
    if subject.ground != _SCORE or not np.isin(grounds, (_SCORE, _SAME)).any():
        return None
    limits, pages = composed.query.domains, shard.pages.records
    number = int(find_domains(shard.groups, pages, np.array([subject.row]))[0])
    taken = int(np.count_nonzero(find_domains(shard.groups, pages, composed.best.rows) == number))
    capacity = float(domain_capacities(shard.groups.domains[[number]], limits)[0])
    if taken < capacity:
        return None
    record, host = shard.groups.domains[number], int(shard.groups.records["host"][pages["group"][subject.row]])
    before = int(record["visits"]) if record["day"] == limits.day else 0
    fields: dict[str, Any] = {
        "k": composed.query.k,
        "domain": registrable_domain(group_name(shard.groups, host)),
        "visits": before + taken,
        "of_visits": limits.visits,
        "allowed": int(capacity) + before,
    }
    return Reason(ReasonCode.DOMAIN_SHARE_USED, fields)


def _count(grounds: Ints) -> dict[str, int]:
    """Return how many pages each of ``grounds``: int64[m] has, such as ``{"higher_score": 1, "overdue": 2}``."""
    return {_GROUNDS[ground]: count for ground, count in sorted(Counter(grounds.tolist()).items())}
