"""Re-evolution: when it begins, in real processes, what its end leads to, and that no failure touches the service."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import Formula, Observed, Outcome, Scheduler
from streamsched.errors import SettingsError, SnapshotError
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS
from streamsched.evolution.exchange_files import ARCHIVE_NAME
from streamsched.evolution.plan import EvolutionPlan
from streamsched.evolution.records import EvolutionRecord, RecordBook
from streamsched.formula.champion import BY_HAND, Champion
from streamsched.records.trial_counts import ARMS, BLOCKS, CHALLENGER, ROUNDS
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.evolver import Evolver
from streamsched.scheduler.settings import DEFAULT_FORMULA
from tests.support.cases import grouped, how_many
from tests.support.paths import ROOT
from tests.support.waiting import pause

pytestmark = pytest.mark.usefixtures("small_tables")

DAY = 86_400.0
WINNER = "posterior + 0.01 * t"
PLAN = EvolutionPlan(every=7, drift=None, history=8, trial=False)


def crawled(days: int = 12, pages: int = 20) -> Scheduler:
    """All pages visited at the end of each day; page p changes every p + 1 days."""
    scheduler = Scheduler()
    for day in range(1, days + 1):
        visits = [Outcome(f"https://a.example/{p}", day * DAY, changed=day % (p + 1) == 0) for p in range(pages)]
        scheduler.observe(visits)
    return scheduler


def evolver(folder: Path | None, breed: str, plan: EvolutionPlan = PLAN, **options: Any) -> Evolver:
    return Evolver(crawled(), plan, folder, breed=f"tests.support.fake_evolutions:{breed}", **options)


def settle(one: Evolver, now: float) -> EvolutionRecord:
    """See the evolution under way to its end."""
    job = one._job
    assert job is not None
    job._thread.join(timeout=120)
    record = one.tick(now)
    assert record is not None
    assert not one.running
    assert not job.folder.exists()
    return record


def begin(one: Evolver, day: int = 7) -> None:
    """Begin an evolution; the first look begins the schedule."""
    assert one.tick(0.0 if one._last_cycle is None else day * DAY) is None
    assert one.tick(day * DAY) is None
    assert one.running


def evolve(one: Evolver, day: int = 7) -> EvolutionRecord:
    """Begin an evolution, which may fail at once, and return its record."""
    if one._last_cycle is None:
        assert one.tick(0.0) is None
    return one.tick(day * DAY) or settle(one, day * DAY)


def child(one: Evolver) -> subprocess.Popen[bytes]:
    """Wait for the process of the evolution under way."""
    job = one._job
    assert job is not None
    while job._started_at is None:
        assert job._thread.is_alive()
        pause()
    assert job.process is not None
    return job.process


def gone(pid: int) -> bool:
    """Whether that process has ended: gone, or a zombie that its parent has not waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_winner_is_promoted_by_a_process_of_its_own(tmp_path: Path) -> None:
    with evolver(tmp_path, "win") as one:
        record = evolve(one)
        assert (record.number, record.when_s, record.trigger, record.decision) == (1, 7 * DAY, "schedule", "promoted")
        assert record.champion_before == Champion(Formula.parse(DEFAULT_FORMULA))
        assert one.scheduler.champion == record.champion_after
        assert (
            str(record.champion_after)
            == "champion of evolution 1, promoted 1970-01-08, +10.0 % ChangeRate on held-out pages"
        )
        assert (one.scheduler.formula.text, record.challenger) == (WINNER, WINNER)
        assert record.why == getattr(record.verdict, "why", None)
        assert record.data is not None
        assert (record.data.pages, record.data.observed) == (20, 1.0)
        assert record.seconds is not None
        assert RecordBook(tmp_path).read() == ([record], [])
        assert one.archive == (WINNER, f"{WINNER} * 1")
        explanation = one.scheduler.explain("https://a.example/1", now=13 * DAY)
        assert explanation.champion == record.champion_after.view()


@pytest.mark.parametrize(
    ("breed", "challenger", "why"),
    [
        ("lose", "NAD", "not promoted: the gain of -"),
        ("find_nothing", None, "too little to learn from: 20 pages × "),
    ],
)
def test_without_a_winner_the_champion_stays(tmp_path: Path, breed: str, challenger: str | None, why: str) -> None:
    one = evolver(tmp_path, breed)
    record = one.evolve_now(7 * DAY)
    assert (record.decision, record.challenger, record.verdict is None) == ("kept", challenger, challenger is None)
    assert record.why.startswith(why)
    assert one.scheduler.champion == record.champion_before == record.champion_after
    assert one.scheduler.champion == Champion(Formula.parse(DEFAULT_FORMULA))


@pytest.mark.longer
@pytest.mark.parametrize(
    ("breed", "why"),
    [
        ("crash", "its process ended with code 1: RuntimeError: out of ideas"),
        ("leave_garbage", "left no readable result: "),
        ("promote_without_gain", "left no readable result: verdict: promotes at a gain of "),
        ("win_with_unknown_terminal", "the challenger cannot be used: "),
    ],
)
def test_a_failure_leaves_the_champion_and_a_record_and_the_next_is_tried(tmp_path: Path, breed: str, why: str) -> None:
    with evolver(tmp_path, breed) as one:
        record = evolve(one)
        assert record.decision == "failed"
        assert record.why.startswith(why)
        assert one.scheduler.champion == record.champion_after == Champion(Formula.parse(DEFAULT_FORMULA))
        assert one.scheduler.next_batch(3, now=13 * DAY).urls
        assert one.tick(13 * DAY) is None
        assert not one.running
        if breed != "leave_garbage" and how_many(0, 1) == 0:
            return  # after one kind of failure the next is tried, in make soak after each
        one._breed = "tests.support.fake_evolutions:win"
        assert evolve(one, 14).decision == "promoted"
    assert [one.decision for one in RecordBook(tmp_path).read()[0]] == ["failed", "promoted"]


class Clock:
    """Seconds that pass where the test says so."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_ticks_rarer_than_the_time_limit_find_what_has_ended(tmp_path: Path) -> None:
    """Two ticks make an evolution, one that begins it and one that ends it, a day apart by the clock too."""
    clock = Clock()
    with evolver(tmp_path, "win", clock=clock) as one:
        begin(one)
        assert one._job is not None
        one._job._thread.join(timeout=120)
        clock.seconds = DAY
        record = one.tick(8 * DAY)
        assert record is not None
        assert (record.decision, record.seconds) == ("promoted", 0.0)


def test_the_time_limit_counts_from_the_start_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def take_long(*given: Any) -> Any:
        clock.seconds = 5000.0
        return gather(*given)

    gather = Evolver._gather
    monkeypatch.setattr(Evolver, "_gather", take_long)
    with evolver(tmp_path, "hang", clock=clock) as one:
        begin(one)
        child(one)
        assert one.tick(7 * DAY) is None
        clock.seconds = 5601.0
        record = one.tick(7 * DAY)
        assert record is not None
        assert record.why == "stopped after 600 s, its time limit"


def test_closed_while_it_gathers_it_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closing = threading.Event()

    def wait(*given: Any) -> Any:
        assert closing.wait(timeout=120)
        return gather(*given)

    gather = Evolver._gather
    monkeypatch.setattr(Evolver, "_gather", wait)
    with evolver(tmp_path, "hang") as one:
        begin(one)
        job = one._job
        assert job is not None
        closer = threading.Thread(target=one.close)
        closer.start()
        while not job._cancelled:
            pause()
        closing.set()
        closer.join(timeout=120)
        assert job.process is None
    assert list(tmp_path.glob(".evolution-*")) == []


def test_a_directory_removed_meanwhile_is_a_failure_and_the_next_is_tried(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with evolver(folder, "hang") as one:
        begin(one)
        process = child(one)
        folder.rename(tmp_path / f"gone-{one._number}")
        process.terminate()
        record = settle(one, 7 * DAY)
        assert (record.number, record.decision) == (1, "failed")
        one._breed = "tests.support.fake_evolutions:crash"
        one.tick(14 * DAY)
        assert one._job is not None
        child(one)
        folder.rename(tmp_path / f"gone-{one._number}")
        assert settle(one, 14 * DAY).why.startswith("its process ended with code 1")
        one._breed = "tests.support.fake_evolutions:win"
        assert evolve(one, 21).decision == "promoted"
    assert [record.decision for record in RecordBook(folder).read()[0]] == ["failed", "promoted"]


def test_a_hang_is_killed_at_the_time_limit(tmp_path: Path) -> None:
    """Also a process that ignores SIGTERM."""
    clock = Clock()
    with evolver(tmp_path, "hang_deaf", clock=clock) as one:
        begin(one)
        process = child(one)
        clock.seconds = 600.0
        assert one.tick(7 * DAY) is None
        clock.seconds = 600.1
        record = one.tick(7 * DAY)
        assert record is not None
        assert (record.decision, record.why) == ("failed", "stopped after 600 s, its time limit")
        assert process.returncode == -signal.SIGKILL
        assert list(tmp_path.glob(".evolution-*")) == []
        assert one.scheduler.formula.text == DEFAULT_FORMULA


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_the_champion(tmp_path: Path, number: signal.Signals) -> None:
    with evolver(tmp_path, "hang") as one:
        begin(one)
        process = child(one)
        assert one.tick(7 * DAY) is None
        process.send_signal(number)
        record = settle(one, 7 * DAY)
        assert (record.decision, record.why) == ("failed", f"its process was killed by signal {int(number)}")
        assert one.scheduler.formula.text == DEFAULT_FORMULA


def test_never_two_at_once(tmp_path: Path) -> None:
    with evolver(tmp_path, "hang", EvolutionPlan(every=1, drift=None, history=8, trial=False)) as one:
        begin(one, 1)
        job, pid = one._job, child(one).pid
        for day in range(2, 30):
            assert one.tick(day * DAY) is None
            assert one._job is job
        assert len(list(tmp_path.glob(".evolution-*"))) == 1
        assert not gone(pid)
    assert gone(pid)
    assert list(tmp_path.glob(".evolution-*")) == []


def test_a_second_evolver_leaves_the_first_alone_and_waits_for_it(tmp_path: Path) -> None:
    """As after a parent's kill: the child of the next parent begins when the first has ended."""
    with evolver(tmp_path, "hang") as first:
        begin(first)
        process = child(first)
        lock = tmp_path / ".evolution.lock"
        while not (lock.exists() and _locked(lock)):
            pause()
        (tmp_path / ".evolution-left").mkdir()  # by a process that was killed
        with evolver(tmp_path, "win") as second:
            assert not (tmp_path / ".evolution-left").exists()
            begin(second)
            with pytest.raises(subprocess.TimeoutExpired):
                child(second).wait(timeout=2.0)
            assert len(list(tmp_path.glob(".evolution-*"))) == 2
            process.kill()
            assert settle(second, 7 * DAY).decision == "promoted"
            assert settle(first, 7 * DAY).decision == "failed"


def _locked(path: Path) -> bool:
    return any(f":{path.stat().st_ino} " in line for line in Path("/proc/locks").read_text().splitlines())


PARENT = """
import sys
from pathlib import Path
from tests.unit.scheduler.test_evolver import begin, child, evolver
one = evolver(Path(sys.argv[1]), "hang_deaf")
begin(one)
print(child(one).pid, flush=True)
sys.stdin.read()
"""


def test_a_parents_death_ends_the_child(tmp_path: Path) -> None:
    """Killed, the parent can put nothing in order: its child notices, and the next evolver sweeps up."""
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child)
        parent.kill()
    until = time.monotonic() + 60
    while not gone(child):
        assert time.monotonic() < until
        pause()
    assert len(list(tmp_path.glob(".evolution-*"))) == 1
    with evolver(tmp_path, "win") as one:
        assert list(tmp_path.glob(".evolution-*")) == []
        assert evolve(one).decision == "promoted"


def test_the_child_gets_what_it_needs_at_the_lowest_priority(tmp_path: Path) -> None:
    with evolver(tmp_path, "look", EvolutionPlan(drift=None, history=8, seed=40)) as one:
        one.archive = ("NAD * t", "CG")
        record = evolve(one)
    pages_cycles = ["20", str(record.data.cycles if record.data else 0)]
    formulas = [candidate.formula for candidate in record.candidates]
    assert formulas == ["1", *pages_cycles, "1", "19", "41", DEFAULT_FORMULA, "NAD * t", "CG"]
    assert record.why == "nothing beat the champion in validation"


def test_the_schedule_counts_cycles_from_the_first_look(tmp_path: Path) -> None:
    with evolver(tmp_path, "win") as one:
        assert one.due(3.5 * DAY) is None
        assert [one.due(day * DAY) for day in (9, 9.99, 10, 12)] == [None, None, "schedule", "schedule"]
    never = evolver(None, "win", EvolutionPlan(every=None, drift=None))
    assert [never.due(day * DAY) for day in (0, 1000)] == [None, None]


def test_records_and_elites_outlive_the_process(tmp_path: Path) -> None:
    one = evolver(tmp_path, "win")
    first = one.evolve_now(7 * DAY)
    champion = one.scheduler.champion
    one = evolver(tmp_path, "win")  # its scheduler was saved before the promotion, so to speak
    assert one.scheduler.champion == champion
    assert one.archive == (WINNER, f"{WINNER} * 1")
    assert one.due(13 * DAY) is None
    assert one.due(14 * DAY) == "schedule"
    second = one.evolve_now(14 * DAY)
    assert (first.number, second.number) == (1, 2)
    assert (first.seed, second.seed) == (1, 2)
    assert list(one.archive[:3]) == [WINNER, f"{WINNER} * 2", f"{WINNER} * 1"]
    (tmp_path / ARCHIVE_NAME).write_text("{")
    assert evolver(tmp_path, "win").archive == ()


def test_a_formula_set_by_hand_is_not_taken_back(tmp_path: Path) -> None:
    evolver(tmp_path, "win").evolve_now(7 * DAY)
    scheduler = crawled()
    scheduler.use("t")
    Evolver(scheduler, PLAN, tmp_path)
    assert scheduler.champion == Champion(Formula.parse("t"), BY_HAND)


def test_a_champion_changed_meanwhile_stays(tmp_path: Path) -> None:
    with evolver(tmp_path, "win") as one:
        begin(one)
        one.scheduler.use("t")
        record = settle(one, 7 * DAY)
    assert (record.decision, record.why) == ("kept", "not promoted: the champion was changed while it evolved")
    assert one.scheduler.formula.text == record.champion_after.formula.text == "t"


def test_a_record_that_cannot_be_written_promotes_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise SnapshotError("evolutions.jsonl", "cannot be written: No space left on device")

    with evolver(tmp_path, "win") as one:
        monkeypatch.setattr(RecordBook, "append", full)
        with pytest.raises(SnapshotError, match="No space left"):
            evolve(one)
        assert one.scheduler.champion == Champion(Formula.parse(DEFAULT_FORMULA))
        monkeypatch.undo()
        assert one.evolve_now(14 * DAY).decision == "promoted"


def test_records_that_others_write_meanwhile_keep_their_numbers(tmp_path: Path) -> None:
    one = evolver(tmp_path, "win")
    first = one.evolve_now(12 * DAY)
    by_hand = replace(first, number=2, decision="set", why="asked for this formula")
    RecordBook(tmp_path).append(by_hand)
    one._breed = "tests.support.fake_evolutions:lose"
    assert one.evolve_now(13 * DAY).number == 3
    one._breed = "tests.support.fake_evolutions:win"
    one.scheduler.use("t")
    with one:
        one.tick(20 * DAY)
        RecordBook(tmp_path).append(replace(by_hand, number=4))
        record = settle(one, 20 * DAY)
    assert (record.number, record.champion_after.record, one.scheduler.champion.record) == (5, 5, 5)
    assert [one.number for one in RecordBook(tmp_path).read()[0]] == [1, 2, 3, 4, 5]


def test_elites_that_cannot_be_written_cost_no_record(tmp_path: Path) -> None:
    one = evolver(tmp_path, "win")
    (tmp_path / ARCHIVE_NAME).mkdir(parents=True)
    record = one.evolve_now(12 * DAY)
    assert record.decision == "promoted"
    assert "; elites were not kept: " in record.why
    assert RecordBook(tmp_path).read() == ([record], [])
    assert one.scheduler.champion == record.champion_after
    assert one.archive == (WINNER, f"{WINNER} * 1")


def test_what_cannot_be_gathered_or_started_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with evolver(tmp_path, "win") as one:
        monkeypatch.setattr(SchedulerCore, "trainings", lambda *_, **__: 1 / 0)
        record = evolve(one)
        assert record.why == "could not gather the training data: ZeroDivisionError: division by zero"
        monkeypatch.undo()
        monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
        assert evolve(one, 14).why == "its process could not be started: No such file or directory"
        monkeypatch.setattr("streamsched.evolution.job.write_exchange", fill_disk)
        assert "No space left on device" in evolve(one, 21).why
        assert one.scheduler.formula.text == DEFAULT_FORMULA


def fill_disk(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_no_room_at_all_raises_and_the_next_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with evolver(tmp_path, "win") as one:
        one.tick(0.0)
        monkeypatch.setattr("tempfile.mkdtemp", fill_disk)
        for day in (7, 14):
            with pytest.raises(SnapshotError, match="No space left"):
                one.tick(day * DAY)
            assert not one.running
            assert one.tick(day * DAY) is None  # not again before it is due
        monkeypatch.undo()
        assert evolve(one, 21).decision == "promoted"


def test_drift_of_the_hit_rate_begins_an_evolution(tmp_path: Path) -> None:
    plan = EvolutionPlan(every=None, drift="adwin", rest=2, history=8, trial=False)
    with evolver(tmp_path, "win", plan) as one:
        one.tick(0.0)
        for day, hits in [(1, 60), (2, 60), (3, 60), (4, 10), (5, 10)]:
            for _ in range(20):
                one.note(Observed(applied=200, served=200, hits=hits))
            assert one.drifted == (day >= 4)
            if day <= 4:
                assert one.due(day * DAY) == ("drift" if day >= 4 else None)
        one.tick(5 * DAY)
        record = settle(one, 5 * DAY)
        assert (record.trigger, record.decision) == ("drift", "promoted")
        assert not one.drifted
        for hits in (10, 60):
            for _ in range(20):
                one.note(Observed(applied=200, served=200, hits=hits))
        assert one.drifted
        assert one.due(6 * DAY) is None  # it rests
        assert one.due(7 * DAY) == "drift"


def test_served_hits_reach_the_detector_through_observe(tmp_path: Path) -> None:
    """A simulated crawl: of what `next_batch` hands out nearly all has changed, until the pages fall still."""
    scheduler = Scheduler()
    scheduler.observe([Outcome(f"https://a.example/{p}", 1.0) for p in range(400)])
    with Evolver(scheduler, EvolutionPlan(every=None, drift="page_hinkley", history=8), tmp_path) as one:
        one.tick(0.0)
        drifted = []
        for day in range(1, 13):
            urls = scheduler.next_batch(100, now=day * DAY, lease="1h").urls
            one.note(scheduler.observe([Outcome(url, day * DAY + 60, changed=day < 7) for url in urls]))
            drifted.append(one.drifted)
        assert drifted == [False] * 6 + drifted[6:]
        assert drifted[-1]


def test_evolving_here_and_now_repeats_itself(tmp_path: Path) -> None:
    records = []
    for folder in (None, tmp_path, tmp_path / "again"):
        one = evolver(folder, "win")
        records.append(one.evolve_now(12 * DAY))
        assert one.scheduler.formula.text == WINNER
        assert one.archive == (WINNER, f"{WINNER} * 1")
    assert records[0] == records[1] == records[2]
    assert (records[0].trigger, records[0].decision) == ("asked", "promoted")
    plain = [json.dumps(record.to_json() | {"seconds": None}) for record in records]
    assert plain[0] == plain[1] == plain[2]
    with pytest.raises(RuntimeError, match="out of ideas"):
        evolver(None, "crash").evolve_now(12 * DAY)


def test_without_a_directory_there_are_no_processes() -> None:
    with pytest.raises(SettingsError, match="directory"):
        evolver(None, "win").tick(0.0)


def begin_trial(folder: Path | None) -> Evolver:
    """Return an evolver whose challenger has just won its contest."""
    one = evolver(folder, "win", replace(PLAN, trial=True))
    record = one.evolve_now(12 * DAY)
    assert (record.decision, record.champion_after) == ("trial", record.champion_before)
    assert one.scheduler.champion == record.champion_before
    return one


def show(one: Evolver, gain: float) -> None:
    """Count visits in which the challenger finds `1 + gain` times as much as the champion."""
    core = one.scheduler.core
    costs, finds = np.zeros((ROUNDS, ARMS, BLOCKS)), np.zeros((ROUNDS, ARMS, BLOCKS))
    costs[0] = [[100.0] * BLOCKS, [900.0] * BLOCKS]
    finds[0] = 0.3 * costs[0]
    finds[0, CHALLENGER] *= 1.0 + gain
    finds[0] += np.where(np.arange(BLOCKS) % 2, 1.0, -1.0)
    core.pages.arrays.corpus["trial_costs"], core.pages.arrays.corpus["trial_finds"] = costs.ravel(), finds.ravel()


@pytest.mark.parametrize(
    ("gain", "decision", "after"), [(0.5, "promoted", WINNER), (-0.5, "rolled_back", DEFAULT_FORMULA)]
)
def test_a_trial_decides(tmp_path: Path, gain: float, decision: str, after: str) -> None:
    """The better formula ranks from then on, and the record has the evidence."""
    one = begin_trial(tmp_path)
    assert one.end_trial(13 * DAY) is None
    assert one.due(500 * DAY) is None  # one challenger at a time
    show(one, gain)
    record = one.tick(20 * DAY)
    assert record is not None
    assert (record.number, record.trigger, record.decision, record.challenger) == (2, "trial", decision, WINNER)
    assert record.trial is not None
    assert record.trial.evidence.gain == pytest.approx(gain)
    assert max(record.trial.evidence.better, record.trial.evidence.worse) >= 20.0
    assert one.scheduler.trial() is None
    assert one.scheduler.champion == record.champion_after
    assert one.scheduler.formula == Formula.parse(after)
    assert RecordBook(tmp_path).read() == ([RecordBook(tmp_path).find(1), record], [])
    if gain > 0:
        assert record.champion_after.record == 2
        assert record.champion_after.gain == pytest.approx(gain)
        assert str(record.champion_after).endswith("+50.0 % changes found in its trial")


def test_a_trial_that_shows_nothing_ends_with_its_last_round(tmp_path: Path) -> None:
    one = begin_trial(tmp_path)
    show(one, 0.001)
    assert one.tick(300 * DAY) is None
    record = one.tick(400 * DAY)
    assert record is not None
    assert record.decision == "kept"
    assert one.scheduler.trial() is None
    assert one.due(407 * DAY) == "schedule"


def test_without_batches_the_contest_decides(tmp_path: Path) -> None:
    """Who asks for no batch has no visits that a trial could count."""
    one = begin_trial(tmp_path)
    assert one.tick(25 * DAY) is None
    record = one.tick(26 * DAY)
    assert record is not None
    assert (record.decision, record.champion_after.formula.text) == ("promoted", WINNER)
    assert record.champion_after.metric == "changes"
    assert one.scheduler.champion == record.champion_after


def test_another_evolver_goes_on_with_a_trial(tmp_path: Path) -> None:
    one = begin_trial(tmp_path)
    one.scheduler.save(tmp_path / "state")
    other = Evolver(Scheduler.load(tmp_path / "state"), one.plan, tmp_path)
    show(other, 0.5)
    record = other.tick(20 * DAY)
    assert record is not None
    assert (record.number, record.decision) == (2, "promoted")


def test_a_trial_that_was_recorded_but_not_begun_begins_after_a_crash(tmp_path: Path) -> None:
    one = begin_trial(tmp_path)
    tried = one.scheduler.core.trial.current
    assert tried is not None
    one.scheduler.end_trial()
    one.scheduler.save(tmp_path / "state")
    other = Evolver(Scheduler.load(tmp_path / "state"), one.plan, tmp_path)
    assert other.tick(13 * DAY) is None
    begun = other.scheduler.core.trial.current
    assert begun is not None
    assert (begun.challenger, begun.start_s) == (tried.challenger, 13 * DAY)


def test_a_formula_set_by_hand_is_tried_against_no_earlier_challenger(tmp_path: Path) -> None:
    one = begin_trial(tmp_path)
    one.scheduler.use("posterior", wait=True)
    one.scheduler.save(tmp_path / "state")
    other = Evolver(Scheduler.load(tmp_path / "state"), one.plan, tmp_path)
    other.tick(13 * DAY)
    assert other.scheduler.trial() is None


def test_a_formula_set_by_hand_ends_a_trial() -> None:
    one = begin_trial(None)
    one.scheduler.use("posterior", wait=True)
    show(one, 0.5)
    assert one.end_trial(20 * DAY) is None
    assert one.scheduler.formula.text == "posterior"


def test_a_trial_whose_record_cannot_be_written_goes_on(tmp_path: Path) -> None:
    one = begin_trial(tmp_path)
    show(one, 0.5)
    records = tmp_path / "evolutions.jsonl"
    records.unlink()
    records.mkdir()
    with pytest.raises(SnapshotError):
        one.tick(20 * DAY)
    records.rmdir()
    assert one.scheduler.trial() is not None
    record = one.tick(20 * DAY)
    assert record is not None
    assert record.decision == "promoted"


def test_gaps_are_filled_in_several_ways() -> None:
    one = evolver(None, "win", EvolutionPlan(drift=None, history=8, draws=3, trial=False))
    urls = [f"https://a.example/{p}" for p in range(20)]
    one.scheduler.observe([Outcome(url, 15.5 * DAY, changed=True) for url in urls[:10]])
    draws, data = one._gather(16 * DAY, 5)
    assert 0.0 < data.observed < 1.0
    assert len(draws) == 3
    assert (draws[0].changed != draws[1].changed).any()
    again, _ = one._gather(16 * DAY, 5)
    assert all((a.changed == b.changed).all() for a, b in zip(draws, again, strict=True))


@grouped(
    ("name", "value"),
    {
        "every": [-1],
        "drift": ["ddm"],
        "history": [3, 10**9],
        "draws": [0, 30_000_000],
        "archive": [10**9],
        "seed": [-5, 10**40],
        "time_limit_s": [0],
        "objective": [5, "t", "balanced(2)", "change_rate * significance"],
        "trial": [1],
        "settings": [{}],
    },
)
def test_plans_that_cannot_work(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        EvolutionPlan(**{name: value})
    assert json.loads(json.dumps(PLAN.to_json()))["settings"]["generations"] == 5


@pytest.mark.parametrize(
    ("formula", "objective", "metric"),
    [
        (None, None, "changes"),
        ("balanced(0.3) * significance", None, "balanced(0.3) * significance"),
        ("rate * t", None, "changes"),
        ("freshness", "ndcg", "ndcg"),
    ],
)
def test_what_formulas_are_bred_for(tmp_path: Path, formula: str | None, objective: str | None, metric: str) -> None:
    """The plan's objective, or that of the champion's formula; a formula that evolution found keeps it."""
    with evolver(tmp_path, "win", replace(PLAN, objective=objective)) as one:
        if formula is not None:
            one.scheduler.use(formula)
        first = one.evolve_now(12 * DAY)
        assert (first.decision, first.metric, first.champion_after.metric) == ("promoted", metric, metric)
        second = one.evolve_now(13 * DAY)
        assert second.metric == metric
    with evolver(tmp_path, "win", replace(PLAN, objective=objective)) as one:
        assert one.scheduler.champion == second.champion_after
        assert one.evolve_now(14 * DAY).metric == metric
        one.scheduler.use("freshness")
        assert one.evolve_now(15 * DAY).metric == (objective or "freshness")


@pytest.mark.parametrize(
    ("objective", "decision"),
    [
        ("changes", "trial"),
        ("balanced(0)", "trial"),
        ("ndcg", "trial"),
        ("freshness", "promoted"),
        ("changes * significance", "promoted"),
    ],
)
def test_a_trial_judges_only_what_it_counts(tmp_path: Path, objective: str, decision: str) -> None:
    with evolver(tmp_path, "win", replace(PLAN, objective=objective, trial=True)) as one:
        assert one.evolve_now(12 * DAY).decision == decision


def test_a_directory_may_be_named_by_a_string(tmp_path: Path) -> None:
    assert (
        Evolver(crawled(), PLAN, str(tmp_path), breed="tests.support.fake_evolutions:win").evolve_now(12 * DAY).number
        == 1
    )
    assert RecordBook(tmp_path).find(1) is not None


def test_records_do_not_hang_on_the_number_of_workers() -> None:
    plans = [replace(PLAN, settings=replace(REEVOLUTION_SETTINGS, workers=workers)) for workers in (1, 2)]
    first, second = (evolver(None, "win", plan).evolve_now(12 * DAY) for plan in plans)
    assert first == second
