"""Files of a state directory that are no regular files, processes forked from its owner, and what is left of a log."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from streamsched import Outcome, Scheduler, SnapshotError
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.state_directory import check_directory
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.recovered_state import continue_without_lost_calls
from streamsched.state.page_table import PageTable
from tests.support.command_line import Command
from tests.support.guarded_memory import small_reserve
from tests.support.paths import ROOT

NEVER = SavePlan(every=1e9)
URLS = [f"https://h{i}.example/" for i in range(20)]


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(here)


KINDS: dict[str, Callable[[Path], object]] = {
    "a named pipe": os.mkfifo,
    "a socket": make_socket,
    "a directory": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state whose last calls are in the log only."""
    with small_reserve(), DurableScheduler.open(tmp_path / "state", plan=NEVER, threads=1) as scheduler:
        scheduler.discover(URLS, now=0.0)
        scheduler.snapshot()
        for k in range(3):
            scheduler.next_batch(3, now=1e6 + k, lease="1h")
        scheduler.close(save=False)
    return tmp_path / "state"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pattern", ["calls-*.log", "snapshot-*.state", ".lock"])
def test_what_is_no_regular_file_is_refused(state: Path, kind: str, pattern: str) -> None:
    for path in list(state.glob(pattern)):
        path.unlink()
        KINDS[kind](path)
    with pytest.raises(SnapshotError, match=rf"is {kind}: expected a regular file"):
        DurableScheduler.open(state)
    if pattern != ".lock":
        with pytest.raises(SnapshotError, match=rf"is {kind}: expected a regular file"):
            Scheduler.load(state)
        assert f"is {kind}" in str(check_directory(state)[0])


@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "a device"])
def test_what_is_no_directory_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "state"
    KINDS[kind](path)
    for use in (Scheduler.load, DurableScheduler.open, Scheduler().save):
        with pytest.raises(SnapshotError) as caught:
            use(path)
        assert caught.value.path == str(path)


def test_draft_in_the_way_of_a_save_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".snapshot-00000001.state.draft")
    scheduler = Scheduler()
    scheduler.save(tmp_path)
    assert Scheduler.load(tmp_path).digest() == scheduler.digest()


def test_settings_in_a_named_pipe_are_refused(tmp_path: Path, streamsched: Command) -> None:
    os.mkfifo(tmp_path / "settings.toml")
    found = streamsched("run", "--config", tmp_path / "settings.toml", "--state", tmp_path / "state")
    assert found.code == 2
    assert "is a named pipe" in found.err


@pytest.mark.parametrize("damage", ["missing", "shortened"])
def test_every_command_says_that_calls_are_lost(state: Path, streamsched: Command, damage: str) -> None:
    (log,) = state.glob("calls-*.log")
    if damage == "missing":
        log.unlink()
    else:
        os.truncate(log, 1000)
    (state.parent / "o.jsonl").touch()
    for words in (
        ["next"],
        ["next", "--peek"],
        ["explain", URLS[0]],
        ["use", "t"],
        ["state", "show"],
        ["state", "verify"],
        ["state", "digest"],
        ["state", "export", "--to", str(state.parent / "pages.parquet")],
        ["run", "--source", str(state.parent / "o.jsonl"), "--until-end"],
    ):
        found = streamsched(*words, "--state", state)
        assert found.code == 4, words
        assert str(log) in found.err, words


def test_damaged_call_that_an_image_holds_is_passed_over(state: Path, streamsched: Command) -> None:
    with DurableScheduler.open(state, plan=NEVER) as scheduler:
        scheduler.snapshot()
        digest = scheduler.digest()
    (log,) = state.glob("calls-*.log")
    raw = bytearray(log.read_bytes())
    raw[300] ^= 1
    log.write_bytes(raw)
    assert streamsched("state", "verify", "--state", state).code == 4
    assert Scheduler.load(state).digest() == digest
    assert streamsched("next", "--state", state, "--now", "2e6").code == 0


def test_repair_drops_lost_calls_only_on_request(state: Path, streamsched: Command) -> None:
    (log,) = state.glob("calls-*.log")
    log.unlink()
    answer = streamsched("state", "repair", "--state", state)
    assert answer.code == 4
    assert f"--drop-lost-calls --state {state}`" in answer.err
    answer = streamsched("state", "repair", "--state", state, "--drop-lost-calls", "--json")
    assert (answer.code, len(answer.json["dropped"])) == (0, 1)
    assert streamsched("state", "verify", "--state", state).code == 0
    answer = streamsched("state", "repair", "--state", state, "--drop-lost-calls")
    assert (answer.code, answer.lines) == (0, ["nothing to repair"])


@pytest.mark.parametrize("damage", ["missing", "shortened", "damaged"])
def test_lost_calls_can_be_given_up(state: Path, damage: str) -> None:
    whole = Scheduler.load(state).digest()
    (log,) = state.glob("calls-*.log")
    if damage == "missing":
        log.unlink()
    elif damage == "shortened":
        os.truncate(log, 1000)
    else:
        raw = bytearray(log.read_bytes())
        raw[1000] ^= 1
        log.write_bytes(raw)
    assert continue_without_lost_calls(state)[0].path == str(log)
    assert check_directory(state) == continue_without_lost_calls(state) == []
    assert Scheduler.load(state).digest() != whole
    with DurableScheduler.open(state, plan=NEVER) as scheduler:
        scheduler.next_batch(3, now=2e6)
        digest = scheduler.digest()
        scheduler.close(save=False)
    assert check_directory(state) == []
    assert Scheduler.load(state).digest() == digest


def test_sound_states(tmp_path: Path, state: Path) -> None:
    """Those of which nobody ever asked anything, copies, and those of `Scheduler.save`."""
    fresh, saved, copied = tmp_path / "fresh", tmp_path / "saved", tmp_path / "copied"
    scheduler = DurableScheduler.open(fresh, plan=NEVER)
    shutil.copytree(fresh, tmp_path / "killed")
    scheduler.close()
    Scheduler().save(saved)
    shutil.copytree(state, copied)
    Scheduler.load(state).save(state)
    for folder in (fresh, tmp_path / "killed", saved, copied, state):
        assert check_directory(folder) == []
        for _ in range(2):
            with DurableScheduler.open(folder, plan=NEVER) as found:
                found.observe([Outcome("https://new.example/", 3e6)])
                found.close(save=False)
            assert check_directory(folder) == []
            assert "https://new.example/" in Scheduler.load(folder)


def test_calls_without_any_image_are_no_new_state(state: Path) -> None:
    for path in state.glob("snapshot-*"):
        path.unlink()
    with pytest.raises(SnapshotError, match="holds a log of calls and no image"):
        DurableScheduler.open(state)


FORKING = """
import gc, os, sys
from streamsched import OutcomeBatch, SnapshotError
from streamsched.scheduler.durable import DurableScheduler

scheduler = DurableScheduler.open(sys.argv[1])
scheduler.discover(["https://a.example/"], now=0.0)
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    uses = [
        lambda: scheduler.next_batch(1, now=1e6),
        lambda: scheduler.discover(["https://b.example/"], now=0.0),
        lambda: scheduler.rank(1, now=1e6),
        lambda: scheduler.use("t"),
        lambda: scheduler.take(OutcomeBatch([], []), "stream", 1),
        lambda: scheduler.snapshot(),
        lambda: scheduler.save(sys.argv[1]),
        lambda: scheduler.digest(),
        lambda: len(scheduler),
    ]
    refused = 0
    for use in uses:
        try:
            use()
        except SnapshotError as error:
            refused += error.path == sys.argv[1]
    scheduler.close()
    del scheduler, uses
    gc.collect()
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os._exit(refused)
os.close(ready[1])
os.read(ready[0], 1)
scheduler.discover(["https://c.example/"], now=0.0)
scheduler.snapshot()
scheduler.close()
with DurableScheduler.open(sys.argv[1]) as again:  # the child lives, and holds no lock
    assert len(again) == 2
    print(again.digest())
os.write(go[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_forked_process_is_refused_and_leaves_the_state_alone(tmp_path: Path) -> None:
    words = [sys.executable, "-W", "ignore", "-c", FORKING, str(tmp_path / "state")]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 9, found.stderr
    assert Scheduler.load(tmp_path / "state").digest() == found.stdout.strip()
    assert check_directory(tmp_path / "state") == []


def test_limited_address_space_is_reported_and_enough(tmp_path: Path) -> None:
    (tmp_path / "o.jsonl").write_text('{"url": "https://a.example/", "fetched_at": 1.7e9}\n')
    command = 'ulimit -v 4000000; exec "$0" -m streamsched run --source o.jsonl --state state --until-end'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = ["/bin/bash", "-c", command, sys.executable]
    found = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("the address space is limited") == 1


def test_refused_memory_is_one_line(state: Path, streamsched: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError("Unable to allocate 6.50 MiB")

    monkeypatch.setattr(PageTable, "__init__", refuse)
    found = streamsched("state", "digest", "--state", state)
    assert found.code == 71
    assert found.err == "streamsched: out of memory: Unable to allocate 6.50 MiB; see `ulimit -v`\n"
