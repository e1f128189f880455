"""Many pages are scored and collected by one kernel, few by several: the same ranking to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import Outcome, Politeness, Rule, Scheduler
from streamsched.formula import Formula
from streamsched.formula.objectives import OBJECTIVES
from streamsched.politeness.limits import Limits
from streamsched.ranking import full_scan
from streamsched.ranking.full_scan import FullScan, Query
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import WEEK_HOURS
from tests.support.cases import examples
from tests.support.outcome_streams import DAY

NOW = 1_000 * DAY
PAGES = 1_400  # more than two times what runs at once

formulas = st.sampled_from(
    [
        *OBJECTIVES.values(),
        *(
            "t * X",
            "posterior",
            "due",
            "t",
            "X",
            "7",
            "tau * rhythm / cost",
            "significance * due - X",
            "log(CG) - SAD * GAD + AAD",
        ),
        *("pow(importance - 1, 0.5) * NAD", "exp(t * 1e300) * 1e300 - pow(t * 1e300, 80)"),
    ]
)
ages = st.sampled_from([0.0, 1e-9, 1.0, 3600.0, 0.7 * DAY, 7 * DAY, 1e9, -1.0, -1e6, -DAY])


def crawled() -> tuple[ShardArrays, Limits]:
    """Pages of all kinds: failed, gone, denied, leased, asked for, new, and of hosts that rest or are full."""
    rng = np.random.default_rng(1)
    politeness = Politeness(in_flight=200, min_revisit="12h", backoff="1d", per_batch=70)
    scheduler = Scheduler(politeness=politeness, new_share=0.0)
    urls = [f"https://h{int(host)}.example/{i}" for i, host in enumerate(rng.integers(0, 9, PAGES))]
    for days in (12.0, 3.0):
        at = NOW - DAY * days * rng.uniform(0.3, 1.0, PAGES)
        status, changed = rng.choice([200, 200, 200, 404, 500], PAGES), rng.random(PAGES) < 0.5
        scheduler.observe(
            [
                Outcome(urls[i], at[i], status=int(status[i]), changed=bool(changed[i]))
                for i in range(PAGES)
                if i > 200 and rng.random() < 0.7
            ]
        )
    scheduler.discover(urls, now=NOW)
    scheduler.set_rule("h0.example/*1", Rule(never=True))
    scheduler.set_rule("h1.example/*7", Rule(max_revisit="8d"))
    scheduler.block("h2.example", NOW + DAY / 2)
    scheduler.next_batch(40, now=NOW - 60.0, lease="1h")
    scheduler.next_batch(20, now=NOW - 60.0, lease="1m")
    scheduler.ask(urls[300:303], now=NOW)
    assert len(scheduler) == PAGES
    return scheduler.core.pages.arrays, scheduler.core.politeness_policy.limits


def scatter(shard: ShardArrays, rng: np.random.Generator, age: float) -> None:
    """Write anything that scores read: histories, surges, profiles, schedules, UTC offsets."""
    pages, links = shard.pages.records[:PAGES], shard.seasonality.links[:PAGES]
    pages["last_visit_s"] = NOW - rng.choice([age, age * rng.random(), 5 * DAY, 1e12], PAGES)
    pages["own_shape"], pages["own_exposure"] = rng.choice([0.0, 0.4, 1e6], PAGES), rng.choice([0.0, 3.0, 1e15], PAGES)
    pages["importance"], pages["cost"] = rng.choice([0.0, 0.5, 1.0, 2.0], PAGES), rng.choice([0.5, 1.0, 3.4e38], PAGES)
    groups = shard.groups.records[: int(shard.corpus["groups"][0])]
    for window in ("open", "kept"):
        groups[f"{window}_s"] = NOW - rng.choice([-DAY, 0.0, age, 4 * DAY, np.inf], groups.size)
        groups[f"{window}_share"] = rng.choice([0.0, 1 / 32, 0.7, 1.0], groups.size)
    groups["hazard"] = rng.choice([0.0, 0.01, 0.9], groups.size)
    profiles, schedules = shard.seasonality.profiles, shard.seasonality.schedules
    weights = rng.integers(1, 90_000, (2, 2, WEEK_HOURS))
    profiles["cumulative"][:2] = np.pad(np.cumsum(weights, axis=2), ((0, 0), (0, 0), (1, 0))).reshape(2, -1)
    profiles["odds"][:2] = rng.random((2, 2))
    for name in ("sets", "hours", "parts"):
        schedules[name][1:4] = rng.integers(0, 60, schedules[name][1:4].shape)
    schedules["log_odds"][1:4], schedules["hourly_log_odds"][1:4] = rng.normal(0.0, 4.0, (2, 3))
    links["profile"], links["version"] = rng.integers(0, 2, (2, PAGES))
    links["schedule"] = rng.choice([0, 0, 0, 0, 1, 2, 3], PAGES)
    links["significance"] = rng.integers(0, 1 << 16, PAGES)
    links["quarters"] = rng.choice([-48, 0, 0, 22, 23], PAGES)


@pytest.fixture(scope="module")
def corpus() -> tuple[ShardArrays, Limits]:
    return crawled()


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"BLOCK": 600, "_SAMPLE_ROWS": 3, "_SAMPLE_BLOCKS": 20}.items():
            patch.setattr(full_scan, name, value)
        yield


@examples(ordinary=9, whole=30)
@given(
    formulas,
    st.integers(0, 2**32),
    ages,
    st.sampled_from([0, 1, 9, 100, 300, 900, 10**9]),
    st.sampled_from([0.0, -3600.0, DAY]),
    st.sampled_from([60.0, math.inf]),
    st.booleans(),
    st.booleans(),
)
def test_one_kernel_ranks_as_several(  # noqa: PLR0917  one parameter for each choice
    corpus: tuple[ShardArrays, Limits],
    text: str,
    seed: int,
    age: float,
    k: int,
    later: float,
    lease_s: float,
    only_new: bool,
    overdue: bool,
) -> None:
    shard, limits = corpus
    scatter(shard, np.random.default_rng(seed), age)
    if overdue:
        rules = limits.rules.copy()
        rules["max_revisit_s"][0] = 6 * DAY
        limits = limits._replace(rules=rules)
    query = Query(k, NOW + later, DAY, seed, limits, lease_s, only_new=only_new)
    found = []
    for many_rows, threads in ((PAGES + 1, 1), (1, 1), (1, 2)):
        singles = np.empty(PAGES, np.float32)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(full_scan, "_MANY_ROWS", many_rows)
            ranked = FullScan(Formula.parse(text).compile(), threads).rank(shard, query, singles if k else None)
        found.append(
            (ranked.rows.tolist(), ranked.scores.tobytes(), ranked.tiers.tobytes(), singles.tobytes() * (k > 0))
        )
    assert found[1:] == found[:1] * 2
