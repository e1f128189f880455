"""GREEDY-NCIS as a policy: the values of the rates that its Scheduler learns, and what signals move."""

from __future__ import annotations

import numpy as np

from streamsched import OutcomeBatch, PackedUrls, Signal, SignalBatch
from streamsched.numerics.arrays import Bools, Rows
from streamsched.numerics.topk_order import select_top
from streamsched.optimal import NoisyPages, crawl_value
from streamsched.replay.simulation.greedy_ncis import GreedyPolicy
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.simulator import PolicyQuery
from streamsched.scheduler.planning.page_snapshot import copy_pages

DAY = 86_400.0
PAGES = 40
URLS = PackedUrls.pack([f"https://host{page % 3}.example/{page}" for page in range(PAGES)])
NOW = 9 * DAY


def taught(signals: float = 0.0) -> GreedyPolicy:
    """A policy after eight days; each day a share `signals` of the changes has been announced at noon."""
    policy = make_policy("greedy-ncis", DAY, seed=3)
    assert isinstance(policy, GreedyPolicy)
    policy.discover(URLS, 0.0)
    rng = np.random.default_rng(0)
    for cycle in range(8):
        rows = np.arange(PAGES) if cycle < 2 else np.sort(rng.permutation(PAGES)[:20])
        changed: Bools = rng.random(PAGES) < np.linspace(0.05, 0.5, PAGES)
        announced = np.flatnonzero(changed & (rng.random(PAGES) < signals))
        tell(policy, announced, (cycle + 0.5) * DAY)
        at = np.full(rows.size, (cycle + 1) * DAY)
        policy.observe(OutcomeBatch(URLS.take(rows), at, changed=changed[rows]))
    return policy


def tell(policy: GreedyPolicy, rows: Rows, at: float) -> None:
    if len(rows):
        policy.notice(SignalBatch.from_signals([Signal(URLS[int(row)], at, "feed") for row in rows]))


def rank(policy: GreedyPolicy, k: int = 8) -> list[int]:
    return [int(row) for row in policy.rank(PolicyQuery(k, PAGES, 8, NOW, np.zeros(PAGES, bool)))]


def test_without_signals_it_visits_by_greedys_value_in_the_order_of_changes() -> None:
    policy = taught()
    core = policy.scheduler.core
    pages = copy_pages(core, NOW, NOW)
    silent = np.zeros(PAGES)
    values = crawl_value(NoisyPages(pages.importance, pages.change_rate, silent, silent), pages.waited)
    best = select_top(values, core.tie_keys(now=NOW), 8)
    likely = pages.change_rate * pages.waited
    assert rank(policy) == best[np.argsort(-likely[best], kind="stable")].tolist()


def test_a_signal_of_a_good_source_brings_its_page_from_last_to_the_first_half() -> None:
    policy = taught(signals=0.9)
    last = rank(policy, PAGES)[-1]
    tell(policy, np.array([last]), 8.9 * DAY)
    assert rank(policy, PAGES).index(last) < PAGES // 2


def test_signals_of_a_source_that_proved_false_say_little() -> None:
    policy = taught()
    for day in range(3):  # false signals about all pages, and visits that find nothing
        tell(policy, np.arange(PAGES), (8.1 + 0.2 * day) * DAY)
        at = np.full(PAGES, (8.2 + 0.2 * day) * DAY)
        policy.observe(OutcomeBatch(URLS, at, changed=np.zeros(PAGES, bool)))
    last = rank(policy, PAGES)[-1]
    tell(policy, np.array([last]), 8.9 * DAY)
    assert rank(policy, PAGES).index(last) > PAGES // 2


def test_pages_without_a_copy_come_first() -> None:
    policy = taught()
    policy.discover(PackedUrls.pack(["https://host0.example/new"]), NOW)
    query = PolicyQuery(1, PAGES + 1, 8, NOW, np.zeros(PAGES + 1, bool))
    assert policy.rank(query).tolist() == [PAGES]
