"""A full disk, a directory that cannot be written, two processes: what is said, and that nothing is damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from streamsched import Outcome, Scheduler, SnapshotError
from streamsched.errors import StateInUse
from streamsched.persistence.files import list_images
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.state_directory import check_directory
from streamsched.scheduler.durable import DurableScheduler
from tests.support.child_processes import no_file_beyond

NEVER = SavePlan(every=1e9)


def discover_many(scheduler: DurableScheduler) -> None:
    """More than the segment at hand has room for; it was made before."""
    for i in range(600):
        scheduler.discover([f"https://a.example/{i}/" + "x" * 8_000], now=0.0)


def test_full_disk_refuses_calls_until_a_save_succeeds(tmp_path: Path) -> None:
    scheduler = DurableScheduler.open(tmp_path / "state", plan=NEVER)
    scheduler.discover(["https://a.example/1"], now=0.0)
    with no_file_beyond(1 << 12):
        with pytest.raises(SnapshotError, match=r"cannot be written: .*; calls are refused until a snapshot is saved"):
            discover_many(scheduler)
        assert scheduler.trouble is not None
        known = len(scheduler)
        with pytest.raises(SnapshotError, match="calls are refused"):
            scheduler.observe(Outcome("https://a.example/1", 5.0))
        assert len(scheduler) == known
        with pytest.raises(SnapshotError, match="cannot be written: File too large") as caught:
            scheduler.snapshot()
        assert caught.value.path == str(tmp_path / "state")
        assert scheduler.trouble is not None
    assert Scheduler.load(tmp_path / "state").core.pages.faults() == []
    scheduler.snapshot()
    assert scheduler.trouble is None
    scheduler.discover(["https://b.example/"], now=0.0)
    digest = scheduler.digest()
    assert Scheduler.load(tmp_path / "state").digest() == digest
    assert check_directory(tmp_path / "state") == []
    copy = shutil.copytree(tmp_path / "state", tmp_path / "copy")
    list_images(copy)[-1].in_directory(copy).write_bytes(b"damaged")
    assert Scheduler.load(copy).digest() == digest, "no way back: the log lacks the refused calls"
    scheduler.close()
    with DurableScheduler.open(tmp_path / "state", plan=NEVER) as found:
        assert found.digest() == digest


def test_save_on_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    with DurableScheduler.open(tmp_path / "state", plan=NEVER) as scheduler:
        scheduler.observe([Outcome(f"https://a.example/{i}", 1.0) for i in range(2_000)])
        scheduler.snapshot()
        scheduler.observe([Outcome("https://a.example/1", 2.0)])
        before = list_images(tmp_path / "state")
        with no_file_beyond(1 << 15), pytest.raises(SnapshotError, match="File too large"):
            scheduler.snapshot(full=True)
        assert list_images(tmp_path / "state") == before
        assert not list((tmp_path / "state").glob(".*draft"))
        scheduler.snapshot()  # an increment to what was there before
        assert [name.step for name in list_images(tmp_path / "state")] == [0, 0, 1]
        assert Scheduler.load(tmp_path / "state").digest() == scheduler.digest()


def test_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", Path("/proc/streamsched"), Path("/sys/streamsched")):
        with pytest.raises(SnapshotError, match=r"cannot be written|is a file") as caught:
            DurableScheduler.open(folder)
        assert caught.value.path == str(folder)


def test_two_on_one_directory(tmp_path: Path) -> None:
    """Processes of their own are in test_cli_process.py."""
    with DurableScheduler.open(tmp_path, plan=NEVER) as scheduler:
        scheduler.discover(["https://a.example/"], now=0.0)
        with pytest.raises(StateInUse, match="another streamsched process is changing this state") as caught:
            DurableScheduler.open(tmp_path)
        assert caught.value.retriable
        digest = scheduler.digest()
    with DurableScheduler.open(tmp_path) as found:
        assert found.digest() == digest
