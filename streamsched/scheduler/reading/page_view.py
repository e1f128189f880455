"""One page of a scheduler as plain values: its visits, its lease, and from when it may be visited."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamsched.api.views import PageView
from streamsched.politeness.eligibility import are_leased
from streamsched.politeness.eligibility_reasons import eligibility_reasons, held_back_by
from streamsched.politeness.limits import Limits
from streamsched.records.page_schema import SHOWN_FLAGS, VISITED
from streamsched.records.schema import ShardArrays
from streamsched.records.url_patterns import group_name
from streamsched.records.url_store import url_text
from streamsched.records.validators import read_validators
from streamsched.scheduler.reason_text import describe_reasons


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
