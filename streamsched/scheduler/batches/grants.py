"""Grants: leases of pages that the caller names, where they may be leased now."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.eligibility_reasons import eligibility_reasons, held_back_by
from streamsched.ranking.full_scan import HostPages, Query, Ranked, fill_slots
from streamsched.ranking.host_slots import HostSlots
from streamsched.reasons import ReasonCode
from streamsched.scheduler.batches.batch_request import digest_arguments

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Ints
    from streamsched.numerics.packed_urls import PackedUrls
    from streamsched.records.schema import ShardArrays
    from streamsched.scheduler.batches.panel import Panel

__all__ = ["ChosenPages", "GrantRequest", "choose_granted", "why_refused"]


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """A request to lease `urls` at `now` for `lease_s`; ``key``: the idempotency key, None for none."""

    urls: PackedUrls
    now: float
    lease_s: float
    key: str | None = None

    @property
    def arguments(self) -> str:
        """A digest of what must be equal where the key is used again: all but the time."""
        lengths = np.diff(self.urls.offsets)
        text = self.urls.blob[self.urls.offsets[0] : self.urls.offsets[-1]]
        urls = hashlib.blake2b(text.tobytes() + lengths.tobytes(), digest_size=16).hexdigest()
        return digest_arguments("grant", urls, self.lease_s)


class ChosenPages(NamedTuple):
    """The pages that are leased: int64[m], the first `panel` for the panel; and the rows of the URLs that are not."""

    rows: Ints
    panel: int
    refused: dict[str, int]

    @property
    def reasons(self) -> list[ReasonCode]:
        """What gave each page its lease."""
        named = self.rows.size - self.panel
        return [ReasonCode.IN_BATCH_PANEL] * self.panel + [ReasonCode.IN_BATCH_GRANTED] * named


def choose_granted(shard: ShardArrays, query: Query, urls: PackedUrls, found: Ints, panel: Panel) -> ChosenPages:
    """Return which of `urls` may be leased together, the panel's first. O(n log n).

    ``found``: int64[n], their rows, negative for unknown pages. Of a host's pages the first ones are leased, as far as
    it has free slots; a URL given again counts once.
    """
    rows_by_url = dict(zip(urls, found.tolist(), strict=True))
    rows = np.array([row for row in rows_by_url.values() if row >= 0], np.int64)
    query = replace(query, k=rows.size, among=HostPages(rows[:0], np.sort(rows)))
    query = replace(query, first=panel.choose(shard, query))
    eligible = rows[are_eligible(shard, rows, query.now, query.limits)]
    named = Ranked(eligible, np.zeros(eligible.size), np.zeros(eligible.size, np.uint8))
    chosen = fill_slots(HostSlots(), shard, query, named).rows
    leased = set(chosen.tolist())
    refused = {url: row for url, row in rows_by_url.items() if row not in leased}
    return ChosenPages(chosen, int(np.count_nonzero(np.isin(chosen, query.first))), refused)


def why_refused(shard: ShardArrays, query: Query, row: int, streams: Sequence[str]) -> ReasonCode:
    """Return why the page of `row`, negative if it is not known, was not leased. O(1). Before others are leased."""
    if row < 0:
        return ReasonCode.UNKNOWN
    reasons = eligibility_reasons(shard, row, query.now, query.limits, streams)[1]
    return held_back_by(reasons) or ReasonCode.HOST_SHARE_USED
