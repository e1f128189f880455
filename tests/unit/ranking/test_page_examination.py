"""Examined pages beside a slow twin: those that reach the line are pooled, and what is certified of others is true."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamsched import Outcome, Politeness, Rule, Scheduler
from streamsched.formula import Formula
from streamsched.numerics.arrays import Ints
from streamsched.politeness.eligibility import are_leased, read_waits
from streamsched.politeness.priority import read_overdue
from streamsched.ranking.certificates import BELOW_FLOOR, POOLED, CertificateTable, summarise
from streamsched.ranking.full_scan import FullScan
from streamsched.ranking.invariants import find_false_certificates
from streamsched.ranking.line_control import Line, levels_of
from streamsched.ranking.page_examination import (
    Examiners,
    Found,
    RankingArrays,
)
from streamsched.records.page_schema import VISITED
from tests.support.outcome_streams import DAY

NOW = 100 * DAY
PAGES = 600  # more than lanes
FORMULAS = ("posterior", "t * (3 - t) * importance", "importance", "pow(1e300, 2) * (importance - 1)", "NAD - t")


def crawled(seed: int) -> Scheduler:
    """Pages of all kinds: failed, gone, leased, overdue, never to be visited, of hosts that rest or are full."""
    rng = np.random.default_rng(seed)
    politeness = Politeness(in_flight=5, min_revisit="12h", max_revisit="9d", backoff="1d", per_batch=3)
    scheduler = Scheduler(politeness=politeness, new_share=0.0, seed=seed)
    urls = [f"https://h{int(host)}.example/{i}" for i, host in enumerate(rng.integers(0, 6, PAGES))]
    scheduler.discover(urls[:100], now=NOW - DAY)
    for days in (12.0, 3.0, 1.0):
        scheduler.observe(
            [
                Outcome(
                    url,
                    NOW - DAY * days * float(rng.uniform(0.3, 1.0)),
                    status=int(rng.choice([200, 200, 200, 404, 500])),
                    changed=bool(rng.random() < 0.5),
                    importance=float(rng.integers(0, 3)),
                )
                for url in urls[100:]
                if rng.random() < 0.7
            ]
        )
    scheduler.discover(urls, now=NOW)
    scheduler.set_rule("h0.example/*1", Rule(never=True))
    scheduler.block("h1.example", NOW + DAY / 2)
    scheduler.next_batch(12, now=NOW - 60.0, lease="1h")
    scheduler.next_batch(2, now=NOW - 60.0, lease="1m")
    scheduler.ask(urls[200:203], now=NOW)
    return scheduler


class Examined:
    """A ranking's parts, without what steers them."""

    def __init__(self, formula: str, *, only_new: bool = False, floor: float | None = None) -> None:
        self.scheduler = crawled(3)
        self.shard = self.scheduler.core.pages.arrays
        self.limits = self.scheduler.core.politeness_policy.limits
        self.table = CertificateTable(VISITED if only_new else 0, 0)
        self.table.cover(PAGES)
        self.table.keep_time(NOW, 60.0, DAY)
        self.only_new = only_new
        groups = int(self.shard.corpus["groups"][0])
        self.floors = np.full(groups if floor is not None else 0, floor or 0.0, np.float32)
        self.examiners = Examiners(Formula.parse(formula), 2)
        self.scan = FullScan(Formula.parse(formula).compile(), 1)

    def line(self, level: float, now: float = NOW) -> Line:
        return Line(level, 0.0, 0.0, 5 * DAY, now, now - 60.0, 60.0, DAY, NOW, np.uint64(1), self.limits)

    def run(self, rows: Ints, line: Line, *, scored: bool = False) -> tuple[int, Found]:
        arrays = self.table.arrays
        ranking = RankingArrays(self.shard, arrays, self.floors, self.examiners.scorer)
        done = self.examiners.run(ranking, rows, line, scored=scored)
        summarise(arrays, rows)
        return done

    def faults(self, pool: Ints, line: Line) -> list[str]:
        return find_false_certificates(self.shard, self.table.arrays, self.floors, pool, self.scan, line)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("level", [-math.inf, 0.2, 1.0, math.inf])
@pytest.mark.parametrize("only_new", [False, True])
def test_pages_are_pooled_or_certified(formula: str, level: float, *, only_new: bool) -> None:
    parts, rows = Examined(formula, only_new=only_new), np.arange(PAGES)
    line = parts.line(level)
    _, found = parts.run(rows, line)
    assert parts.faults(found.rows, line) == []
    waits = read_waits(parts.shard, rows, parts.limits)
    eligible = (waits.ready_at <= NOW) & ~are_leased(parts.shard, rows, NOW)
    if only_new:
        eligible &= (parts.shard.pages.records["flags"][rows] & VISITED) == 0
    scores = parts.scan.score(parts.shard, NOW, DAY, rows)
    levels = levels_of(scores, read_overdue(parts.shard, rows, parts.limits, NOW), line)
    pooled = np.zeros(PAGES, np.bool_)
    pooled[found.rows] = True
    assert pooled[eligible & (levels >= level)].all()
    assert eligible[pooled].all()
    np.testing.assert_array_equal(found.scores, scores[found.rows])
    np.testing.assert_array_equal(found.levels, levels[found.rows])


@pytest.mark.parametrize("formula", FORMULAS)
def test_scores_left_in_bounds_are_replaced_by_certificates(formula: str) -> None:
    parts, rows = Examined(formula), np.arange(PAGES)
    line = parts.line(0.5)
    with np.errstate(over="ignore"):
        parts.table.arrays.bound[:] = parts.scan.score(parts.shard, NOW, DAY, rows)
    left, _ = parts.run(rows, line, scored=True)
    assert left == np.count_nonzero(parts.table.arrays.tick == 0)
    assert parts.faults(np.empty(0, np.int64), line) == []


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("only_new", [False, True])
@pytest.mark.parametrize("level", [-math.inf, 0.5, math.inf])
def test_all_pages_are_certified_where_they_are(formula: str, level: float, *, only_new: bool) -> None:
    """Pages are left without certificate only if they do not wait."""
    parts, rows = Examined(formula, only_new=only_new), np.arange(PAGES)
    line, arrays = parts.line(level), parts.table.arrays
    with np.errstate(over="ignore"):
        arrays.bound[:] = parts.scan.score(parts.shard, NOW, DAY, rows)
    arrays.tick[:], arrays.peak[:] = POOLED, 0.0  # of before
    ranking = RankingArrays(parts.shard, arrays, parts.floors, parts.examiners.scorer)
    parts.examiners.certify(ranking, PAGES, line)
    assert parts.faults(np.empty(0, np.int64), line) == []
    left = np.flatnonzero(arrays.tick == 0)
    assert (read_waits(parts.shard, left, parts.limits).ready_at <= NOW).all()
    if only_new:
        assert not (parts.shard.pages.records["flags"][left] & VISITED).any()
    assert (arrays.bound[~np.isnan(arrays.bound)] < level).all()


def test_certificates_of_changed_pages_are_removed() -> None:
    parts, rows = Examined("posterior"), np.arange(PAGES)
    line = parts.line(0.6)
    _, found = parts.run(rows, line)
    before = parts.table.arrays.tick.copy()
    parts.shard.pages.records["importance"][:PAGES:2] = 1e6
    parts.table.remove(rows[::2])
    ticks = parts.table.arrays.tick
    np.testing.assert_array_equal(ticks[::2], np.where(before[::2] == POOLED, POOLED, 0))
    np.testing.assert_array_equal(ticks[1::2], before[1::2])
    assert parts.faults(found.rows, line) == []


def test_floors_keep_pages_out_of_the_pool() -> None:
    parts, rows = Examined("posterior", floor=0.9), np.arange(PAGES)
    line = parts.line(0.05)
    _, found = parts.run(rows, line)
    ticks = parts.table.arrays.tick.astype(np.int64)
    assert np.count_nonzero(ticks & BELOW_FLOOR) > 0
    assert found.rows.size < Examined("posterior").run(rows, line)[1].rows.size
    assert parts.faults(found.rows, line) == []


@pytest.mark.parametrize(
    ("array", "value", "fault"),
    [
        ("bound", -1.0, "certified"),
        ("peak", -1.0, "chunks"),
        ("soonest", POOLED, "chunks"),
        ("tick", POOLED, "the pool"),
        ("tick", BELOW_FLOOR | 9, "kept out of the pool"),
    ],
)
def test_faults_are_found(array: str, value: float, fault: str) -> None:
    parts, rows = Examined("posterior"), np.arange(PAGES)
    line = parts.line(2.0)
    _, found = parts.run(rows, line)
    assert parts.faults(found.rows, line) == []
    certified = np.flatnonzero(~np.isnan(parts.table.arrays.bound))
    getattr(parts.table.arrays, array)[certified[0] if array in ("bound", "tick") else 0] = value
    assert any(fault in one for one in parts.faults(found.rows, line))
