"""Surge probes: which pages are visited to detect surges, which they replace, and when there are none."""

from __future__ import annotations

import math

import numpy as np

from streamsched import Outcome, Politeness, Scheduler
from streamsched.estimation.surges import SHARES
from streamsched.reasons import Reason, ReasonCode
from streamsched.records.schema import ShardArrays
from streamsched.scheduler.batches.surge_probes import PROBES_PER_GROUP, _find_due
from tests.support.outcome_streams import DAY

QUIET = [f"https://quiet.example/docs/{i}" for i in range(60)]
BUSY = [f"https://busy{i}.example/" for i in range(60)]
FORMULA = "1 - (1 - posterior) * (1 - surge)"


def crawled(**settings: object) -> Scheduler:
    """Sixty pages of one pattern that never changed in 20 days, and sixty that do every fourth, watched for 24."""
    scheduler = Scheduler(**{"formula": FORMULA, "new_share": 0.0, "politeness": Politeness(), **settings})  # type: ignore[arg-type]
    for day in range(25):
        if day < 20:
            scheduler.observe([Outcome(url, day * DAY + 1.0, changed=False) for url in QUIET])
        scheduler.observe([Outcome(url, day * DAY + 1.0, changed=(day + i) % 4 == 3) for i, url in enumerate(BUSY)])
    return scheduler


def quiet_of(urls: list[str]) -> list[str]:
    return [url for url in urls if url in QUIET]


def worth(shard: ShardArrays, group: int, now: float) -> float:
    """The worth of a surge probe of a group, as `surge_probes` defines it."""
    record = shard.groups.records[group]
    suspected = math.fsum(record["open_weights"].tolist())
    corpus = shard.corpus[0]
    pooled = (1.0 + corpus["surge_sum"]) / (100.0 + corpus["group_days"])
    frequency = (100.0 * pooled + record["surge_sum"]) / (100.0 + record["surge_days"])
    since = 1.0 - math.exp(-frequency * max(now - record["open_s"], 0.0) / DAY)
    hit = suspected * record["open_unvisited"] + since * (record["pages"] - 1)
    return float(hit) * math.fsum(SHARES) / len(SHARES) / 5


def test_a_group_without_recent_visits_is_probed() -> None:
    """No page of it would be in the batch for its score; there are no more probes than detect a surge."""
    scheduler = crawled()
    now = 25 * DAY
    assert not quiet_of(scheduler.rank(40, now=now).urls)
    batch = scheduler.rank(40, now=now, surge_probes=True)
    assert len(batch.urls) == 40
    assert len(quiet_of(batch.urls)) == PROBES_PER_GROUP
    assert set(batch.urls) > set(scheduler.rank(35, now=now).urls)
    assert batch.scores.tolist() == sorted(batch.scores.tolist(), reverse=True)
    assert set(scheduler.next_batch(40, now=now).urls) == set(batch.urls)


def test_leased_probes_are_not_followed_by_others() -> None:
    scheduler = crawled()
    first = scheduler.next_batch(40, now=25 * DAY)
    assert len(quiet_of(first.urls)) == PROBES_PER_GROUP
    assert not quiet_of(scheduler.next_batch(20, now=25 * DAY).urls)


def test_what_probes_have_seen_is_not_probed_again() -> None:
    scheduler = crawled()
    now = 25 * DAY
    urls = scheduler.next_batch(40, now=now).urls
    scheduler.observe([Outcome(url, now, changed=url in BUSY) for url in urls])
    assert not quiet_of(scheduler.next_batch(20, now=now + 60.0).urls)


def test_probes_that_find_a_surge_raise_the_others() -> None:
    scheduler = crawled()
    now = 25 * DAY
    urls = scheduler.next_batch(40, now=now).urls
    scheduler.observe([Outcome(url, now, changed=True) for url in urls])
    assert len(quiet_of(scheduler.next_batch(60, now=now + DAY / 4).urls)) == len(QUIET) - PROBES_PER_GROUP


def test_no_probes_if_formula_or_settings_ignore_surges() -> None:
    for scheduler in (crawled(formula="posterior"), crawled(surges=False)):
        batch = scheduler.rank(40, now=25 * DAY, surge_probes=True)
        assert batch.urls == scheduler.rank(40, now=25 * DAY).urls


def test_no_probes_of_groups_just_visited_nor_in_place_of_better_pages() -> None:
    scheduler = crawled()
    scheduler.observe([Outcome(url, 25 * DAY, changed=False) for url in QUIET[:5]])
    assert not quiet_of(scheduler.rank(40, now=25 * DAY + 60.0, surge_probes=True).urls)
    assert not quiet_of(crawled().rank(1, now=25 * DAY, surge_probes=True).urls)


def test_pages_asked_for_and_pages_never_visited_keep_their_places() -> None:
    scheduler = crawled(new_share=0.5)
    new = [f"https://new{i}.example/" for i in range(30)]
    scheduler.discover(new, now=19 * DAY)
    scheduler.ask(BUSY[:10], now=25 * DAY)
    urls = scheduler.next_batch(20, now=25 * DAY).urls
    assert set(BUSY[:10]) < set(urls)
    assert not quiet_of(urls)


def test_explain_names_probes() -> None:
    scheduler = crawled()
    now = 25 * DAY
    result = {url: scheduler.explain(url, now=now, k=40) for url in QUIET + BUSY}
    best = set(scheduler.rank(40, now=now).urls)
    batch = scheduler.next_batch(40, now=now)
    assert {url for url, one in result.items() if one.in_batch} == set(batch.urls)
    for url in quiet_of(batch.urls):
        assert result[url].reasons[0].code == ReasonCode.IN_BATCH_SURGE_PROBE
        assert batch.reasons[batch.urls.index(url)] == ReasonCode.IN_BATCH_SURGE_PROBE
    pushed = best - set(batch.urls)
    assert len(pushed) == PROBES_PER_GROUP
    for url in pushed:
        displaced = Reason(ReasonCode.DISPLACED, {"k": 40, "merit": "score", "surge_probes": PROBES_PER_GROUP})
        assert result[url].reasons[0] == displaced


def test_groups_are_due_by_what_is_expected_of_them() -> None:
    scheduler = crawled()
    urls = QUIET[:7]
    scheduler.observe([Outcome(url, 21 * DAY, changed=i < 2) for i, url in enumerate(urls)])
    shard = scheduler.core.pages.arrays
    group = int(shard.pages.records["group"][0])
    for days in (21.0, 21.5, 25.0, 400.0):
        expected = worth(shard, group, days * DAY)
        query = scheduler.core.batch_builder.query(40, days * DAY, 600.0)
        due = _find_due(shard, query, expected * (1 - 1e-6), 20)
        assert due.groups.tolist() == [group]
        assert np.allclose(due.worth, expected, rtol=1e-6)
        assert _find_due(shard, query, expected * (1 + 1e-5), 20).groups.size == 0
