"""Any byte of any file of a state directory damaged, any file cut or gone: a clear message, never a wrong state."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched import Scheduler, SnapshotError
from streamsched.persistence.image_format import read_image
from streamsched.persistence.image_writer import SavePlan
from streamsched.persistence.verification import check_directory
from streamsched.persistence.write_ahead_log.segment_format import MAGIC
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.recovered_state import continue_without_lost_calls
from tests.support import killed_scheduler
from tests.support.guarded_memory import small_reserve

NEVER = SavePlan(every=1e9, increments=2, share=100.0, kept=2)  # few pages: an increment is as large as the whole
LAST = 60  # steps: images and increments among them, and calls after the last of them


@pytest.fixture(autouse=True, scope="module")
def small_tables() -> Iterator[None]:
    with small_reserve(), pytest.MonkeyPatch.context() as patch:
        for sync in ("fsync", "fdatasync"):
            patch.setattr(os, sync, lambda _handle: None)
        yield


@pytest.fixture(scope="module")
def digests() -> list[str]:
    twin, found = Scheduler(**killed_scheduler.SETTINGS), []
    for number in range(LAST):
        found.append(twin.digest())
        killed_scheduler.do(twin, number)
    return [*found, twin.digest()]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a process that was killed: two images, each with increments, and a log."""
    folder = tmp_path_factory.mktemp("state")
    scheduler = DurableScheduler.open(folder / "live", killed_scheduler.SETTINGS, plan=NEVER, threads=1)
    for number in range(LAST):
        killed_scheduler.do(scheduler, number)
        if number % 12 == 5:
            scheduler.snapshot()
    shutil.copytree(folder / "live", folder / "killed")
    scheduler.close(save=False)
    return folder / "killed"


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.name != ".lock")


def place_in(path: Path, data: st.DataObject) -> int:
    """A place in what the file holds: rarely in the sketch, which is nearly nothing but zeros, or in a log's room."""
    size = path.stat().st_size
    if path.suffix == ".log":
        return data.draw(st.integers(0, len(path.read_bytes().rstrip(b"\0")) + 40))
    sketch = [part for part in read_image(path).parts if part.name == "candidates"]
    end = sketch[0].offset + sketch[0].nbytes if sketch else 0
    return data.draw(st.integers(0, (sketch[0].offset if sketch else 0) + 50) | st.integers(end, size - 1))


def recover(folder: Path, digests: list[str]) -> int:
    """Bring the state back and read the stream on; return after how many steps the recovered state was saved."""
    with DurableScheduler.open(
        folder, killed_scheduler.SETTINGS, reread=killed_scheduler.reread, plan=NEVER, threads=1
    ) as scheduler:
        assert scheduler.core.pages.faults() == []
        return digests.index(scheduler.digest())


def try_to_recover(folder: Path, digests: list[str]) -> tuple[int, SnapshotError | None]:
    try:
        return recover(folder, digests), None
    except SnapshotError as error:
        return -1, error


@settings(max_examples=60)
@given(data=st.data())
def test_any_damaged_byte(state: Path, digests: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([path.name for path in files(state)]))
    with TemporaryDirectory() as other, pytest.MonkeyPatch.context() as patch:
        folder = Path(other) / "state"
        shutil.copytree(state, folder)
        path = folder / name
        place, cut = place_in(path, data), data.draw(st.booleans())
        raw = bytearray(path.read_bytes())
        raw[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(raw[:place] if cut else raw)
        result: list[str] = []
        patch.setattr(
            logging.getLogger("streamsched.persistence"), "_log", lambda _l, text, args, **_: result.append(text % args)
        )
        faults = check_directory(folder)
        done, error = try_to_recover(folder, digests)
        if error is not None:
            assert str(path) == error.path or name in error.reason
            assert faults
            return
        if path.suffix == ".state":
            assert faults
            assert faults[0].path == str(path)
            assert done == LAST
        else:  # what a crash may leave, or it was needed no more
            assert not cut
            assert done == LAST or any(str(path) in text for text in result)
            assert faults or any(str(path) in text for text in result) or bytes(raw) == path.read_bytes()


@settings(max_examples=30)
@given(data=st.data())
def test_damaged_log_can_be_given_up(state: Path, data: st.DataObject) -> None:
    """Whatever is damaged of the log: the state is sound again, and takes calls."""
    with TemporaryDirectory() as other:
        folder = Path(other) / "state"
        shutil.copytree(state, folder)
        path = data.draw(st.sampled_from([path for path in files(folder) if path.suffix == ".log"]))
        raw = bytearray(path.read_bytes())
        place = place_in(path, data)
        raw[place] ^= data.draw(st.integers(1, 255))
        path.write_bytes(raw[:place] if data.draw(st.booleans()) else raw)
        faults = check_directory(folder)
        lost = continue_without_lost_calls(folder, reread=killed_scheduler.reread)
        assert bool(faults) == bool(lost)
        assert check_directory(folder) == []
        with DurableScheduler.open(folder, reread=killed_scheduler.reread, plan=NEVER, threads=1) as scheduler:
            scheduler.next_batch(3, now=4e9)
            digest = scheduler.digest()
            scheduler.close(save=False)
        assert check_directory(folder) == []
        assert Scheduler.load(folder).digest() == digest


@settings(max_examples=20)
@given(data=st.data())
def test_any_missing_file(state: Path, digests: list[str], data: st.DataObject) -> None:
    with TemporaryDirectory() as other:
        folder = Path(other) / "state"
        shutil.copytree(state, folder)
        path = folder / data.draw(st.sampled_from([path.name for path in files(state)]))
        path.unlink()
        assert check_directory(folder) or path.suffix == ".state"
        done, error = try_to_recover(folder, digests)
        assert (error is not None and str(folder) in error.path) or done == LAST
        assert error is not None or path.suffix == ".state"


def test_there_is_something_to_damage(state: Path, digests: list[str], tmp_path: Path) -> None:
    kinds = [path.suffix for path in files(state)]
    assert kinds.count(".state") >= 4
    assert ".log" in kinds
    assert check_directory(state) == []
    shutil.copytree(state, tmp_path / "state")
    assert recover(tmp_path / "state", digests) == LAST
    log = next(path for path in files(state) if path.suffix == ".log")
    assert log.read_bytes().startswith(MAGIC)
