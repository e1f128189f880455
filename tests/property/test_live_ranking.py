"""Whatever is done to a scheduler, its ranking is the full sort of its slow twin, and what it keeps is true."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from streamsched import Scheduler
from streamsched.formula import Binary, BinaryOp, Constant, Formula, Node, Terminal, Unary, UnaryOp
from streamsched.formula.terminal_table import PROVIDED
from streamsched.outcomes import NEVER_S, Outcome
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.ranking.incremental_topk import IncrementalTopK
from streamsched.records.related_schema import SHARE_BITS
from streamsched.records.seasonality_schema import WEEK_HOURS
from streamsched.scheduler.planning.optimiser import PLAN_FORMULA
from streamsched.state.crawl_plan import CrawlPlan
from tests.property.test_politeness import lengths, some_counts
from tests.support.cases import how_many
from tests.support.outcome_streams import DAY, PREFIXES, Crawl, some
from tests.support.scheduler_twins import Twins, small_shards
from tests.support.stepped_threads import stepped

pytestmark = pytest.mark.usefixtures("no_surge_probes")

HOURLY = {"tau", "rhythm", "due", "gain"}
MOVING = ("t", "posterior", "surge", "surge", "rate", "importance", "tau", "rhythm", "due", "gain", "significance")
known_formulas = st.sampled_from(
    [
        "posterior",
        "1 - (1 - posterior) * (1 - surge)",
        "1 - (1 - posterior) * (1 - surge)",
        "gain",
        "worth * gain",
        "gain - 1 / confidence",
        "significance * worth * gain",
        "1 - (1 - posterior) * (1 - signalled)",
        "rate - surge",
        "crawl_rate * t",
        "crawl_rate * t",
        PLAN_FORMULA,
        "due",
        "1 - exp(-rate * tau)",
        "rhythm * posterior - tau * (1 - rhythm)",
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
steps = st.sampled_from([0.0, 1.0, 1.0, 60.0, 60.0, 600.0])  # as between queries
leaps = st.sampled_from([1_799.5, 3_600.0, 5 * 3_600.0, DAY / 3, DAY, 30 * DAY, 365 * DAY, -1.0, -3 * DAY])
moves = steps | leaps
some_manners = st.builds(
    Politeness,
    delay=st.sampled_from([0.0, 0.0, 1.0, 3_600.0]),
    in_flight=some_counts,
    backoff=lengths.map(lambda seconds: min(seconds, 604_800.0)),
    retire_after=st.sampled_from([None, 1, 3]),
    min_revisit=st.sampled_from([0.0, 0.0, 3_600.0]),
    max_revisit=st.sampled_from([None, None, 3_600.0, 30 * DAY]),
    retry_after_most=st.sampled_from([60.0, DAY, 100 * DAY]),
    host_backoff_503=st.sampled_from([1, 3, None]),
)
crawls = st.builds(
    Crawl,
    prefix=prefixes,
    first=st.integers(0, 60),
    count=st.integers(1, 40),
    start_s=st.sampled_from([0.0, 0.0, -60.0, -DAY, -5 * DAY, 60.0]),
    step_s=st.sampled_from([0.0, 1e-3]),
    statuses=some(None, None, None, None, 200, 304, 404, 410, 429, 500, 503),
    verdicts=some(None, False, True),
    importances=some(None, None, 0.0, 0.1, 3e38),
    costs=some(None, None, 0.0, 2.5),
    retry_afters=some(None, None, 0.0, 90.0, 1e6),
    significances=st.just((None, 0.3, 1.0, 0.0, None)),
    rests=some(None, None, None, 0.5, 3_600.0, 30 * DAY, NEVER_S),
)
page_rules = st.sampled_from([None, Rule(never=True), Rule(min_revisit=2 * DAY), Rule(max_revisit=DAY)])
targets = st.sampled_from(
    [
        "a.example/docs/*",
        "https://a.example/docs/api/*",
        "https://a.example/docs/3",
        "b.example/1",
        "a.example",
        "*.example",
    ]
)
hosts = st.sampled_from(["a.example", "b.example", "a*", "nowhere.example"])
some_delays = st.sampled_from([None, None, 0.0, 1.0, 3_600.0])


class Scale(NamedTuple):
    """How small the parts are of which millions of pages would have many."""

    bits: int
    most_opened: int
    pages: int


scales = st.builds(
    Scale, st.sampled_from([5, 6, 16]), st.sampled_from([1, 1, 3]), st.integers(0, 120) | st.sampled_from([1, 120, 300])
)


class LiveRanking(RuleBasedStateMachine):
    """A scheduler whose ranking is kept up however few pages it has, and its twin."""

    met: ClassVar[Counter[str]] = Counter()  # what has come about, over all runs

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()

    @initialize(
        scale=scales,
        politeness=some_manners,
        formula=formulas,
        per_host=some_counts,
        eager=st.booleans(),
        hours=st.sampled_from([None, 1, 2, 3]),
        visits=st.sampled_from([0, 1, 2, 2]),
        days=st.sampled_from([0, 0, 4]),
        host_share=st.sampled_from([None, 0.1, 0.3]),
    )
    def begin(  # noqa: PLR0917  each is drawn
        self,
        scale: Scale,
        politeness: Politeness,
        formula: Formula,
        per_host: int | None,
        eager: bool,
        hours: int | None,
        visits: int = 0,
        days: int = 0,
        host_share: float | None = None,
    ) -> None:
        self.stack.enter_context(small_shards(scale.bits, scale.most_opened))
        self.stepper = self.stack.enter_context(stepped())
        self.watch()
        self.twins = Twins(formula, politeness, per_host=per_host, seed=scale.bits, eager=eager, host_share=host_share)
        if hours is not None:
            self.tell_hours(hours)
        self.discover(Crawl(PREFIXES[0], 0, scale.pages, 0.0, 0.0), None)
        self.visit_all(visits)
        self.visit_scheduled(days)

    def visit_all(self, times: int) -> None:
        """Visit all pages, half an hour apart, so that no two are alike."""
        urls = list(self.twins.world.shard.pages)
        for number in range(times):
            start_s = self.twins.now - (times - number) * len(urls) * 1_800.0
            outcomes = [
                Outcome(url, start_s + i * 1_800.0, changed=i % 3 == 0, importance=1.0 + i % 13, cost=1.0 + i % 5)
                for i, url in enumerate(urls)
            ]
            self.twins.observe(outcomes)

    def tell_hours(self, seed: int) -> None:
        """Let pages be busier at some hours than at others, until the sweep has seen that they are not."""
        profiles = self.twins.scheduler.core.pages.arrays.seasonality.profiles["cumulative"]
        weights = np.random.default_rng(seed).choice([16, 30_000, 65_536, 300_000], (profiles.shape[0], 2, WEEK_HOURS))
        sums = np.concatenate([np.zeros_like(weights[:, :, :1]), np.cumsum(weights, axis=2)], axis=2)
        profiles[:] = sums.reshape(profiles.shape)

    def visit_scheduled(self, days: int) -> None:
        """Visit some pages every six hours of the last `days`, each updated at one of them: they earn schedules."""
        urls = list(self.twins.world.shard.pages)[::7][:12]
        for visit in range(4 * days):
            time_s = self.twins.now - 6 * 3_600.0 * (4 * days - visit) + 1.0
            self.twins.observe([Outcome(url, time_s, changed=visit % 4 == i % 4) for i, url in enumerate(urls)])
        self.met["schedules"] += int(self.twins.scheduler.core.pages.arrays.seasonality.state["schedules"][0])

    def watch(self) -> None:
        """Count what becomes of searches, so that it shows whether bounds decide anything."""
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        search, met = IncrementalTopK._search, self.met

        def spy(standing: IncrementalTopK, *arguments: Any) -> object:
            found = search(standing, *arguments)
            part = "given up" if found is None else "all" if standing.examined >= standing._table.pages else "some"
            met[part] += 1
            met["followed"] += found is not None and standing._ties.size > 0
            if HOURLY.intersection(self.twins.scheduler.formula.terminals) and not is_even(self.twins.scheduler):
                met[f"{part}, by hours"] += 1
            return found

        patch.setattr(IncrementalTopK, "_search", spy)

    @rule(crawl=crawls)
    def observe(self, crawl: Crawl) -> None:
        self.twins.observe(list(replace(crawl, start_s=self.twins.now + crawl.start_s).outcomes()))

    @rule(every=st.integers(1, 3), verdict=st.booleans())
    def observe_again(self, every: int, verdict: bool) -> None:
        """Two passes over what is known, which is what moves sweeps on."""
        swept = self.sweeps()
        for _ in range(2):
            self.twins.now += 60.0
            urls = list(self.twins.world.shard.pages)[::every]
            self.twins.observe([Outcome(url, self.twins.now, changed=verdict) for url in urls])
        self.met["swept"] += self.sweeps() > swept

    @rule(
        share=st.sampled_from([0.3, 0.6, 1.0]), part=st.integers(2, 6), place=st.integers(0, 5), days=st.integers(1, 3)
    )
    def edit_many(self, share: float, part: int, place: int, days: int) -> None:
        """Some pages of each group are visited, most of them changed: a surge comes to light, and is kept."""
        for _ in range(days):
            self.twins.now += DAY
            urls = [url for i, url in enumerate(self.twins.world.shard.pages) if i % part == place % part]
            hit = int(share * len(urls))
            self.twins.observe([Outcome(url, self.twins.now, changed=i < hit) for i, url in enumerate(urls)])
        groups = self.twins.scheduler.core.pages.arrays.groups.records
        self.met["surges"] += bool((groups["open_share"] > 0).any())
        self.met["kept surges"] += bool((groups["kept_share"] > 0).any())
        links = self.twins.scheduler.core.pages.arrays.seasonality.links["related"]
        self.met["claims"] += bool((links & SHARE_BITS).any())

    @rule(crawl=crawls, kind=st.sampled_from(["sitemap", "feed"]), ago_s=st.sampled_from([0.0, 60.0, DAY]))
    def notice(self, crawl: Crawl, kind: str, ago_s: float) -> None:
        """Sources announce changes of some pages; other pages of theirs are silent."""
        self.twins.notice(urls_of(crawl), kind, ago_s)
        self.met["signals"] += bool((self.twins.scheduler.core.pages.arrays.pages.signals["signalled"] > 0).any())

    def sweeps(self) -> int:
        return int(self.twins.scheduler.core.pages.arrays.corpus["sweep"][0])

    @rule(crawl=crawls, importance=st.none() | st.sampled_from([0.0, 5.0]))
    def discover(self, crawl: Crawl, importance: float | None) -> None:
        self.twins.discover(urls_of(crawl), importance)

    @rule(seconds=moves)
    def wait(self, seconds: float) -> None:
        self.twins.now += seconds

    @rule(k=st.sampled_from([0, 1, 2, 3, 5, 5, 20, 1000]), lease_s=st.sampled_from([1.0, 600.0, 600.0, 2 * DAY]))
    def next_batch(self, k: int, lease_s: float) -> None:
        self.lease(k, lease_s)

    @rule(
        k=st.sampled_from([0, 1, 3, 20, 1000]),
        hosts=st.none() | st.lists(hosts, max_size=2),
        per_host=st.sampled_from([None, None, 1, 2, 7]),
    )
    def next_batch_of_hosts(self, k: int, hosts: list[str] | None, per_host: int | None) -> None:
        self.lease(k, 600.0, hosts, per_host)

    def lease(self, k: int, lease_s: float, of: list[str] | None = None, per_host: int | None = None) -> list[str]:
        urls, hosts = self.twins.take(k, lease_s, of, per_host), self.twins.world.hosts.values()
        self.met["probes"] += sum(host.asked_for_rest and host.probe in urls for host in hosts)
        return urls

    @rule(crawl=crawls.filter(lambda crawl: crawl.count < 5), host=st.sampled_from([None] * 8 + ["b.example", "a*"]))
    def forget(self, crawl: Crawl, host: str | None) -> None:
        self.twins.forget(urls_of(crawl), host)

    @rule(crawl=crawls, lease_s=st.sampled_from([1.0, 600.0]))
    def grant(self, crawl: Crawl, lease_s: float) -> None:
        self.twins.grant(urls_of(crawl), lease_s)

    @rule(crawl=crawls, k=st.sampled_from([1, 20]))
    def rest_and_probe(self, crawl: Crawl, k: int) -> None:
        """A host answers 429, is probed when its rest is over, and answers."""
        refused = replace(crawl, count=1, start_s=self.twins.now, statuses=(429,), retry_afters=(60.0,))
        self.twins.observe(list(refused.outcomes()))
        self.twins.now += 61.0
        urls = self.lease(k, 600.0)
        self.twins.observe([Outcome(url, self.twins.now + 1.0) for url in urls])

    @rule(k=st.sampled_from([0, 1, 2, 5, 20, 1000]))
    def rank(self, k: int) -> None:
        self.twins.rank(k)

    @rule(k=st.sampled_from([1, 1, 2, 5]), seconds=steps | st.just(1_799.5), times=st.integers(3, 12))
    def rank_again(self, k: int, seconds: float, times: int) -> None:
        """Query after query in even steps: what bounds are made for, and the only way in which they decide anything."""
        for _ in range(times):
            self.twins.now += seconds
            self.twins.rank(k)

    @rule(k=st.sampled_from([1, 3, 1000]))
    def rank_new(self, k: int) -> None:
        self.twins.rank_new(k)

    @rule(crawl=crawls)
    def release(self, crawl: Crawl) -> None:
        self.twins.release(urls_of(crawl))

    @rule(crawl=crawls.filter(lambda crawl: crawl.count < 5))
    def ask(self, crawl: Crawl) -> None:
        self.twins.ask(urls_of(crawl))

    @rule(name=hosts, seconds=moves)
    def block(self, name: str, seconds: float) -> None:
        self.twins.block(name, self.twins.now + seconds)

    @rule(of=targets, page_rule=page_rules)
    def set_rule(self, of: str, page_rule: Rule | None) -> None:
        self.twins.set_rule(of, page_rule)

    @precondition(lambda self: self.twins.world.hosts)
    @rule(data=st.data(), delay=some_delays, in_flight=some_counts, per_batch=some_counts)
    def set_host_rule(
        self, data: st.DataObject, delay: float | None, in_flight: int | None, per_batch: int | None
    ) -> None:
        name = data.draw(st.sampled_from(sorted(self.twins.world.hosts)))
        self.twins.set_rule(name, HostRule(delay=delay, in_flight=in_flight, per_batch=per_batch))

    @rule(number=st.integers(0, 2**32 - 1), share=st.sampled_from([0.1, 1.0]), known=st.sampled_from([0.5, 1.0]))
    def plan(self, number: int, share: float, known: float) -> None:
        """A share of the pages known at some time before get other rates, or none."""
        scheduler, rng = self.twins.scheduler, np.random.default_rng(number)
        pages = int(known * len(scheduler))
        rates = scheduler.core.pages.arrays.pages.traces["crawl_rate"][:pages].copy()
        moved = rng.random(pages) < share
        rates[moved] = rng.choice(np.array([0.0, 1e-30, 0.1, 0.1, 3.0, 3e38], np.float32), int(moved.sum()))
        scheduler._follow_plan(CrawlPlan(1, "lambdacrawl", self.twins.now, "5%", 1.0, pages), rates)
        self.twins.is_current = True
        self.met["plans"] += bool(pages)

    @rule(per_host=some_counts)
    def limit_batches(self, per_host: int | None) -> None:
        self.twins.limit_batches(per_host)

    @rule(formula=formulas, wait=st.booleans())
    def use(self, formula: Formula, wait: bool) -> None:
        self.stepper.free = wait
        self.twins.scheduler.use(formula, wait=wait)
        self.stepper.begin()
        self.met["swaps under way"] += bool(self.stepper.waiting)
        assert not wait or self.twins.scheduler.formula == formula
        self.wanted = formula

    @precondition(lambda self: self.stepper.waiting)
    @rule(steps=st.sampled_from([1, 2, 5, 40, 40]))
    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.stepper.step()
        assert self.stepper.waiting or self.twins.scheduler.formula == self.wanted

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.twins.reload(Path(folder))
        self.stepper.finish()  # a swap that was under way goes on in what was saved, and is not loaded
        self.wanted = self.twins.scheduler.formula

    @invariant()
    def what_is_kept_is_true(self) -> None:
        self.twins.check()

    def teardown(self) -> None:
        self.stack.close()


class HourlyRanking(LiveRanking):
    """The same by formulas that read hours, with pages that change more at some hours than at others."""

    met: ClassVar[Counter[str]] = Counter()

    @initialize(
        scale=st.builds(Scale, st.sampled_from([5, 6, 16]), st.sampled_from([1, 3]), st.integers(60, 120)),
        politeness=some_manners,
        formula=st.sampled_from(["due", "rate * tau", "posterior * rhythm", "gain * worth"]).map(Formula.parse),
        per_host=some_counts,
        eager=st.booleans(),
        hours=st.sampled_from([1, 2, 3]),
        visits=st.sampled_from([1, 2]),
        days=st.sampled_from([0, 4]),
    )
    def begin(self, **drawn: Any) -> None:
        super().begin(**drawn)


def is_even(scheduler: Scheduler) -> bool:
    """Whether all hours are as busy, for pages of no region."""
    profiles = scheduler.core.pages.arrays.seasonality.profiles["cumulative"][0].reshape(2, -1)
    return bool((np.ptp(np.diff(profiles.astype(np.int64)), axis=1) == 0).all())


def urls_of(crawl: Crawl) -> list[str]:
    return [outcome.url for outcome in crawl.outcomes()]


def run(
    examples: int, steps: int, *, number: int | None = None, machine: type[LiveRanking] = LiveRanking
) -> Counter[str]:
    """Go through sequences of operations, always the same ones for a `number`; return what has come about."""
    machine.met.clear()
    seeded = type(machine.__name__, (machine,), {})
    if number is not None:
        seed(number)(seeded)
    checked = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=number is None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.explicit, Phase.generate],  # a failure is not made smaller, which takes hours and gigabytes here
    )
    run_state_machine_as_test(seeded, settings=checked)
    return machine.met


@pytest.mark.longer
def test_whatever_is_done_the_ranking_is_the_full_sort() -> None:
    met = run(how_many(10, 25), 30)
    assert met["some"] > 5
    assert met["followed"] > 5
    if how_many(0, 1) == 0:
        return  # a few sequences need not come by all of these
    assert met["some"] > 20
    assert met["swept"] > 0
    assert met["swaps under way"] > 0
    assert met["surges"] > 2
    assert met["kept surges"] > 0
    assert met["claims"] > 2
    assert met["signals"] > 2
    assert met["plans"] > 2
    assert met["probes"] > 0
    assert met["schedules"] > 0


@pytest.mark.longer
def test_a_ranking_by_hours_is_the_full_sort() -> None:
    met = run(how_many(5, 10), 30, number=1, machine=HourlyRanking)
    assert met["some, by hours"] > 0


@pytest.fixture
def machine() -> Iterator[LiveRanking]:
    machine = LiveRanking()
    yield machine
    machine.teardown()


ONE_IN_FLIGHT = Politeness(delay=0, in_flight=1, backoff=0, retire_after=None, min_revisit=0, max_revisit=None)


def test_a_full_host_still_gives_its_page_that_is_overdue_longest(machine: LiveRanking) -> None:
    """A page in the host's only slot is overdue, and so are pages of blocks that are not opened yet."""
    machine.begin(Scale(5, 1, 26), ONE_IN_FLIGHT, Formula.parse("posterior"), None, eager=False, hours=None)
    machine.set_rule("a.example/docs/*", Rule(max_revisit=DAY))
    machine.edit_many(share=0.3, part=2, place=0, days=1)
    machine.ask(Crawl("https://a.example/docs/", 0, 1, 0.0, 0.0))
    machine.observe_again(every=3, verdict=False)
    for _ in range(3):
        machine.rank(1)
        machine.what_is_kept_is_true()


def test_scores_above_the_levels_of_overdue_pages(machine: LiveRanking) -> None:
    machine.begin(Scale(5, 1, 9), ONE_IN_FLIGHT, Formula.parse("t * 1e300"), None, eager=False, hours=None)
    machine.set_rule("a.example/docs/*", Rule(max_revisit=DAY))
    machine.edit_many(share=0.3, part=2, place=0, days=1)
    for _ in range(3):
        machine.rank(1)
        machine.what_is_kept_is_true()


@pytest.mark.cases(ordinary=0, whole=150)
def test_whatever_is_done_for_long_the_ranking_is_the_full_sort(rng: random.Random) -> None:
    assert run(2, 80, number=rng.getrandbits(32))["some"] > 2
