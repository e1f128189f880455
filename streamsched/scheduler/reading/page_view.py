"""One page of a scheduler as plain values: its visits, its lease, and from when it may be visited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from streamsched.politeness.eligibility import are_leased
from streamsched.politeness.eligibility_reasons import eligibility_reasons, held_back_by
from streamsched.politeness.limits import Limits
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.page_schema import DENIED, SUCCEEDED, URGENT, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_index import url_text
from streamsched.records.url_patterns import group_name


@dataclass(frozen=True, slots=True)
class PageView:
    """A page at one time. Times are UTC epoch seconds, None if there is none.

    - ``pattern``: the deepest URL pattern, or the host, that its prior comes from;
    - ``known_since_s``: of a page that was never visited;
    - ``last_visit_s``: end of the last visit that showed the page's state;
    - ``last_outcome_s``: of the last outcome of any kind;
    - ``visits``: after the first, that could show a change;
    - ``changes``: those that did;
    - ``failures``: failed visits in a row;
    - ``gone``: answers of 404 or 410 in a row;
    - ``succeeded``: whether the last visit had a status below 400;
    - ``rate``: posterior mean of its change rate, changes per cycle;
    - ``asked_for``: whether a visit was requested;
    - ``robots_denied``: whether robots.txt forbids it;
    - ``lease_until_s``: None unless it is leased;
    - ``eligible_from_s``: the earliest time from now on at which it may be visited, None if the clock alone does not
      determine it;
    - ``reasons``: why it may not be visited now, then why it has priority.
    """

    url: str
    host: str
    pattern: str
    importance: float
    cost: float
    known_since_s: float | None
    last_visit_s: float | None
    last_outcome_s: float | None
    visits: int
    changes: int
    failures: int
    gone: int
    succeeded: bool
    rate: float
    asked_for: bool
    robots_denied: bool
    lease_until_s: float | None
    eligible_from_s: float | None
    reasons: tuple[Reason, ...]

    @property
    def held_back(self) -> ReasonCode | None:
        """The first reason why it may not be visited now, None if it may."""
        return held_back_by(self.reasons)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields and `held_back` as plain values for JSON."""
        content = {one.name: getattr(self, one.name) for one in fields(self)}
        return content | {"reasons": [reason.to_json() for reason in self.reasons], "held_back": self.held_back}


def view_page(shard: ShardArrays, row: int, now: float, limits: Limits, streams: Sequence[str] = ()) -> PageView:
    """Return the page of `row` at `now`. O(1).

    `streams`: the names of streams by number, from 1.
    """
    page, trace = shard.pages.records[row], shard.pages.traces[row]
    flags, visit_s = int(page["flags"]), float(page["last_visit_s"])
    is_leased = bool(are_leased(shard, np.array([row]), now)[0])
    eligible_from_s, reasons = eligibility_reasons(shard, row, now, limits, streams)
    group = int(page["group"])
    return PageView(
        url=url_text(shard.pages, row),
        host=group_name(shard.groups, int(shard.groups.records["host"][group])),
        pattern=group_name(shard.groups, group),
        importance=float(page["importance"]),
        cost=float(page["cost"]),
        known_since_s=None if flags & VISITED else visit_s,
        last_visit_s=visit_s if flags & VISITED else None,
        last_outcome_s=float(trace["last_outcome_s"]) if np.isfinite(trace["last_outcome_s"]) else None,
        **{name: int(page[name]) for name in ("visits", "changes", "failures", "gone")},
        succeeded=bool(flags & SUCCEEDED),
        rate=float((page["prior_shape"] + page["own_shape"]) / (page["prior_exposure"] + page["own_exposure"])),
        asked_for=bool(flags & URGENT),
        robots_denied=bool(flags & DENIED),
        lease_until_s=float(shard.pages.lease_until_s[row]) if is_leased else None,
        eligible_from_s=eligible_from_s,
        reasons=tuple(reasons),
    )
