"""The public interface: its names, settings and errors, and the result of each call."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsched
from streamsched import (
    Batch,
    DurableScheduler,
    Formula,
    FormulaError,
    HostRule,
    InvalidOutcome,
    Observed,
    Outcome,
    OutcomeBatch,
    PackedUrls,
    Politeness,
    Rule,
    Scheduler,
    SettingsError,
    UnknownPage,
)
from streamsched.formula import champion
from streamsched.formula.terminal_table import PROVIDED
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.page_schema import URGENT
from streamsched.scheduler.settings import DEFAULT_FORMULA
from tests.support.cases import grouped

DAY = 86_400.0


def url(number: int, host: str = "a.example") -> str:
    return f"https://{host}/{number}"


def known(count: int = 5, **settings: Any) -> Scheduler:
    """A scheduler that knows `count` pages, each visited a day after the one before."""
    scheduler = Scheduler(**settings)
    scheduler.observe([Outcome(url(i), (1 + i) * DAY) for i in range(count)])
    return scheduler


def test_public_names() -> None:
    assert sorted(streamsched.__all__) == streamsched.__all__
    assert all(hasattr(streamsched, name) for name in streamsched.__all__)
    assert {*streamsched.__all__, "__version__"} <= set(dir(streamsched))
    assert streamsched.__version__ == version("streamsched")
    with pytest.raises(AttributeError, match="no attribute 'Crawler'"):
        _ = streamsched.Crawler


@grouped(
    ("setting", "found"),
    {
        "cycle": ["0d", 0.5, 1e13],
        "formula": [3],
        "seed": ["7"],
        "politeness": [{"delay": 1}, "polite"],
        "new_share": [1.0],
        "panel": [-0.1, 1.0],
        "threads": [0],
    },
)
def test_setting_that_cannot_work(setting: str, found: object) -> None:
    with pytest.raises(SettingsError, match=f"^{setting}: expected ") as caught:
        Scheduler(**{setting: found})  # type: ignore[arg-type]
    assert (caught.value.setting, caught.value.found) == (setting, found)


def test_settings_as_numpy_has_them(tmp_path: Path) -> None:
    """And then they can still be saved as JSON."""
    polite = Politeness(per_batch=np.uint8(2))  # type: ignore[arg-type]
    scheduler = known(seed=np.int64(3), politeness=polite, cycle=np.float64(DAY))
    scheduler.save(tmp_path)
    assert Scheduler.load(tmp_path).digest() == known(seed=3, politeness=Politeness(per_batch=2)).digest()


@pytest.mark.parametrize(
    ("formula", "column"),
    [("", 1), ("X +", 4), ("1 - exp(-m)", 10), ("X / dew", 5), ("2 * (t + age)", 10), ("dew", 1)],
)
def test_formula_that_does_not_fit_names_its_column(formula: str, column: int) -> None:
    scheduler = known()
    for act in (lambda: Scheduler(formula=formula), lambda: scheduler.use(formula)):
        with pytest.raises(FormulaError) as caught:
            act()
        assert (caught.value.column, caught.value.text) == (column, formula)
    assert scheduler.formula.text == DEFAULT_FORMULA


def test_formula_over_terminals_of_another_making(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(champion, "PROVIDED", tuple(name for name in PROVIDED if name != "due"))
    with pytest.raises(FormulaError, match="column 5: terminal 'mine' is not provided"):
        Scheduler(formula=Formula.parse("1 + mine", terminals=["mine"]))
    with pytest.raises(FormulaError, match="column 1: terminal 'due' \\(probability of an update"):
        Scheduler(formula=Formula.parse("due*2"))


def test_use_ranks_by_another_formula() -> None:
    scheduler = known(formula="t")
    assert scheduler.rank(1, now=9 * DAY).urls == [url(0)]
    scheduler.use("0 - t")
    assert scheduler.rank(1, now=9 * DAY).urls == [url(4)]
    scheduler.use(Formula.parse("t*2"))
    assert scheduler.rank(1, now=10 * DAY).scores.tolist() == [18.0]
    assert scheduler.formula == Formula.parse("t * 2")


def test_how_many_pages_a_batch_may_have() -> None:
    scheduler = known()
    for act in (scheduler.rank, scheduler.next_batch):
        with pytest.raises(SettingsError, match="k: expected 0 or more pages"):
            act(-1, now=0.0)
    with pytest.raises(SettingsError, match="k: expected 1 or more pages"):
        scheduler.explain(url(0), now=0.0, k=0)


@pytest.mark.parametrize("lease", ["0s", "999999999w", "367d"])
def test_lease_must_be_a_length_of_time(lease: Any) -> None:
    scheduler = known()
    with pytest.raises(SettingsError) as refused:
        scheduler.next_batch(1, now=0.0, lease=lease)
    assert refused.value.setting == "lease"
    assert len(scheduler.rank(9, now=0.0)) == 5


def test_a_lease_that_is_too_long_is_shown_as_people_write_it() -> None:
    with pytest.raises(SettingsError, match="at most 366 days, found '1000000d'"):
        known().next_batch(1, now=0.0, lease=1e6 * 86_400.0)


def test_observe_takes_one_outcome_many_or_columns() -> None:
    scheduler = Scheduler()
    assert scheduler.observe(Outcome(url(0), 1.0)) == Observed(applied=1, first_visits=1)
    assert scheduler.observe(Outcome(url(0), float(at)) for at in (2, 3)) == Observed(applied=2, unproven=2)
    assert scheduler.observe((Outcome(url(0), 4.0, changed=True),)) == Observed(applied=1, changed=1)
    assert scheduler.observe(OutcomeBatch([url(0)], [5.0], status=[500])) == Observed(applied=1, failures=1)
    assert scheduler.observe([]) == scheduler.observe(OutcomeBatch([], [])) == Observed()


def test_invalid_records_are_named_and_the_rest_goes_on() -> None:
    blob = b"https://a.example/0" + b"\xff\xfe" + b"https://a.example/1" + b"x" * 9000
    urls = PackedUrls(blob, [0, 19, 19, 21, 40, 40 + 9000, 40 + 9000])
    batch = OutcomeBatch(urls, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0], status=[200, 200, 200, 500, 200, 200])
    more = OutcomeBatch(
        [url(i) for i in range(2, 9)],
        [1.0, math.nan, math.inf, 1.0, 1.0, 1.0, 1.0],
        status=[200, 200, 200, 1000, -1, 200, 200],
        importance=[None, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0],
        cost=[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1e39],
    )
    scheduler = Scheduler()
    reply = scheduler.observe(batch)
    assert (reply.applied, reply.failures, reply.rejected) == (2, 1, 4)
    assert [(fault.record, fault.field) for fault in reply.rejections] == [(i, "url") for i in (1, 2, 4, 5)]
    reply = scheduler.observe(more)
    assert (reply.applied, reply.rejected) == (1, 6)
    assert [(fault.record, fault.field) for fault in reply.rejections] == [
        (1, "fetched_at"),
        (2, "fetched_at"),
        (3, "status"),
        (4, "status"),
        (5, "importance"),
        (6, "cost"),
    ]
    assert len(scheduler) == 3
    assert scheduler.core.pages.faults() == []


def test_rejections_beyond_a_hundred_are_only_counted() -> None:
    reply = Scheduler().observe(OutcomeBatch(["u"] * 250, [math.nan] * 250))
    assert (reply.rejected, len(reply.rejections), reply.rejections[-1].record) == (250, 100, 99)
    both = reply + reply
    assert (both.rejected, len(both.rejections)) == (500, 100)


def test_counts_add_up_to_what_was_given() -> None:
    rng = np.random.default_rng(3)
    scheduler, sums = Scheduler(), Observed()
    for size in (1, 300, 700):
        batch = OutcomeBatch(
            [url(i) for i in rng.integers(0, 30, size).tolist()],
            np.where(rng.random(size) < 0.1, np.nan, rng.integers(0, 50, size)),
            status=rng.choice([200, 404, 500], size).astype(np.int32),
        )
        reply = scheduler.observe(batch)
        assert reply.applied + reply.duplicates + reply.late + reply.rejected == size
        assert reply.changed + reply.first_visits + reply.failures <= reply.applied
        assert min(reply.duplicates, reply.late, reply.rejected) > 0 or size == 1
        sums += reply
    assert sums.applied == int(scheduler.core.pages.arrays.corpus["applied"][0])
    assert sums.first_visits <= len(scheduler) == 30


def test_discovered_pages_are_ranked_as_visited_then() -> None:
    scheduler = known(2, formula="t")
    assert scheduler.discover([url(7), url(8), url(7), url(0)], now=-DAY).added == 2
    assert scheduler.rank(9, now=3 * DAY).scores.tolist() == [4.0, 4.0, 2.0, 1.0]
    assert url(7) in scheduler
    assert url(9) not in scheduler
    assert len(scheduler) == 4
    assert scheduler.observe(Outcome(url(7), 0.5 * DAY, changed=True)) == Observed(applied=1, first_visits=1)
    assert scheduler.score([url(7)], now=3 * DAY).tolist() == [2.5]


@pytest.mark.parametrize("importance", [2.5, [2.5, 2.5], np.full(2, 2.5, np.float32)])
def test_discovery_weighs_new_and_known_pages(importance: Any) -> None:
    scheduler = known(1, formula="importance")
    assert scheduler.discover(PackedUrls.pack([url(0), url(5)]), now=0.0, importance=importance).added == 1
    assert scheduler.scores(now=0.0).tolist() == [2.5, 2.5]


@pytest.mark.parametrize(
    "wrong",
    ["", "x" * 8193, "https://u/\ud800", "javascript:alert(1)", "https:///x", " https://v"],
)
def test_wrong_urls_are_rejected_and_the_others_known(wrong: str) -> None:
    """A hostile site may link to anything."""
    for add in (Scheduler.discover, Scheduler.ask):
        scheduler = Scheduler()
        found = add(scheduler, [url(0), wrong, url(1), url(0)], now=0.0)
        assert (found.added, found.rejected) == (2, 1)
        assert [(one.record, one.field) for one in found.rejections] == [(1, "url")]
        assert set(scheduler.rank(9, now=1.0).urls) == {url(0), url(1)}


def test_weights_of_wrong_urls_are_left_out() -> None:
    scheduler = Scheduler(formula="importance")
    assert scheduler.discover(PackedUrls(b"http://u\xff", [0, 8, 9]), now=0.0).rejected == 1
    found = scheduler.discover([url(0), "", url(1)], now=0.0, importance=[4.0, 3.0, 2.0])
    assert [one.record for one in found.rejections] == [1]
    assert scheduler.rank(2, now=1.0).scores.tolist() == [4.0, 2.0]


@pytest.mark.parametrize(
    ("urls", "importance", "field"),
    [
        (["https://u", 5], None, "url"),
        (["https://u", "https://v", ""], [1.0, -1.0, 1.0], "importance"),
        (["https://u", "https://v"], [1.0, math.nan], "importance"),
    ],
)
def test_wrong_arguments_of_a_discovery_add_nothing(urls: Any, importance: Any, field: str) -> None:
    scheduler = Scheduler()
    with pytest.raises(InvalidOutcome) as caught:
        scheduler.discover(urls, now=0.0, importance=importance)
    assert (caught.value.record, caught.value.field) == (1, field)
    assert len(scheduler) == 0


def test_rejections_are_those_of_the_log(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path / "state") as scheduler:
        scheduler.discover([url(0), "javascript:x", url(1)], now=0.0, importance=[1.0, 2.0, 3.0])
        scheduler.ask(["\ud800", url(2)], now=0.0)
        digest = scheduler.digest()
    assert Scheduler.load(tmp_path / "state").digest() == digest


def test_one_str_is_no_sequence_of_urls() -> None:
    scheduler = known()
    for act in (
        lambda: scheduler.discover("https://a.example/", now=0.0),
        lambda: scheduler.score("https://a.example/", now=0.0),
        lambda: scheduler.release("https://a.example/"),
    ):
        with pytest.raises(TypeError, match="urls: expected a sequence of URLs"):
            act()


def test_batch_has_urls_scores_hosts_and_lease() -> None:
    scheduler = Scheduler(formula="importance")
    scheduler.discover(["https://a.example:443/x", "http://B.example:81/"], now=0.0, importance=[1.0, 2.0])
    batch = scheduler.next_batch(5, now=7, lease="1m")
    assert batch.urls == ["http://B.example:81/", "https://a.example:443/x"]
    assert batch.hosts == ["b.example:81", "a.example"]
    assert batch.scores.tolist() == [2.0, 1.0]
    assert (batch.rows.tolist(), len(batch)) == ([1, 0], 2)
    assert (batch.now, batch.lease_until_s) == (7.0, 67.0)
    ranked = scheduler.rank(5, now=67)
    assert (ranked.urls, ranked.lease_until_s) == (batch.urls, None)


def test_limit_of_pages_per_host() -> None:
    scheduler = Scheduler(formula="importance", politeness=Politeness(per_batch=2))
    urls = [url(i, host) for i in range(40) for host in ("a.example", "b.example")] + [url(0, "c.example")]
    scheduler.discover(urls, now=0.0, importance=np.arange(81.0))
    assert scheduler.rank(4, now=0.0).urls == [urls[80], urls[79], urls[78], urls[77]]
    assert scheduler.rank(81, now=0.0).urls == [urls[80], urls[79], urls[78], urls[77], urls[76]]
    assert scheduler.rank(0, now=0.0).urls == []
    assert sorted(Counter(scheduler.next_batch(81, now=0.0).hosts).values()) == [1, 2, 2]
    assert sorted(Counter(scheduler.next_batch(81, now=0.0).hosts).values()) == [2, 2]


def test_limit_of_pages_per_host_can_change() -> None:
    scheduler = known(politeness=Politeness(per_batch=2))
    assert len(scheduler.rank(9, now=0.0)) == 2
    for most, found in ((3, 3), (None, 5)):
        scheduler.set_politeness(Politeness(per_batch=most))
        assert len(scheduler.rank(9, now=0.0)) == found


def test_rules_are_set_one_or_many_and_return_how_many_pages() -> None:
    scheduler = known()
    assert scheduler.set_rule(url(1), Rule(never=True)) == 1
    assert scheduler.set_rules({"a.example/*": Rule(min_revisit="1d"), "b.example": HostRule(delay=1)}) == 5
    assert scheduler.explain(url(1), now=9 * DAY).reasons[0] == Reason(ReasonCode.NEVER_BY_RULE)
    assert scheduler.explain(url(4), now=5 * DAY).eligible_from_s == 6 * DAY
    scheduler.discover([url(9)], now=0.0)
    scheduler.set_rule("a.example/9", Rule(never=True))
    assert scheduler.explain(url(9), now=0.0).eligible_from_s is None


def test_hosts_are_blocked_and_unblocked() -> None:
    scheduler = known()
    scheduler.discover([url(0, "b.example")], now=0.0)
    assert scheduler.block("*.example", 2 * DAY) == 2
    assert scheduler.block("b.example", DAY) == 1
    assert scheduler.block("c.example", 3 * DAY) == 0  # not known yet
    scheduler.discover([url(0, "c.example")], now=0.0)
    assert scheduler.explain(url(0, "c.example"), now=DAY).eligible_from_s == 3 * DAY
    assert scheduler.explain(url(0), now=DAY).eligible_from_s == 2 * DAY
    assert scheduler.explain(url(0, "b.example"), now=DAY).eligible
    for host, until in (("a.example/x", DAY), ("a.example", math.nan), ("", DAY)):
        with pytest.raises(SettingsError):
            scheduler.block(host, until)


def test_asking_for_what_is_no_url_asks_for_none() -> None:
    scheduler = known()
    assert scheduler.ask([""], now=0.0).rejected == 1
    assert not np.any(scheduler.core.pages.arrays.pages.records["flags"][:5] & URGENT)
    assert scheduler.ask([url(0), "", url(8)], now=0.0).added == 1
    assert np.flatnonzero(scheduler.core.pages.arrays.pages.records["flags"][:6] & URGENT).tolist() == [0, 5]


def test_equal_scores_are_drawn_anew_by_seed_and_cycle() -> None:
    orders = {
        tuple(known(20, formula="1", seed=seed).rank(20, now=now * DAY).urls) for seed in (0, 1) for now in (100, 101)
    }
    assert len(orders) == 4
    assert known(20, formula="1").rank(20, now=100 * DAY).urls == known(20, formula="1").rank(20, now=100.9 * DAY).urls
    scheduler = known(20, formula="1")
    keys = dict(zip([url(i) for i in range(20)], scheduler.core.tie_keys(now=DAY).tolist(), strict=True))
    assert scheduler.rank(20, now=DAY).urls == sorted(keys, key=keys.__getitem__)


def test_unknown_page_is_named() -> None:
    scheduler = known()
    for act in (lambda: scheduler.score([url(0), url(77)], now=0.0), lambda: scheduler.explain(url(77), now=0.0)):
        with pytest.raises(UnknownPage) as caught:
            act()
        assert caught.value.url == url(77)
    assert scheduler.score([], now=0.0).size == 0


def test_scheduler_shows_itself() -> None:
    assert repr(known(2)) == f"Scheduler(2 pages, formula {DEFAULT_FORMULA!r})"


def test_threads_share_a_scheduler() -> None:
    """Eight threads observe, look up and take batches at once: no page is handed out twice before its outcome."""
    scheduler = known(400)
    handed: list[list[str]] = []
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(thread: int) -> None:
        try:
            start.wait()
            for step in range(25):
                batch = scheduler.next_batch(5, now=1e9, lease="1h")
                handed.append(batch.urls)
                own = [url(i, f"host{thread}.example") for i in range(step * 20, step * 20 + 20)]
                reply = scheduler.observe(OutcomeBatch(own, np.full(20, 1e9 + 1e6 + step)))
                assert reply == Observed(applied=20, first_visits=20)
                assert own[0] in scheduler
                assert url(step, "nowhere.example") not in scheduler
                assert not np.any(np.isnan(scheduler.score(batch.urls, now=1e9)))
        except BaseException as error:  # noqa: BLE001 (reply to the thread that asserts)
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    taken = [page for urls in handed for page in urls]
    assert len(taken) == len(set(taken)) == 8 * 25 * 5
    assert len(scheduler) == 400 + 8 * 500
    assert scheduler.core.pages.faults() == []


def test_every_call_waits_for_the_others(tmp_path: Path) -> None:
    """Look-ups too: they share buffers with outcomes."""
    scheduler = known()
    calls: list[Callable[[], object]] = [
        lambda: scheduler.observe(Outcome(url(0), 9 * DAY)),
        lambda: scheduler.discover([url(8)], now=0.0),
        lambda: scheduler.ask([url(9)], now=0.0),
        lambda: scheduler.block("a.example", 1.0),
        lambda: scheduler.set_rule("a.example", Rule()),
        lambda: scheduler.set_rules({}),
        lambda: scheduler.rank(1, now=0.0),
        lambda: scheduler.next_batch(1, now=0.0),
        lambda: scheduler.release([url(0)]),
        lambda: scheduler.score([url(0)], now=0.0),
        lambda: scheduler.scores(now=0.0),
        lambda: scheduler.core.tie_keys(now=0.0),
        lambda: scheduler.explain(url(0), now=0.0),
        lambda: scheduler.use("t"),
        lambda: scheduler.save(tmp_path),
        lambda: scheduler.digest(),
        lambda: url(0) in scheduler,
    ]
    taken: list[str] = []

    class Lock:
        def __enter__(self) -> None:
            taken.append("taken")

        def __exit__(self, *_: object) -> None:
            taken.append("given back")

    scheduler.core.lock = Lock()
    for call in calls:
        taken.clear()
        call()
        assert taken == ["taken", "given back"] * max(1, len(taken) // 2)  # a save takes it again and again


def test_what_is_handed_out_is_plain() -> None:
    batch = known().rank(2, now=9 * DAY)
    assert isinstance(batch, Batch)
    assert [type(item) for item in (batch.urls[0], batch.hosts[0], batch.now)] == [str, str, float]
    assert batch.scores.dtype == np.float64


def test_served_pages_and_hits_are_counted() -> None:
    """Outcomes of leased pages that show a change or none: not first visits, failures or repeats."""
    scheduler = Scheduler()
    urls = [f"https://a.example/{i}" for i in range(4)]
    scheduler.observe([Outcome(url, 1.0) for url in urls])
    scheduler.discover(["https://a.example/new"], now=0.0)
    leased = scheduler.next_batch(5, now=86_400.0, lease="1d").urls
    assert len(leased) == 5
    first = [Outcome(urls[0], 9e4, changed=True), Outcome(urls[1], 9e4, changed=False), Outcome(urls[2], 9e4, 503)]
    reply = scheduler.observe([*first, Outcome(urls[0], 9e4, changed=True), Outcome("https://a.example/new", 9e4)])
    assert (reply.served, reply.hits, reply.changed) == (2, 1, 1)
    reply += scheduler.observe([Outcome(urls[0], 1e5, changed=True), Outcome(urls[3], 1e5, changed=True)])
    assert (reply.served, reply.hits, reply.changed) == (3, 2, 3)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"objective": "freshness", "formula": "t"}, "an objective or a formula, not both"),
        ({"objective": "Changes"}, "changes, freshness, balanced"),
        ({"objective": "fresh"}, "changes, freshness, balanced"),
        ({"objective": "balanced(1.5)"}, "from 0, changes, to 1, freshness"),
        ({"objective": "balanced(nan)"}, "from 0, changes, to 1, freshness"),
        ({"objective": "balanced()"}, "from 0, changes, to 1, freshness"),
    ],
)
def test_objective_that_cannot_work(settings: dict[str, str], found: str) -> None:
    with pytest.raises(SettingsError, match=found):
        Scheduler(**settings)  # type: ignore[arg-type]
    assert Scheduler(objective="t").formula.text == Scheduler(formula="t").formula.text == "t"


def test_a_longer_block_leaves_the_ranking_as_it_was() -> None:
    scheduler = Scheduler(new_share=0.0)
    scheduler.discover([url(i) for i in range(9)], now=0.0)
    scheduler.next_batch(1, now=1.0)
    forgotten: list[int] = []
    scheduler.core.formula_switch.forget = lambda: forgotten.append(1)  # type: ignore[method-assign]
    scheduler.block("*", 50.0)
    scheduler.block("*", 90.0)
    assert forgotten == []
    scheduler.block("*", 80.0)
    assert forgotten == [1]


def test_other_politeness_applies_from_then_on() -> None:
    urls = [f"https://a.example/{i}" for i in range(6)]
    scheduler = Scheduler(politeness=Politeness(delay="1s"))
    scheduler.set_rules({"*/3": Rule(never=True), "b.example": HostRule(per_batch=1)})
    scheduler.discover(urls, now=0.0)
    assert len(scheduler.next_batch(2, now=DAY, lease="10s")) == 2
    before = scheduler.politeness
    scheduler.set_politeness(Politeness(in_flight=3, max_revisit="9d"))
    assert (before.delay, scheduler.politeness) == (1.0, Politeness(in_flight=3, max_revisit="9d"))
    assert len(scheduler.next_batch(5, now=DAY + 2.0)) == 1  # two are out still, and three may be
    assert urls[3] not in scheduler.next_batch(5, now=3 * DAY).urls
    with pytest.raises(SettingsError, match="politeness: expected Politeness"):
        scheduler.set_politeness(None)  # type: ignore[arg-type]


def test_politeness_set_later_equals_that_of_the_constructor() -> None:
    twins = [Scheduler(politeness=Politeness(backoff="2h", delay="5s")), Scheduler()]
    twins[1].set_politeness(Politeness(backoff="2h", delay="5s"))
    for scheduler in twins:
        scheduler.observe(
            [Outcome(f"https://h{i % 3}.example/{i}", 1.0 + i, status=[200, 503][i % 2]) for i in range(30)]
        )
    assert twins[0].digest() == twins[1].digest()
    first, second = (scheduler.next_batch(9, now=3600.0).urls for scheduler in twins)
    assert first == second
