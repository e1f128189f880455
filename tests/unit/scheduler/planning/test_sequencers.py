"""Sequencers: every item once, in the order that each promises, and an order of batches made of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Optimiser, OptimiserSettings, OutcomeBatch, Scheduler, SettingsError
from streamsched.scheduler.planning.sequencers import Fifo, Priority, RoundRobin, Weighted, order_by_site

queues_of_items = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=5)


def drain(queue: Any) -> list[Any]:
    return [queue.take() for _ in range(len(queue))]


@given(items=st.lists(st.tuples(st.integers(), st.floats(allow_nan=True))))
def test_priority_is_a_stable_sort(items: list[tuple[int, float]]) -> None:
    expected = sorted(items, key=lambda one: np.inf if np.isnan(one[1]) else -one[1])
    assert drain(Priority(items)) == [item for item, _ in expected]


@given(queues=queues_of_items)
def test_round_robin_takes_turns(queues: list[list[int]]) -> None:
    expected = [items[turn] for turn in range(6) for items in queues if turn < len(items)]
    assert drain(RoundRobin([Fifo(items) for items in queues])) == expected


@given(queues=queues_of_items, seed=st.integers(0, 99))
def test_weighted_gives_every_item_once_in_its_queues_order(queues: list[list[int]], seed: int) -> None:
    tagged = [[(number, place) for place in range(len(items))] for number, items in enumerate(queues)]
    weights = [float(number) for number in range(len(queues))] or [1.0]
    if not queues:
        with pytest.raises(SettingsError):
            Weighted([], weights)
        return
    drawn = drain(Weighted([Fifo(items) for items in tagged], weights, seed))
    assert sorted(drawn) == sorted(one for items in tagged for one in items)
    for items in tagged:
        assert [one for one in drawn if one in items] == items
    assert drawn == drain(Weighted([Fifo(items) for items in tagged], weights, seed))


def test_weights_are_the_chances() -> None:
    queue = Weighted([Fifo("a" * 4_000), Fifo("b" * 4_000)], [0.8, 0.2], seed=3)
    assert Counter(queue.take() for _ in range(4_000))["a"] == pytest.approx(3_200, abs=100)


@pytest.mark.parametrize("queue", [Fifo(), Priority(), RoundRobin([]), RoundRobin([Fifo()]), Weighted([Fifo()], [1.0])])
def test_nothing_is_left(queue: Any) -> None:
    assert len(queue) == 0
    with pytest.raises(IndexError):
        queue.take()


@pytest.mark.parametrize("weights", [[-1.0], [float("nan")], [float("inf")], [1.0, 2.0]])
def test_wrong_weights(weights: list[float]) -> None:
    with pytest.raises(SettingsError) as caught:
        Weighted([Fifo("a")], weights)
    assert "weights" in str(caught.value)


def make() -> Scheduler:
    """Twelve pages of three hosts, half of them visited; one was asked for."""
    scheduler = Scheduler(formula="importance", new_share=0.5)
    urls = [f"https://h{i % 3}.example/{i}" for i in range(12)]
    scheduler.discover(urls, now=0.0, importance=np.arange(12.0))
    scheduler.observe(OutcomeBatch(urls[::2], np.full(6, 86_400.0)))
    scheduler.ask(urls[5:6], now=86_400.0)
    return scheduler


def test_batches_are_served_site_by_site() -> None:
    scheduler = make()
    batch = scheduler.next_batch(12, now=5 * 86_400.0)
    is_new = np.array([int(url.rpartition("/")[2]) % 2 == 1 for url in batch.urls])
    order = order_by_site(batch, is_new, 1.0, seed=0)
    assert sorted(order.tolist()) == list(range(12))
    urls = [batch.urls[place] for place in order]
    assert urls[0] == "https://h2.example/5"  # asked for
    for turn in (urls[1:4], urls[4:7]):
        assert len({url.split("/")[2] for url in turn}) == 3
    of_site = [int(url.rpartition("/")[2]) for url in urls if "h0." in url]
    assert [page % 2 for page in of_site] == [1, 1, 0, 0]  # new pages alone have a weight
    assert of_site[2:] == [6, 0]  # then the highest score


def test_other_policies_leave_the_order() -> None:
    scheduler = make()
    optimiser = Optimiser(scheduler, OptimiserSettings())
    optimiser.plan_now(4 * 86_400.0)
    batch = scheduler.next_batch(12, now=5 * 86_400.0)
    assert optimiser.arrange(batch).tolist() == list(range(12))
