"""MirrorSync's experiments: their settings, curves, what is compared with the optimum, the report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from streamsched.replay.optimisers import SyncExperiments, SyncPlan, report_mirrorsync, run_mirrorsync
from streamsched.replay.optimisers.mirrorsync import AlgorithmRuns, CostRuns
from streamsched.replay.reporting.report import to_json
from tests.support.reports import find_tables

SMALL = SyncPlan(runs=3, arms=12, rounds=10)


@pytest.fixture(scope="module")
def result() -> SyncExperiments:
    return run_mirrorsync(SMALL)


def made(final: float) -> SyncExperiments:
    """An experiment whose runs begin at 2, are at 1.4 after a round and end at `final`; the least cost is 1."""
    costs = np.array([[2.0, 1.4, final], [2.0, 1.4, final]])
    algorithms = tuple(AlgorithmRuns(name, 1.0, 40.0, np.arange(3.0), costs) for name in ("MirrorSync", "AsyncPSGD"))
    return SyncExperiments(SMALL, (CostRuns("1", "SublinPoly", np.ones(2), algorithms),))


def test_settings_are_the_papers(result: SyncExperiments) -> None:
    found = [
        (one.number, one.costs, runs.name, runs.learning_rate, runs.cycle)
        for one in result.experiments
        for runs in one.algorithms
    ]
    assert found == [
        ("1", "SublinPoly", "MirrorSync", 2.7, 40.0),
        ("1", "SublinPoly", "AsyncMirrorSync", 1.6, 20.0),
        ("1a", "BinaryPoisson", "MirrorSync", 5.0, 40.0),
        ("1a", "BinaryPoisson", "AsyncMirrorSync", 1.3, 8.0),
        ("1a", "BinaryPoisson", "MirrorSync, fitted", 5.0, 40.0),
        ("2", "SublinPoly", "AsyncPSGD", 0.08, 20.0),
        ("2", "SublinPoly", "AsyncMirrorSync", 1.6, 20.0),
        ("2a", "BinaryPoisson", "AsyncPSGD", 0.5, 40.0),
        ("2a", "BinaryPoisson", "AsyncMirrorSync", 1.3, 8.0),
        ("2a", "BinaryPoisson", "AsyncMirrorSync, fitted", 1.3, 8.0),
    ]
    assert SyncPlan() == SyncPlan(runs=150, arms=100, rounds=240, seed=0)


def test_all_algorithms_start_from_the_same_costs_and_none_beats_the_optimum(result: SyncExperiments) -> None:
    for one in result.experiments:
        for runs in one.algorithms:
            assert np.array_equal(one.algorithms[0].cost[:, 0], runs.cost[:, 0])
            assert runs.cost.shape == (3, runs.round.size)
            assert runs.round[-1] == 10.0
            assert runs.round[1] == runs.cycle / 40.0
            assert np.all(runs.cost >= one.best[:, np.newaxis] * (1.0 - 1e-9))


def test_costs_differ_between_runs_and_experiments(result: SyncExperiments) -> None:
    best = np.concatenate([one.best for one in result.experiments])
    assert np.unique(best).size == 12


def test_a_seed_repeats_everything_and_another_changes_it(result: SyncExperiments) -> None:
    figures = to_json(report_mirrorsync(result))
    assert to_json(report_mirrorsync(run_mirrorsync(SMALL))) == figures
    assert to_json(report_mirrorsync(run_mirrorsync(replace(SMALL, seed=1)))) != figures


def test_progress_ends_at_its_total() -> None:
    calls: list[tuple[int, int, str]] = []
    run_mirrorsync(replace(SMALL, runs=1), lambda *call: calls.append(call))
    assert calls == [(place + 1, 4, f"experiment {name}") for place, name in enumerate(("1", "1a", "2", "2a"))]


def test_final_costs_are_judged_by_the_least_cost() -> None:
    good, bad = (report_mirrorsync(made(final)) for final in (1.008, 1.02))
    assert [claim.holds for claim in good.content["claims"]] == [True, True]
    assert [claim.holds for claim in bad.content["claims"]] == [False, False]
    cells = [cell.text for cell in find_tables(good)[0].rows[0]]
    assert cells == ["MirrorSync", "1", "40", "2.0000", "1.0080", "1.0000", "0.80", "0.8", "1.0"]


def test_fitted_costs_are_judged_by_a_fifth_of_a_per_cent() -> None:
    for final, holds in ((1.0015, True), (1.003, False)):
        result = made(final)
        fitted = replace(result.experiments[0].algorithms[0], name="MirrorSync, fitted")
        report = report_mirrorsync(replace(result, experiments=(replace(result.experiments[0], algorithms=(fitted,)),)))
        assert [claim.holds for claim in report.content["claims"]] == [holds]
        assert find_tables(report)[0].rows[0][-2].text == "–"


def test_an_algorithm_that_gains_nothing_has_no_round_of_half_the_gain() -> None:
    result = made(1.0)
    still = replace(result.experiments[0].algorithms[0], cost=np.full((2, 3), 2.0))
    report = report_mirrorsync(replace(result, experiments=(replace(result.experiments[0], algorithms=(still,)),)))
    assert find_tables(report)[0].rows[0][-1].text == "never"
