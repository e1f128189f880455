"""Pages that are alike, ranked by one of them, beside the slow twin, which sorts all of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from streamsched.outcomes import Outcome
from streamsched.politeness.politeness_settings import HostRule, Politeness
from streamsched.ranking.certificates import FOLLOWING
from streamsched.ranking.incremental_topk import IncrementalTopK
from streamsched.ranking.page_examination import Found
from streamsched.ranking.tie_classes import Bar
from tests.support.outcome_streams import DAY
from tests.support.scheduler_twins import Twins, small_shards

PAGES = 300
URLS = [f"https://{'abc'[i % 3]}.example/{i}" for i in range(PAGES)]
OPEN = Politeness(delay=0.0, in_flight=None, backoff=0.0, retire_after=None, min_revisit=0.0, max_revisit=None)


@pytest.fixture(autouse=True, params=[5, 6], ids=["classes of all hosts", "classes of a host"])
def small(request: pytest.FixtureRequest) -> Iterator[None]:
    with small_shards(request.param):
        yield


def new_corpus(formula: str = "posterior", politeness: Politeness = OPEN) -> Twins:
    """Pages on three hosts that were discovered at one time, ranked often enough that classes were made."""
    twins = Twins(formula, politeness)
    twins.discover(URLS, None)
    for _ in range(4):
        twins.now += 1.0
        twins.rank(2)
        twins.check()
    assert following(twins) > PAGES // 2
    return twins


def standing_of(twins: Twins) -> IncrementalTopK:
    return twins.scheduler.core.formula_switch.current


def following(twins: Twins) -> int:
    return int(np.count_nonzero(standing_of(twins)._table.arrays.tick == FOLLOWING))


@pytest.mark.parametrize("formula", ["posterior", "gain", "1", "0 - t", "pow(1e300, 2) * t - pow(1e300, 2) * t"])
def test_every_page_is_given_once_in_the_order_of_the_twin(formula: str) -> None:
    twins = new_corpus(formula)
    scans, given = standing_of(twins).scans, list[str]()
    while taken := twins.take(4):
        given += taken
        twins.check()
        twins.now += 1.0
    assert sorted(given) == sorted(URLS)
    assert standing_of(twins).scans == scans


def test_few_pages_are_examined() -> None:
    twins = new_corpus()
    for _ in range(20):
        twins.take(2)
        twins.now += 1.0
        assert standing_of(twins).examined < PAGES // 3


def test_a_full_host_holds_up_no_other() -> None:
    twins = new_corpus(politeness=OPEN)
    for host in ("a.example", "b.example"):
        twins.set_rule(host, HostRule(delay=None, in_flight=1, per_batch=None))
    given = list[str]()
    while taken := twins.take(3):
        given += taken
        twins.check()
        twins.now += 1.0
    assert len(given) == PAGES // 3 + 2
    twins.now += 600.0  # the leases end
    twins.rank(3)
    twins.check()


def test_pages_that_learn_leave_their_class() -> None:
    twins = new_corpus("1 - (1 - posterior) * (1 - surge)")
    before = following(twins)
    for number in range(12):
        twins.observe([Outcome(url, twins.now, changed=number % 2 == 0) for url in URLS[: PAGES // 2 : 5]])
        twins.now += 3_600.0
        twins.rank(3)
        twins.check()
    assert following(twins) < before


def test_the_next_cycle_orders_them_anew() -> None:
    twins = new_corpus()
    first = twins.rank(4)
    for _ in range(4):
        twins.now += DAY / 2
        twins.rank(4)
        twins.check()
    assert twins.rank(4) != first
    assert following(twins) > PAGES // 2


def test_pages_of_another_importance_are_another_class() -> None:
    twins = Twins("importance * posterior", OPEN)
    twins.discover(URLS[::2], 1.0)
    twins.discover(URLS[1::2], 3.0)
    twins.now += 60.0
    given = list[str]()
    while taken := twins.take(4):
        given += taken
        twins.check()
        twins.now += 1.0
    assert set(given[:148]) <= set(URLS[1::2])  # whole batches
    assert len(given) == PAGES


def test_pages_follow_none_that_was_leased_by_another_way() -> None:
    twins = new_corpus()
    for _ in range(10):
        twins.grant([URLS[row] for row in standing_of(twins)._ties._leader_rows.tolist()])
        twins.rank(2)
        twins.check()
        twins.take(1)
    assert following(twins) > 0


def test_members_are_released_if_no_page_was_found() -> None:
    twins = new_corpus()
    standing, nothing = standing_of(twins), np.empty(0, np.int64)
    found = Found(nothing, np.empty(0), np.empty(0), np.empty(0), np.empty(0, np.uint64))
    shard, certificates = twins.scheduler.core.pages.arrays, standing._table.arrays
    released = standing._ties.release_reached(shard, certificates, found, nothing, Bar(-np.inf, (1 << 64) - 1), 0)
    assert released.size > 0
    assert (certificates.tick[released] == FOLLOWING).all()
