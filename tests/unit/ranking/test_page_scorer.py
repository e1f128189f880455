"""A formula over pages anywhere in the table: its scores are the program's, and no score exceeds its bound in time.

The kernels compile for half a minute by themselves. An ordinary run has them as parts of the ranking: test_live_ranking
compares it with the full sort, and test_formula_bounds the bounds of formulas with their values.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched import OutcomeBatch, Scheduler
from streamsched.formula import Formula
from streamsched.numerics.arrays import Floats, Ints
from streamsched.numerics.jit import bare_kernel
from streamsched.ranking.full_scan import FullScan
from streamsched.ranking.page_scorer import (
    LANES,
    PageScorer,
    bound_lanes,
    gather_lane,
    make_page_scorer,
    move_lane,
    score_lanes,
)
from streamsched.records.schema import ShardArrays
from tests.property.test_live_ranking import formulas
from tests.support.cases import examples
from tests.support.outcome_streams import DAY

pytestmark = pytest.mark.soak

PAGES = 40


@pytest.fixture(name="scheduler", scope="module")
def pages_with_and_without_a_past() -> Scheduler:
    scheduler = Scheduler()
    urls = [f"https://a.example/{i}" for i in range(PAGES)]
    for day in range(6):
        changed = (np.arange(PAGES) * (day + 1)) % 5 < 2
        weights = np.arange(PAGES, dtype=np.float64) % 4
        scheduler.observe(
            OutcomeBatch(urls[day:], np.full(PAGES - day, day * DAY), changed=changed[day:], importance=weights[day:])
        )
    scheduler.discover([f"https://b.example/{i}" for i in range(5)], now=3 * DAY)
    return scheduler


@bare_kernel
def gather(scorer: PageScorer, shard: ShardArrays, rows: Ints) -> None:
    for i in range(rows.size):
        gather_lane(scorer, shard, i, rows[i])


@bare_kernel
def move(scorer: PageScorer, lane: int, to: int) -> None:
    move_lane(scorer, lane, to)


def gauged(scheduler: Scheduler, formula: Formula, rows: Ints, now: float, ends: Floats) -> tuple[Floats, Floats]:
    scorer, shard = make_page_scorer(formula), scheduler.core.pages.arrays
    scorer.scores[:] = scorer.bounds[:] = 7.0
    gather(scorer, shard, rows)
    score_lanes(scorer, shard, rows.size, now, DAY)
    scorer.ends[: rows.size] = ends
    bound_lanes(scorer, shard, rows.size, now, DAY)
    assert np.all(scorer.scores[rows.size :] == 7.0)
    assert np.all(scorer.bounds[rows.size :] == 7.0)
    return scorer.scores[: rows.size], scorer.bounds[: rows.size]


waits = st.sampled_from([1e-3, 60.0, 3_600.0, DAY, 30 * DAY, 3_650 * DAY])


@examples(ordinary=6, whole=20)
@given(formulas, st.lists(st.integers(0, PAGES + 4), min_size=1, max_size=LANES), st.floats(0.0, 20.0), waits)
def test_scores_are_the_programs_and_bounds_are_not_exceeded(
    scheduler: Scheduler, formula: Formula, numbers: list[int], days: float, wait: float
) -> None:
    rows, now = np.array(numbers), days * DAY
    ends: Floats = now + wait * (np.arange(rows.size, dtype=np.float64) % 3 + 1.0)
    scores, bounds = gauged(scheduler, formula, rows, now, ends)
    scan = FullScan(formula.compile(), 1)
    shard = scheduler.core.pages.arrays
    assert scores.tobytes() == scan.score(shard, now, DAY, rows).tobytes()
    for part in (0.0, 1e-6, 0.3, 0.7, 1.0):
        for lane in range(rows.size):
            time_s = now + part * (ends[lane] - now)
            score = scan.score(shard, float(time_s), DAY, rows[lane : lane + 1])[0]
            assert math.isnan(score) or score <= bounds[lane]


@pytest.mark.parametrize("formula", ["importance", "X + n", "posterior", "t * (9 - t)", "SAD * 2 - t"])
def test_bounds_are_close_where_the_end_is_near(scheduler: Scheduler, formula: str) -> None:
    rows = np.arange(PAGES)
    scores, bounds = gauged(scheduler, Formula.parse(formula), rows, 9 * DAY, np.full(PAGES, 9 * DAY + 1e-3))
    np.testing.assert_allclose(bounds, scores, rtol=1e-5, atol=1e-5)


def test_nothing_but_nan_is_bounded_by_less_than_all(scheduler: Scheduler) -> None:
    formula = Formula.parse("pow(1e300, 2) * (t + 1) - pow(1e300, 2) * (t + 1)")
    scores, bounds = gauged(scheduler, formula, np.arange(3), 9 * DAY, np.full(3, 10 * DAY))
    assert np.isnan(scores).all()
    assert not np.isnan(bounds).any()


def test_lanes_move_with_all_that_scores_read(scheduler: Scheduler) -> None:
    scorer, shard = make_page_scorer(Formula.parse("importance + SAD + n")), scheduler.core.pages.arrays
    gather(scorer, shard, np.array([1, 2, 3]))
    score_lanes(scorer, shard, 3, 0.0, DAY)
    before = scorer.scores[:3].copy()
    move(scorer, 2, 0)
    assert scorer.rows[:3].tolist() == [3, 2, 3]
    assert scorer.scores[0] == before[2]
    score_lanes(scorer, shard, 2, 0.0, DAY)
    assert scorer.scores[:2].tolist() == before[[2, 1]].tolist()
    assert scorer.traced
    assert not make_page_scorer(Formula.parse("importance * posterior")).traced
