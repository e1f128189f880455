"""Surge probes are those that a slow twin finds by sorting: in random states of groups, leases and limits."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched import OutcomeBatch, Politeness, Scheduler
from streamsched.formula import Formula
from streamsched.formula.objectives import OBJECTIVES
from streamsched.formula.terminals import change_probabilities
from streamsched.numerics.arrays import Floats, Ints, Record
from streamsched.politeness.limits import make_limits
from streamsched.ranking.full_scan import FullScan, Query
from streamsched.records.page_schema import LEASED, URGENT
from streamsched.records.schema import ShardArrays
from streamsched.scheduler.batches.quotas import Places, swap_in
from streamsched.scheduler.batches.surge_probes import SurgeProbes, _find_due
from tests.reference import surge_probes as twin
from tests.support.cases import examples
from tests.support.outcome_streams import DAY

NOW, PAGES = 7 * DAY, 600
MET = Counter[bool]()
FORMULAS = (OBJECTIVES["changes"], "1 - (1 - due) * (1 - surge)", "importance + surge", "0 * surge")
seeds = st.integers(0, 2**32 - 1)


@cache
def crawled() -> ShardArrays:
    """Pages of 33 groups on nine hosts; one group is too small for probes."""
    scheduler = Scheduler()
    urls = [f"https://{i % 8}.example/{'abcd'[i // 8 % 4]}/{i}" for i in range(PAGES - 5)]
    urls += [f"https://few.example/{i}" for i in range(5)]
    for day in range(5):
        changed = np.arange(PAGES) % 7 < day
        outcomes = OutcomeBatch(urls, np.full(PAGES, (1 + day) * DAY), changed=changed, importance=np.arange(PAGES) % 3)
        scheduler.observe(outcomes)
    assert np.unique(scheduler.core.pages.arrays.pages.records["group"][:PAGES]).size == 33
    return scheduler.core.pages.arrays


@cache
def scan_of(formula: str) -> FullScan:
    return FullScan(Formula.parse(formula).compile(), 1)


def shuffled(shard: ShardArrays, rng: np.random.Generator, groups: int | None = None) -> ShardArrays:
    """A copy whose groups have random surges, many alike, and whose pages have random leases."""
    pages, kinds = shard.pages.records[:PAGES].copy(), rng.integers(5, size=groups or int(shard.corpus["groups"][0]))
    records = np.resize(shard.groups.records[: int(shard.corpus["groups"][0])], kinds.size)
    records["open_s"] = NOW - rng.choice([np.inf, -DAY, 0.0, 0.3 * DAY, 4 * DAY], 5)[kinds]
    records["open_weights"] = rng.choice([0.0, 0.01, 0.19], (5, 5))[kinds]
    records["open_unvisited"] = rng.choice([0, 3, 20], 5)[kinds]
    records["surge_sum"], records["surge_days"] = (
        rng.choice([0.0, 5.0, 90.0], 5)[kinds],
        rng.choice([0.0, 80.0], 5)[kinds],
    )
    pages["flags"] |= rng.choice([0, LEASED, URGENT], PAGES, p=[0.9, 0.09, 0.01]).astype(np.uint8)
    until_s = rng.choice([NOW - 1.0, NOW + 1.0], PAGES)
    corpus = shard.corpus.copy()
    corpus["groups"] = kinds.size
    corpus["surge_sum"], corpus["group_days"] = rng.choice([0.0, 9.0]), rng.choice([0.0, 400.0])
    return shard._replace(
        pages=shard.pages._replace(records=pages, lease_until_s=until_s),
        groups=shard.groups._replace(records=records),
        corpus=corpus,
    )


@settings(max_examples=50)
@given(
    seeds,
    st.sampled_from(FORMULAS),
    st.integers(1, 120),
    st.sampled_from([None, 1, 3, 30]),
    st.sampled_from([0.0, 0.1]),
)
def compare_probes(seed: int, formula: str, k: int, per_host: int | None, staying: float) -> None:
    rng = np.random.default_rng(seed)
    shard, limits = shuffled(crawled(), rng), make_limits(Politeness(min_revisit="2d"))
    limits = limits if per_host is None else limits._replace(per_batch=per_host + 1, in_flight=per_host)
    query = Query(k, NOW, DAY, seed, limits, 600.0)
    scan = scan_of(formula)

    def score(rows: Ints) -> Floats:
        return scan.score(shard, NOW, DAY, rows)

    best = scan.rank(shard, query)
    stays = rng.random(best.rows.size) < staying
    batch, probes = SurgeProbes().adjust(shard, query, best, stays, score)
    keep = stays | (best.tiers != 0)
    bars = change_probabilities(shard, NOW, DAY, best.rows[~keep][::-1][: best.rows.size // 2]).tolist()
    rows, added = (
        twin.probe(shard, query, best.rows.tolist(), keep.tolist(), bars, score) if bars else (best.rows.tolist(), [])
    )
    assert probes.tolist() == added
    MET[probes.size > 0] += 1
    asked = best.rows[best.tiers != 0].tolist()
    others = twin.in_order(shard, query, [row for row in rows + added if row not in asked], score)
    assert batch.rows.tolist() == asked + others
    assert np.array_equal(batch.scores, score(batch.rows))
    assert batch.tiers.tolist() == [2] * len(asked) + [0] * len(others)


def test_probes_are_those_of_the_twin() -> None:
    compare_probes()
    assert min(MET[True], MET[False]) > 10


@examples(ordinary=6, whole=20)
@given(seeds, st.integers(1, 300), st.integers(1, 400), st.sampled_from([0.0, 0.05, 0.5, 1e9]))
def test_due_groups_are_the_best(seed: int, groups: int, most: int, bar: float) -> None:
    shard = shuffled(crawled(), np.random.default_rng(seed), groups)
    k = 50 * most
    due = _find_due(shard, Query(k, NOW, DAY, 0), bar, most)
    expected = twin.due_groups(shard.corpus[0], shard.groups.records, NOW, bar)[:most]
    assert due.groups.tolist() == [number for _, number in expected]
    assert np.allclose(due.worth, [worth for worth, _ in expected], rtol=1e-12, atol=0.0)


@examples(ordinary=9, whole=30)
@given(seeds, st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_swaps_are_those_of_the_twin(seed: int, size: int, more: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    shard, rows = shuffled(crawled(), rng), rng.permutation(PAGES)
    places = Places(rows[:size], rng.random(size) < 0.2)
    added = rows[size : size + more]
    limits = make_limits(Politeness(per_batch=int(rng.integers(1, 12)), in_flight=int(rng.integers(4, 12))))
    query = Query(size, NOW, DAY, 0, limits)
    hosts = shard.groups.records["host"][shard.pages.records["group"]].astype(np.int64)

    def capacity(host: Record) -> int:
        return max(min(limits.per_batch, limits.in_flight - int(host["out"])), 0)

    capacities = [capacity(shard.groups.records[host]) for host in hosts[added]]
    kept, taken = twin.swap(
        hosts[places.rows].tolist(), places.stays.tolist(), hosts[added].tolist(), capacities, count
    )
    swapped = swap_in(shard, query, places, added, count)
    assert np.flatnonzero(swapped.keep).tolist() == kept
    assert swapped.added.tolist() == taken
