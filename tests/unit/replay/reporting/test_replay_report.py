"""The report: one file, well formed, that needs nothing from anywhere else and hides nothing it should escape."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from streamsched import ReplayError
from streamsched.replay import POLICIES, STEADY, Evolution, ReplayResult, ReplaySettings, run_replay
from streamsched.replay.reporting.page import render_page
from streamsched.replay.reporting.palette import HUES, choose_line_styles
from streamsched.replay.reporting.replay_figures import share_by_decile
from streamsched.replay.reporting.replay_report import render_report, write_report
from tests.support.html_reader import check_colours, check_self_contained, read_html
from tests.support.paths import LOGS

LOG = LOGS / "openwrt.tsv.gz"
START_S = 1_755_820_800.0


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ReplayResult:
    log = tmp_path_factory.mktemp("logs") / "<script>&.tsv.gz"
    log.write_bytes(LOG.read_bytes())
    settings = ReplaySettings(
        str(log), policies=(*STEADY, "t * X"), start_s=START_S, end_s=START_S + 30 * 86400, budget=0.1
    )
    return run_replay(settings)


@pytest.fixture(scope="module")
def page(result: ReplayResult) -> str:
    return render_report(result)


def test_the_page_is_well_formed_and_holds_five_figures(page: str, result: ReplayResult) -> None:
    seen = read_html(page).seen
    assert seen.count("figure") == 5
    assert seen.count("svg") == 5 + 3 * len(result.policies) - 1  # and swatches in two tables and the legend
    assert seen.count("tr") == 1 + 2 * len(result.policies)  # age has no difference from itself


def test_the_page_needs_nothing_else_and_follows_dark_mode(page: str) -> None:
    check_self_contained(page)
    check_colours(page)


def test_every_line_belongs_to_a_policy_that_a_box_can_hide(page: str, result: ReplayResult) -> None:
    for place, policy in enumerate(result.policies):
        panels = 3 if policy.name == "oracle" else 4  # its NDCG is 1 by definition
        assert page.count(f'class="p{place}"') == panels
        assert f'id="show-{place}" checked' in page
        assert f"body:has(#show-{place}:not(:checked)) .p{place} {{ display: none }}" in page


def test_names_are_escaped_and_times_and_versions_left_out(page: str) -> None:
    assert "<title>Replay of &lt;script&gt;&amp;.tsv.gz</title>" in page
    assert "Matplotlib" not in page
    assert "<metadata" not in page


def test_the_best_are_marked_in_the_table(page: str) -> None:
    assert len(re.findall(r'<td class="best">[\d.,]+', page)) >= 4


def test_shares_by_decile_add_up(result: ReplayResult) -> None:
    for policy in result.policies:
        assert share_by_decile(policy).sum() == pytest.approx(1.0)


def test_each_policy_is_drawn_unlike_any_other_and_the_same_in_every_report() -> None:
    styles = choose_line_styles([*POLICIES, "t", "X", "n", "t * X"])
    assert len(set(styles)) == len(styles)
    assert choose_line_styles(["t", "oracle"])[1] == styles[POLICIES.index("oracle")]
    assert all(style.hue in HUES for style in styles)


def test_a_report_is_written_or_says_why_not(result: ReplayResult, page: str, tmp_path: Path) -> None:
    write_report(result, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    with pytest.raises(ReplayError, match="cannot write the report"):
        write_report(result, tmp_path / "missing" / "report.html")


def test_evolutions_have_a_table_if_there_were_any(result: ReplayResult, page: str) -> None:
    assert len(read_html(page).tables) == 2
    evolutions = (
        Evolution(16, START_S + 16 * 86400, "posterior", "t * X", 0.05, 0.02, "ndcg", True, "it <won>"),
        Evolution(23, START_S + 23 * 86400, "t * X", None, None, None, None, False, "nothing beat it"),
    )
    age = result.policies[1]
    evolved = replace(age, traces=(replace(age.traces[0], evolutions=evolutions),))
    reader = read_html(render_report(replace(result, policies=(result.policies[0], evolved, *result.policies[2:]))))
    table = reader.tables[-1]
    assert table == [
        ["Policy", "Date", "Champion", "Challenger", "Gain", "Decision"],
        ["age", "2025-09-07", "posterior", "t * X", "+5.0 ±2.0 % NDCG", "promoted"],
        ["age", "2025-09-14", "t * X", "–", "no contest", "kept"],
    ]
    assert ("title", "it <won>") in reader.attributes
    assert ("class", "formula") in reader.attributes


def test_calibration_has_diagrams_and_a_table_if_asked_for(result: ReplayResult, page: str) -> None:
    assert "Calibration" not in page
    settings = replace(result.settings, policies=("default", "age", "nad"), budget=0.2, seeds=(0, 1), calibration=True)
    asked = run_replay(settings)
    shown = asked.policies[0].calibration
    assert shown is not None
    diagrams = 3 if shown.with_surge.total else 1
    drawn = render_report(asked)
    check_self_contained(drawn)
    check_colours(drawn)
    reader = read_html(drawn)
    assert reader.seen.count("figure") == 5 + diagrams
    table = reader.tables[2]
    assert table[0] == ["Policy", "Pages", "Visits", "Foretold", "Came", "Error"]
    assert table[1][:3] == ["default", "all", f"{shown.all_visits.total:,}"]
    assert {row[0] for row in table[1:]} == {"default", "nad"}
    assert "No calibration for age" in reader.text


def test_a_calibration_of_no_probability_is_said_and_not_drawn(result: ReplayResult) -> None:
    settings = replace(result.settings, policies=("age", "rand"), calibration=True)
    reader = read_html(render_report(run_replay(settings)))
    assert reader.seen.count("figure") == 5
    assert "No calibration for age and rand" in reader.text


def test_a_name_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        render_page("replay", title="Replay")
