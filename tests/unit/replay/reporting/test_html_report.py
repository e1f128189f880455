"""The report: one file, well formed, that needs nothing from anywhere else and hides nothing it should escape."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from streamsched import ReplayError
from streamsched.replay import POLICIES, STEADY, Evolution, ReplayResult, ReplaySettings, run_replay
from streamsched.replay.reporting.figures import share_by_decile
from streamsched.replay.reporting.html_report import render_report, write_report
from streamsched.replay.reporting.palette import HUES, choose_strokes
from tests.support.paths import LOGS

LOG = LOGS / "openwrt.tsv.gz"
START_S = 1_755_820_800.0
VOID = {"meta", "input", "br", "wbr"}


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


class Reader(HTMLParser):
    """Collects tags, attributes and text; fails where tags do not close in the order they opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_holds_five_figures(page: str, result: ReplayResult) -> None:
    seen = read(page).seen
    assert seen.count("figure") == 5
    assert seen.count("svg") == 5 + 2 * len(result.policies)  # and a swatch in the table and in the legend
    assert seen.count("tr") == 1 + len(result.policies)


def test_nothing_is_fetched_from_anywhere(page: str) -> None:
    assert "//" not in page.replace("<!DOCTYPE html>", "")
    links = [value for name, value in read(page).attributes if name in ("href", "src", "xlink:href")]
    assert links
    assert all(value is not None and value.startswith("#") for value in links)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))
    assert "script" not in read(page).seen
    assert "@import" not in page


def test_every_reference_within_the_page_has_one_target(page: str) -> None:
    names = re.findall(r' id="([^"]*)"', page)
    assert len(names) == len(set(names))
    wanted = set(re.findall(r'href="#([^"]*)"', page)) | set(re.findall(r"url\(#([^)]*)\)", page))
    assert wanted <= set(names)


def test_every_line_belongs_to_a_policy_that_a_box_can_hide(page: str, result: ReplayResult) -> None:
    for place, policy in enumerate(result.policies):
        panels = 3 if policy.name == "oracle" else 4  # its NDCG is 1 by definition
        assert page.count(f'class="p{place}"') == panels
        assert f'id="show-{place}" checked' in page
        assert f"body:has(#show-{place}:not(:checked)) .p{place}" in page


def test_no_colour_is_left_that_dark_mode_could_not_change(page: str) -> None:
    figures = "".join(re.findall(r"<figure>.*?</figure>", page, re.DOTALL))
    assert re.findall(r"#[0-9a-fA-F]{6}\b", re.sub(r'(href="|url\()#\w+', "", figures)) == []
    assert "prefers-color-scheme:dark" in page


def test_names_are_escaped_and_times_and_versions_left_out(page: str) -> None:
    assert "<title>Replay of &lt;script&gt;&amp;.tsv.gz</title>" in page
    assert "Matplotlib" not in page
    assert "<metadata" not in page


def test_the_best_are_marked_in_the_table(page: str) -> None:
    best = re.findall(r'<td class="best" title="best">([\d.,]+)', page)
    assert len(best) >= 4


def test_shares_by_decile_add_up(result: ReplayResult) -> None:
    for policy in result.policies:
        assert share_by_decile(policy).sum() == pytest.approx(1.0)


def test_each_policy_is_drawn_unlike_any_other_and_the_same_in_every_report() -> None:
    strokes = choose_strokes([*POLICIES, "t", "X", "n", "t * X"])
    assert len(set(strokes)) == len(strokes)
    assert choose_strokes(["t", "oracle"])[1] == strokes[POLICIES.index("oracle")]
    assert all(stroke.hue in HUES for stroke in strokes)


def test_a_report_is_written_or_says_why_not(result: ReplayResult, page: str, tmp_path: Path) -> None:
    write_report(result, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    with pytest.raises(ReplayError, match="cannot write the report"):
        write_report(result, tmp_path / "missing" / "report.html")


def test_evolutions_have_a_table_of_their_own_where_there_were_any(result: ReplayResult, page: str) -> None:
    assert "How formulas evolved" not in page
    evolutions = (
        Evolution(16, START_S + 16 * 86400, "posterior", "t * X", 0.05, 0.02, "ndcg", True, "it <won>"),
        Evolution(23, START_S + 23 * 86400, "t * X", None, None, None, None, False, "nothing beat it"),
    )
    age = result.policies[1]
    evolved = replace(age, traces=(replace(age.traces[0], evolutions=evolutions),))
    html = render_report(replace(result, policies=(result.policies[0], evolved, *result.policies[2:])))
    Reader().feed(html)
    table = html[html.index("How formulas evolved") :]
    for cell in (
        "<td>2025-09-07</td>",
        ">posterior</td>",
        ">t * X</td>",
        "<td>+5.0 ±2.0 % NDCG</td>",
        ">promoted</td>",
    ):
        assert cell in table
    assert 'title="it &lt;won&gt;"' in table
    assert ">kept</td>" in table
    assert table.count("<tr>") == 3
    assert (
        "<th scope=col>Date</th><th scope=col class=word>Champion</th><th scope=col class=word>Challenger</th>" in table
    )
    assert "th.word,td.word{text-align:left}" in html
