"""The paper's tables in a terminal, against figures worked out by hand."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.replay import print_report, to_json
from streamsched.replay.gp4c import ProtocolResult, report_protocol
from streamsched.replay.gp4c.protocol_tables import (
    contest_table,
    describe_scope,
    find_new_pages,
    find_top_of_list,
    find_verdict,
    formula_table,
    judge_claims,
    method_table,
    sweep_table,
)
from streamsched.replay.reporting.report import Table
from streamsched.replay.reporting.sentences import Finding, describe
from streamsched.replay.reporting.terminal import to_rich
from tests.support.gp4c_logs import flat, made_result

NAD = flat(0.5, 0.52, 0.48, 0.51, 0.49)
SWAY = flat(0.002, -0.002, 0.001, -0.001, 0.0)
WIDE = flat(0.05, -0.05, 0.05, -0.05, 0.0)


def statuses(result: ProtocolResult) -> list[str | None]:
    return [claim.status for claim in judge_claims(result) if claim.baseline == "nad"]


def values(findings: list[Finding], code: str) -> list[dict[str, Any]]:
    return [dict(finding.values) for finding in findings if finding.code == code]


def outcomes(metrics: dict[str, Any]) -> dict[str, tuple[float, str]]:
    return {metric: (round(one["difference"], 3), one["outcome"]) for metric, one in metrics.items()}


def test_the_paper_s_own_outcome_confirms_it() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.02 + SWAY / 4, GP4C_Basic=NAD + SWAY, posterior=NAD * 0.9)
    assert statuses(result) == ["confirmed"] * 4
    verdict = find_verdict(result)
    gain, tie = values(verdict, "paper_claim")
    assert (gain["method"], gain["claim"], gain["baseline"]) == ("GP4C_All", "gain", "nad")
    assert (tie["method"], tie["claim"], tie["baseline"]) == ("GP4C_Basic", "tie", "nad")
    assert outcomes(gain["metrics"]) == {"change_rate": (0.02, "better"), "ndcg": (0.02, "better")}
    assert outcomes(tie["metrics"]) == {"change_rate": (0.0, "tie"), "ndcg": (0.0, "tie")}
    (posterior,) = values(verdict, "posterior_comparison")
    assert list(posterior["methods"]) == ["GP4C_All", "GP4C_Basic"]
    assert outcomes(posterior["methods"]["GP4C_All"])["change_rate"] == (0.133, "better")


def test_a_tie_where_the_paper_won_and_a_loss_where_it_tied_refute_it() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD + SWAY, GP4C_Basic=NAD * 0.8, posterior=NAD * 1.2)
    assert statuses(result) == ["refuted"] * 4
    gain, tie = values(find_verdict(result), "paper_claim")
    assert outcomes(gain["metrics"])["change_rate"] == (0.0, "tie")
    assert outcomes(tie["metrics"])["change_rate"] == (-0.2, "worse")
    assert [claim.outcome for claim in judge_claims(result)].count("worse") == 6


def test_a_significant_gain_below_the_paper_s_is_smaller_and_still_a_tie() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.005, GP4C_Basic=NAD * 1.005)
    assert set(statuses(result)) == {"smaller", "confirmed"}
    gain, tie = values(find_verdict(result), "paper_claim")
    assert gain["metrics"]["change_rate"]["status"] == "smaller"
    assert tie["metrics"]["change_rate"]["status"] == "confirmed"
    assert outcomes(tie["metrics"])["change_rate"] == (0.005, "better")


def test_a_significant_gain_like_the_paper_s_is_no_tie() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.2, GP4C_Basic=NAD * 1.03)
    found = {(claim.name, claim.status) for claim in judge_claims(result) if claim.baseline == "nad"}
    assert found == {("GP4C_All", "confirmed"), ("GP4C_Basic", "refuted")}


def test_an_interval_with_room_for_either_leaves_it_undecided() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD + WIDE, GP4C_Basic=NAD + WIDE, posterior=NAD)
    assert statuses(result) == ["undecided"] * 4
    claims = values(find_verdict(result), "paper_claim")
    assert [one["status"] for claim in claims for one in claim["metrics"].values()] == ["undecided"] * 4


def test_methods_that_found_the_same_in_every_fold_leave_no_room_for_a_gain() -> None:
    """As if all were at the ceiling."""
    result = made_result(nad=NAD, GP4C_All=NAD, GP4C_Basic=NAD, posterior=NAD)
    found = {(claim.name, claim.status) for claim in judge_claims(result) if claim.baseline == "nad"}
    assert found == {("GP4C_All", "refuted"), ("GP4C_Basic", "confirmed")}


def test_metrics_may_disagree() -> None:
    result = made_result(nad=NAD, GP4C_All=NAD * 1.1, GP4C_Basic=NAD)
    lost = tuple(
        replace(one, outcomes={how: replace(o, ndcg=NAD - 0.1) for how, o in one.outcomes.items()})
        for one in result.evolved
    )
    gain, _ = (found for found in find_verdict(replace(result, evolved=lost)) if found.code == "paper_claim")
    metrics = gain.values["metrics"]
    assert outcomes(metrics) == {"change_rate": (0.1, "better"), "ndcg": (-0.2, "worse")}
    assert [metrics[metric]["status"] for metric in metrics] == ["confirmed", "refuted"]
    assert "holds in ChangeRate (+10.0 %, better) and does not hold in NDCG" in describe(gain)


def test_without_the_paper_s_terminals_there_is_no_verdict() -> None:
    assert find_verdict(replace(made_result(), evolved=())) == [Finding("claims_not_tested")]


def test_if_nad_finds_nothing_there_is_nothing_to_compare_with() -> None:
    result = made_result(nad=flat(0.0), GP4C_All=flat(0.1), posterior=flat(0.0))
    claims = judge_claims(result)
    assert {claim.found.value for claim in claims} == {None}
    assert {(claim.status, claim.outcome) for claim in claims} == {(None, None)}
    assert find_verdict(result) == [Finding("claims_not_tested")]


def test_a_claim_has_what_was_published() -> None:
    claims = judge_claims(made_result(nad=NAD))
    published = {(claim.name, claim.metric, claim.baseline): claim.published for claim in claims}
    assert published["GP4C_All", "change_rate", "nad"] == 0.013
    assert published["GP4C_All", "ndcg", "nad"] == 0.018
    assert published["GP4C_Basic", "ndcg", "nad"] == 0.0
    assert published["GP4C_All", "ndcg", "posterior"] is None


def test_the_top_of_the_list_is_compared_fold_by_fold() -> None:
    result = made_result()
    (found,) = find_top_of_list(result)
    assert (found.values["method"], found.values["share"]) == ("GP4C_All", 0.01)
    same = {"difference": 0.0, "low": 0.0, "high": 0.0}
    assert found.values["metrics"] == {"change_rate": same, "ndcg": same}
    better = [
        replace(one, sweep={metric: folds * 1.5 for metric, folds in one.sweep.items()}) for one in result.evolved
    ]
    both = (*result.evolved[:2], *better[2:])
    (found,) = find_top_of_list(replace(result, evolved=both))
    assert found.values["metrics"]["change_rate"] == pytest.approx({"difference": 0.5, "low": 0.5, "high": 0.5})
    assert find_top_of_list(replace(result, evolved=both[:2])) == []


def test_new_pages_are_counted_from_the_second_cycle_on() -> None:
    result = made_result()
    one = result.evolved[0]
    outcomes = {how: replace(o, new_share=o.new_share + np.array([0.6, 0.1, 0.0])) for how, o in one.outcomes.items()}
    (found,) = find_new_pages(replace(result, evolved=(replace(one, outcomes=outcomes),)))
    assert found.values["method"] == "GP4C_Basic"
    assert found.values["shares"] == {"change_rate": pytest.approx(0.45)}
    assert find_new_pages(replace(result, evolved=())) == []


def test_a_scaled_down_search_is_reported() -> None:
    result = made_result()
    assert values(find_verdict(result), "reduced_search") == []
    small = replace(result.settings, evolution=EvolutionSettings(population=10, generations=2, seeds=5))
    found = find_verdict(replace(result, settings=small))[-1]
    assert found == Finding("reduced_search", {"found": [10, 2, 5], "paper": [300, 50, 5]})


def test_the_scope_has_pages_spans_and_the_reading() -> None:
    found = describe_scope(made_result()).values
    assert (found["pages"], found["from"], found["to"]) == (20, "2024-10-04", "2024-10-19")
    assert (found["folds"], found["spans"], found["span_cycles"]) == (5, 3, 5)
    assert (found["visits"], found["budget"], found["changed"]) == (1, 0.05, "since_visit")
    that_day = replace(made_result().settings, evolution=EvolutionSettings(reading="that_day"))
    assert describe_scope(replace(made_result(), settings=that_day)).values["changed"] == "that_day"


def test_the_json_has_the_findings() -> None:
    findings = json.loads(to_json(report_protocol(made_result(nad=NAD))))["findings"]
    codes = ["paper_claim", "paper_claim", "posterior_comparison", "top_of_list", "new_pages"]
    assert [finding["code"] for finding in findings] == codes
    assert findings[0]["values"]["metrics"]["ndcg"]["status"] == "refuted"


TURNS = np.array([-0.01, 0.0, 0.01, 0.005, -0.005])


@pytest.fixture
def result() -> ProtocolResult:
    """GP4C_All wins its first two cycles of three against all that is like NAD, and loses the third."""
    better = np.stack([0.6 + TURNS, 0.55 + TURNS, 0.4 + TURNS], axis=1)
    return made_result(nad=flat(0.5), GP4C_All=better, rand=flat(0.1, 0.2, 0.3, 0.4, 0.5))


def show(table: Table, width: int = 140) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(to_rich(table))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def row(text: str, *starts: str) -> str:
    """The one line whose first words are these."""
    (found,) = (line for line in text.splitlines() if line.split()[: len(starts)] == list(starts))
    return found


def test_table_2_has_means_and_intervals_across_the_folds(result: ProtocolResult) -> None:
    text = show(method_table(result))
    assert row(text, "Rand").split() == ["Rand", "0.300", "±0.196", "0.300", "±0.196"]
    assert row(text, "NAD").split() == ["NAD", "0.500", "±0.000", "0.500", "±0.000"]
    assert row(text, "GP4C_All").split() == ["GP4C_All", "0.517", "±0.010", "0.517", "±0.010"]
    assert [line.split()[0] for line in text.splitlines() if "±0" in line][-2:] == ["GP4C_Basic", "GP4C_All"]


def test_table_3_has_victories_and_losses_with_mean_differences(result: ProtocolResult) -> None:
    text = show(contest_table(result))
    won = row(text, "GP4C_All", "NDCG", "NAD")
    assert " ".join(won.split()[3:]) == "2 (+15.0 %) 1 (-20.0 %) +3.3 % (+1.4 to +5.3)"
    tied = row(text, "GP4C_Basic", "NDCG", "NAD")
    assert " ".join(tied.split()[3:]) == "0 0 +0.0 % (+0.0 to +0.0)"
    assert "Rand" not in text  # as in the paper


def test_table_4_has_a_formula_a_fold_whole(result: ProtocolResult) -> None:
    text = show(formula_table(result))
    assert " ".join(row(text, "GP4C_All", "ChangeRate", "1").split()[2:]) == "1 0.500 0.400 0.300 t * X + 0"
    assert "t * X + 4 < &" in text
    long = "t * " * 60 + "X"
    choices = {
        how: tuple(replace(one, formula=long) for one in ones) for how, ones in result.evolved[0].choices.items()
    }
    table = formula_table(replace(result, evolved=(replace(result.evolved[0], choices=choices),)))
    assert "".join(show(table, 80).split()).count("t*") == 5 * 60
    assert "…" not in show(table, 80)


def test_figure_5_is_told_in_numbers(result: ProtocolResult) -> None:
    text = show(sweep_table(result))
    assert "1 %" in text
    assert "5 %" in text
    assert row(text, "GP4C_All", "NDCG", "ChangeRate").count("0.250 ±0.000") == 5


def test_all_is_printed_whole_where_there_is_no_terminal(
    result: ProtocolResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_report(report_protocol(result))
    out = capsys.readouterr().out
    assert [out.index(head) for head in ("Table 2.", "Table 3.", "Table 4.", "Figure 5.")] == sorted(
        out.index(head) for head in ("Table 2.", "Table 3.", "Table 4.", "Figure 5.")
    )
    assert " ".join(row(out, "GP4C_All", "NAD", "NDCG").split()[3:]) == "+3.3 % (+1.4 to +5.3) better +1.8 % confirmed"
    assert all(line == line.rstrip() for line in out.splitlines())
    assert "…" not in out
    assert "Of 3 cycles" in out
