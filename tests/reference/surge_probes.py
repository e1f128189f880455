"""The slow, obvious twin of surge probes and of swaps: every group is valued, every list sorted whole."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from streamsched.estimation.surges import SHARES
from streamsched.numerics.arrays import Floats, Ints, Record, Records
from streamsched.numerics.topk_order import tie_keys
from streamsched.politeness.eligibility import are_eligible
from streamsched.politeness.limits import host_capacity
from streamsched.ranking.full_scan import Query
from streamsched.records.page_schema import LEASED
from streamsched.records.schema import ShardArrays

WANTED = 5  # probes of a group
NEWEST = 16  # pages among which they are chosen
MEAN_SHARE = math.fsum(SHARES) / len(SHARES)


def worth_of(corpus: Record, group: Record, now: float) -> float:
    """The expected number of stale pages that a probe of a group finds a cycle sooner."""
    if group["pages"] < NEWEST or group["open_s"] == -math.inf:
        return 0.0
    doubt = 1.0
    for weight in group["open_weights"].tolist():
        doubt -= weight
    suspected = 1.0 - max(doubt, 1e-6)
    pooled = (1.0 + float(corpus["surge_sum"])) / (100.0 + float(corpus["group_days"]))
    per_day = (100.0 * pooled + float(group["surge_sum"])) / (100.0 + float(group["surge_days"]))
    since = -math.expm1(-per_day * max((now - group["open_s"]) / 86_400.0, 0.0))
    hit = suspected * int(group["open_unvisited"]) + since * (int(group["pages"]) - 1.0)
    return float(MEAN_SHARE * hit / WANTED)


def due_groups(corpus: Record, groups: Records, now: float, bar: float) -> list[tuple[float, int]]:
    """The worth and number of each group that is worth `bar` or more, best first."""
    worths = ((worth_of(corpus, group, now), number) for number, group in enumerate(groups))
    return sorted(((worth, number) for worth, number in worths if worth >= max(bar, 5e-324)), key=_best_first)


def swap(
    hosts: Sequence[int], stays: Sequence[bool], added: Sequence[int], capacities: Sequence[float], count: int
) -> tuple[list[int], list[int]]:
    """The places that are kept, and the indices of the pages added; all given by their hosts."""
    kept, taken = list(range(len(hosts))), list[int]()
    for index, (host, capacity) in enumerate(zip(added, capacities, strict=True)):
        used = Counter([*(hosts[place] for place in kept), *(added[i] for i in taken)])
        full = used[host] >= capacity
        free = [place for place in kept if not stays[place] and (hosts[place] == host or not full)]
        if free and len(taken) < count:
            kept.remove(free[-1])
            taken.append(index)
    return kept, taken


def probe(
    shard: ShardArrays,
    query: Query,
    rows: Sequence[int],
    stays: Sequence[bool],
    bars: Sequence[float],
    score: Callable[[Ints], Floats],
) -> tuple[list[int], list[int]]:
    """The pages of a batch that keep their places, and its surge probes. `bars`: of pages to replace, worst first."""
    groups = shard.groups.records[: int(shard.corpus["groups"][0])]
    group_of = shard.pages.records["group"]
    probes: list[tuple[int, float]] = []
    due = due_groups(shard.corpus[0], groups, query.now, bars[0])[: min(len(bars), (NEWEST + 2 * query.k) // NEWEST)]
    for worth, group in due:
        newest, link = list[int](), int(shard.groups.first_members[group])
        while link and len(newest) < NEWEST:
            newest.append(link - 1)
            link = int(shard.groups.member_links[link - 1]["after"])
        others = [row for row in newest if row not in rows]
        leased = [row for row in others if shard.pages.records[row]["flags"] & LEASED]
        missing = WANTED - len(leased) - sum(int(group_of[row]) == group for row in rows)
        free = [
            row
            for row in others
            if row not in leased and are_eligible(shard, np.array([row]), query.now, query.limits)[0]
        ]
        probes += [(row, worth) for row in in_order(shard, query, free, score)[: max(missing, 0)]]
    better = [worth >= bar for (_, worth), bar in zip(probes, bars, strict=False)]
    chosen = [row for row, _ in probes[: [*better, False].index(False)]]
    hosts = shard.groups.records["host"]
    added = [int(hosts[group_of[row]]) for row in chosen]
    capacities = [host_capacity(shard.groups.records[host], query.limits, query.now, query.lease_s) for host in added]
    kept, taken = swap([int(hosts[group_of[row]]) for row in rows], stays, added, capacities, len(chosen))
    return [rows[place] for place in kept], [chosen[index] for index in taken]


def in_order(shard: ShardArrays, query: Query, rows: Sequence[int], score: Callable[[Ints], Floats]) -> list[int]:
    """The rows by score, best first; equal ones by their salted hashes, then by row."""
    records = np.array(rows, np.int64)
    ties = tie_keys(shard.pages.records["url_hash"][records], query.salt).tolist()
    return [row for _, _, row in sorted(zip((-score(records)).tolist(), ties, rows, strict=True))]


def _best_first(found: tuple[float, int]) -> tuple[float, int]:
    return -found[0], found[1]
