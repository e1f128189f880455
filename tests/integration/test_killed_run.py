"""kill -9 of `streamsched run` on files: the state in the end is that of a run that nobody disturbed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import Outcome, Scheduler, Signal
from streamsched.evolution.exchange_files import ARCHIVE_NAME, read_json
from streamsched.evolution.records import RecordBook
from tests.support.cases import how_many
from tests.support.child_processes import warm_forkserver
from tests.support.command_line import announce, crawl, outcome, spread_crawl, write
from tests.support.extras import needs_casadi
from tests.support.killed_run import kill_after

PAGES, DAYS = 400, 40
KILLS = how_many(2, 5)
PATIENCE_S = 300.0
PLANNED_DAYS = 8
BUDGETS = {"mirrorsync": "100%", "webfountain": "50%"}
LONGEST_S = {"mirrorsync": 0.5, "webfountain": 1.0}  # before a kill: about what a run takes


@pytest.fixture(scope="module")
def processes() -> Iterator[ForkServerContext]:
    with warm_forkserver("tests.support.killed_run") as context:
        yield context


def evolutions(state: Path) -> list[Any]:
    """The records, and the formulas that the next evolution would begin with."""
    records = [record.to_json() | {"seconds": None} for record in RecordBook(state).read()[0]]
    return [*records, read_json(state / ARCHIVE_NAME)["formulas"]]


def killed_states(
    processes: ForkServerContext, words: list[str], folder: Path, rng: random.Random, longest_s: float
) -> Iterator[Path]:
    """Yield states of runs that came to their end after kills at random instants, until there were enough kills."""
    killed = rounds = 0
    while killed < KILLS:
        state = folder / f"state-{rounds}"
        rounds += 1
        ended = None
        while ended is None:
            seconds = rng.random() * longest_s if killed < KILLS else PATIENCE_S
            ended = kill_after(processes, [*words, "--state", str(state)], folder / "result", seconds)
            killed += ended is None
        assert ended == 0, (folder / "result.err").read_text()
        yield state


@pytest.mark.cases(ordinary=1, whole=20)
def test_killed_again_and_again(processes: ForkServerContext, tmp_path: Path, rng: random.Random) -> None:
    """Kill runs over one file at random instants, let one come to its end, and compare; as often as it takes."""
    source = write(tmp_path / "outcomes.jsonl", crawl(PAGES, DAYS))
    words = ["run", "--source", str(source), "--json", "--evolve-every", "13", "--set", "save.every=5ms"]
    words += ["--set", "optimiser.every=4d"]
    whole = tmp_path / "whole"
    assert kill_after(processes, [*words, "--state", str(whole)], tmp_path / "result", PATIENCE_S) == 0
    digest, evolved = Scheduler.load(whole).digest(), evolutions(whole)
    for state in killed_states(processes, words, tmp_path, rng, 0.9):
        found = Scheduler.load(state)
        assert int(found.core.pages.arrays.corpus["applied"][0]) == PAGES * DAYS
        assert found.digest() == digest
        assert evolutions(state) == evolved
        assert found.core.plan is not None
        assert found.core.plan.number == (DAYS - 1) // 4


@pytest.mark.parametrize("policy", ["mirrorsync", pytest.param("webfountain", marks=needs_casadi)])
@pytest.mark.cases(ordinary=1, whole=20)
def test_plans_survive_kills(processes: ForkServerContext, tmp_path: Path, rng: random.Random, policy: str) -> None:
    """Kill runs that plan each day of the file; plan, crawl rates and state are those of a run without kills."""
    source = write(tmp_path / "outcomes.jsonl", uneven_crawl(PAGES, PLANNED_DAYS))
    words = ["run", "--source", str(source), "--json", "--set", "save.every=5ms"]
    words += ["--set", f"optimiser.policy={policy}", "--set", f"optimiser.budget={BUDGETS[policy]}"]
    whole = tmp_path / "whole"
    assert kill_after(processes, [*words, "--state", str(whole)], tmp_path / "result", PATIENCE_S) == 0
    expected = Scheduler.load(whole)
    for state in killed_states(processes, words, tmp_path, rng, LONGEST_S[policy]):
        found = Scheduler.load(state)
        assert found.digest() == expected.digest()
        assert found.core.plan == expected.core.plan
        rates = found.core.pages.arrays.pages.traces["crawl_rate"]
        assert rates[:PAGES].all()
        assert np.array_equal(rates, expected.core.pages.arrays.pages.traces["crawl_rate"])
        assert np.unique(rates).size > 2, "the policy has learned nothing"


def uneven_crawl(pages: int, days: int) -> list[str]:
    """Outcomes of every page twice in two days, the second half a day after the first: before the page is due."""
    return [
        outcome(page, 2 * (day // 2) + day % 2 / 2 + page / (4 * pages), changed=page * (day + 1) % 12 > 5)
        for day in range(days)
        for page in range(pages)
    ]


@pytest.mark.cases(ordinary=1, whole=20)
def test_two_streams_killed_again_and_again(processes: ForkServerContext, tmp_path: Path, rng: random.Random) -> None:
    """Kill runs over a file of outcomes and one of signals; nothing of either is lost, applied twice or misplaced."""
    pages = how_many(100, PAGES)
    source = write(tmp_path / "outcomes.jsonl", spread_crawl(pages, DAYS))
    signals = write(tmp_path / "signals.jsonl", announce(pages, DAYS))
    words = ["run", "--source", str(source), "--signals", str(signals), "--json", "--set", "save.every=5ms"]
    expected = merge_slowly(source, signals)
    for state in killed_states(processes, words, tmp_path, rng, 2.0 * pages / PAGES):
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
