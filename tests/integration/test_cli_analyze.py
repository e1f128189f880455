"""`analyze`: its words, its numbers, its files, and what it refuses."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.command_line import DAY, NOW, Command, change_log, crawl, files, write


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return change_log(tmp_path_factory.mktemp("log") / "log.tsv.gz")


def test_findings_are_told_in_words_and_tables(streamsched: Command, log: Path) -> None:
    answer = streamsched("analyze", log)
    assert (answer.code, answer.err) == (0, "")
    assert answer.lines[0].startswith("20 pages, 20 of them changed; ")
    text = " ".join(answer.lines)
    for words in (
        "consistent with a Poisson process; 0 hourly, 1 daily,",
        "The median page changes every",
        "1 page with a mean interval of about 24 h had 38 intervals",
        "All pages: ",
    ):
        assert words in text
    assert [line for line in answer.lines if line.startswith((" Type", " Mean"))]
    assert all(line == line.rstrip() for line in answer.lines)


def test_json_has_every_number(streamsched: Command, log: Path) -> None:
    answer = streamsched("analyze", log, "--json")
    assert (answer.code, answer.err) == (0, "")
    content = answer.json
    assert (content["log"], content["pages"], content["exact"], content["step_s"]) == (str(log), 20, True, 3600.0)
    assert content["kinds"]["daily"]["pages"] == 1
    assert sum(kind["pages"] for kind in content["kinds"].values()) == 20
    assert sum(content["heat_map"]["count"]) == content["seen"] - content["changing_pages"]
    assert len(content["heat_map"]["pages"]) == len(content["heat_map"]["edges_s"]) - 1
    assert sum(content["near"]["observed"]) + content["near"]["longer"][0] == content["near"]["intervals"]
    week = content["week"]["regions"]["other"]
    assert len(week["relative"]) == 168
    assert sum(week["changes_by_hour"]) == pytest.approx(week["changes"])
    assert len(content["rates"]["modified"]["share_within"]) == len(content["rates"]["marks_s"])


def test_report_and_pictures_are_written_and_named(streamsched: Command, log: Path, tmp_path: Path) -> None:
    report, pictures = tmp_path / "a" / "report.html", tmp_path / "b"
    answer = streamsched("analyze", log, "--report", report, "--png", pictures)
    assert answer.code == 0
    names = ["intervals", "near", "week", "rates"]
    assert answer.lines[-5:] == [f"report: {report}", *(f"picture: {pictures / name}.png" for name in names)]
    assert report.read_text().startswith("<!DOCTYPE html>")
    assert files(pictures) == sorted(f"{name}.png" for name in names)


def test_every_option_reaches_the_analysis(streamsched: Command, log: Path) -> None:
    words = "--from 2025-07-20 --to 2025-08-10T02:00:00+02:00 --step 2h --near 2d --level 0.05 --zone +01:00 --json"
    content = streamsched("analyze", log, *shlex.split(words)).json
    assert (content["from"], content["to"], content["step_s"]) == ("2025-07-20", "2025-08-10", 7200.0)
    assert (content["near"]["near_s"], content["level"]) == (172_800.0, 0.05)
    assert (content["week"]["zone"], content["week"]["local"]) == ("+01:00", False)
    regions = "--region Ex=example@Asia/Tokyo --local --json"
    week = streamsched("analyze", log, *shlex.split(regions)).json["week"]
    assert list(week["regions"]) == ["Ex"]
    arrivals = week["regions"]["Ex"]["changes_by_hour"]
    assert {hour % 24 for hour, count in enumerate(arrivals) if count} == {9}  # UTC's first hour


def test_crawl_outcomes_are_analyzed_with_a_note(streamsched: Command, tmp_path: Path) -> None:
    log = write(tmp_path / "outcomes.jsonl", [*crawl(days=9), "{", *crawl(days=1)])
    answer = streamsched("analyze", log)
    assert answer.code == 0
    text = " ".join(answer.lines)
    assert "seen by visits about 24 h apart" in text
    assert "malformed records were left out: 1." in text
    assert "Note: Changes are known only from visits, about 24 h apart" in text
    assert "no newer than one of their page before them are not used: 12." in text
    assert answer.err.startswith(f"rejected: {log}, line {12 * 9 + 1}: record: ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--from 2030-01-01", "nothing to analyze from 2030-01-01 to "),
        ("--near 1m", "near: expected a time of 1h or more"),
        ("--region A=x --region B=x", "regions: expected each domain in one region"),
    ],
)
def test_what_cannot_work_has_code_2(streamsched: Command, log: Path, words: str, reason: str) -> None:
    streamsched("analyze", log, *shlex.split(words)).check_refused(2, reason)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("analyze", "LOG is required"),
        (
            "analyze a.tsv --region UK",
            "--region: expected NAME=DOMAIN,DOMAIN@ZONE such as UK=uk@Europe/London,ie, found",
        ),
        ("analyze a.tsv --step often", "--step: expected a duration"),
    ],
)
def test_wrong_usage_is_named_with_code_2(streamsched: Command, line: str, reason: str) -> None:
    streamsched(*shlex.split(line)).check_refused(2, reason)


def test_steps_are_for_logs_of_changes(streamsched: Command, tmp_path: Path) -> None:
    streamsched("analyze", write(tmp_path / "outcomes.jsonl", crawl()), "--step", "1h").check_refused(
        2, "--step is for logs of changes"
    )


def test_a_place_for_pictures_that_cannot_be_written_is_found_before_the_work(streamsched: Command, log: Path) -> None:
    for place in (log, Path("/proc/x")):
        streamsched("analyze", log, "--png", place).check_refused(3, str(place))


def test_a_log_with_nothing_to_see_says_so(streamsched: Command, tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", [f"{NOW - 9 * DAY:.0f}\tA\thttps://h.example/"])
    streamsched("analyze", log).check_refused(2, "no page was visited twice")
    assert streamsched("analyze", write(tmp_path / "empty.tsv", [])).code == 2
    assert streamsched("analyze", tmp_path / "missing.tsv").code == 3
