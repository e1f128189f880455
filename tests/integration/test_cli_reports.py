"""The commands that report: `replay`, `analyze`, `evolve` and `experiment`, each with its tables, JSON and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cases import how_many
from tests.support.command_line import Command, change_log, files
from tests.support.extras import needs_casadi

COMMANDS = {
    "replay": ("replay", "LOG", "--policy", "age", "--policy", "posterior"),
    "analyze": ("analyze", "LOG"),
    "evolve": ("evolve", "LOG", "--population", "10", "--generations", "2", "--seeds", "2", "--budget", "0.5"),
    "lambdacrawl": ("experiment", "lambdacrawl", "--pages", "200", "--runs", "2", "--epochs", "3", "--seed", "4"),
    "mirrorsync": ("experiment", "mirrorsync", "--runs", "2", "--arms", "5", "--rounds", "4", "--seed", "4"),
    "noisy-signals": ("experiment", "noisy-signals", "--pages", "20", "--runs", "2", "--time", "5", "--seed", "4"),
    "webfountain": ("experiment", "webfountain", "--budget", "54", "--buckets", "10", "--periods", "4"),
}
HEADS = {
    "replay": ("Policy", "age", "posterior", "Differences from age"),
    "analyze": ("consistent with a Poisson process", "The median page changes every"),
    "lambdacrawl": ("Experiment 1: all pages", "Experiment 2: pages with complete", "Experiment 3: rates are learned"),
    "mirrorsync": ("Experiment 1, figure 1:", "Experiment 1a, figure 3:", "Experiment 2, figure 2:", "Experiment 2a,"),
    "noisy-signals": ("Experiment 1: signals are missing", "Experiment 2:", "Experiment 3: half of the pages"),
    "webfountain": ("Experiment 1, table 3", "Experiment 2, table 4", "Experiment 3: do obsolete pages stabilise?"),
}  # fmt: skip
FIGURES = {
    "replay": 5,
    "analyze": 4,
    "lambdacrawl": 5,
    "mirrorsync": 4,
    "noisy-signals": 3,
    "webfountain": 4,
}

GIVEN = {  # what the JSON has of the options
    "lambdacrawl": {"pages": 200, "runs": 2, "epochs": 3, "seed": 4},
    "mirrorsync": {"runs": 2, "arms": 5, "rounds": 4, "seed": 4},
    "noisy-signals": {"pages": 20, "runs": 2, "time": 5, "seed": 4},
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return change_log(tmp_path_factory.mktemp("log") / "log.tsv.gz", days=60)


@pytest.mark.longer
@pytest.mark.parametrize("name", [*[*HEADS][:-1], pytest.param("webfountain", marks=needs_casadi)])
def test_tables_json_and_page(streamsched: Command, log: Path, tmp_path: Path, name: str) -> None:
    """Those of `evolve` are compared in test_cli_evolve.py."""
    words = [str(log) if word == "LOG" else word for word in COMMANDS[name]]
    numbers, page = tmp_path / "new" / "figures.json", tmp_path / "out" / "report.html"
    answer = streamsched(*words, "--json", numbers, "--report", page)
    assert (answer.code, answer.err) == (0, "")
    for head in HEADS[name]:
        assert head in " ".join(answer.out.split())
    assert f"report: {page}" in answer.lines
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert page.read_text().count("<figure>") == FIGURES[name]
    assert GIVEN.get(name, {}).items() <= json.loads(numbers.read_text()).items()
    if name not in ("replay", "analyze") and how_many(0, 1) == 0:
        return  # unit tests of each experiment compare two runs of a seed
    again = streamsched(*words, "--json", "-", "--report", page)
    assert (again.code, again.err) == (0, f"report: {page}\n")
    assert numbers.read_text() == again.out


@pytest.mark.parametrize("name", COMMANDS)
def test_places_that_cannot_be_written_are_found_before_the_work(
    streamsched: Command, log: Path, tmp_path: Path, name: str
) -> None:
    words = [str(log) if word == "LOG" else word for word in COMMANDS[name]]
    places = [("--report", tmp_path), ("--json", tmp_path), ("--report", Path("/proc/report.html"))]
    for option, place in [*places, *([("--report", log), ("--json", log / "x")] if str(log) in words else [])]:
        streamsched(*words, option, place).check_refused(3, str(place))
    twice = tmp_path / "figures"
    streamsched(*words, "--report", twice, "--json", twice).check_refused(3, f"{twice}: is named twice")
    assert files(tmp_path) == []
