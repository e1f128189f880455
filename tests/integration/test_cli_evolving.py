"""`run --evolve-every`: evolutions where cycles of the stream end, the same however the stream is cut."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import OutcomeBatch, Scheduler
from streamsched.evolution import pipeline
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import RecordBook
from streamsched.scheduler.evolver import Evolver
from streamsched.service.stream_hooks import FileEvolution, cut_at_cycles
from tests.support import fake_evolutions
from tests.support.command_line import DAY, NOW, Command, crawl, write


@pytest.fixture(autouse=True)
def winning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "run_evolution", fake_evolutions.win)


def plain(folder: Path) -> list[dict[str, Any]]:
    return [record.to_json() | {"seconds": None} for record in RecordBook(folder).read()[0]]


def test_a_file_evolves_where_its_cycles_end(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", crawl(days=8))
    answer = streamsched("run", "--source", source, "--state", tmp_path / "s", "--evolve-every", "3", "--json")
    assert answer.code == 0
    assert answer.json["evolutions"] == 2
    records = plain(tmp_path / "s")
    assert [record["when_s"] for record in records] == [NOW - 7 * DAY, NOW - 4 * DAY]
    assert [record["trigger"] for record in records] == ["schedule"] * 2
    assert Scheduler.load(tmp_path / "s").champion.record == 2
    again = streamsched("run", "--source", source, "--state", tmp_path / "s", "--evolve-every", "3", "--from-start")
    assert again.code == 0
    assert "evolutions     0" in again.lines
    assert plain(tmp_path / "s") == records


def test_a_restart_goes_on_as_though_there_had_been_none(streamsched: Command, tmp_path: Path) -> None:
    lines = crawl(days=9)
    whole = write(tmp_path / "whole.jsonl", lines)
    assert streamsched("run", "--source", whole, "--state", tmp_path / "one", "--evolve-every", "3").code == 0
    part = write(tmp_path / "part.jsonl", lines[:60])
    assert streamsched("run", "--source", part, "--state", tmp_path / "two", "--evolve-every", "3").code == 0
    write(part, lines[60:], append=True)
    assert streamsched("run", "--source", part, "--state", tmp_path / "two", "--evolve-every", "3").code == 0
    assert json.dumps(plain(tmp_path / "one")) == json.dumps(plain(tmp_path / "two"))
    assert Scheduler.load(tmp_path / "one").digest() == Scheduler.load(tmp_path / "two").digest()


def test_sigterm_ends_an_evolution_that_the_next_run_does_again(streamsched: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "outcomes.jsonl", crawl(days=8))
    assert streamsched("run", "--source", source, "--state", tmp_path / "one", "--evolve-every", "3").code == 0

    def evolve_long(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the evolution was not ended")

    words = ("run", "--source", source, "--state", tmp_path / "two", "--evolve-every", "3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evolver, "evolve_now", evolve_long)
        answer = streamsched(*words)
    assert answer.code == 0
    assert Scheduler.load(tmp_path / "two").core.clock.newest_s < NOW - 6 * DAY
    assert streamsched(*words).code == 0
    assert json.dumps(plain(tmp_path / "one")) == json.dumps(plain(tmp_path / "two"))
    assert Scheduler.load(tmp_path / "one").digest() == Scheduler.load(tmp_path / "two").digest()


@pytest.mark.parametrize("size", [1, 40, 1000])
def test_batches_may_be_cut_anywhere(tmp_path: Path, size: int) -> None:
    days = np.repeat(np.arange(1, 11), 12) * DAY
    urls = [f"https://a.example/{i % 12}" for i in range(days.size)]
    scheduler = Scheduler()
    intake = FileEvolution(scheduler, EvolutionPlan(every=4, drift=None, trial=False), tmp_path)
    applied = 0
    for start in range(0, days.size, size):
        batch = OutcomeBatch(urls[start : start + size], days[start : start + size])
        applied += intake.observe(batch, lambda part, _: scheduler.observe(part)).applied
    assert (applied, intake.done) == (120, 2)
    assert [record["when_s"] for record in plain(tmp_path)] == [5 * DAY, 9 * DAY]
    assert [record["data"]["cycles"] for record in plain(tmp_path)][-1] > 0


@pytest.mark.parametrize("wrong", [0, 1, 50])
def test_one_wrong_clock_does_not_end_evolution(tmp_path: Path, wrong: int) -> None:
    """Neither as the first outcome of all nor among others."""
    days = np.repeat(np.arange(1, 11), 12) * DAY
    times = np.insert(days.astype(np.float64), wrong, 9e10)
    urls = np.insert(np.array([f"https://a.example/{i % 12}" for i in range(days.size)]), wrong, "https://b.example/")
    scheduler = Scheduler()
    intake = FileEvolution(scheduler, EvolutionPlan(every=4, drift=None, trial=False), tmp_path)
    intake.observe(OutcomeBatch(urls.tolist(), times), lambda part, _: scheduler.observe(part))
    assert [record["when_s"] for record in plain(tmp_path)] == [5 * DAY, 9 * DAY]


def test_cuts() -> None:
    times = [0.5, 0.9, 1.0, 0.2, 3.7, np.nan, 3.1, 4.0]
    batch = OutcomeBatch([f"https://a.example/{i}" for i in range(8)], times)
    parts = [(part.fetched_at.tolist(), cycle) for part, cycle in cut_at_cycles(batch, batch.fetched_at, 1.0, None)]
    expected = [(times[:2], 0), (times[2:4], 1), (times[4:7], 3), (times[7:], 4)]
    assert repr(parts) == repr(expected)
    assert [cycle for _, cycle in cut_at_cycles(batch, batch.fetched_at, 1.0, 3)] == [3, 4]
    assert list(cut_at_cycles(OutcomeBatch([], []), np.empty(0), 1.0, 3)) == []
    (lost,) = cut_at_cycles(OutcomeBatch(["https://a.example/"], [1.0]), np.array([np.nan]), 1.0, None)
    assert lost[1] is None
