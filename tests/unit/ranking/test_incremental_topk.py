"""The maintained ranking beside its slow twin, where it is hardest to keep: ties, NaN, infinities, and odd clocks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from streamsched.outcomes import Outcome
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.ranking.incremental_topk import IncrementalTopK
from streamsched.ranking.invariants import ends_of
from tests.support.outcome_streams import DAY
from tests.support.scheduler_twins import START_S, Twins, small_shards

PAGES = 100
URLS = [f"https://{'abc'[i % 3]}.example/{i}" for i in range(PAGES)]
INFINITE = "pow(1e300, 2)"


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with small_shards():
        yield


def known(formula: str, politeness: Politeness | None = None, *, pages: int = PAGES) -> Twins:
    """Pages on three hosts; page i was visited i / 40 days ago, weighs i % 7 and costs i % 5."""
    twins = Twins(formula, politeness or Politeness())
    twins.observe(
        [
            Outcome(url, START_S - i * DAY / 40, importance=float(i % 7), cost=float(i % 5))
            for i, url in enumerate(URLS[:pages])
        ]
    )
    return twins


def ask_all(twins: Twins) -> None:
    """Ask for few, many, all and more than all."""
    for k in (1, 5, PAGES // 2, PAGES, PAGES + 1, 10**9):
        twins.rank(k)
        twins.check()


def use_up(twins: Twins, k: int) -> None:
    """Batches until no page is left; of each half comes back; again."""
    while taken := twins.take(k):
        twins.observe([Outcome(url, twins.now, changed=True) for url in taken[1::2]])
        twins.check()
        twins.now += 1.0
    twins.now += 600.0
    ask_all(twins)


def standing_of(twins: Twins) -> IncrementalTopK:
    return twins.scheduler.core.formula_switch.current


@pytest.mark.parametrize(
    ("formula", "score"),
    [
        ("1", 1.0),
        ("0 * t", 0.0),
        ("0 - 0 * t", 0.0),
        (f"{INFINITE} * (t + 1) * 0", math.nan),
        (f"{INFINITE} - {INFINITE} * (t + 1)", math.nan),
        (f"{INFINITE} * (t + 1)", math.inf),
        (f"0 - {INFINITE} * (t + 1)", -math.inf),
    ],
)
def test_all_scores_equal(formula: str, score: float) -> None:
    twins = known(formula)
    assert all(one == score or math.isnan(score) == math.isnan(one) for one in twins.scores().values())
    ask_all(twins)
    use_up(twins, 30)


@pytest.mark.parametrize("formula", ["due", "1", "0 - t", "t * (2 - t)"])
def test_a_single_page(formula: str) -> None:
    twins = known(formula, pages=1)
    for _ in range(4):
        assert len(twins.rank(1)) == 1
        twins.check()
        twins.now += DAY / 3
    assert len(twins.take(3)) == 1
    assert twins.rank(1) == []
    twins.check()


@pytest.mark.parametrize("limit", [None, 3])
def test_all_pages_in_one_group_on_one_host_for_any_k(limit: int | None) -> None:
    twins = Twins("importance * posterior", per_host=limit)
    urls = [f"https://a.example/docs/{i}" for i in range(PAGES)]
    twins.observe([Outcome(url, START_S - i * 60.0, importance=float(i % 9)) for i, url in enumerate(urls)])
    for k in range(1, PAGES + 1, 9):
        assert len(twins.rank(k)) == min(k, limit or k)
        twins.check()
        twins.take(2, lease_s=30.0)
        twins.now += 60.0


def test_infinities_and_nan_among_numbers() -> None:
    """Of pages older than a day inf, of younger -inf, of those that weigh nothing NaN; and then time goes on."""
    twins = known(f"{INFINITE} * (t - 1) * importance")
    for wait in (0.0, DAY / 80, DAY, DAY / 3):
        twins.now += wait
        found = list(twins.scores().values())
        assert any(math.isnan(one) for one in found)
        assert math.inf in found
        ask_all(twins)
    use_up(twins, 20)


def test_scores_that_cross_between_two_queries() -> None:
    """The first falls, the second rises: nothing is done to either, and the order turns round."""
    twins = Twins("importance + (cost - 2) * t")
    twins.observe([Outcome(url, START_S, importance=1.0, cost=0.5) for url in URLS[2:]])
    twins.observe(
        [Outcome(URLS[0], START_S, importance=3.0, cost=1.0), Outcome(URLS[1], START_S, importance=2.0, cost=4.0)]
    )
    assert twins.rank(2) == [URLS[0], URLS[1]]
    twins.check()
    twins.now += DAY / 3 - 1e-3
    assert twins.rank(1) == [URLS[0]]
    twins.now += 2e-3
    assert twins.rank(1) == [URLS[1]]
    twins.check()


@pytest.mark.parametrize(
    "formula",
    [
        "posterior",
        "t * (2 - t)",
        "exp(-(t - 1) * (t - 1)) * importance",
        "0 - t * importance",
        "1 / (t - 2)",
        "importance",
        "log(t) * (cost - 2)",
    ],
)
@pytest.mark.parametrize(
    "steps", [[0.0, 0.0, 0.0], [365 * DAY, 1.0, 3_650 * DAY], [DAY, -DAY / 2, 1.0, -30 * DAY, 60 * DAY]]
)
def test_clock_that_stands_still_leaps_or_goes_back(formula: str, steps: list[float]) -> None:
    twins = known(formula)
    for step in [60.0, *steps, 60.0]:
        twins.now += step
        twins.rank(7)
        twins.take(3)
        twins.check()


@pytest.mark.parametrize("formula", ["posterior", "t * (2 - t)", "0 - t"])
def test_queries_at_the_very_ends_of_certificates(formula: str) -> None:
    twins = known(formula)
    twins.rank(5)
    for _ in range(12):
        ends = ends_of(standing_of(twins)._table.arrays)
        end = float(ends[ends > twins.now].min(initial=twins.now + DAY))
        for now in (np.nextafter(end, 0.0), end, np.nextafter(end, math.inf)):
            twins.now = float(now)
            twins.rank(5)
            twins.check()


def test_what_waits_is_back_at_the_very_second() -> None:
    """After a lease, a failure, a least interval, a host's rest; and what is overdue goes first from its second on."""
    twins = known("importance", Politeness(backoff="1h", backoff_most="1h", min_revisit="2h", max_revisit="9d"))
    twins.block("b.example", START_S + 5_000.0)
    twins.take(10, lease_s=1_000.0)
    twins.observe([Outcome(url, START_S + 1.0, status=500) for url in URLS[:20]])
    twins.set_rule("c.example", Rule(max_revisit=30_000.0))
    twins.rank(PAGES)
    times = {START_S + wait for wait in (1_000.0, 5_000.0, 7_200.0)}
    shard = twins.scheduler.core.pages.arrays
    times |= {float(shard.pages.records["last_visit_s"][row]) + 30_000.0 for row in (2, 5, 8, 95)}
    for time_s in sorted(time_s for time_s in times if time_s > START_S):
        for now in (np.nextafter(time_s, 0.0), time_s):
            twins.now = float(now)
            twins.rank(5)
            twins.rank(PAGES)
            twins.check()
    before = twins.rank(PAGES)
    twins.now = START_S + 4_500.0  # back to when hardly any could be handed out
    assert len(twins.rank(PAGES)) < len(before)
    twins.check()


def test_pages_that_come_between_queries() -> None:
    """One page at a time."""
    twins = known("posterior * importance", pages=20)
    for i in range(20, PAGES):
        twins.discover([URLS[i]], importance=float(i))
        twins.now += 60.0
        twins.check()
        twins.rank(3)
        twins.check()
        assert i % 10 or URLS[i] in twins.rank(PAGES)


def test_hosts_that_are_full_are_passed_over() -> None:
    """The best pages are all on one host, and a batch may have one of them: the others come from far below."""
    twins = known("importance")
    twins.observe([Outcome(url, START_S, importance=50.0) for url in URLS[::3]])
    twins.limit_batches(1)
    assert len(twins.rank(3)) == 3
    twins.limit_batches(2)
    assert len(twins.take(PAGES)) == 6
    twins.check()
    twins.block("*.example", START_S + 50.0)
    assert twins.rank(PAGES) == []
    twins.check()


def test_a_few_pages_are_examined_and_no_scan_is_made() -> None:
    """What all this is for: if few of 2,000 pages are good, a query looks at few."""
    with small_shards(bits=16, most_opened=4):
        twins = Twins("importance * posterior")
        urls = [f"https://a.example/{i}" for i in range(2_000)]
        twins.observe([Outcome(url, START_S - DAY, importance=1.0 + i) for i, url in enumerate(urls)])
        examined = []
        for _ in range(12):
            twins.rank(4)
            examined.append(standing_of(twins).examined)
            assert len(twins.take(4, lease_s=DAY)) == 4
            twins.check()
            twins.now += 60.0
        assert standing_of(twins).scans == 1  # a single query needs no certificates
        assert max(examined[2:]) < 100


def test_pages_of_a_full_host_are_not_examined_at_each_query() -> None:
    """The best seventh is on a host that gives one page a batch: its pages do not stay in the pool."""
    with small_shards(bits=16, most_opened=4):
        twins = Twins("importance * posterior")
        urls = [f"https://{'abbbbbb'[i % 7]}.example/{i}" for i in range(2_000)]
        weights = [1.0 + i + 2_000.0 * (i % 7 == 0) for i in range(2_000)]
        twins.observe(
            [Outcome(url, START_S - DAY, importance=weight) for url, weight in zip(urls, weights, strict=True)]
        )
        twins.set_rule("a.example", HostRule(per_batch=1))
        examined = []
        for _ in range(16):
            assert len(twins.take(4, lease_s=DAY)) == 4
            examined.append(standing_of(twins).examined)
            twins.check()
            twins.now += 60.0
        assert standing_of(twins).scans == 1
        assert max(examined[6:]) < 100


def test_a_ranking_that_was_never_asked_keeps_no_certificates() -> None:
    twins = known("posterior")
    assert twins.scheduler.core.pages.touched is None
    assert standing_of(twins).clock == -math.inf
    twins.rank(1)
    assert standing_of(twins).clock == START_S
    assert twins.scheduler.core.pages.touched is not None
