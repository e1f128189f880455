"""`evolutions` and `use`: records listed, formulas set, champions taken back, and what damage does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamsched import Scheduler
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import RecordBook
from streamsched.persistence.state_directory import lock_state
from streamsched.scheduler.evolver import Evolver
from tests.support.command_line import NOW, Command, crawl, write

WINNER = "posterior + 0.01 * t"
KINDS = ("champion", "challenger", "data", "why")


@pytest.fixture
def evolved(state: Path) -> Path:
    """The state after two evolutions: the first promoted its challenger, the second kept it."""
    scheduler = Scheduler.load(state)
    plan = EvolutionPlan(drift=None, trial=False)
    for breed in ("win", "lose"):
        one = Evolver(scheduler, plan, state, breed=f"tests.support.fake_evolutions:{breed}")
        one.evolve_now(NOW)
    scheduler.save(state)
    return state


def test_records_are_listed(streamsched: Command, evolved: Path) -> None:
    answer = streamsched("evolutions", "--state", evolved)
    assert (answer.code, answer.err) == (0, "")
    rows = [" ".join(line.split()) for line in answer.lines]
    assert rows[0] == "1 2025-08-22 00:00 UTC, asked: promoted"
    assert rows[1] == f"champion {WINNER}"
    assert rows[2].startswith(f"challenger {WINNER} (+10.0 ± ")
    assert rows[2].endswith(" % ChangeRate)")
    assert rows[3].startswith("data 12 pages × ")
    assert rows[4].startswith("why promoted: the gain of +")
    assert rows[5] == "2 2025-08-22 00:00 UTC, asked: kept"
    assert [row.split()[0] for row in rows] == ["1", *KINDS, "2", *KINDS]
    assert rows[9].startswith("why not promoted: the gain of -")
    assert len(rows) == 10


def test_records_as_json(streamsched: Command, evolved: Path) -> None:
    answer = streamsched("evolutions", "--state", evolved, "--json")
    assert [record["decision"] for record in answer.json] == ["promoted", "kept"]
    assert answer.json[0] == RecordBook(evolved).read()[0][0].to_json()
    assert answer.json[0]["settings"]["settings"]["generations"] == 5


def test_no_records(streamsched: Command, state: Path) -> None:
    answer = streamsched("evolutions", "--state", state)
    assert (answer.code, answer.out, answer.err) == (1, "", "streamsched: no evolution has been recorded yet\n")
    assert streamsched("evolutions", "--state", state, "--json").json == []


def test_damaged_records_are_named_and_the_others_listed(streamsched: Command, evolved: Path) -> None:
    path = RecordBook(evolved).path
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], b"{}", lines[1][:50]]))
    answer = streamsched("evolutions", "--state", evolved)
    assert answer.code == 0
    assert len(answer.lines) == 5
    named = answer.err.splitlines()
    assert len(named) == 2
    fields = "number, when_s, trigger, decision, why, champion_before, champion_after"
    assert named[0] == f"{path}: line 2: is not a record: missing {fields}"
    assert named[1] == f"{path}: line 3: was only partly written"


def test_a_file_without_a_record_is_an_error(streamsched: Command, evolved: Path) -> None:
    path = RecordBook(evolved).path
    path.write_text("{}\nnonsense\n[]\n")
    answer = streamsched("evolutions", "--state", evolved)
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.splitlines()[1] == f"{path}: line 2: is not a record: not JSON"
    assert answer.err.splitlines()[-1] == (
        f"streamsched: {path}: 3 lines cannot be read as records, and there is no other"
    )
    assert "__init__" not in answer.err


def test_a_file_is_not_called_missing(streamsched: Command, evolved: Path) -> None:
    answer = streamsched("evolutions", "--state", RecordBook(evolved).path)
    assert (answer.code, "is a file: expected the directory" in answer.err) == (4, True)


@pytest.mark.parametrize(("choice", "formula"), [("-t", "-t"), ("-(t * X)", "-(t * X)"), ("(-7)", "-7")])
def test_a_formula_may_begin_with_a_minus(streamsched: Command, evolved: Path, choice: str, formula: str) -> None:
    answer = streamsched("use", choice, "--state", evolved)
    assert (answer.code, answer.out) == (0, f"{formula}: set by hand; this is record 3\n")
    assert streamsched("next", "--state", evolved, "--formula", choice, "--peek", "--now", str(NOW)).code == 0


def test_a_formula_given_to_run_leaves_a_record(streamsched: Command, evolved: Path, tmp_path: Path) -> None:
    words = ("run", "--source", write(tmp_path / "more.jsonl", crawl()), "--state", evolved)
    before = Scheduler.load(evolved).champion
    assert streamsched(*words, "--formula", "-t").code == 0
    record = RecordBook(evolved).read()[0][-1]
    assert (record.number, record.decision, record.why) == (3, "set", "asked for this formula")
    assert (record.champion_before, record.champion_after) == (before, Scheduler.load(evolved).champion)
    assert streamsched(*words, "--formula", "-t").code == 0  # nothing changes
    assert streamsched(*words).code == 0
    assert RecordBook(evolved).read()[0][-1].number == 3
    assert Scheduler.load(evolved).champion == record.champion_after


def test_a_formula_is_set_by_hand(streamsched: Command, evolved: Path) -> None:
    answer = streamsched("use", "t * X", "--state", evolved, "--now", str(NOW))
    assert (answer.code, answer.out) == (0, "t * X: set by hand; this is record 3\n")
    scheduler = Scheduler.load(evolved)
    assert (scheduler.formula.text, scheduler.champion.record) == ("t * X", 3)
    record = RecordBook(evolved).read()[0][-1]
    assert (record.number, record.when_s, record.trigger, record.decision) == (3, NOW, "asked", "set")
    assert (record.champion_before.formula.text, record.champion_after.formula.text) == (WINNER, "t * X")
    result = streamsched("explain", "https://h0.example/p0", "--state", evolved, "--json").json
    assert (result["formula"], result["champion"]["origin"], result["champion"]["record"]) == ("t * X", "hand", 3)


def test_the_champion_of_any_record_is_taken_back(streamsched: Command, evolved: Path) -> None:
    risen = Scheduler.load(evolved).champion
    assert streamsched("use", "posterior", "--state", evolved).code == 0
    answer = streamsched("use", "1", "--state", evolved)
    assert answer.code == 0
    assert answer.out == f"{WINNER}: {risen}, as after record 1; this is record 4\n"
    assert Scheduler.load(evolved).champion == risen
    result = streamsched("explain", "https://h0.example/p0", "--state", evolved, "--now", str(NOW))
    assert (
        "  formula    champion of evolution 1, promoted 2025-08-22, +10.0 % ChangeRate on held-out pages"
        in result.lines
    )
    assert streamsched("use", "3", "--state", evolved).out.startswith(
        "posterior: set by hand, record 3, as after record 3; "
    )
    assert [record.number for record in RecordBook(evolved).read()[0]] == [1, 2, 3, 4, 5]


def test_next_by_another_formula_keeps_the_champion(streamsched: Command, evolved: Path) -> None:
    before = Scheduler.load(evolved).champion
    assert streamsched("next", "--state", evolved, "--now", str(NOW), "--formula", "t").code == 0
    assert Scheduler.load(evolved).champion == before


def kept(state: Path) -> dict[str, bytes]:
    """The files of `state` but the log of calls, whose unused end is cut when it is opened."""
    return {one.name: one.read_bytes() for one in state.iterdir() if one.is_file() and one.suffix != ".log"}


@pytest.mark.parametrize(
    ("choice", "code", "reason"),
    [
        ("9", 2, "NUMBER: expected the number of a record in "),
        ("9" * 5000, 2, "found '999"),
        ("-1", 2, "NUMBER: expected the number of a record in "),
        ("1 +", 2, "column 4"),
    ],
)
def test_what_cannot_be_used_changes_nothing(
    streamsched: Command, evolved: Path, choice: str, code: int, reason: str
) -> None:
    before, digest = kept(evolved), Scheduler.load(evolved).digest()
    answer = streamsched("use", choice, "--state", evolved)
    assert answer.code == code
    assert reason in answer.err
    assert (kept(evolved), Scheduler.load(evolved).digest()) == (before, digest)


def test_a_state_that_is_missing_or_in_use(streamsched: Command, evolved: Path, tmp_path: Path) -> None:
    assert streamsched("use", "t", "--state", tmp_path / "none").code == 4
    assert streamsched("evolutions", "--state", tmp_path / "none").code == 4
    with lock_state(evolved):
        answer = streamsched("use", "t", "--state", evolved)
        assert (answer.code, "another streamsched process" in answer.err) == (4, True)
        assert streamsched("evolutions", "--state", evolved).code == 0
    assert json.loads(RecordBook(evolved).path.read_text().splitlines()[-1])["number"] == 2
