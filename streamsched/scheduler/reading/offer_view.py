"""What a batch would hold, with all that a caller needs who chooses from several such offers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from streamsched.api.answers import LeasedPage, Offer, OfferedPage
from streamsched.api.views import finite
from streamsched.politeness.priority import read_overdue
from streamsched.records.page_schema import VISITED
from streamsched.scheduler.batches.batch_requests import BatchRequest
from streamsched.scheduler.core import SchedulerCore


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
