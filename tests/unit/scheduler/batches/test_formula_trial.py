"""Trials of a challenger in batches: which pages it ranks, what is counted, and that nothing is lost on the way."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import HostRule, Outcome, Politeness, Scheduler
from streamsched.numerics.jit import mix
from streamsched.reasons import ReasonCode
from streamsched.records.page_schema import PAGE
from streamsched.records.schema import CORPUS
from streamsched.records.trial_counts import ARMS, BLOCKS, CELLS, ROUNDS, SETTLING, count_visit, start_counting
from streamsched.scheduler.batches.formula_trial import ROUND_CYCLES

DAY = 86_400.0
PAGES = 1_200
URLS = [f"https://{'abcdef'[i % 6]}.example/{i}" for i in range(PAGES)]


def crawled(formula: str = "t", **options: Any) -> Scheduler:
    """Pages visited twice; every third changes."""
    scheduler = Scheduler(formula=formula, host_share=None, new_share=0.0, **options)
    for day in (1.0, 2.0):
        scheduler.observe([Outcome(url, day * DAY + i, changed=i % 3 == 0) for i, url in enumerate(URLS)])
    return scheduler


def in_arm(scheduler: Scheduler, now: float) -> set[str]:
    """Return the pages of the challenger's arm."""
    core = scheduler.core
    return {url for row, url in enumerate(URLS) if core.trial.ranking_of(core.pages.arrays, row, now)}


def test_an_arm_has_its_share_of_each_batch() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    arm = in_arm(scheduler, 3 * DAY)
    assert 0.05 * PAGES < len(arm) < 0.15 * PAGES
    batches = [scheduler.next_batch(55, now=3 * DAY + i, lease="1d") for i in range(12)]
    chosen = [url for batch in batches for url in batch.urls]
    assert len(set(chosen)) == 12 * 55
    tried = [url for url in chosen if url in arm]
    assert 5 * 12 <= len(tried) <= 6 * 12
    codes = [code for batch in batches for code in batch.reasons]
    assert [code == ReasonCode.IN_BATCH_TRIAL for code in codes] == [url in arm for url in chosen]
    youngest = sorted(arm, key=URLS.index)[-len(tried) :]  # what the challenger prefers
    assert set(tried) == set(youngest)
    oldest = sorted(set(URLS) - arm, key=URLS.index)[: len(chosen) - len(tried)]
    assert set(chosen) - arm == set(oldest)


def test_batches_of_one_page_are_shared_too() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    arm = in_arm(scheduler, 3 * DAY)
    chosen = [scheduler.next_batch(1, now=3 * DAY, lease="1d").urls[0] for _ in range(200)]
    assert 6 <= sum(url in arm for url in chosen) <= 40


@pytest.mark.parametrize("politeness", [Politeness(), Politeness(in_flight=7), Politeness(delay=60.0)])
def test_a_challenger_that_equals_the_champion_changes_few_pages(politeness: Politeness) -> None:
    """Hosts with few slots give them to both arms as they would without a trial."""
    plain, tried = (crawled("worth * gain", politeness=politeness) for _ in range(2))
    tried.begin_trial("worth * gain", now=3 * DAY)
    arm, counts, sizes, others = in_arm(tried, 3 * DAY), [0, 0], 0, 0
    for i in range(8):
        now = 3 * DAY + 3_600.0 * i
        expected, found = (one.next_batch(60, now=now, lease="30m").urls for one in (plain, tried))
        assert len(found) == len(expected)
        others += len(set(found) - set(expected))
        assert i > 0 or others <= 0.1 * len(found)  # each batch makes the next ones differ a little more
        for url in found:
            counts[url in arm] += 1
        sizes += len(found)
        for one, urls in ((plain, expected), (tried, found)):
            one.observe([Outcome(url, now + 1.0, changed=False) for url in urls])
    assert others <= 0.15 * sizes
    share = len(arm) / PAGES
    assert abs(counts[1] - share * sizes) <= 4.0 * math.sqrt(share * sizes) + 1.0


def test_pages_with_priority_do_not_wait_for_their_arm() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    asked = sorted(in_arm(scheduler, 3 * DAY))[:40]
    scheduler.ask(asked, now=3 * DAY)
    batch = scheduler.next_batch(50, now=3 * DAY)
    assert set(asked) <= set(batch.urls)
    assert len(batch.urls) == 50


def test_hosts_that_are_asked_for_limit_both_arms() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    batch = scheduler.next_batch(80, now=3 * DAY, hosts=["a.example"])
    assert {url.split("/")[2] for url in batch.urls} == {"a.example"}
    assert len(batch.urls) == 80


def test_limits_of_hosts_hold_for_both_arms_together() -> None:
    scheduler = crawled()
    scheduler.set_rules({host: HostRule(in_flight=5) for host in ("a.example", "b.example")})
    scheduler.begin_trial("-t", now=3 * DAY)
    batch = scheduler.next_batch(200, now=3 * DAY)
    hosts = [url.split("/")[2] for url in batch.urls]
    assert len(hosts) == 200
    assert max(hosts.count("a.example"), hosts.count("b.example")) <= 5


def test_explanations_name_the_challenger() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    arm = in_arm(scheduler, 3 * DAY)
    absent, other = min(arm, key=URLS.index), next(url for url in URLS[600:] if url not in arm)
    explained = scheduler.explain(absent, now=3 * DAY, k=50)
    codes = [reason.code for reason in explained.reasons]
    assert ReasonCode.IN_TRIAL in codes
    assert ReasonCode.OUTRANKED not in codes
    assert explained.in_batch is False
    assert explained.formula == "-t"
    assert explained.score == -explained.terminals["t"]
    assert ReasonCode.IN_TRIAL not in [reason.code for reason in scheduler.explain(other, now=3 * DAY).reasons]


def test_offers_leave_the_trial_as_it_is() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    digest = scheduler.digest()
    offered = scheduler.offer(50, now=3 * DAY)
    assert scheduler.digest() == digest
    assert offered.urls == scheduler.next_batch(50, now=3 * DAY).urls


def visit_all(scheduler: Scheduler, days: range, changed: Any) -> None:
    for day in days:
        batch = scheduler.next_batch(100, now=day * DAY, lease="6h")
        scheduler.observe([Outcome(url, day * DAY + 60.0, changed=changed(url)) for url in batch.urls])


def test_a_trial_survives_saving_and_loading(tmp_path: Path) -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    visit_all(scheduler, range(3, 16), lambda url: URLS.index(url) % 3 == 0)
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    before = scheduler.trial()
    assert before is not None
    assert before.evidence.costs[0] > 0
    assert loaded.trial() == before
    assert loaded.digest() == scheduler.digest()
    assert loaded.next_batch(70, now=17 * DAY).urls == scheduler.next_batch(70, now=17 * DAY).urls


def test_a_formula_that_takes_over_ends_the_trial() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    scheduler.use("posterior", wait=True)
    assert scheduler.trial() is None
    scheduler.begin_trial("-t", now=3 * DAY)
    scheduler.end_trial()
    scheduler.end_trial()
    assert scheduler.trial() is None
    codes = set(scheduler.next_batch(100, now=4 * DAY).reasons)
    assert ReasonCode.IN_BATCH_TRIAL not in codes


def test_after_the_last_round_the_champion_ranks_all() -> None:
    scheduler = crawled()
    scheduler.begin_trial("-t", now=3 * DAY)
    end = (3 + ROUNDS * ROUND_CYCLES) * DAY
    assert not scheduler.core.trial.is_over(end - 1.0)
    assert scheduler.core.trial.is_over(end)
    assert ReasonCode.IN_BATCH_TRIAL in scheduler.next_batch(100, now=end - 1.0, lease=1).reasons
    assert ReasonCode.IN_BATCH_TRIAL not in scheduler.next_batch(100, now=end, lease=1).reasons


def count_slowly(corpus: dict[str, Any], hashes: list[int], at: list[float], found: list[bool]) -> list[list[float]]:
    """Count visits as `count_visit` does, with Python's integers."""
    costs, finds = [0.0] * CELLS, [0.0] * CELLS
    for url_hash, at_s, changed in zip(hashes, at, found, strict=True):
        passed = (at_s - corpus["start_s"]) / corpus["round_s"]
        if not corpus["bar"] or at_s < corpus["start_s"] or passed >= ROUNDS or passed % 1.0 < SETTLING:
            continue
        number = int(passed)
        salted = int(mix(np.uint64(url_hash ^ int(mix(np.uint64(corpus["salt"] ^ (number + 1)))))))
        arm = 0 if salted < corpus["bar"] else 1
        cell = (number * ARMS + arm) * BLOCKS + salted % BLOCKS
        costs[cell] += 2.0
        finds[cell] += 0.5 * changed
    return [costs, finds]


words = st.integers(0, 2**64 - 1)


@given(
    words,
    st.sampled_from([0, 1, 2**61, 2**63, 2**64 - 1]),
    st.lists(st.tuples(words, st.floats(-1e3, 1e5), st.booleans()), max_size=30),
)
def test_counts_equal_slow_counts(salt: int, bar: int, visits: list[tuple[int, float, bool]]) -> None:
    corpus, page = np.zeros(1, CORPUS), np.zeros(1, PAGE)
    page["cost"], page["importance"] = 2.0, 0.5
    start_counting(corpus, salt=salt, bar=bar, start_s=100.0, round_s=900.0)
    for url_hash, at_s, found in visits:
        page["url_hash"] = url_hash
        count_visit(corpus[0], page[0], at_s, found)
    given = {"salt": salt, "bar": bar, "start_s": 100.0, "round_s": 900.0}
    columns = ([visit[i] for visit in visits] for i in range(3))
    expected: Any = count_slowly(given, *columns)  # type: ignore[arg-type]
    assert [corpus["trial_costs"][0].tolist(), corpus["trial_finds"][0].tolist()] == expected
