"""Differences of policies and calibration against a second look at every cycle and every visit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.replay import Trace
from streamsched.replay.confidence_intervals import BATCH_DAYS, cut_batches
from streamsched.replay.replay_results import COMPARED, MeasuredCycles, summarise
from streamsched.replay.simulation.metrics import Calibration, Forecast
from streamsched.scheduler.monitoring import BIN_EDGES, BINS, Reliability
from tests.reference import replay

WEEK = 7 * 86_400.0
NONE = np.zeros(0, np.int64)

shares = st.integers(0, 8).map(lambda eighths: eighths / 8)
probabilities = st.one_of(st.floats(0.0, 1.0), st.sampled_from(BIN_EDGES.tolist()))
forecasts = st.lists(st.tuples(probabilities, st.booleans(), st.booleans()), max_size=60)


@st.composite
def cycle(draw: st.DrawFn) -> tuple[int, int, float | None, float, list[float]]:
    visits = draw(st.integers(1, 6))
    hits = draw(st.integers(0, visits))
    gain = draw(shares) if hits else draw(st.none() | shares)
    return visits, hits, gain, draw(shares), draw(st.lists(st.integers(1, 9).map(float), max_size=3))


@st.composite
def contests(draw: st.DrawFn) -> tuple[Sequence[replay.Run], Sequence[replay.Run]]:
    """Runs of two policies with as many seeds and weeks each."""
    weeks, seeds = draw(st.integers(1, 34)), draw(st.integers(1, 3))
    run = st.lists(cycle(), min_size=weeks, max_size=weeks)
    runs = st.lists(run, min_size=seeds, max_size=seeds)
    return draw(runs), draw(runs)


def to_trace(run: replay.Run) -> Trace:
    counted = np.array([gain is not None for _, _, gain, _, _ in run])
    return Trace(
        counted,
        np.array([hits / visits for visits, hits, *_ in run]),
        np.array([gain or 0.0 for _, _, gain, _, _ in run]),
        np.array([fresh for _, _, _, fresh, _ in run]),
        np.array([visits for visits, *_ in run]),
        np.array([delay for *_, delays in run for delay in delays]),
        np.repeat(np.arange(len(run)), [len(delays) for *_, delays in run]),
        NONE,
        0,
        0,
        NONE,
    )


@given(contests())
def test_paired_differences_are_those_of_the_cycles_left_when_each_batch_is_left_out(
    contest: tuple[Sequence[replay.Run], Sequence[replay.Run]],
) -> None:
    runs = {name: [to_trace(run) for run in seeds] for name, seeds in zip(("ours", "theirs"), contest, strict=True)}
    counted = np.logical_and.reduce([trace.counted for traces in runs.values() for trace in traces])
    edges = cut_batches(counted.size, WEEK)
    formulas = dict.fromkeys(runs, None)
    ours, theirs = summarise(runs, formulas, "theirs", MeasuredCycles(counted, edges))
    assert theirs.against is None
    assert ours.against is not None
    for metric in set(COMPARED) - {"delay_p95"}:
        value, half_width = replay.compare_runs(metric, *contest, edges.tolist())
        found = ours.against[metric].relative
        assert are_close(found.value, value), metric
        assert are_close(found.half_width, half_width), metric


@given(st.integers(1, 3000), st.sampled_from([1 / 24, 0.5, 1, 3, 7, 28, 90]))
def test_batches_are_as_many_as_fit_and_nearly_equal(cycles: int, days: float) -> None:
    lengths = np.diff(cut_batches(cycles, days * 86_400.0))
    assert lengths.sum() == cycles
    assert lengths.max() - lengths.min() <= 1
    assert lengths.size == 1 or lengths.min() * days >= BATCH_DAYS
    least = -(-BATCH_DAYS // days)
    assert cycles < (lengths.size + 1) * least


@given(forecasts, forecasts)
def test_calibration_is_that_of_a_second_look_at_every_visit(
    first: Sequence[tuple[float, bool, bool]], second: Sequence[tuple[float, bool, bool]]
) -> None:
    found = count(first) + count(second)
    visits = [*first, *second]
    check(found.all_visits, [(p, observed) for p, observed, _ in visits])
    check(found.without_surge, [(p, observed) for p, observed, shown in visits if not shown])
    check(found.with_surge, [(p, observed) for p, observed, shown in visits if shown])


def are_close(found: float | None, expected: float | None) -> bool:
    if found is None or expected is None:
        return found is expected
    return found == pytest.approx(expected, rel=1e-6, abs=1e-6)


def count(visits: Sequence[tuple[float, bool, bool]]) -> Calibration:
    predicted, observed, shown = (np.array([visit[place] for visit in visits]) for place in range(3))
    return Calibration.of(Forecast(predicted, shown.astype(bool)), observed.astype(bool))


def check(found: Reliability, visits: Sequence[tuple[float, bool]]) -> None:
    counts, error = replay.judge_forecasts(visits, BINS)
    assert found.visits.tolist() == counts
    assert found.total == len(visits)
    assert are_close(found.error, error)
    assert found.observed.sum() == sum(observed for _, observed in visits)
    assert found.predicted.sum() == pytest.approx(sum(p for p, _ in visits))
