"""The durable scheduler: what it saves by itself, streams that must be read again, and what is refused."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import Outcome, OutcomeBatch, Politeness, Scheduler, SettingsError, SnapshotError
from streamsched.persistence.call_codec import StreamNeeded
from streamsched.persistence.call_log import CallLog
from streamsched.persistence.files import list_images
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.log_reader import has_calls
from streamsched.scheduler.durable import DurableScheduler
from streamsched.state.stream_clock import WallClock
from tests.support.waiting import pause

NEVER = SavePlan(every=1e9)
STREAM = [Outcome(f"https://a.example/{i % 7}", float(i + 1), changed=i % 3 == 0) for i in range(40)]


def reread(_path: str, position: Any) -> Iterator[OutcomeBatch]:
    yield OutcomeBatch.from_outcomes(STREAM[position or 0 :])


def fill_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def take(scheduler: DurableScheduler, start: int, stop: int) -> None:
    scheduler.take(OutcomeBatch.from_outcomes(STREAM[start:stop]), "stream", stop)


@contextmanager
def after_a_crash(scheduler: DurableScheduler, **options: Any) -> Iterator[DurableScheduler]:
    """The scheduler that the directory of one that ended without a save gives: its state is the same."""
    digest = scheduler.digest()
    scheduler.close(save=False)
    with DurableScheduler.open(scheduler.directory, plan=NEVER, **options) as again:
        assert again.digest() == digest
        yield again


@pytest.fixture
def crashed(tmp_path: Path) -> tuple[Path, str]:
    """A directory whose process ended after outcomes, a call, and outcomes again; the digest after the call."""
    scheduler = DurableScheduler.open(tmp_path, plan=NEVER)
    take(scheduler, 0, 10)
    take(scheduler, 10, 25)
    scheduler.next_batch(3, now=100.0)
    digest = scheduler.digest()
    take(scheduler, 25, 40)
    scheduler.close(save=False)
    return tmp_path, digest


def test_calls_after_a_stream_need_it_read_again(crashed: tuple[Path, str], caplog: pytest.LogCaptureFixture) -> None:
    directory, digest = crashed
    before = sorted((path.name, path.read_bytes()) for path in directory.iterdir())
    with pytest.raises(StreamNeeded, match="depends on records of stream that are not in the saved state") as caught:
        DurableScheduler.open(directory)
    assert (caught.value.stream, caught.value.number) == ("stream", 2)
    shown = Scheduler.load(directory)
    assert (len(shown), shown.positions) == (0, {})
    assert "loaded the state before that call" in caplog.text
    with pytest.raises(StreamNeeded):
        shown.save(directory)
    assert sorted((path.name, path.read_bytes()) for path in directory.iterdir()) == before
    with DurableScheduler.open(directory, reread=reread, plan=NEVER) as scheduler:
        assert scheduler.digest() == digest
        assert scheduler.positions == {"stream": 25}


def test_stream_that_ends_too_early(crashed: tuple[Path, str]) -> None:
    with pytest.raises(SnapshotError, match="stream ends 5 records earlier than"):
        DurableScheduler.open(crashed[0], reread=lambda path, at: [next(reread(path, at)).take(np.arange(20))])


def test_crash_while_stream_is_read_again_costs_nothing(crashed: tuple[Path, str]) -> None:
    """What was read again and not saved is read again once more, in the same places between the calls."""
    directory, digest = crashed
    for _ in range(2):
        scheduler = DurableScheduler.open(directory, reread=reread, plan=NEVER)
        assert scheduler.digest() == digest
        at = scheduler.positions["stream"]
        take(scheduler, at, at + 6)
        scheduler.ask(["https://b.example/"], now=5.0)
        digest = scheduler.digest()
        scheduler.release(["https://b.example/"])
        assert scheduler.digest() == digest
        with after_a_crash(scheduler, reread=reread) as again:
            assert again.positions == {"stream": at + 6}
            again.close(save=False)


def test_saves_by_itself(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=0.01, increments=2)) as scheduler:
        for step in range(9):
            before = list_images(tmp_path)
            take(scheduler, step, step + 1)
            while list_images(tmp_path) == before:
                pause()
            while Scheduler.load(tmp_path).positions != {"stream": step + 1}:
                pause()
        assert scheduler.trouble is None
    assert len({name.number for name in list_images(tmp_path)}) == 2
    assert max(name.step for name in list_images(tmp_path)) <= 2


def test_saves_by_itself_though_no_segment_of_the_log_can_be_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that is nearly full an image may fit where a segment does not."""

    def snapshot(scheduler: DurableScheduler, **options: bool) -> Path:
        path = save(scheduler, **options)
        saved.set()
        return path

    save, saved = DurableScheduler.snapshot, threading.Event()
    monkeypatch.setattr(CallLog, "prepare", fill_disk)
    monkeypatch.setattr(DurableScheduler, "snapshot", snapshot)
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=0.01)) as scheduler:
        take(scheduler, 0, 1)
        assert saved.wait(60.0)


def test_segments_are_prepared_while_a_save_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, saving, go_on = threading.Event(), threading.Event(), threading.Event()
    prepare, snapshot = CallLog.prepare, DurableScheduler.snapshot

    def note(log: CallLog) -> None:
        prepare(log)
        if any(tmp_path.glob(".calls-*.draft")):
            prepared.set()

    def wait(scheduler: DurableScheduler, *, full: bool = False) -> Path:
        if not full:
            saving.set()
            assert go_on.wait(60.0)
        return snapshot(scheduler, full=full)

    monkeypatch.setattr(CallLog, "prepare", note)
    monkeypatch.setattr(DurableScheduler, "snapshot", wait)
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=0.01)) as scheduler:
        scheduler.discover(["https://a.example/"], now=1.0)
        assert saving.wait(60.0)
        scheduler.discover([f"https://a.example/{number}" for number in range(2_000)], now=2.0)  # half of a segment
        scheduler.discover(["https://a.example/last"], now=3.0)
        assert prepared.wait(60.0)
        go_on.set()


def test_saved_positions_are_those_on_disk_after_opening_too(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        take(scheduler, 0, 5)
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        take(scheduler, 5, 9)
        assert (scheduler.positions, scheduler.saved.positions) == ({"stream": 9}, {"stream": 5})
        scheduler.snapshot()
        assert scheduler.saved.positions == {"stream": 9}


def test_nothing_is_left_of_shadows_that_became_fewer(tmp_path: Path) -> None:
    """More than 2,048 pages halve them between an image and its increment; later pages take their places."""

    def visit(start: int, stop: int, at: float) -> OutcomeBatch:
        urls = [f"https://a.example/{i}" for i in range(start, stop)]
        return OutcomeBatch(urls, np.full(stop - start, at), changed=np.arange(stop - start) % 2 == 0)

    calls = [visit(0, 2_000, 1e5), visit(0, 2_000, 2e5), visit(2_000, 2_100, 3e5)]
    later = [visit(2_100, 4_000, 4e5), visit(0, 4_000, 5e5)]
    undisturbed = Scheduler()
    with DurableScheduler.open(tmp_path, plan=SavePlan(every=1e9, increments=2)) as scheduler:
        for place, call in enumerate(calls):
            undisturbed.observe(call)
            scheduler.observe(call)
            if place:
                scheduler.snapshot()
        assert scheduler.saved.name.step == 1
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        for call in later:
            undisturbed.observe(call)
            scheduler.observe(call)
        assert scheduler.digest() == undisturbed.digest()


def test_nothing_to_save_saves_nothing(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        take(scheduler, 0, 5)
    before = list_images(tmp_path)
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        scheduler.close()
        scheduler.close()
        with pytest.raises(SnapshotError, match="is closed"):
            scheduler.observe(STREAM[6])
        with pytest.raises(SnapshotError, match="is closed"):
            scheduler.snapshot()
    assert len(list_images(tmp_path)) <= len(before) + 1


def test_saved_elsewhere_it_goes_on_as_it_was(tmp_path: Path) -> None:
    """A whole image for someone else is no image of its own: what was marked stays marked."""
    with DurableScheduler.open(tmp_path / "own", plan=NEVER) as scheduler:
        scheduler.observe(STREAM[:9])
        scheduler.save(tmp_path / "other")
        scheduler.observe(STREAM[9:12])
        scheduler.snapshot()
        assert scheduler.save(tmp_path / "own").parent == tmp_path / "own"
        digest = scheduler.digest()
        scheduler.observe(STREAM[12:20])
        scheduler.snapshot()
        assert Scheduler.load(tmp_path / "own").digest() == scheduler.digest() != digest
    assert len(Scheduler.load(tmp_path / "other")) == 7


def test_calls_of_many_threads_are_all_there(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for step in range(20):
            scheduler.observe(Outcome(f"https://h{number}.example/{step}", 1.0))
            scheduler.next_batch(1, now=5.0)

    with DurableScheduler.open(tmp_path, plan=SavePlan(every=0.02, increments=2)) as scheduler:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Scheduler.load(tmp_path).digest() == scheduler.digest()
        with after_a_crash(scheduler) as again:
            assert len(again) == 80


def test_champion_is_on_disk(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, {"seed": 3}, plan=NEVER) as scheduler:
        scheduler.use("t * X")
        scheduler.set_politeness(Politeness(per_batch=2))
        scheduler.close(save=False)
    with DurableScheduler.open(tmp_path, {"seed": 4}, plan=NEVER) as scheduler:
        assert (scheduler.formula.text, scheduler.politeness.per_batch, scheduler.seed) == ("t * X", 2, 3)
        assert str(scheduler.champion) == "set by hand"


def test_refused_calls_are_not_logged(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        with pytest.raises(SettingsError):
            scheduler.block("https://no.host/", 5.0)
        with pytest.raises(SettingsError):
            scheduler.set_rules({"a.example": 5})  # type: ignore[dict-item]
        with pytest.raises(SettingsError):
            scheduler.max_pages = 0
        scheduler.close(save=False)
    assert not has_calls(tmp_path)


@pytest.mark.parametrize(("name", "value"), [("every", -1.0), ("kept", 0), ("increments", -1)])
def test_plan_that_cannot_work(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        SavePlan(**{name: value})


DAY = 86_400.0
NOW = 1.7e9
AHEAD = [0.0, 0.5, 3.0, 0.6, 2.0, 40.0, 0.7]  # days ahead of NOW
LIVE = [Outcome(f"https://a.example/{i}", NOW + days * DAY) for i, days in enumerate(AHEAD)]


def reread_live(_path: str, position: Any) -> Iterator[OutcomeBatch]:
    yield OutcomeBatch.from_outcomes(LIVE[position or 0 :])


def test_what_the_clock_refused_stays_refused_when_it_is_read_again(tmp_path: Path) -> None:
    times = iter([NOW, NOW + 0.1 * DAY, NOW + 1.5 * DAY, *[NOW + 90 * DAY] * 9])
    clock = WallClock(lambda: next(times))
    scheduler = DurableScheduler.open(tmp_path, {"max_ahead": "1h"}, plan=NEVER, clock=clock)
    assert scheduler.take(OutcomeBatch.from_outcomes(LIVE[:2]), "stream", 2).rejected == 0
    assert scheduler.take(OutcomeBatch.from_outcomes(LIVE[2:4]), "stream", None).rejected == 1
    observed = scheduler.take(OutcomeBatch.from_outcomes(LIVE[4:]), "stream", 7)
    assert [one.record for one in observed.rejections] == [1]
    scheduler.next_batch(3, now=NOW + 2 * DAY)
    with after_a_crash(scheduler, reread=reread_live) as again:
        assert len(again) == 5


def test_calls_go_by_the_clock(tmp_path: Path) -> None:
    times = [NOW]
    clock = WallClock(lambda: times[0], "1d")
    with DurableScheduler.open(tmp_path, {"max_ahead": "1h"}, plan=NEVER, clock=clock) as scheduler:
        assert [one.record for one in scheduler.find_ahead(LIVE)] == [2, 4, 5]
        assert scheduler.observe(LIVE).rejected == 3
        for call in (scheduler.next_batch, partial(scheduler.discover, ["https://b.example/"])):
            with pytest.raises(SettingsError) as caught:
                call(now=NOW + 2 * DAY)
            assert caught.value.setting == "now"
        with pytest.raises(SettingsError):
            scheduler.ask(["https://b.example/"], now=NOW + 2 * DAY)
        assert len(scheduler) == 4
        scheduler.next_batch(1, now=NOW + 1.5 * DAY)  # a day ahead of the newest outcome
        times[0] += 90 * DAY
        assert scheduler.observe(LIVE).rejected == 0
        with after_a_crash(scheduler):
            pass


def test_refusals_and_the_bound_survive(tmp_path: Path) -> None:
    twin = Scheduler(max_ahead="1d")
    scheduler = DurableScheduler.open(tmp_path, {"max_ahead": "1d"}, plan=NEVER)
    for one in (scheduler, twin):
        one.observe(LIVE[:2])
        assert one.observe([LIVE[2]]).rejected == 1
    with after_a_crash(scheduler) as again:
        for one in (again, twin):
            assert one.observe([LIVE[4]]).applied == 1  # after a refusal the bound is two days ahead
            one.max_ahead = None
            assert one.observe([LIVE[5]]).applied == 1
        with after_a_crash(again) as last:
            assert last.max_ahead is None
            assert last.digest() == twin.digest()


def test_calls_together_are_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        writes: list[int] = []
        write = CallLog._write

        def count(log: CallLog, calls: list[tuple[int, bytes]]) -> None:
            writes.append(len(calls))
            write(log, calls)

        monkeypatch.setattr(CallLog, "_write", count)
        with scheduler.together():
            scheduler.observe(STREAM[:3])
            with scheduler.together():
                scheduler.discover(["https://b.example/"], now=50.0)
            scheduler.next_batch(2, now=60.0)
            scheduler.use("t")
            assert writes == []
        assert writes == [4]
        scheduler.observe(STREAM[3:4])
        assert writes == [4, 1]
        digest = scheduler.digest()
        scheduler.close(save=False)
    assert Scheduler.load(tmp_path).digest() == digest


def test_calls_together_are_on_disk_even_if_the_block_raises(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        with pytest.raises(SettingsError), scheduler.together():
            observe_and_fail(scheduler)
        copied = tmp_path / "copy"
        shutil.copytree(tmp_path, copied, ignore=shutil.ignore_patterns("copy", "lock"))
        assert Scheduler.load(copied).digest() == scheduler.digest()


def observe_and_fail(scheduler: DurableScheduler) -> None:
    scheduler.observe(STREAM[:3])
    scheduler.next_batch(-1, now=60.0)


def test_calls_together_are_of_one_thread(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler, scheduler.together():
        other = threading.Thread(target=scheduler.observe, args=(STREAM[:3],))
        other.start()
        other.join()
        assert scheduler._log._on_disk == scheduler._log.sequence == 1


def test_calls_together_fail_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        monkeypatch.setattr(CallLog, "_write", fill_disk)
        with pytest.raises(SnapshotError, match="No space left"), scheduler.together():
            scheduler.observe(STREAM[:3])
        monkeypatch.undo()
        scheduler.snapshot()
        assert scheduler.trouble is None


def test_a_repeated_call_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What says that a batch or an outcome is known already must not be said before that is on disk."""
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        waited: list[int] = []
        with scheduler.together():
            scheduler.observe(STREAM[:3])
            scheduler.next_batch(2, now=60.0, key="k")
            commit = CallLog.commit

            def note(log: CallLog, number: int) -> None:
                waited.append(number)
                commit(log, number)

            monkeypatch.setattr(CallLog, "commit", note)
            for again in (lambda: scheduler.observe(STREAM[:3]), lambda: scheduler.next_batch(2, now=60.0, key="k")):
                thread = threading.Thread(target=again)
                thread.start()
                thread.join()
            assert waited == [2, 2]
