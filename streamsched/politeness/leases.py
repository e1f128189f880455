"""Leases: a page in a batch leaves the ranking until an outcome or the expiry of its lease frees it.

A lease is a flag in the page's record, and beside it the time at which it expires and its length. An applied outcome
clears the flag, unless it was fetched before the lease began: a stream that is behind brings such outcomes, and the
page is still out. An expired lease stays flagged and no longer counts, so nothing has to run when it expires. `Leases`
keeps a queue of what was granted, to find in order of expiry which pages have become eligible again and how many pages
of each host are out. A second flag marks the pages that their host's count includes, so that none is subtracted twice.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Ints, Record, Records
from streamsched.numerics.jit import bare_kernel
from streamsched.politeness.limits import give_back, release_slot, take_slot
from streamsched.records.dirty_tracking import mark_dirty_group, mark_dirty_row, mark_dirty_rows
from streamsched.records.page_schema import FOR_PANEL, LEASED, OUT, PageArrays
from streamsched.records.schema import DirtyArrays, ShardArrays
from streamsched.records.seasonality_schema import SeasonalityArrays

_SLACK: Final = 1 << 16  # rows in the queue beyond two a page before rows freed otherwise are dropped


class LeaseGrant(NamedTuple):
    """Leases until ``until_s``, whose `lease_length` is ``lease_s``; the first ``panel`` are for the panel."""

    until_s: float
    lease_s: np.float32
    panel: int


def lease_length(now: float, until_s: float) -> np.float32:
    """Return the length of a lease in single precision, rounded up: `until_s` less it is not after `now`. O(1)."""
    return np.float32(np.nextafter(np.float32(until_s - now), np.float32(np.inf)))


class Leases:
    """The leases of one shard. For one call at a time; the lasting state is in the shard's arrays.

    Outcomes free leases by themselves, in the kernel that applies them.
    """

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, Ints]] = []  # a heap of grants: expiry, number, rows
        self._number = 0
        self._queued = 0  # rows in the queue

    def grant(self, shard: ShardArrays, rows: Ints, now: float, until_s: float, panel: int = 0) -> None:
        """Lease `rows`: int64[m], each once, from `now` until `until_s`; the first `panel` for the panel. O(m).

        A page leased before gets the new times. The cost is amortised: grants that outcomes ended stay in the queue for
        a while.
        """
        grant = LeaseGrant(until_s, lease_length(now, until_s), panel)
        _lease_all(shard.pages, shard.groups.records, shard.seasonality, shard.dirty, rows, grant)
        self._push(until_s, rows)
        if self._queued > 2 * int(shard.corpus["pages"][0]) + _SLACK:
            self.rebuild(shard)

    def release(self, shard: ShardArrays, rows: Ints) -> None:
        """End the leases of `rows`: int64[m], whose pages were not visited. O(m)."""
        mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, rows)
        _give_back_all(shard.pages, shard.groups.records, shard.dirty, rows)

    def expire(self, shard: ShardArrays, now: float) -> Ints:
        """Return the rows whose leases have expired by `now`, each lease once: int64[m], in order of expiry.

        Leases ended by an outcome or by `release`, and leases granted again, are not returned. O(m), amortised.
        """
        ended = [np.empty(0, np.int64)]
        while self._queue and self._queue[0][0] <= now:
            until_s, _, rows = heapq.heappop(self._queue)
            self._queued -= rows.size
            out = (shard.pages.records["flags"][rows] & OUT) != 0
            ended.append(rows[out & (shard.pages.lease_until_s[rows] == until_s)])
            _recall_all(shard.pages, shard.groups.records, shard.seasonality, shard.dirty, ended[-1])
        return np.concatenate(ended)

    def restore(self, shard: ShardArrays, ended: Ints) -> None:
        """Undo an `expire` call that returned `ended`: these pages are out until they expire again. O(m)."""
        _send(shard.pages, shard.groups.records, shard.seasonality, shard.dirty, ended)
        self._queue_up(shard, ended)

    def next_expiry(self) -> float:
        """Return a time before which no lease expires: inf if none is queued. O(1)."""
        return self._queue[0][0] if self._queue else np.inf

    def rebuild(self, shard: ShardArrays) -> None:
        """Rebuild the queue from the arrays. O(pages)."""
        pages = int(shard.corpus["pages"][0])
        rows = np.flatnonzero(shard.pages.records["flags"][:pages] & OUT)
        rows = rows[np.argsort(shard.pages.lease_until_s[rows], kind="stable")]
        self._queue, self._queued = [], 0
        self._queue_up(shard, rows)

    def _queue_up(self, shard: ShardArrays, rows: Ints) -> None:
        """Add ``rows``: int64[m], in order of expiry, to the queue."""
        until_s = shard.pages.lease_until_s[rows]
        for part in np.split(rows, np.flatnonzero(until_s[1:] != until_s[:-1]) + 1):
            if part.size:
                self._push(float(shard.pages.lease_until_s[part[0]]), part)

    def _push(self, until_s: float, rows: Ints) -> None:
        heapq.heappush(self._queue, (until_s, self._number, rows.astype(np.int64)))
        self._number += 1
        self._queued += rows.size


@bare_kernel
def _lease_all(
    pages: PageArrays,
    groups: Records,
    seasonality: SeasonalityArrays,
    dirty: DirtyArrays,
    rows: Ints,
    grant: LeaseGrant,
) -> None:
    """Lease pages as `grant` says, in place of leases that they have."""
    for i in range(rows.size):
        page: Record = pages.records[rows[i]]
        group: Record = groups[page.group]
        host: Record = groups[group.host]
        mark_dirty_row(dirty, pages, seasonality, rows[i])
        mark_dirty_group(dirty, groups, np.int64(group.host))
        give_back(pages, rows[i], host)
        pages.lease_until_s[rows[i]] = grant.until_s
        pages.lease_s[rows[i]] = grant.lease_s
        page.flags |= np.uint8(LEASED | FOR_PANEL if i < grant.panel else LEASED)
        take_slot(page, host)


@bare_kernel
def _send(pages: PageArrays, groups: Records, seasonality: SeasonalityArrays, dirty: DirtyArrays, rows: Ints) -> None:
    """Count those pages as out that are not yet."""
    for i in range(rows.size):
        page: Record = pages.records[rows[i]]
        if not page.flags & OUT:
            group: Record = groups[page.group]
            mark_dirty_row(dirty, pages, seasonality, rows[i])
            mark_dirty_group(dirty, groups, np.int64(group.host))
            take_slot(page, groups[group.host])


@bare_kernel
def _recall_all(
    pages: PageArrays, groups: Records, seasonality: SeasonalityArrays, dirty: DirtyArrays, rows: Ints
) -> None:
    """Stop counting those pages as out that are."""
    for i in range(rows.size):
        page: Record = pages.records[rows[i]]
        if page.flags & OUT:
            group: Record = groups[page.group]
            mark_dirty_row(dirty, pages, seasonality, rows[i])
            mark_dirty_group(dirty, groups, np.int64(group.host))
            release_slot(page, groups[group.host])


@bare_kernel
def _give_back_all(pages: PageArrays, groups: Records, dirty: DirtyArrays, rows: Ints) -> None:
    """End the leases of pages that were not visited."""
    for i in range(rows.size):
        page: Record = pages.records[rows[i]]
        group: Record = groups[page.group]
        mark_dirty_group(dirty, groups, np.int64(group.host))
        give_back(pages, rows[i], groups[group.host])
