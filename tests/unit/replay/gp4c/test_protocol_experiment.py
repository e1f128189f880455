"""The whole experiment at its smallest: complete, the same to the byte for a seed, whatever the threads."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from streamsched import ReplayError
from streamsched.evolution.simulation.evaluator import Evaluator
from streamsched.evolution.simulation.trials import Trial
from streamsched.formula import Formula
from streamsched.replay import to_json
from streamsched.replay.gp4c import ProtocolResult, evolve_log, report_protocol
from streamsched.replay.gp4c.folds import assign_folds, cut_history, rotate_folds, split_history
from streamsched.replay.gp4c.protocol_results import BASELINES, SELECTIONS
from tests.support.gp4c_logs import DAY, START, made_log, small_settings

LOG = made_log()


@pytest.fixture(scope="module")
def result() -> ProtocolResult:
    return evolve_log(LOG, small_settings())


def test_everything_that_was_asked_for_is_there(result: ProtocolResult) -> None:
    assert list(result.baselines) == list(BASELINES)
    assert [(one.fitness, one.terminals) for one in result.evolved] == [
        (metric, terminals) for metric in ("change_rate", "ndcg") for terminals in ("basic", "paper")
    ]
    assert (result.span_cycles, result.ranked, result.visits) == (19, 17, 1)
    for one in result.evolved:
        assert one.curves.shape == (5, 2, 2)
        assert np.all(np.diff(one.curves, axis=2) >= 0)
        assert one.programs >= 5 * 10
        for how in SELECTIONS:
            assert len(one.choices[how]) == 5
            assert one.outcomes[how].change_rate.shape == (5, 17)
        assert {cuts.shape for cuts in one.sweep.values()} == {(5, 5)}


def test_formulas_are_tested_on_the_last_span_of_the_fold_left_out(result: ProtocolResult) -> None:
    settings = small_settings()
    history = cut_history(LOG.window(START + 3 * DAY, DAY, 57))
    fold_of = assign_folds(history.hashes, 5, 0)
    one = result.find("ndcg", "paper")
    assert one is not None
    for fold, rotation in enumerate(rotate_folds()):
        stages = split_history(history, fold_of, rotation, settings)
        choice = one.choices["best"][fold]
        for part, found in ((stages.train, choice.train), (stages.validation, choice.validation)):
            (fitness,) = Evaluator([Trial(part)], "ndcg").fitness([Formula.parse(choice.formula)])
            assert fitness == found
        ((series,),) = Evaluator([Trial(stages.test)], "ndcg").series(Formula.parse(choice.formula))
        assert series.mean("ndcg") == choice.test
        assert np.nanmean(one.outcomes["best"].ndcg[fold]) == pytest.approx(choice.test)
        np.testing.assert_array_equal(np.isnan(one.outcomes["best"].ndcg[fold]), ~series.counted)
        np.testing.assert_array_equal(one.outcomes["best"].new_share[fold] * series.visits, series.new_pages)
        ((nad,),) = Evaluator([Trial(stages.test)]).series(Formula.parse("1 - exp(-NAD * t)"))
        np.testing.assert_array_equal(np.nan_to_num(result.baselines["nad"].change_rate[fold]), nad.change_rate)


def test_the_whole_list_is_the_last_cut(result: ProtocolResult) -> None:
    for one in result.evolved:
        for metric, folds in one.sweep.items():
            assert folds[:, -1] == pytest.approx(np.nanmean(one.outcomes["best"].of(metric), axis=1))


def test_a_seed_gives_the_same_bytes_whatever_the_threads(result: ProtocolResult) -> None:
    settings = small_settings()
    threads = replace(settings, evolution=replace(settings.evolution, workers=3))
    text = to_json(report_protocol(result))
    assert to_json(report_protocol(evolve_log(LOG, threads))) == text
    assert to_json(report_protocol(evolve_log(LOG, replace(settings, seed=1)))) != text


def test_json_is_strict_and_holds_every_table(result: ProtocolResult) -> None:
    content = json.loads(to_json(report_protocol(result)), parse_constant=lambda constant: pytest.fail(constant))
    assert list(content["methods"]) == [*BASELINES, "GP4C_Basic", "GP4C_All"]
    nad = content["methods"]["nad"]["ndcg"]
    assert nad["mean"]["low"] <= nad["mean"]["value"] <= nad["mean"]["high"]
    assert len(nad["by_cycle"]) == 17
    assert len(content["contests"]) == 4 * len(BASELINES)
    contest = content["contests"][0]["contest"]
    assert contest["victories"] + contest["losses"] + contest["ties"] == 17
    evolved = content["evolved"][-1]
    assert (evolved["method"], evolved["fitness"]) == ("GP4C_All", "ndcg")
    assert len(evolved["selections"]["sum"]["formulas"]) == 5
    assert len(evolved["sweep"]["ndcg"]) == 5
    assert content["changed"] == "since_visit"


def test_one_metric_and_one_terminal_set_are_enough() -> None:
    settings = small_settings(metrics=("ndcg",), terminals=("full",))
    done: list[tuple[int, int, str]] = []
    result = evolve_log(LOG, settings, lambda *news: done.append(news))
    assert [one.name for one in result.evolved] == ["GP4C_Full"]
    assert result.series("GP4C_Full", "change_rate") is None
    assert "change_rate" not in json.loads(to_json(report_protocol(result)))["methods"]["GP4C_Full"]
    assert [news[0] for news in done] == list(range(1, 5 * 2 * 2 + 1))
    assert {news[1] for news in done} == {20}
    assert done[-1][2] == "ndcg, full, fold 5"


def test_too_few_pages_are_refused_with_how_many_it_takes() -> None:
    with pytest.raises(ReplayError, match=r"found 99 pages: expected 100 or more, so that a budget of 0\.05 visits"):
        evolve_log(made_log(pages=99), small_settings())
