"""Whatever is done to a scheduler, its ranking is the full sort of its slow twin, and what it keeps is true."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from streamsched import Batch, Scheduler
from streamsched.formula import Binary, BinaryOp, Constant, Formula, Node, Terminal, Unary, UnaryOp
from streamsched.manners import HostRule, Manners, Rule
from streamsched.outcomes import OutcomeBatch
from streamsched.standing import Standing
from streamsched.terminals import PROVIDED
from tests.fences import fenced, small_rankings, small_reserve
from tests.naive_ranking import World
from tests.property.test_politeness import lengths, some_counts
from tests.stepping import stepped
from tests.streams import DAY, PREFIXES, Crawl, some

START_S = 1_000 * DAY
MOVING = ("t", "posterior", "rate", "importance")
known_formulas = st.sampled_from(
    [
        "posterior",
        "importance * posterior / cost",
        "importance * (1 - exp(-rate * t) * (1 + rate * t)) / rate",
        "exp(-(t - 1) * (t - 1)) * rate",
        "log(t + 0.01) * (SAD - 0.5)",
        "t * (2 - t)",
        "1",
        "1 / (t - 1)",
        "0 - pow(1e300, 2) * (t - 3)",
        "pow(1e300, 2) * t - pow(1e300, 2) * t",
    ]
).map(Formula.parse)


def grow(below: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    unary: tuple[UnaryOp, ...] = ("neg", "log", "exp")
    binary: tuple[BinaryOp, ...] = ("+", "-", "*", "/", "pow")
    return st.builds(Unary, st.sampled_from(unary), below) | st.builds(Binary, st.sampled_from(binary), below, below)


leaves: st.SearchStrategy[Node] = st.builds(Terminal, st.sampled_from(MOVING + PROVIDED)) | st.builds(
    Constant, st.sampled_from([0.0, 1.0, 0.5, 2.0, 30.0, 1e300])
)
formulas = known_formulas | st.builds(Formula, st.recursive(leaves, grow, max_leaves=8))

prefixes = st.sampled_from([PREFIXES[0], PREFIXES[0], PREFIXES[1], PREFIXES[5], PREFIXES[7]])
moves = st.sampled_from([0.0, 0.0, 1.0, 60.0, 3_600.0, 3_600.0, DAY / 3, DAY, 30 * DAY, 365 * DAY, -1.0, -3 * DAY])
some_manners = st.builds(
    Manners,
    delay=st.sampled_from([0.0, 0.0, 1.0, 3_600.0]),
    in_flight=some_counts,
    backoff=lengths,
    retire_after=st.sampled_from([None, 1, 3]),
    min_revisit=st.sampled_from([0.0, 0.0, 3_600.0]),
    max_revisit=st.sampled_from([None, None, 3_600.0, 30 * DAY]),
)
crawls = st.builds(
    Crawl,
    prefix=prefixes,
    first=st.integers(0, 60),
    count=st.integers(1, 40),
    start_s=st.sampled_from([0.0, 0.0, -60.0, -DAY, -5 * DAY, 60.0]),
    step_s=st.sampled_from([0.0, 1e-3]),
    statuses=some(None, None, None, 200, 304, 404, 410, 429, 500),
    verdicts=some(None, False, True),
    importances=some(None, None, 0.0, 0.1, 3e38),
    costs=some(None, None, 0.0, 2.5),
    retry_afters=some(None, None, 0.0, 90.0, 1e6),
)
page_rules = st.sampled_from([None, Rule(never=True), Rule(min_revisit=2 * DAY), Rule(max_revisit=DAY)])
targets = st.sampled_from(
    ["a.example/docs/*", "https://a.example/docs/api/*", "https://a.example/docs/3", "b.example/1"]
)
hosts = st.sampled_from(["a.example", "b.example"])


class LiveRanking(RuleBasedStateMachine):
    """A scheduler whose ranking is kept up however few pages it has, and its twin."""

    searches: Counter[str] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.told = True  # whether the ranking has been told what happened to pages

    @initialize(
        bits=st.sampled_from([5, 6, 16]),
        most_opened=st.sampled_from([1, 1, 3]),
        manners=some_manners,
        formula=formulas,
        per_host=some_counts,
        eager=st.booleans(),
        count=st.integers(0, 120),
    )
    def begin(
        self,
        bits: int,
        most_opened: int,
        manners: Manners,
        formula: Formula,
        per_host: int | None,
        eager: bool,
        count: int,
    ) -> None:
        self.stack.enter_context(small_reserve())
        self.stack.enter_context(fenced())
        self.stack.enter_context(small_rankings(bits, most_opened))
        self.stepper = self.stack.enter_context(stepped())
        self.watch()
        self.scheduler = Scheduler(
            manners=manners, formula=formula, per_host=per_host, seed=bits, new_share=0.0, threads=1
        )
        self.world = World(DAY, manners, bits)
        self.world.per_batch = per_host
        self.eager = eager
        self.now = START_S
        self.discover(Crawl(PREFIXES[0], 0, count, 0.0, 0.0), None)

    def watch(self) -> None:
        """Count what becomes of searches, so that it shows whether bounds decide anything."""
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        search, searches = Standing._search, self.searches

        def spy(standing: Standing, *arguments: Any) -> object:
            found = search(standing, *arguments)
            blocks = standing._table.blocks
            part = "given up" if found is None else "all" if standing._opened.count == blocks else "some"
            searches[part] += 1
            return found

        patch.setattr(Standing, "_search", spy)

    @rule(crawl=crawls)
    def observe(self, crawl: Crawl) -> None:
        outcomes = list(replace(crawl, start_s=self.now + crawl.start_s).outcomes())
        self.scheduler.observe(OutcomeBatch.from_outcomes(outcomes))
        self.world.observe(outcomes)
        self.told = True

    @rule(crawl=crawls, importance=st.none() | st.sampled_from([0.0, 5.0]))
    def discover(self, crawl: Crawl, importance: float | None) -> None:
        urls = [outcome.url for outcome in crawl.outcomes()]
        self.scheduler.discover(urls, now=self.now, importance=importance)
        for url in urls:
            self.world.add(url, self.now)
        if self.eager:
            self.scheduler._roster.keep_up()
        else:
            self.told = False

    @rule(seconds=moves)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(k=st.sampled_from([0, 1, 2, 3, 5, 5, 20, 1000]), lease_s=st.sampled_from([1.0, 600.0, 600.0, 2 * DAY]))
    def next_batch(self, k: int, lease_s: float) -> None:
        expected = self.expect(k, lease_s)
        batch = self.scheduler.next_batch(k, now=self.now, lease=lease_s)
        self.compare(batch, expected)
        self.world.lease(batch.urls, self.now, lease_s)
        self.told = True

    @rule(k=st.sampled_from([0, 1, 2, 5, 20, 1000]))
    def rank(self, k: int) -> None:
        expected = self.expect(k, math.inf)
        self.compare(self.scheduler.rank(k, now=self.now), expected)
        self.told = True

    @rule(k=st.sampled_from([1, 3, 1000]))
    def rank_new(self, k: int) -> None:
        expected = self.expect(k, math.inf, only_new=True)
        roster = self.scheduler._roster
        query = self.scheduler._query(k, self.now, math.inf)
        roster.rank(query)
        self.compare(self.scheduler._batch(roster.rank_new(query), self.now), expected)
        self.told = True

    @rule(crawl=crawls)
    def release(self, crawl: Crawl) -> None:
        urls = [outcome.url for outcome in crawl.outcomes()]
        self.scheduler.release(urls)
        self.world.release(urls)
        self.told = True

    @rule(crawl=crawls.filter(lambda crawl: crawl.count < 5))
    def ask(self, crawl: Crawl) -> None:
        urls = [outcome.url for outcome in crawl.outcomes()]
        self.scheduler.ask(urls, now=self.now)
        for url in urls:
            self.world.add(url, self.now)
            self.world.urgent.add(url)
        self.told = True

    @rule(name=hosts, seconds=moves)
    def block(self, name: str, seconds: float) -> None:
        if self.scheduler.block(name, self.now + seconds):
            host = self.world.hosts[name]
            host.ready_s, host.asked_for_rest = self.now + seconds, False
        self.told = True

    @rule(of=targets, page_rule=page_rules)
    def set_rule(self, of: str, page_rule: Rule | None) -> None:
        self.scheduler.set_rule(of, page_rule)
        self.world.set_rule(of, page_rule)
        self.told = True

    @precondition(lambda self: self.world.hosts)
    @rule(data=st.data(), in_flight=some_counts, per_batch=some_counts)
    def set_host_rule(self, data: st.DataObject, in_flight: int | None, per_batch: int | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.hosts)))
        host_rule = HostRule(in_flight=in_flight, per_batch=per_batch)
        self.scheduler.set_rule(name, host_rule)
        self.world.set_rule(name, host_rule)
        self.told = True

    @rule(per_host=some_counts)
    def limit_batches(self, per_host: int | None) -> None:
        self.scheduler.per_host = per_host
        self.world.per_batch = per_host

    @rule(formula=formulas, wait=st.booleans())
    def use(self, formula: Formula, wait: bool) -> None:
        self.stepper.free = wait
        self.scheduler.use(formula, wait=wait)
        self.stepper.begin()
        assert not wait or self.scheduler.formula == formula
        self.wanted = formula

    @precondition(lambda self: self.stepper.waiting)
    @rule(steps=st.integers(1, 9))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.stepper.step()
        assert self.stepper.waiting or self.scheduler.formula == self.wanted

    @invariant()
    def what_is_kept_is_true(self) -> None:
        pages = self.scheduler.pages
        assert pages.faults() == []
        roster = self.scheduler._roster
        if pages.touched is not None and self.told:
            for standing in (roster.current, roster._next, roster._new):
                assert standing is None or standing.check(pages.tables) == []

    def expect(self, k: int, lease_s: float, *, only_new: bool = False) -> list[tuple[str, float]]:
        urls = list(self.world.shard.pages)
        scores = self.scheduler.score(urls, now=self.now).tolist()
        return self.world.rank(dict(zip(urls, scores, strict=True)), k, self.now, lease_s, only_new=only_new)

    def compare(self, batch: Batch, expected: list[tuple[str, float]]) -> None:
        assert batch.urls == [url for url, _ in expected]
        np.testing.assert_array_equal(batch.scores, [score for _, score in expected])

    def teardown(self) -> None:
        self.stack.close()


def test_whatever_is_done_the_ranking_is_the_full_sort() -> None:
    LiveRanking.searches.clear()
    checked = settings(
        max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    run_state_machine_as_test(LiveRanking, settings=checked)  # type: ignore[no-untyped-call]
    assert LiveRanking.searches["some"] > 20
