"""kill -9 of `streamsched run` on files: the state in the end is that of a run that nobody disturbed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from streamsched import Outcome, Scheduler, Signal
from streamsched.evolution.elites import ARCHIVE_NAME
from streamsched.evolution.process.exchange_files import read_json
from streamsched.evolution.records import RecordBook
from tests.support.command_line import announce, crawl, spread_crawl, write
from tests.support.killed_run import kill_after, warm_forkserver

PAGES, DAYS = 400, 40
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    with warm_forkserver() as context:
        yield context


def evolutions(state: Path) -> list[Any]:
    """The records, and the formulas that the next evolution would begin with."""
    records = [record.to_json() | {"seconds": None} for record in RecordBook(state).read()[0]]
    return [*records, read_json(state / ARCHIVE_NAME)["formulas"]]


@pytest.mark.cases(ordinary=1, whole=8)
def test_killed_a_dozen_times(processes: ForkServerContext, tmp_path: Path, rng: random.Random) -> None:
    """Kill runs over one file at random instants, let one come to its end, and compare; as often as it takes."""
    folder, kills = tmp_path, 12
    source = write(folder / "outcomes.jsonl", crawl(PAGES, DAYS))
    words = ["run", "--source", str(source), "--json", "--evolve-every", "13", "--set", "save.every=5ms"]
    words += ["--set", "optimiser.every=4d"]
    whole = folder / "whole"
    assert kill_after(processes, [*words, "--state", str(whole)], folder / "result", PATIENCE_S) == 0
    digest, evolved = Scheduler.load(whole).digest(), evolutions(whole)
    killed = rounds = 0
    while killed < kills:
        state = folder / f"state-{rounds}"
        rounds += 1
        ended = None
        while ended is None:
            seconds = rng.random() * 0.9 if killed < kills else PATIENCE_S
            ended = kill_after(processes, [*words, "--state", str(state)], folder / "result", seconds)
            killed += ended is None
        assert ended == 0, (folder / "result.err").read_text()
        found = Scheduler.load(state)
        assert int(found.core.pages.arrays.corpus["applied"][0]) == PAGES * DAYS
        assert found.digest() == digest
        assert evolutions(state) == evolved
        assert found.core.plan is not None
        assert found.core.plan.number == (DAYS - 1) // 4


@pytest.mark.cases(ordinary=1, whole=8)
def test_two_streams_killed_a_dozen_times(processes: ForkServerContext, tmp_path: Path, rng: random.Random) -> None:
    """Kill runs over a file of outcomes and one of signals; nothing of either is lost, applied twice or misplaced."""
    folder, kills = tmp_path, 12
    source = write(folder / "outcomes.jsonl", spread_crawl(PAGES, DAYS))
    signals = write(folder / "signals.jsonl", announce(PAGES, DAYS))
    words = ["run", "--source", str(source), "--signals", str(signals), "--json", "--set", "save.every=5ms"]
    expected = merge_slowly(source, signals)
    killed = rounds = 0
    while killed < kills:
        state = folder / f"state-{rounds}"
        rounds += 1
        ended = None
        while ended is None:
            seconds = rng.random() * 2.0 if killed < kills else PATIENCE_S
            ended = kill_after(processes, [*words, "--state", str(state)], folder / "result", seconds)
            killed += ended is None
        assert ended == 0, (folder / "result.err").read_text()
        assert Scheduler.load(state).digest() == expected


def merge_slowly(source: Path, signals: Path) -> str:
    """The digest of a scheduler that takes one record at a time, in the order of their times, signals first."""
    events = [json.loads(line) for path in (signals, source) for line in path.read_text().splitlines()]
    scheduler = Scheduler()
    for event in sorted(events, key=lambda event: event["at"] if "at" in event else event["fetched_at"]):
        if "at" in event:
            scheduler.notice(Signal(**event))
        else:
            scheduler.observe(Outcome(**event))
    return scheduler.digest()
