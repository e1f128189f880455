"""`experiment`: the papers' experiments at a small size, their JSON and report, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamsched.connectors import write_sample
from tests.support.command_line import Command

SMALL = {
    "lambdacrawl": ("--pages", "200", "--runs", "2", "--epochs", "3"),
    "mirrorsync": ("--runs", "2", "--arms", "5", "--rounds", "4"),
    "noisy-signals": ("--pages", "20", "--runs", "2", "--time", "5"),
    "webfountain": ("--budget", "54", "--buckets", "10", "--periods", "4"),
}


def test_options_reach_the_experiments(streamsched: Command) -> None:
    crawls = streamsched("experiment", "lambdacrawl", *SMALL["lambdacrawl"], "--seed", "4", "--json", "-").json
    assert [crawls[key] for key in ("pages", "runs", "epochs", "seed")] == [200, 2, 3, 4]
    syncs = streamsched("experiment", "mirrorsync", *SMALL["mirrorsync"], "--seed", "4", "--json", "-").json
    assert [syncs[key] for key in ("runs", "arms", "rounds", "seed")] == [2, 5, 4, 4]
    noisy = streamsched("experiment", "noisy-signals", *SMALL["noisy-signals"], "--seed", "4", "--json", "-").json
    assert [noisy[key] for key in ("pages", "runs", "time", "seed")] == [20, 2, 5, 4]


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
