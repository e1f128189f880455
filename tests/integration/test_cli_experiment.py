"""`experiment`: the files that it reads, and what is refused; test_cli_reports.py has its tables, JSON and page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamsched.connectors import write_sample
from tests.support.command_line import Command

SMALL = {
    "lambdacrawl": ("--pages", "200", "--runs", "2", "--epochs", "3"),
    "webfountain": ("--budget", "54", "--buckets", "10", "--periods", "4"),
}


def test_microsofts_files_are_read_and_bad_lines_named(streamsched: Command, tmp_path: Path) -> None:
    history = write_sample(tmp_path, pages=100, days=10)
    with history.open("a") as file:
        file.write("broken\n")
    answer = streamsched("experiment", "lambdacrawl", "--data", history, *SMALL["lambdacrawl"])
    assert answer.code == 0
    assert "100 pages of Microsoft’s files, 4 with complete observations" in " ".join(answer.out.split())
    assert len(answer.err.splitlines()) == 1
    assert answer.err.startswith("rejected: ")
    assert "101" in answer.err


def test_files_that_cannot_be_read_are_named_with_code_3(streamsched: Command, tmp_path: Path) -> None:
    missing = tmp_path / "urlid_offset_history.txt"
    streamsched("experiment", "lambdacrawl", "--data", missing).check_refused(3, str(missing))
    missing.write_text("1\t0\t[]\n")
    streamsched("experiment", "lambdacrawl", "--data", missing).check_refused(3, "urlid_imp.txt")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("lambdacrawl --pages 24", "--pages: expected a whole number of 25 or more"),
        ("mirrorsync --runs 0", "--runs: expected a whole number of 1 or more"),
        ("webfountain --budget 0", "budget: expected a finite number above 0, found 0.0"),
        ("webfountain --buckets 257", "buckets: expected a whole number of buckets, 1 to 256, found 257"),
        ("gp4c", "'gp4c'"),
    ],
)
def test_wrong_values_are_named_with_code_2(streamsched: Command, words: str, reason: str) -> None:
    streamsched("experiment", *words.split()).check_refused(2, reason)


def test_without_casadi_the_error_says_what_to_install(streamsched: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "casadi", None)
    streamsched("experiment", "webfountain", *SMALL["webfountain"]).check_refused(
        2, "pip install 'streamsched[webfountain]'"
    )
