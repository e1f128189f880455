"""Rankings that take turns: one serves while the next is made ready, and bounds are let go where nobody asks."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator

import pytest

from streamsched.outcomes import Outcome
from streamsched.ranking import formula_switch
from streamsched.ranking.certificates import CHUNK
from tests.support.outcome_streams import DAY
from tests.support.scheduler_twins import START_S, Twins, small_shards
from tests.support.stepped_threads import Stepper, stepped

URLS = [f"https://{'ab'[i % 2]}.example/{i}" for i in range(150)]


@pytest.fixture(name="stepper", autouse=True)
def made_ready_step_by_step() -> Iterator[Stepper]:
    with small_shards(), stepped() as stepper:
        yield stepper


def queried(formula: str = "importance") -> Twins:
    twins = Twins(formula)
    twins.observe([Outcome(url, START_S - i * 3_600.0, importance=float(i % 11)) for i, url in enumerate(URLS)])
    twins.rank(5)
    return twins


def test_the_old_formula_serves_until_the_new_ranking_stands(stepper: Stepper) -> None:
    twins = queried()
    twins.scheduler.use("t * (9 - t)")
    stepper.begin()
    served = 0
    while stepper.waiting:
        assert twins.scheduler.formula.text == "importance"
        taken = twins.take(3)
        twins.observe([Outcome(url, twins.now, changed=True) for url in taken[:2]])
        twins.discover([f"https://c.example/{served}"])
        twins.check()
        twins.now += 60.0
        stepper.step()
        served += 1
    assert served > 5
    assert twins.scheduler.formula.text == "t * (9 - t)"
    twins.check()
    for k in (1, 40, 500):
        twins.rank(k)
    twins.check()
    assert twins.scheduler.core.formula_switch._next is None


def test_waiting_for_it(stepper: Stepper) -> None:
    twins = queried()
    stepper.free = True
    twins.scheduler.use("t", wait=True)
    assert twins.scheduler.formula.text == "t"
    twins.rank(7)
    twins.check()


def test_a_later_formula_takes_the_place_of_one_under_way(stepper: Stepper) -> None:
    twins = queried()
    for formula in ("t", "posterior", "0 - t"):
        twins.scheduler.use(formula)
        stepper.begin()
        stepper.step()
    assert twins.scheduler.formula.text == "importance"
    seen = set()
    while stepper.waiting:
        stepper.step()
        twins.rank(3)
        seen.add(twins.scheduler.formula.text)
    assert seen == {"importance", "0 - t"}


def test_at_once_where_no_bounds_are_kept(stepper: Stepper) -> None:
    twins = Twins("t")
    twins.discover(URLS)
    twins.scheduler.use("0 - t")
    assert (twins.scheduler.formula.text, stepper.waiting) == ("0 - t", [])
    twins.rank(5)


def test_bounds_are_let_go_where_many_outcomes_come_and_nobody_asks(
    stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the formula that is under way takes over then: there is nothing left to make ready."""
    monkeypatch.setattr(formula_switch, "_FEW", 10)
    twins = queried()
    twins.scheduler.use("t")
    stepper.begin()
    for number in range(3):
        twins.observe([Outcome(url, START_S + number, changed=True) for url in URLS[:20]])
    assert twins.scheduler.core.pages.touched is None
    stepper.step()
    assert (twins.scheduler.formula.text, stepper.waiting) == ("t", [])
    twins.now += DAY
    for _ in range(3):
        twins.take(9)
        twins.check()
    assert twins.scheduler.core.pages.touched is not None


def test_few_outcomes_between_queries_are_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formula_switch, "_FEW", 10)
    twins = queried()
    for number in range(20):
        twins.observe([Outcome(url, START_S + number) for url in URLS[:20]])
        twins.rank(2)
    assert twins.scheduler.core.pages.touched is not None


def test_pages_never_visited_have_a_ranking_of_their_own() -> None:
    twins = queried()
    assert twins.rank_new(5) == []
    twins.discover([f"https://c.example/{i}" for i in range(60)], importance=[float(i % 7) for i in range(60)])
    for _ in range(5):
        new = twins.rank_new(10)
        twins.check()
        assert len(new) == 10
        twins.now += 600.0
        twins.observe([Outcome(url, twins.now) for url in new])
    assert len(twins.rank_new(500)) == 10


def test_memory_in_use() -> None:
    twins = Twins("t")
    none = twins.scheduler.core.formula_switch.nbytes()
    twins.discover(URLS)
    twins.rank(1)
    one = twins.scheduler.core.formula_switch.nbytes()
    twins.rank_new(1)
    switched = twins.scheduler.core.formula_switch.nbytes()
    table = 6 * 150 + 6 * math.ceil(150 / CHUNK)
    hosts = 16 * int(twins.scheduler.core.pages.arrays.corpus["groups"][0])
    assert none <= 2 * mmap.PAGESIZE
    assert 0 <= one - table - hosts < 12 * mmap.PAGESIZE
    assert 0 <= switched - one - table - hosts < 12 * mmap.PAGESIZE
