"""A durable scheduler is its twin that was never interrupted: after crashes at any moment, however the log was torn."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from streamsched import Outcome, Scheduler, SnapshotError
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence import call_log, snapshot_view
from streamsched.persistence.files import list_segments
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.log_reader import LoggedCalls, newest_log
from streamsched.persistence.log_segments import FIRST_FRAME_AT
from streamsched.persistence.state_directory import check_directory
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.recovered_state import replay
from tests.support.cases import examples
from tests.support.guarded_memory import small_reserve
from tests.support.outcome_streams import streams
from tests.support.random_calls import Call, calls, settings_of

NEVER = SavePlan(every=1e9, increments=3)


@pytest.fixture(autouse=True, scope="module")
def small_tables() -> Iterator[None]:
    with small_reserve(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_log, "_FIRST_BYTES", 1 << 11)
        patch.setattr(call_log.CallLog.__init__, "__defaults__", (1 << 13,))
        patch.setattr(call_log, "_MARK_S", 0.0)
        for sync in ("fsync", "fdatasync"):  # it is processes that end here, not the machine
            patch.setattr(os, sync, lambda _handle: None)
        patch.setattr(snapshot_view, "_RUN", 5)
        patch.setattr(snapshot_view, "_PICKED", 3)
        yield


class Crashes(RuleBasedStateMachine):
    """Calls, outcomes of a stream, saves, crashes that lose what was not on disk."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self.directory = Path(self._folder.name) / "state"
        self.stream: list[Outcome] = []

    @initialize(seed=st.integers(0, 3))
    def begin(self, seed: int) -> None:
        self.settings = settings_of(seed)
        self.twin = Scheduler(**self.settings)
        self.tested = self.open()

    def open(self) -> DurableScheduler:
        return DurableScheduler.open(self.directory, self.settings, reread=self.reread, plan=NEVER, threads=1)

    def reread(self, _path: str, position: Any) -> Iterator[OutcomeBatch]:
        """The stream in batches of other sizes than those in which it was taken."""
        for start in range(position or 0, len(self.stream), 7):
            yield OutcomeBatch.from_outcomes(self.stream[start : start + 7])

    @rule(call=calls())
    def ask(self, call: Call) -> None:
        assert call(self.tested) == call(self.twin)

    @rule(outcomes=streams())
    def take(self, outcomes: list[Outcome]) -> None:
        """Twice, so that outcomes of one stream come in several deliveries between two calls."""
        for part in (outcomes[:20], outcomes[20:30]):
            if part:
                self.stream += part
                self.tested.take(OutcomeBatch.from_outcomes(part), "stream", len(self.stream))
                self.twin.observe(part)

    @rule(full=st.booleans())
    def save(self, full: bool) -> None:
        self.tested.snapshot(full=full)

    @rule()
    def close(self) -> None:
        self.tested.close()
        self.tested = self.open()
        assert self.tested.digest() == self.twin.digest()

    @rule(junk=st.binary(max_size=60), whole=st.booleans())
    def crash(self, junk: bytes, whole: bool) -> None:
        """The process ends; of what it was about to write to the log any bytes may be there."""
        copy = self.directory.with_name("copy")
        calls_log = self.tested._log
        assert isinstance(calls_log, call_log.CallLog)
        written = (calls_log._path, calls_log._end) if calls_log._handle is not None else None
        shutil.copytree(self.directory, copy)
        self.tested.close(save=False)
        shutil.rmtree(self.directory)
        copy.rename(self.directory)
        if written is not None and not whole:
            path, end = written
            raw = path.read_bytes()
            junk = junk[: len(raw) - end]
            path.write_bytes(raw[:end] + junk + raw[end + len(junk) :])
        else:
            assert check_directory(self.directory) == []
        self.tested = self.open()
        self.take_again()

    def take_again(self) -> None:
        """Read the stream on from where the state stands, as `run` does."""
        at = self.tested.positions.get("stream", 0)
        if at < len(self.stream):
            self.tested.take(OutcomeBatch.from_outcomes(self.stream[at:]), "stream", len(self.stream))
        assert self.tested.digest() == self.twin.digest()
        assert self.tested.core.pages.faults() == []

    def teardown(self) -> None:
        if hasattr(self, "tested"):
            assert self.tested.digest() == self.twin.digest()
            self.tested.close()
        self._folder.cleanup()


Crashes.TestCase.settings = settings(max_examples=10, stateful_step_count=16)
TestCrashes = Crashes.TestCase


@examples(ordinary=6, whole=20)
@given(st.lists(calls(), min_size=1, max_size=8), st.data())
def test_write_torn_at_any_byte_leaves_the_state_after_some_call(asked: list[Call], data: st.DataObject) -> None:
    """The rest of the file is zeros, as before the write. Up to the last mark no call may be missing."""
    with TemporaryDirectory() as folder:
        directory, crashed = Path(folder) / "state", Path(folder) / "crashed"
        twin = Scheduler(**settings_of())
        digests = [twin.digest()]
        with DurableScheduler.open(directory, settings_of(), plan=NEVER, threads=1) as scheduler:
            for call in asked:
                call(scheduler)
                call(twin)
                digests.append(twin.digest())
            shutil.copytree(directory, crashed)
        states = states_between(crashed)
        assert states >= set(digests)
        path = list_segments(crashed)[-1][1]
        raw = path.read_bytes()
        size = data.draw(st.integers(FIRST_FRAME_AT, max(FIRST_FRAME_AT, len(raw.rstrip(b"\0")))))
        path.write_bytes(raw[:size].ljust(len(raw), b"\0"))
        if check_directory(crashed):
            with pytest.raises(SnapshotError) as caught:
                Scheduler.load(crashed)
            assert caught.value.path == str(path)
        else:
            with DurableScheduler.open(crashed, plan=NEVER, threads=1) as found:
                assert found.digest() in states


@examples(ordinary=3, whole=10)
@given(st.lists(calls(), min_size=1, max_size=8), st.data())
def test_shortened_log_is_damage(asked: list[Call], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        directory = Path(folder) / "state"
        with DurableScheduler.open(directory, settings_of(), plan=NEVER, threads=1) as scheduler:
            for call in asked:
                call(scheduler)
            scheduler.close(save=data.draw(st.booleans()))
        path = list_segments(directory)[-1][1]
        os.truncate(path, data.draw(st.integers(0, path.stat().st_size - 1)))
        assert [fault.path for fault in check_directory(directory)][:1] == [str(path)]
        for open_again in (Scheduler.load, DurableScheduler.open):
            with pytest.raises(SnapshotError) as caught:
                open_again(directory)
            assert caught.value.path == str(path)


def states_between(directory: Path) -> set[str]:
    """The states after each entry of a log from its beginning: a test's call may be several."""
    twin = Scheduler(**settings_of())
    states = {twin.digest()}
    for _ in replay(twin.core, list(LoggedCalls(directory, 0, newest_log(directory)[1])), "log"):
        states.add(twin.digest())
    return states


PARTED = [Outcome(f"https://a.example/{i % 7}", float(i + 1), changed=i % 3 == 0) for i in range(60)]
KINDS = ["whole", "part", "call", "save", "restart"]
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 9)), max_size=25)


def read_parted(_path: str, position: Any) -> Iterator[OutcomeBatch]:
    for start in range(position or 0, len(PARTED), 11):
        yield OutcomeBatch.from_outcomes(PARTED[start : start + 11])


@given(STEPS)
@example([("part", 1), ("call", 1), ("restart", 1), ("whole", 1), ("call", 1)])
@examples(ordinary=9, whole=30)
def test_streams_taken_in_parts_are_read_again_as_they_were_taken(steps: list[tuple[str, int]]) -> None:
    """Parts of what comes as one have the position before it: whatever was saved or called between, none is lost."""
    plan = SavePlan(every=1e9)
    with TemporaryDirectory() as name, small_reserve():
        scheduler = DurableScheduler.open(name, plan=plan)
        at, digest = 0, scheduler.digest()  # where the stream stands, and what is on disk
        for step, size in steps:
            if step in ("whole", "part"):
                outcomes = PARTED[at : at + size]
                at += len(outcomes)
                scheduler.take(OutcomeBatch.from_outcomes(outcomes), "stream", at if step == "whole" else None)
            elif step == "call":
                scheduler.next_batch(size, now=100.0 + at)
                digest = scheduler.digest()
            elif step == "save":
                scheduler.snapshot()
                digest = scheduler.digest()
            else:
                scheduler.close(save=False)
                scheduler = DurableScheduler.open(name, plan=plan, reread=read_parted)
                assert scheduler.digest() == digest
                at = scheduler.positions.get("stream", 0)
        scheduler.close(save=False)
        with DurableScheduler.open(name, plan=plan, reread=read_parted) as again:
            assert again.digest() == digest
