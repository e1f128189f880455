"""The published estimators: corner cases of their definitions, shapes, and a million visits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamsched.estimation import published_estimators
from streamsched.estimation.published_estimators import VisitCounts
from streamsched.numerics.arrays import Floats

VISITS = 1_000_000

# Each estimator with the name of its second statistic; the first is n but for the naive interval.
ALL: list[tuple[Callable[..., Floats], str, str]] = [
    (published_estimators.cg, "n", "X"),
    (published_estimators.nad, "n", "X"),
    (published_estimators.sad, "n", "history"),
    (published_estimators.aad, "n", "weighted_sum"),
    (published_estimators.gad, "n", "history"),
    (published_estimators.naive_interval, "total_time", "X"),
    (published_estimators.modified_interval, "n", "X"),
]
each = pytest.mark.parametrize(("estimate", "first", "second"), ALL, ids=[row[0].__name__ for row in ALL])
every = pytest.mark.parametrize("estimate", [row[0] for row in ALL])


def columns() -> dict[str, np.ndarray[Any, Any]]:
    """Return the statistics of pages after 0, 1, 2, ... 99 visits of one history, as strided fields of records."""
    fields = [("n", "<u4"), ("X", "<u4"), ("history", "<u8"), ("weighted_sum", "<f8"), ("total_time", "<f8")]
    records = np.zeros(100, np.dtype([*fields, ("padding", "V24")]))
    counts = VisitCounts()
    draw = np.random.default_rng(2)
    for row in range(1, 100):
        counts.observe(bool(draw.random() < 0.4), 0.5 + draw.random())
        for field, _ in fields:
            records[row][field] = getattr(counts, field)
    return {field: records[field] for field, _ in fields}


@every
def test_no_visits_give_zero(estimate: Callable[..., Floats]) -> None:
    assert estimate(0, 0) == 0.0
    assert not np.signbit(estimate(0, 0)).any()


@every
def test_one_visit_without_a_change(estimate: Callable[..., Floats]) -> None:
    assert estimate(1, 0) == (math.inf if "interval" in estimate.__name__ else 0.0)
    assert not np.signbit(estimate(1, 0)).any()


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (published_estimators.cg, math.log(3.0)),
        (published_estimators.nad, 1.0),
        (published_estimators.sad, 1.0),
        (published_estimators.aad, 1.0),
        (published_estimators.gad, 1.0),
        (published_estimators.naive_interval, 1.0),
        (published_estimators.modified_interval, 1.0 / math.log(3.0)),
    ],
)
def test_one_visit_with_a_change(estimate: Callable[..., Floats], expected: float) -> None:
    assert float(estimate(1, 1)) == pytest.approx(expected, rel=1e-15)


@each
def test_columns_scalars_and_out_agree(estimate: Callable[..., Floats], first: str, second: str) -> None:
    table = columns()
    found = estimate(table[first], table[second])
    assert found.dtype == np.float64
    assert found.shape == (100,)
    out = np.full(200, np.nan)[::2]
    assert estimate(table[first], table[second], out) is out
    np.testing.assert_array_equal(out, found)
    assert [float(estimate(*pair)) for pair in zip(table[first], table[second], strict=True)] == found.tolist()


@each
def test_statistics_broadcast(estimate: Callable[..., Floats], first: str, second: str) -> None:
    table = columns()
    rows, across = table[first][60:63, None], table[second][10:14]
    assert estimate(rows, across).shape == (3, 4)
    assert estimate(rows, across)[2, 1] == estimate(table[first][62], table[second][11])


@pytest.mark.parametrize("rate", [0.0, 1e-4, 0.5, 1.0])
def test_million_visits_are_numerically_sound(rate: float) -> None:
    flags = np.random.default_rng(3).random(VISITS) < rate
    counts = VisitCounts()
    for changed in flags.tolist():
        counts.observe(changed, 1.0)
    n, X = VISITS, int(flags.sum())
    share = X / n
    order = np.arange(1, n + 1)
    newest_first = flags[::-1][:1100].astype(float)
    assert counts.weighted_sum == (order * flags).sum()
    assert float(published_estimators.nad(counts.n, counts.X)) == share
    assert float(published_estimators.sad(counts.n, counts.history)) == flags[-1]
    expected_aad = 2.0 * (order / n * flags).sum() / (n + 1)
    assert float(published_estimators.aad(counts.n, counts.weighted_sum)) == pytest.approx(expected_aad, rel=1e-12)
    expected_gad = (newest_first * 0.5 ** np.arange(1100)).sum() / 2.0
    assert float(published_estimators.gad(counts.n, counts.history)) == pytest.approx(
        expected_gad, rel=1e-15, abs=2.0**-63
    )
    expected_cg = math.log(n + 0.5) - math.log(n - X + 0.5)
    assert float(published_estimators.cg(counts.n, counts.X)) == pytest.approx(expected_cg, rel=1e-9)
    assert float(published_estimators.naive_interval(counts.total_time, counts.X)) == (n / X if X else math.inf)
    assert float(published_estimators.modified_interval(counts.n, counts.X)) == (
        1.0 / published_estimators.cg(n, X) if X else math.inf
    )


def test_cg_is_exact_for_a_rare_change() -> None:
    assert float(published_estimators.cg(4_000_000_000, 1)) == pytest.approx(1.0 / 3_999_999_999.5, rel=1e-9)


def test_gad_keeps_the_oldest_of_64_flags() -> None:
    assert float(published_estimators.gad(64, 1 << 63)) == pytest.approx(2.0**-63 / (2.0 - 2.0**-63), rel=1e-15)
    assert float(published_estimators.gad(2**32 - 1, 2**64 - 1)) == 1.0


def test_modified_interval_corrects_the_naive_one_downwards() -> None:
    n, X = 100, np.arange(1, 101)
    assert np.all(published_estimators.modified_interval(n, X) < published_estimators.naive_interval(float(n), X))


def test_probability_of_a_change() -> None:
    assert float(published_estimators.change_probability(1e-9, 1e-9)) == pytest.approx(1e-18, rel=1e-15)
    assert published_estimators.change_probability([0.0, 1e9, 1.0], [1.0, 1e9, -5.0]).tolist() == [0.0, 1.0, 0.0]
    elapsed = np.array([1.0, 2.0])
    assert published_estimators.change_probability(0.5, elapsed, elapsed) is elapsed
    assert elapsed == pytest.approx([1.0 - math.exp(-0.5), 1.0 - math.exp(-1.0)])
