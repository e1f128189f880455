"""The report of a replay: lines by policy, the best marked, calibration and evolutions if there are any."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from streamsched.replay import (
    POLICIES,
    STEADY,
    Evolution,
    ReplayResult,
    ReplaySettings,
    render_report,
    report_replay,
    run_replay,
)
from streamsched.replay.palette import HUES
from streamsched.replay.reporting.replay_figures import share_by_decile
from streamsched.replay.simulation.policies import choose_line_styles
from tests.support.html_reader import check_colours, check_self_contained, read_html
from tests.support.paths import LOGS

LOG = LOGS / "openwrt.tsv.gz"
START_S = 1_755_820_800.0


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    settings = ReplaySettings(
        str(LOG), policies=(*STEADY, "t * X"), start_s=START_S, end_s=START_S + 30 * 86400, budget=0.1
    )
    return run_replay(settings)


def test_the_best_are_marked_in_the_table(result: ReplayResult) -> None:
    assert len(re.findall(r'<td class="best">[\d.,]+', render_report(report_replay(result)))) >= 4


def test_shares_by_decile_add_up(result: ReplayResult) -> None:
    for policy in result.policies:
        assert share_by_decile(policy).sum() == pytest.approx(1.0)


def test_each_policy_is_drawn_unlike_any_other_and_the_same_in_every_report() -> None:
    styles = choose_line_styles([*POLICIES, "t", "X", "n", "t * X"])
    assert len(set(styles)) == len(styles)
    assert choose_line_styles(["t", "oracle"])[1] == styles[POLICIES.index("oracle")]
    assert all(style.hue in HUES for style in styles)


def test_evolutions_have_a_table_if_there_were_any(result: ReplayResult) -> None:
    evolutions = (
        Evolution(16, START_S + 16 * 86400, "posterior", "t * X", 0.05, 0.02, "ndcg", "promoted", "it <won>"),
        Evolution(23, START_S + 23 * 86400, "t * X", None, None, None, None, "kept", "nothing beat it"),
    )
    age = result.policies[1]
    evolved = replace(age, traces=(replace(age.traces[0], evolutions=evolutions),))
    reader = read_html(
        render_report(report_replay(replace(result, policies=(result.policies[0], evolved, *result.policies[2:]))))
    )
    table = reader.tables[-1]
    assert table == [
        ["Policy", "Date", "Champion", "Challenger", "Gain", "Decision"],
        ["age", "2025-09-07", "posterior", "t * X", "+5.0 ±2.0 % NDCG", "promoted"],
        ["age", "2025-09-14", "t * X", "–", "no contest", "kept"],
    ]
    assert ("title", "it <won>") in reader.attributes
    assert ("class", "formula") in reader.attributes


def test_calibration_has_diagrams_and_a_table_if_asked_for(result: ReplayResult) -> None:
    settings = replace(result.settings, policies=("default", "age", "nad"), budget=0.2, seeds=(0, 1), calibration=True)
    asked = run_replay(settings)
    shown = asked.policies[0].calibration
    assert shown is not None
    diagrams = 3 if shown.with_surge.total else 1
    drawn = render_report(report_replay(asked))
    check_self_contained(drawn)
    check_colours(drawn)
    reader = read_html(drawn)
    assert reader.seen.count("figure") == 5 + diagrams
    table = reader.tables[2]
    assert table[0] == ["Policy", "Pages", "Visits", "Predicted", "Observed", "Error"]
    assert table[1][:3] == ["default", "all", f"{shown.all_visits.total:,}"]
    assert {row[0] for row in table[1:]} == {"default", "nad"}
    assert "No calibration for age" in reader.text


def test_a_calibration_of_no_probability_is_said_and_not_drawn(result: ReplayResult) -> None:
    settings = replace(result.settings, policies=("age", "rand"), calibration=True)
    reader = read_html(render_report(report_replay(run_replay(settings))))
    assert reader.seen.count("figure") == 5
    assert "No calibration for age and rand" in reader.text
