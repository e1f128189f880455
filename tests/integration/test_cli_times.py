"""Wrong clocks: what `run` and `next` refuse, what `state verify` reports and `state repair` mends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamsched import DurableScheduler, Outcome, Scheduler
from streamsched.cli.options import current_time
from tests.support.command_line import DAY, NOW, Command, crawl, finish, outcome, start, write

LINES = crawl()
URL = "https://h0.example/p0"
YEAR = 365 * DAY
SHOWN_NOW = str(NOW - 4 * DAY)


def late(url: str, at: float, **fields: object) -> str:
    return json.dumps({"url": url, "fetched_at": at, **fields})


def test_a_file_keeps_wrong_times_aside(streamsched: Command, tmp_path: Path) -> None:
    wrong = [late(URL, 1e3 * NOW, changed=True), late(URL, NOW + 3 * YEAR, status=429, cost=2.5)]
    source = write(tmp_path / "o.jsonl", [*LINES[:40], wrong[0], *LINES[40:]])
    write(source, wrong[1:], append=True)
    letters = tmp_path / "letters.jsonl"
    answer = streamsched("run", "--source", source, "--state", tmp_path / "s", "--dead-letters", letters, "--json")
    assert (answer.code, answer.json["applied"], answer.json["rejected"]) == (0, len(LINES), 2)
    kept = [json.loads(line) for line in letters.read_text().splitlines()]
    assert sorted((one["field"], one["unit"], one["offset"]) for one in kept) == [
        ("fetched_at", "line", 41), ("fetched_at", "line", 74)
    ]  # fmt: skip
    assert [json.loads(one["raw"]) for one in kept] == [json.loads(line) for line in wrong]
    assert all("seconds" in one["reason"] for one in kept)
    write(tmp_path / "good.jsonl", LINES)
    streamsched("run", "--source", tmp_path / "good.jsonl", "--state", tmp_path / "t")
    batches = [streamsched("next", "--state", tmp_path / state, "--now", SHOWN_NOW, "-k", "99") for state in "st"]
    assert batches[0].lines == batches[1].lines
    assert streamsched("state", "verify", "--state", tmp_path / "s").code == 0


def test_times_near_0_cost_a_file_no_other_outcome(streamsched: Command, tmp_path: Path) -> None:
    wrong = [late(URL, 0), late(URL, -5), late(URL, 1)]
    source = write(tmp_path / "o.jsonl", [LINES[0], *wrong, *LINES[1:]])
    answer = streamsched("run", "--source", source, "--state", tmp_path / "s", "--json")
    assert (answer.code, answer.json["rejected"]) == (0, 2)
    assert (answer.json["applied"], answer.json["late"]) == (len(LINES), 1)  # LINES[0] is of URL too


def test_a_pipe_goes_by_the_clock(tmp_path: Path) -> None:
    now = current_time(None)
    lines = [late(f"https://a.example/{i}", now + days * DAY) for i, days in enumerate([-900, 0, 0.5, 2, 9, -5])]
    letters = tmp_path / "letters"
    process = start(
        "run", "--source", "-", "--format", "jsonl", "--state", tmp_path / "s", "--dead-letters", letters, "--json"
    )
    answer = finish(process, says="".join(f"{line}\n" for line in lines))
    assert (answer.code, answer.json["applied"], answer.json["rejected"]) == (0, 4, 2)
    assert [json.loads(json.loads(line)["raw"]) for line in letters.read_text().splitlines()] == [
        json.loads(line) for line in lines[3:5]
    ]
    assert "seconds" in answer.err
    assert len(Scheduler.load(tmp_path / "s")) == 4


def test_the_bound_of_a_run(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "o.jsonl", [*LINES, late(URL, NOW + 2 * DAY), late(URL, NOW + 3 * YEAR)])

    def rejected(state: str, *words: str) -> int:
        answer = streamsched("run", "--source", source, "--state", tmp_path / state, "--json", *words)
        return int(answer.json["rejected"])

    assert rejected("default") == 1
    assert rejected("all", "--max-ahead", "none") == 0
    assert rejected("few", "--max-ahead", "1d") == 2
    assert Scheduler.load(tmp_path / "few").max_ahead == DAY
    assert rejected("few", "--from-start") == 2
    assert rejected("few", "--from-start", "--set", "scheduler.max_ahead=10d") == 1
    assert rejected("few", "--from-start") == 1
    answer = streamsched("run", "--source", source, "--state", tmp_path / "bad", "--max-ahead", "soon")
    assert answer.code == 2
    assert "--max-ahead" in answer.err


@pytest.mark.parametrize("now", [str(1e3 * NOW), "-1e11", "2201-01-01", "nan"])
def test_next_refuses_a_time_that_cannot_be_now(streamsched: Command, state: Path, now: str) -> None:
    answer = streamsched("next", "--state", state, f"--now={now}")
    assert answer.code == 2
    assert "seconds" in answer.err
    assert len(streamsched("next", "--state", state, "--now", SHOWN_NOW, "-k", "99").lines) == 12


def test_a_state_of_a_simulated_future_stays_usable(streamsched: Command, tmp_path: Path) -> None:
    start_s = current_time(None) + 50 * YEAR
    source = write(tmp_path / "o.jsonl", [late(f"https://a.example/{i % 9}", start_s + i * 3_600) for i in range(90)])
    state = tmp_path / "s"
    assert streamsched("run", "--source", source, "--state", state, "--json").json["rejected"] == 0
    for days in (4, 4.5, 5.4):
        assert streamsched("next", "--state", state, "--now", str(start_s + days * DAY), "-k", "2").code == 0
    assert streamsched("next", "--state", state, "--now", str(start_s + 7 * DAY), "-k", "2").code == 2


def test_repair(streamsched: Command, tmp_path: Path) -> None:
    state = tmp_path / "s"
    with DurableScheduler.open(state, {"max_ahead": None, "panel": 0.2}) as scheduler:
        for line in LINES:
            scheduler.observe(Outcome(**json.loads(line)))
        scheduler.observe([Outcome(URL, 9e10, changed=True), Outcome("https://h1.example/p1", 9e10, status=429)])
        scheduler.next_batch(2, now=9e10 + DAY, lease="1h")
    hidden = streamsched("next", "--state", state, "--now", SHOWN_NOW, "-k", "99").lines
    assert len(hidden) < 9
    words = ("--state", state, "--now", str(NOW))
    found = streamsched("state", "verify", *words)
    assert found.code == 4
    assert URL in found.err
    assert "2 of 12 pages" in found.err
    assert streamsched("state", "verify", "--state", state, "--now", "9.1e10").code == 0
    changed = streamsched("state", "repair", *words, "--json")
    assert changed.code == 0
    assert set(changed.json["changed"]) >= {"pages", "hosts", "leases", "rhythms", "panel", "stream_time"}
    assert changed.json["changed"]["pages"] == 2
    assert streamsched("state", "verify", *words).code == 0
    assert Scheduler.load(state).core.pages.faults() == []
    mended = {
        url
        for days in range(9)
        for url in streamsched("next", "--state", state, "--now", str(NOW + days * DAY), "-k", "99").lines
    }
    assert len(mended) == 12
    assert streamsched("state", "repair", "--state", state, "--now", str(NOW + 9 * DAY)).lines == ["nothing to repair"]


def test_repair_of_a_sound_state_writes_nothing(streamsched: Command, state: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in state.glob("snapshot*")}
    answer = streamsched("state", "repair", "--state", state)
    assert (answer.code, answer.lines) == (0, ["nothing to repair"])
    assert {path.name: path.stat().st_mtime_ns for path in state.glob("snapshot*")} == before
    assert streamsched("state", "repair", "--state", state / "none").code == 4


def test_outcomes_after_the_repair_are_learned_from(streamsched: Command, tmp_path: Path) -> None:
    state, source = tmp_path / "s", write(tmp_path / "o.jsonl", LINES)
    write(source, [late(URL, 9e10, changed=True)], append=True)
    streamsched("run", "--source", source, "--state", state, "--max-ahead", "none")
    streamsched("state", "repair", "--state", state, "--now", str(NOW))
    write(source, [outcome(0, 7.5, changed=True)], append=True)
    answer = streamsched("run", "--source", source, "--state", state, "--max-ahead", "100d", "--json")
    assert (answer.json["applied"], answer.json["changed"], answer.json["rejected"]) == (1, 1, 0)
