"""Findings of a replay: the best policies, those below a baseline, identical ones, promotions, the intervals."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from streamsched.replay import (
    Estimate,
    Evolution,
    ReplayResult,
    ReplaySettings,
    print_report,
    report_replay,
    run_replay,
    to_json,
)
from streamsched.replay.replay_results import MeasuredCycles
from streamsched.replay.reporting.replay_findings import (
    best_policies,
    describe_scope,
    explain_figures,
    find_beaten,
    find_best,
    find_identical,
    find_promotions,
)
from streamsched.replay.reporting.sentences import Finding, describe
from tests.support.paths import LOGS

LOG = LOGS / "scoop-extras.tsv.gz"
START_S = 1_755_820_800.0


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    policies = ("age", "default", "changes", "nad", "oracle")
    return run_replay(ReplaySettings(str(LOG), policies=policies, start_s=START_S, end_s=START_S + 90 * 86400))


def test_the_best_are_marked_ties_and_all_and_neither_the_oracle_nor_delays(result: ReplayResult) -> None:
    best = best_policies(result)
    assert best["change_rate"] == best["ndcg"] == best["freshness"] == {"default", "changes"}
    assert set(best) == {"change_rate", "ndcg", "freshness", "undetected"}
    assert "nad" not in set().union(*best.values())


def test_findings_name_the_winners_beside_the_baseline(result: ReplayResult) -> None:
    change_rate, freshness = find_best(result)
    figures = {policy.name: policy.figures for policy in result.policies}
    assert (change_rate.code, freshness.code) == ("best_change_rate", "best_freshness")
    for finding, metric in ((change_rate, "change_rate"), (freshness, "freshness")):
        assert finding.values == {
            "policies": ["default", "changes"],
            "value": figures["default"][metric].value,
            "baseline": "age",
            "baseline_value": figures["age"][metric].value,
        }
    assert freshness.values["baseline_value"] == pytest.approx(0.896, abs=5e-4)
    assert describe(change_rate).startswith("default and changes found the most changes: 0.2")


def test_a_winner_is_not_compared_with_itself(result: ReplayResult) -> None:
    best, _ = find_best(replace(result, policies=result.policies[:1]))
    assert (best.values["policies"], best.values["baseline"], best.values["baseline_value"]) == (["age"], None, None)


def with_figures(result: ReplayResult, metric: str, **values: float | None) -> ReplayResult:
    """Return the result with `metric` of the first policies replaced, and their names; the other policies dropped."""
    first, policies = result.policies[0], []
    for name, value in values.items():
        figures = {**first.figures, metric: Estimate(value)}
        policies.append(replace(first, name=name.replace("_", " "), figures=figures))
    return replace(result, policies=tuple(policies))


@pytest.mark.parametrize(
    ("metric", "baseline", "code"),
    [("freshness", "age", "below_age"), ("change_rate", "posterior", "below_posterior")],
)
def test_a_policy_below_the_baseline_of_a_metric_is_named_with_what_it_lacks(
    result: ReplayResult, metric: str, baseline: str, code: str
) -> None:
    values = {baseline: 0.75, "nad": 0.5, "gad": 0.625, "equal": 0.75, "above": 0.875, "unknown": None}
    finding = {"policies": ["nad", "gad"], "gaps": [0.25, 0.125], "metric": metric, "baseline_value": 0.75}
    assert find_beaten(with_figures(result, metric, **values)) == [Finding(code, finding)]
    alone = {name: value for name, value in values.items() if name != baseline}
    assert find_beaten(with_figures(result, metric, **alone)) == []
    assert find_beaten(with_figures(result, metric, **{**values, baseline: None})) == []
    assert find_beaten(with_figures(result, metric, **{baseline: 0.75, "nad": 0.75, "above": 0.875})) == []


@pytest.mark.parametrize(("metric", "baseline"), [("freshness", "age"), ("change_rate", "posterior")])
def test_baselines_and_policies_that_learn_nothing_are_not_said_to_be_beaten(
    result: ReplayResult, metric: str, baseline: str
) -> None:
    others = ("age", "posterior", "rand", "oracle", "age_without_signals", "default_without_signals")
    values = {**dict.fromkeys(others, 0.5), baseline: 0.75}
    assert find_beaten(with_figures(result, metric, **values)) == []


def test_what_is_beaten_is_said_on_the_page_and_last_in_a_terminal(
    result: ReplayResult, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_replay(result)
    (finding,) = find_beaten(result)
    assert finding.values["policies"] == ["nad"]
    assert report.lead.endswith(describe(finding))
    print_report(report)
    assert capsys.readouterr().out.splitlines()[-1] == describe(finding)


def test_lines_that_coincide_are_named(result: ReplayResult) -> None:
    assert find_identical(result) == [Finding("identical_policies", {"policies": ["default", "changes"]})]


def test_the_scope_has_pages_window_budget_and_reading(result: ReplayResult) -> None:
    values = describe_scope(result).values
    assert (values["pages"], values["visits"], values["budget"], values["warmup"]) == (2180, 109, 0.05, 2)
    assert (values["from"], values["to"], values["changed"]) == ("2025-08-22", "2025-11-20", "since_visit")
    assert values["changes"] == result.changes.sum()
    assert values["learn_from"] is None


def test_the_method_of_the_intervals_and_records_left_out_are_named(result: ReplayResult) -> None:
    cycles = {"counted": 88, "cycles": 88, "share": 1.0}
    needed = {"fewest_batches": 5, "batch_days": 28, "days": 88.0, "seeds": 1}
    assert explain_figures(result) == [Finding("no_interval", needed), Finding("ndcg_cycles", cycles)]
    assert {figure.half_width for policy in result.policies for figure in policy.figures.values()} == {None}
    rejected = Finding("rejected_records", {"count": 1234})
    assert explain_figures(replace(result, rejected=1234))[2:] == [rejected]
    enough = replace(result, measured=MeasuredCycles(np.ones(141, np.bool_), np.array([0, 28, 56, 84, 112, 141])))
    method = {"batches": 5, "days": 28.0, "seeds": 1}
    assert explain_figures(enough)[0] == Finding("interval_method", method)
    seeds = replace(enough, settings=replace(result.settings, seeds=(0, 1)))
    assert explain_figures(seeds)[0] == Finding("interval_method", {**method, "seeds": 2})
    assert "ties" in describe(explain_figures(seeds)[0])
    assert "ties" not in describe(explain_figures(enough)[0])


def test_a_promotion_has_its_day_and_gain(result: ReplayResult) -> None:
    assert find_promotions(result) == []
    won = Evolution(23, START_S + 23 * 86400, "posterior", "t * X", 0.051, 0.02, "change_rate", "promoted", "")
    lost = replace(won, decision="kept")
    age = result.policies[0]
    evolved = replace(age, traces=(replace(age.traces[0], evolutions=(lost, won)),))
    (found,) = find_promotions(replace(result, policies=(evolved,)))
    values = {"policy": "age", "seed": None, "date": "2025-09-14", "formula": "t * X"}
    assert found.values == {**values, "gain": 0.051, "noise": 0.02, "metric": "change_rate"}
    twice = replace(evolved, traces=(evolved.traces[0], replace(age.traces[0], evolutions=(won,))))
    settings = replace(result.settings, seeds=(4, 7))
    both = find_promotions(replace(result, policies=(twice,), settings=settings))
    assert [one.values["seed"] for one in both] == [4, 7]


def test_the_json_has_the_findings(result: ReplayResult) -> None:
    findings = json.loads(to_json(report_replay(result)))["findings"]
    codes = [finding["code"] for finding in findings]
    assert codes == ["best_change_rate", "best_freshness", "below_age", "identical_policies"]
    assert findings[0]["values"]["policies"] == ["default", "changes"]
