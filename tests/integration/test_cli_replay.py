"""`replay`: its table, its JSON, its report, the state it saves, and what it refuses."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamsched import Scheduler
from streamsched.persistence.state_directory import newest_image
from streamsched.replay import METRICS, STEADY, experiment
from streamsched.replay.plain_sites import CELLS, SITES, SuiteSettings
from streamsched.replay.replay_settings import BUDGETS
from streamsched.replay.simulation.policies import make_policy
from streamsched.replay.simulation.simulator import Policy
from tests.support.command_line import DAY, NOW, Command, change_log, crawl, files, write

FORMULA = "(1 - exp(-rate * t)) * importance + 0.001 * log(n + 1) * t + 0 * (CG + NAD + SAD + AAD + GAD)"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return change_log(tmp_path_factory.mktemp("log") / "log.tsv.gz")


def test_json_has_the_agreed_schema(streamsched: Command, log: Path) -> None:
    answer = streamsched("replay", log, "--json", "-", "--workers", "1", "--budget", "0.1")
    assert (answer.code, answer.err) == (0, "")
    content = answer.json
    assert {"log", "pages", "cycles", "budget", "policies"} <= set(content)
    assert (content["log"], content["pages"], content["budget"]) == (str(log), 20, 0.1)
    assert content["cycles"] == 39
    assert list(content["policies"]) == list(STEADY)
    for policy in content["policies"].values():
        assert set(policy["figures"]) == {*METRICS, "stale"}
        assert 0 <= policy["figures"]["change_rate"]["value"] <= 1
        assert policy["visits"] == 2 * 37


@pytest.mark.parametrize("columns", ["20", "80", "300"])
def test_a_table_in_a_file_is_whole_whatever_the_terminal(
    streamsched: Command, log: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm-256color")
    answer = streamsched("replay", log, "--policy", FORMULA, "--policy", "age", "--policy", "oracle")
    assert answer.code == 0
    assert sum(line.startswith(FORMULA) for line in answer.lines) == 2  # its figures and its differences from age
    assert "There is no confidence interval" in " ".join(answer.out.split())
    assert "…" not in answer.out
    assert "\x1b" not in answer.out
    assert all(line == line.rstrip() for line in answer.lines)


def test_every_option_reaches_the_replay(streamsched: Command, log: Path) -> None:
    words = "--policy 't * X' --policy rand --budget 0.25 --cycle 12h --changed that-day --warmup 3 --json -"
    window = "--from 2025-07-20 --to 2025-08-10T02:00:00+02:00 --seed 5 --seeds 2 --later-pages --workers 1"
    content = streamsched("replay", log, *shlex.split(words), *shlex.split(window)).json
    assert list(content["policies"]) == ["t * X", "rand"]
    assert (content["budget"], content["cycle"], content["warmup"]) == (0.25, 43_200.0, 3)
    assert (content["from"], content["to"], content["cycles"]) == ("2025-07-20", "2025-08-10", 42)
    assert (content["changed"], content["seeds"], content["later_pages"]) == ("that_day", [5, 6], True)


def test_years_of_learning_are_crawled_and_not_measured(streamsched: Command, log: Path) -> None:
    words = "--policy default --policy age --learn-from 2025-07-20 --from 2025-08-01 --to 2025-08-11 --budget 0.1"
    content = streamsched("replay", log, *shlex.split(words), "--json", "-").json
    assert (content["learn_from"], content["from"], content["cycles"]) == ("2025-07-20", "2025-08-01", 10)
    assert content["policies"]["age"]["visits"] == 2 * 10
    assert "learning from 2025-07-20" in " ".join(streamsched("replay", log, *shlex.split(words)).out.split())


def test_policies_are_compared_with_the_one_named(streamsched: Command, log: Path) -> None:
    content = streamsched("replay", log, "--policy", "default", "--against", "rand", "--json", "-").json
    assert (content["against"], list(content["policies"])) == ("rand", ["default", "rand"])
    assert content["policies"]["rand"]["against"] is None
    default, rand = content["policies"].values()
    ours, theirs = (policy["figures"]["change_rate"]["value"] for policy in (default, rand))
    assert default["against"]["change_rate"]["difference"]["value"] == pytest.approx(ours - theirs)
    answer = streamsched("replay", log, "--policy", "default", "--policy", "t", "--against", "t")
    assert "Differences from t" in answer.out


def test_calibration_judges_probabilities_only(streamsched: Command, log: Path, tmp_path: Path) -> None:
    policies = ("--policy", "default", "--policy", "age", "--policy", "due")
    report = tmp_path / "report.html"
    answer = streamsched(
        "replay", log, *policies, "--budget", "0.2", "--calibration", "--report", report, "--json", "-"
    )
    found = {name: policy["calibration"] for name, policy in answer.json["policies"].items()}
    assert found["age"] is None
    for name in ("default", "due"):
        policy, every = answer.json["policies"][name], found[name]["all_visits"]
        assert every["visits"] == policy["visits"]
        assert sum(one["visits"] for one in every["bins"]) == every["visits"]
        assert every["observed"] == pytest.approx(policy["figures"]["change_rate"]["value"])
        assert 0 <= every["error"] <= 1
        parts = [found[name][part]["visits"] for part in ("without_surge", "with_surge")]
        assert sum(parts) == every["visits"]
        gaps = [one["visits"] * abs(one["predicted"] - one["observed"]) for one in every["bins"]]
        assert every["error"] == pytest.approx(sum(gaps) / every["visits"])
    assert "No calibration for age" in report.read_text()
    assert "Predicted" in streamsched("replay", log, *policies, "--calibration").out
    plain = streamsched("replay", log, "--policy", "default", "--json", "-").json
    assert plain["policies"]["default"]["calibration"] is None


@pytest.mark.parametrize("policy", ["default", "freshness", "t * X"])
def test_a_saved_state_can_be_asked(streamsched: Command, log: Path, tmp_path: Path, policy: str) -> None:
    state = tmp_path / "state"
    policies = ("--policy", "age", "--policy", policy)
    answer = streamsched("replay", log, *policies, "--save-state", state, "--state-policy", policy)
    assert answer.lines[-1] == f"state of policy {policy}: {newest_image(state)}"
    assert streamsched("state", "verify", "--state", state).code == 0
    assert len(Scheduler.load(state)) == 20
    batch = streamsched("next", "--state", state, "--now", "2025-08-22", "-k", "3")
    assert len(batch.lines) == 3
    result = streamsched("explain", batch.lines[0], "--state", state, "--now", "2025-08-22", "--json").json
    leased = [
        (reason["code"], reason["fields"]["wait_s"]) for reason in result["reasons"] if reason["code"] == "leased"
    ]
    assert leased == [("leased", 600.0)]


def test_an_evolving_policy_saves_its_records_with_its_state(
    streamsched: Command, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str, *given: Any, **more: Any) -> Policy:
        made.append(name)
        return make_policy(name, *given, **more)

    made: list[str] = []
    monkeypatch.setattr(experiment, "make_policy", make)
    answer = streamsched("replay", log, "--policy", "gp4c", "--save-state", tmp_path / "state")
    assert answer.lines[-1] == f"state of policy gp4c: {newest_image(tmp_path / 'state')}"
    assert made == ["gp4c"]  # it takes too long to run twice
    result = streamsched("evolutions", "--state", tmp_path / "state", "--json")
    assert [record["number"] for record in result.json] == [1, 2, 3, 4]
    assert {record["decision"] for record in result.json} == {"kept"}  # 20 pages are too few


@pytest.mark.parametrize(
    ("policies", "saved"),
    [(["age"], "age"), (["age", "default"], "default"), (["-t"], "-t"), ([], "default")],
)
def test_the_state_saved_is_the_only_policys_or_the_default(
    streamsched: Command, log: Path, tmp_path: Path, policies: list[str], saved: str
) -> None:
    words = [word for policy in policies for word in ("--policy", policy)]
    answer = streamsched("replay", log, *words, "--save-state", tmp_path / "state")
    assert answer.lines[-1].startswith(f"state of policy {saved}: ")


def test_a_log_of_outcomes_is_replayed_with_a_note(streamsched: Command, tmp_path: Path) -> None:
    log = write(tmp_path / "outcomes.jsonl", [*crawl(days=9), "{"])
    answer = streamsched("replay", log, "--policy", "age", "--json", "-")
    assert answer.code == 0
    assert "each change is placed at the visit that saw it" in answer.json["note"]
    assert answer.json["rejected"] == 1
    assert answer.err.startswith(f"rejected: {log}, line {12 * 9 + 1}: record: ")
    assert "crawl outcomes, not changes" in " ".join(streamsched("replay", log, "--policy", "age").lines)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--policy", "nadd"], "unknown policy 'nadd': expected a formula in quotes or one of rand, age, cg,"),
        (["--policy", "t * (X"], "column 7: found the end"),
        (["--budget", "nan"], f"budget: expected {BUDGETS}, found nan"),
        (["--budget", "2.5"], f"budget: expected {BUDGETS}, found 2.5"),
        (["--from", "2030-01-01"], "expected more than the 2 of the warm-up"),
        (["--learn-from", "2025-07-20"], "learn_from: expected the start of the measured period too, --from"),
        (["--learn-from", "2020-01-01", "--from", "2025-08-01"], "no page is alive at 2020-01-01"),
        (
            ["--learn-from", "2025-07-20", "--from", "2025-08-10", "--to", "2025-08-01"],
            "holds 12 whole cycles: expected more than the 21 of the learning before 2025-08-10",
        ),
        (["--against", "nadd"], "unknown policy 'nadd'"),
        (["--to", "2030-01-01"], "after the end of the log"),
        (["--warmup", "100"], "expected more than the 100 of the warm-up"),
        (["--state-policy", "rand", "--save-state", "x"], "--state-policy: expected one of age, cg, nad,"),
        (["--state-policy", "nadd", "--save-state", "x"], "whose state is to be saved, found 'nadd'"),
        (
            ["--policy", "age", "--state-policy", "nad", "--save-state", "x"],
            "--state-policy: expected one of age, whose",
        ),
        (
            ["--policy", "age", "--policy", "nad", "--save-state", "x"],
            "--state-policy: expected one of age, nad, whose",
        ),
        (["--policy", "oracle", "--save-state", "x"], "--state-policy: expected a --policy other than rand and oracle"),
        (["--policy", "-1 -"], "column 5: found the end"),
    ],
)
def test_what_cannot_work_has_code_2(
    streamsched: Command, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    streamsched("replay", log, *words).check_refused(2, reason)


def test_a_place_for_the_state_that_cannot_be_written_is_found_before_the_work(
    streamsched: Command, log: Path, tmp_path: Path
) -> None:
    for place in (log, log / "state"):
        streamsched("replay", log, "--save-state", place).check_refused(4, str(place))
    assert files(tmp_path) == []


def test_standard_input_is_read_once_only(streamsched: Command, tmp_path: Path) -> None:
    streamsched("replay", "-", "--save-state", tmp_path / "state").check_refused(
        2, "LOG: expected a file: --save-state reads it a second time"
    )


def test_a_log_without_changes_says_so(streamsched: Command, tmp_path: Path) -> None:
    log = write(tmp_path / "log.tsv", [f"{NOW - 9 * DAY:.0f}\tA\thttps://h.example/"])
    answer = streamsched("replay", log)
    assert answer.code == 2
    assert "expected more than the 2 of the warm-up" in answer.err
    empty = write(tmp_path / "empty.tsv", [])
    assert streamsched("replay", empty).code == 2


def test_figures_are_null_where_nothing_changed(streamsched: Command, tmp_path: Path) -> None:
    lines = [f"{NOW - 9 * DAY:.0f}\tA\thttps://h.example/{page}" for page in range(3)]
    log = write(tmp_path / "log.tsv", [*lines, f"{NOW:.0f}\tA\thttps://h.example/late"])
    content = streamsched("replay", log, "--policy", "age", "--json", "-").json
    figures = {name: figure["value"] for name, figure in content["policies"]["age"]["figures"].items()}
    assert (figures["change_rate"], figures["ndcg"], figures["freshness"]) == (0.0, None, 1.0)
    assert "–" in streamsched("replay", log, "--policy", "age").out
    assert json.dumps(content, allow_nan=False)


def test_suite_crawls_simulated_sites(streamsched: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    small = partial(SuiteSettings, pages=100, days=4, learned=2)
    monkeypatch.setattr("streamsched.cli.commands.replay.SuiteSettings", small)
    page = tmp_path / "suite.html"
    answer = streamsched("replay", "--suite", "--seed", "3", "--workers", "1", "--json", "-", "--report", page)
    assert answer.code == 0
    assert len(answer.json["sites"]) == len(CELLS)
    assert answer.json["settings"]["seeds"] == [3]
    assert all(str(kind.doc) in page.read_text("utf-8") for kind in SITES)


@pytest.mark.parametrize("more", [["--budget", "0.1"], ["log.tsv"], ["--policy", "age"], ["--save-state", "x"]])
def test_suite_takes_no_other_options(streamsched: Command, more: list[str]) -> None:
    streamsched("replay", "--suite", *more).check_refused(2, "--suite")


def test_replay_needs_a_log(streamsched: Command) -> None:
    streamsched("replay").check_refused(2, "LOG")
