"""What table and report say: who is best, what coincides, and what the reader must know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsched.replay import Evolution, ReplayResult, ReplaySettings, run_replay
from streamsched.replay.reporting.wording import (
    best_policies,
    describe_replay,
    explain_figures,
    spell_findings,
    spell_gain,
    spell_promotions,
    spell_twins,
)
from streamsched.scheduler.scheduler import DEFAULT_FORMULA
from tests.support.paths import LOGS

LOG = LOGS / "scoop-extras.tsv.gz"
START_S = 1_755_820_800.0


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    policies = ("age", "default", DEFAULT_FORMULA, "nad", "oracle")
    return run_replay(ReplaySettings(str(LOG), policies=policies, start_s=START_S, end_s=START_S + 90 * 86400))


def test_the_best_are_marked_ties_and_all_and_neither_the_oracle_nor_delays(result: ReplayResult) -> None:
    best = best_policies(result)
    assert best["change_rate"] == best["ndcg"] == best["freshness"] == {"default", DEFAULT_FORMULA}
    assert set(best) == {"change_rate", "ndcg", "freshness", "undetected"}
    assert "nad" not in set().union(*best.values())


def test_findings_name_the_winners_beside_the_plain_choice(result: ReplayResult) -> None:
    said = spell_findings(result)
    assert said.startswith(f"default and {DEFAULT_FORMULA} found most: 0.2")
    assert ", age 0.1" in said
    assert "kept copies most current: 0.9" in said
    assert said.endswith("of them at any time, age 0.896.")


def test_lines_that_coincide_are_named(result: ReplayResult) -> None:
    assert spell_twins(result) == f"The lines of default and {DEFAULT_FORMULA} coincide: they visited the same pages."


def test_the_replay_is_described_in_a_line(result: ReplayResult) -> None:
    said = describe_replay(result)
    assert said.startswith("2,180 pages, ")
    assert "2025-08-22 to 2025-11-20; 109 visits a day (0.05 of the pages) after 2 that visit all" in said
    assert said.endswith("since its last visit")


def test_what_is_wrong_with_the_log_is_told(result: ReplayResult) -> None:
    assert "malformed" not in explain_figures(result)
    assert "batch means over 7 cycles" in explain_figures(result)
    said = explain_figures(replace(result, rejected=1234, note="Times are guesses."))
    assert said.endswith("1,234 malformed records of the log were left out. Times are guesses.")
    alone = {metric: replace(figure, low=None, high=None) for metric, figure in result.policies[0].figures.items()}
    few = replace(result, policies=(replace(result.policies[0], figures=alone),))
    assert explain_figures(few).startswith("Delays are in days")
    seeds = replace(result.settings, seeds=(0, 1))
    assert "over 2 seeds" in explain_figures(replace(result, settings=seeds))


def test_a_promotion_is_a_line_with_its_day_and_gain(result: ReplayResult) -> None:
    assert spell_promotions(result) == []
    won = Evolution(23, START_S + 23 * 86400, "posterior", "t * X", 0.051, 0.02, "change_rate", True, "")
    lost = won._replace(promoted=False)
    age = result.policies[0]
    evolved = replace(age, traces=(replace(age.traces[0], evolutions=(lost, won)),))
    assert spell_promotions(replace(result, policies=(evolved,))) == [
        "age, 2025-09-14: t * X  (+5.1 ±2.0 % ChangeRate)",
    ]
    twice = replace(evolved, traces=(evolved.traces[0], replace(age.traces[0], evolutions=(won,))))
    settings = replace(result.settings, seeds=(4, 7))
    lines = spell_promotions(replace(result, policies=(twice,), settings=settings))
    assert [line.split(":")[0] for line in lines] == ["age, seed 4, 2025-09-14", "age, seed 7, 2025-09-14"]
    assert spell_gain(won._replace(gain=None)) == "no contest"
    assert spell_gain(won._replace(noise=None)) == "+5.1 % ChangeRate"
