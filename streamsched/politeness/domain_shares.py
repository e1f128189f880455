"""How much of a day's visits one registrable domain gets, whatever its pages score.

A domain may have `host_share` of the day's visits, or twice its share of the known pages if that is more, and one
visit at least. So the owner of a domain whose pages change at every visit cannot take the budget. Days are those of
UTC, by the times of the calls; a page that is handed out, and not given back, is a visit. After each batch, every
domain has at most

    max(1, floor(max(host_share, 2 * its pages / all pages) * visits of the day so far))

visits of the day, whether the batches are small or large. The domains together may always have all visits of the
day: twice the shares add up to 2, and max(1, floor(x)) is at least x / 2. The panel's pages, those asked for and
those overdue count, but do not wait.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.group_schema import GroupArrays
from streamsched.records.page_schema import LEASED
from streamsched.records.schema import ShardArrays

_DAY_S: Final = 86_400.0
_ROUNDING: Final = 1e-9  # of a page: 0.29 * 100 is 28.999999999999996 and means 29
_NO_LIMIT: Final = 1 << 62


class DomainLimits(NamedTuple):
    """What limits the pages of a domain in one batch, as kernels read it."""

    share: float  # of the day's visits, 1 for no limit
    pages: int  # known pages of all domains
    day: int  # days since 1970
    visits: int  # of the day, those of the batch included


NO_DOMAIN_LIMITS: Final = DomainLimits(1.0, 0, 0, 0)


def day_of(now: float) -> int:
    """Return the day of a time, in days since 1970. O(1)."""
    return math.floor(now / _DAY_S)


def limit_domains(corpus: Records, share: float | None, now: float, k: int) -> DomainLimits:
    """Return the limits of a batch of `k` pages at `now`; `share`: the setting `host_share`. O(1)."""
    pages = int(corpus["domain_pages"][0])
    if share is None or share >= 1.0:
        return NO_DOMAIN_LIMITS
    newest, visits = int(corpus["day"][0]), int(corpus["day_visits"][0])
    day = max(day_of(now), newest)
    return DomainLimits(float(share), pages, day, min(k, pages) + (visits if day == newest else 0))


@inlined_kernel
def domain_capacity(domain: Record, limits: DomainLimits) -> int:
    """Return how many pages of a domain a batch may hold; 0 or less if it has had its share. O(1)."""
    pages = np.int64(domain.pages)
    if limits.share >= 1.0 or 2 * pages >= limits.pages:
        return _NO_LIMIT
    share = max(limits.share, 2.0 * pages / limits.pages)
    allowed = max(int(share * limits.visits + _ROUNDING), 1)
    return int(allowed - np.int64(domain.visits)) if domain.day == limits.day else allowed


def domain_capacities(domains: Records, limits: DomainLimits) -> Floats:
    """Return the `domain_capacity` of ``domains``: DOMAIN[m] as float64[m], inf for no limit. O(m)."""
    pages = domains["pages"].astype(np.float64)
    shares = np.maximum(limits.share, 2.0 * pages / max(limits.pages, 1))
    allowed = np.maximum(np.floor(shares * limits.visits + _ROUNDING), 1.0)
    unlimited = (2.0 * pages >= limits.pages) | (limits.share >= 1.0)
    return np.where(unlimited, np.inf, allowed) - np.where(domains["day"] == limits.day, domains["visits"], 0)


def find_domains(groups: GroupArrays, pages: Records, rows: Ints) -> Ints:
    """Return the domains of the pages of ``rows``: int64[m] as int64[m]. O(m)."""
    domains: Ints = groups.domain_of[pages["group"][rows]].astype(np.int64)
    return domains


def find_full(shard: ShardArrays, limits: DomainLimits, batch: Ints) -> Ints:
    """Return the domains that could give more pages than they may, with ``batch``: int64[m] in hand. O(domains + m)."""
    domains = shard.groups.domains[: int(shard.corpus["domains"][0])]
    taken = np.bincount(find_domains(shard.groups, shard.pages.records, batch), minlength=domains.size)
    return np.flatnonzero((domain_capacities(domains, limits) <= taken) & (domains["pages"] > taken))


def keep_within(shard: ShardArrays, limits: DomainLimits, batch: Ints, added: Ints) -> Bools:
    """Return which of ``added``: int64[n] can be added in order to ``batch``: int64[m]: bool[n]. O(m + n)."""
    fits = np.ones(added.size, np.bool_)
    if limits.share < 1.0 and added.size:
        counts = np.zeros((1 << (2 * (batch.size + added.size)).bit_length(), 2), np.int64)
        _keep_within(shard, limits, batch, added, counts, fits)
    return fits


@bare_kernel
def _keep_within(shard: ShardArrays, limits: DomainLimits, batch: Ints, added: Ints, counts: Ints, fits: Bools) -> None:
    """Write which pages can be added; ``counts``: int64[2^k, 2], zeros, a hash table of domains and their pages."""
    groups, pages = shard.groups, shard.pages.records
    for i in range(batch.size + added.size):
        page: Record = pages[batch[i] if i < batch.size else added[i - batch.size]]
        number = np.int64(groups.domain_of[page.group])
        place = number & (counts.shape[0] - 1)
        while counts[place, 0] not in (0, number + 1):
            place = (place + 1) & (counts.shape[0] - 1)
        counts[place, 0] = number + 1
        if i < batch.size or counts[place, 1] < domain_capacity(groups.domains[number], limits):
            counts[place, 1] += 1
        else:
            fits[i - batch.size] = False


def count_visits(shard: ShardArrays, rows: Ints, now: float) -> None:
    """Count the pages of ``rows``: int64[m], handed out at `now`, as visits of the day to their domains. O(m).

    After a call of a later day, those of earlier ones count for that day, as clocks differ by seconds at midnight.
    """
    corpus = shard.corpus
    day = day_of(now)
    if day > corpus["day"][0] or not corpus["day_visits"][0]:
        corpus["day"], corpus["day_visits"] = day, 0
    corpus["day_visits"] += rows.size
    _count_visits(shard.groups, shard.pages.records, rows, int(corpus["day"][0]))


def take_back_visits(shard: ShardArrays, rows: Ints) -> None:
    """Take those of ``rows``: int64[m], each once, that are leased from the day's visits: they are not visited. O(m).

    A page that was handed out on an earlier day counts as one of this day's, if its domain has any.
    """
    rows = rows[(shard.pages.records["flags"][rows] & LEASED) != 0]
    shard.corpus["day_visits"] -= _take_back(shard.groups, shard.pages.records, rows, int(shard.corpus["day"][0]))


@bare_kernel
def _count_visits(groups: GroupArrays, pages: Records, rows: Ints, day: int) -> None:
    for i in range(rows.size):
        page: Record = pages[rows[i]]
        domain: Record = groups.domains[groups.domain_of[page.group]]
        if domain.day != day:
            domain.day, domain.visits = day, 0
        domain.visits += np.uint32(1)


@bare_kernel
def _take_back(groups: GroupArrays, pages: Records, rows: Ints, day: int) -> int:
    """Take pages from the visits of their domains; return how many were among them."""
    count = 0
    for i in range(rows.size):
        page: Record = pages[rows[i]]
        domain: Record = groups.domains[groups.domain_of[page.group]]
        if domain.day == day and domain.visits > 0:
            domain.visits -= np.uint32(1)
            count += 1
    return count
