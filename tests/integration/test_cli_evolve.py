"""`evolve`: its tables, its JSON, its report, and what it refuses."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.support.command_line import Command, write
from tests.support.paths import ROOT

TINY = ("--population", "10", "--generations", "2", "--seeds", "2", "--budget", "0.2")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of one folder of a real log."""
    lines = gzip.decompress((ROOT / "data" / "openwrt.tsv.gz").read_bytes()).decode().splitlines()
    kept = [line for line in lines if "/net/" in line]
    assert len(kept) > 1000
    return write(tmp_path_factory.mktemp("log") / "openwrt-net.tsv.gz", kept)


def test_the_verdict_has_the_size_of_the_search_and_workers_do_not_matter(
    streamsched: Command, log: Path, tmp_path: Path
) -> None:
    figures, page = tmp_path / "figures.json", tmp_path / "report.html"
    answer = streamsched("evolve", log, "--protocol", "paper", *TINY, "--json", figures, "--report", page)
    assert (answer.code, answer.err) == (0, "")
    for head in ("Table 2.", "Table 3.", "Table 4.", "Figure 5.", "claim that GP4C_All beats NAD"):
        assert head in " ".join(answer.out.split())
    assert f"report: {page}" in answer.lines
    assert page.read_text().count("<figure>") == 9
    assert "changed: since the page's last visit" in answer.out
    assert "The search is smaller than the paper's: 10 × 2 × 2 instead of 300 × 50 × 5" in answer.out
    again = streamsched("evolve", log, *TINY, "--workers", "1", "--json", "-")
    assert (again.code, again.err) == (0, "")
    assert figures.read_text() == again.out
    assert again.json["cycles"] == 57


def test_every_option_reaches_the_experiment(streamsched: Command, log: Path) -> None:
    window = ("--from", "2025-08-22", "--to", "2026-02-27", "--cycle", "7d", "--warmup", "3")
    search = ("--metric", "change-rate", "--terminals", "full", "--terminals", "basic", "--seed", "4")
    content = streamsched("evolve", log, *TINY, *window, *search, "--changed", "that-day", "--json", "-").json
    assert (content["from"], content["to"], content["cycle"]) == ("2025-08-22", "2026-02-27", 604_800.0)
    assert (content["cycles"], content["span_cycles"], content["warmup"]) == (27, 9, 3)
    assert (content["changed"], content["seed"], content["budget"]) == ("that_day", 4, 0.2)
    assert [(one["method"], one["fitness"]) for one in content["evolved"]] == [
        ("GP4C_Full", "change_rate"),
        ("GP4C_Basic", "change_rate"),
    ]
    evolution = content["evolution"]
    assert (evolution["population"], evolution["generations"], evolution["seeds"]) == (10, 2, 2)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--from", "2026-08-01"], "there are 20 whole cycles: expected 57 or more, 3 spans of 19"),
        (["--from", "2026-08-01", "--to", "2026-08-06"], "there are 5 whole cycles: expected 9 or more"),
        (["--budget", "0.001"], "pages: expected 5000 or more, so that a budget of 0.001 visits a page"),
        (["--budget", "2"], "budget: expected a share of the pages above 0, at most 1, found 2.0"),
        (["--metric", "ndcg", "--metric", "ndcg"], "streamsched: --metric: expected each once, found 'ndcg ndcg'"),
        (["--terminals", "full", "--terminals", "full"], "streamsched: --terminals: expected each once"),
        (["--population", "1000000000"], "population: expected a whole number from 1 to 100000"),
        (["--population", "0"], "--population: expected a whole number of 1 or more"),
        (["--protocol", "mine"], "--protocol: 'mine' is not"),
    ],
)
def test_what_cannot_work_has_code_2(streamsched: Command, log: Path, words: list[str], reason: str) -> None:
    streamsched("evolve", log, *words).check_refused(2, reason)


def test_files_that_cannot_be_read_have_code_3(streamsched: Command, tmp_path: Path) -> None:
    streamsched("evolve", tmp_path / "none.tsv").check_refused(3, "none.tsv")
    (tmp_path / "notes.md").write_text("# Notes\n")
    answer = streamsched("evolve", tmp_path / "notes.md")
    assert (answer.code, "by name or content" in answer.err, "format=" in answer.err) == (3, True, False)


def test_help_says_which_days_are_taken(streamsched: Command) -> None:
    """As `choose_spans` has them."""
    shown = " ".join(streamsched("evolve", "--help").out.split())
    assert "Without --from and --to the experiment takes the last 57 cycles of the log, three spans of 19" in shown
    assert "with both it cuts the time between them into three equal spans" in shown
