"""Reports of all families: built once; whole and alike as a page, in a terminal and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamsched.replay import ReplaySettings, print_report, render_report, report_replay, run_replay, to_json
from streamsched.replay.analysis import AnalysisSettings, report_analysis, run_analysis
from streamsched.replay.gp4c import report_protocol
from streamsched.replay.optimisers import (
    CrawlSettings,
    SyncPlan,
    report_lambdacrawl,
    report_mirrorsync,
    run_lambdacrawl,
    run_mirrorsync,
)
from streamsched.replay.palette import LineStyle
from streamsched.replay.reporting.report import Cell, Column, Figures, Legend, Notes, Report, Section, Table, Text
from tests.support.gp4c_logs import flat, made_result
from tests.support.html_reader import check_colours, check_self_contained, read_html
from tests.support.paths import LOGS

START_S = 1_755_820_800.0
NAME = "<script>&.tsv.gz"
FIGURES = {"replay": 5 + 3, "analysis": 4, "gp4c": 9, "lambdacrawl": 5, "mirrorsync": 4}
"""The figures of each report's page: of a replay five and three reliability diagrams."""


def make(family: str, log: Path) -> Report:
    if family == "replay":
        policies = ("age", "nad", "oracle", "t * X")
        settings = ReplaySettings(
            str(log), policies=policies, start_s=START_S, end_s=START_S + 30 * 86400, budget=0.1, calibration=True
        )
        return report_replay(run_replay(settings))
    if family == "analysis":
        return report_analysis(run_analysis(AnalysisSettings(str(log))))
    if family == "gp4c":
        return report_protocol(made_result(str(log), GP4C_All=flat(0.6, 0.7, 0.6, 0.6, 0.7), nad=flat(0.5)))
    if family == "lambdacrawl":
        return report_lambdacrawl(run_lambdacrawl(CrawlSettings(pages=100, runs=2, epochs=3)))
    return report_mirrorsync(run_mirrorsync(SyncPlan(runs=2, arms=5, rounds=4)))


@pytest.fixture(scope="module", params=[*FIGURES])
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = tmp_path_factory.mktemp("logs") / NAME
    log.write_bytes((LOGS / "openwrt.tsv.gz").read_bytes())
    return log


@pytest.fixture(scope="module")
def report(family: str, log: Path) -> Report:
    return make(family, log)


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return render_report(report)


def tables(report: Report, medium: str) -> Iterator[Table]:
    """The tables of a report that has rows in `medium`, those behind figures left out."""
    for part in (*report.summary, *(part for section in report.sections for part in section.parts)):
        if isinstance(part, Table) and part.rows and part.medium in ("both", medium):
            yield part


def test_a_page_holds_every_figure_table_and_text_and_needs_nothing_else(
    family: str, report: Report, page: str
) -> None:
    check_self_contained(page)
    check_colours(page)
    reader = read_html(page)
    figures = [part for section in report.sections for part in section.parts if isinstance(part, Figures)]
    behind = [table for part in figures for table in part.numbers]
    assert reader.seen.count("figure") == FIGURES[family]
    assert reader.attributes.count(("lang", "en")) == 1
    assert len(reader.tables) == len([*tables(report, "page")]) + len(behind)
    for table, shown in zip(tables(report, "page"), reader.tables, strict=False):
        if not behind:
            assert len(shown) == 1 + len(table.rows)
    for text in (report.lead, report.scope, *(one.title for one in report.sections)):
        assert " ".join(text.split()) in reader.text


def test_names_are_escaped_and_times_and_versions_left_out(family: str, page: str) -> None:
    assert "Matplotlib" not in page
    assert "<metadata" not in page
    assert ("&lt;script&gt;&amp;" in page) == (family in ("replay", "analysis", "gp4c"))


def test_every_line_has_a_box_that_hides_it(family: str, report: Report, page: str) -> None:
    legends = [part for section in report.sections for part in section.parts if isinstance(part, Legend)]
    assert len(legends) == (family in ("replay", "gp4c"))
    lines = {place: name for legend in legends for place, name, _ in legend.lines}
    assert {int(place) for place in re.findall(r'class="p(\d+)"', page)} == lines.keys()  # no other line is drawn
    for place, name in lines.items():
        panels = page.count(f'class="p{place}"') - {"gp4c": 2, "replay": 3 if name == "oracle" else 4}[family]
        assert 0 <= panels <= 3 * (name == "nad")  # its diagrams of calibration; NDCG of the oracle is 1
        assert f'id="show-{place}" checked' in page
        assert f"body:has(#show-{place}:not(:checked)) .p{place} {{ display: none }}" in page


def test_a_terminal_shows_every_table_whole(report: Report, capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report)
    out = capsys.readouterr().out
    assert all(line == line.rstrip() for line in out.splitlines())
    assert "…" not in out
    words = " ".join(out.split())
    for text in (report.scope, *(section.heading for section in report.sections)):
        assert " ".join(text.split()) in words
    for table in tables(report, "terminal"):
        assert " ".join(table.caption.split()) in words
        for row in table.rows:
            assert row[0].text in words
            assert row[-1].text in words


def test_json_is_strict_and_has_the_figures(family: str, report: Report) -> None:
    content = json.loads(to_json(report), parse_constant=lambda constant: pytest.fail(constant))
    claims = "claims" if family in ("lambdacrawl", "mirrorsync") else "findings"
    assert content[claims]
    assert list(content) == list(report.content)


@pytest.mark.parametrize("family", ["replay", "gp4c"], indirect=True, scope="module")
def test_the_same_report_gives_the_same_bytes(family: str, log: Path, report: Report, page: str) -> None:
    again = make(family, log)
    assert render_report(again) == page
    assert to_json(again) == to_json(report)


def test_parts_are_shown_in_their_medium_and_the_summary_first_on_a_page_and_last_in_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    style = LineStyle("blue")
    columns = [Column("Head", "text"), Column("Number")]
    table = Table(columns, [[Cell("<row>", line=style), Cell("1", "±2")]], caption="c&")
    texts = [Text("for both"), Text("page only", "page"), Text("terminal only", "terminal")]
    empty = Figures(list, otherwise="nothing to draw")
    section = Section("Title", [*texts, table, Notes(["mind this"]), empty, replace(table, rows=[])], "Heading")
    report = Report("Report", "lead", "scope", [section], {"x": np.array([1.0, np.inf])}, [Text("the sum of it")])
    text = read_html(render_report(report)).text
    for shown in ("for both", "page only", "<row>", "c&", "mind this", "nothing to draw", "Title"):
        assert shown in text
    assert "terminal only" not in text
    assert text.index("the sum of it") < text.index("Title")
    print_report(report)
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line][:3] == ["Heading", "for both", "terminal only"]
    assert "Note: mind this" in out
    assert "page only" not in out
    assert out.rstrip().endswith("the sum of it")
    assert json.loads(to_json(report)) == {"x": [1.0, None]}
