"""Copies of a state: whole and checked, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched import DurableScheduler, Scheduler, SnapshotError
from streamsched.errors import StateInUse
from streamsched.evolution.records import RecordBook
from streamsched.persistence import image_format
from streamsched.persistence.state_directory import check_directory, lock_state
from streamsched.service import state_copies
from streamsched.service.open_state import set_formula
from streamsched.service.state_copies import add_copy, copy_state

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z
URLS = [f"https://a.example/{i}" for i in range(20)]


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_copies_are_taken_while_the_state_is_in_use(tmp_path: Path) -> None:
    state, folder = tmp_path / "state", tmp_path / "deep" / "copies"
    with DurableScheduler.open(state) as scheduler:
        scheduler.discover(URLS, now=NOW)
        set_formula(scheduler, RecordBook(state), NOW, "t * X")
        scheduler.next_batch(5, now=NOW, lease="1h")
        first, before = add_copy(scheduler, state, folder, NOW), scheduler.digest()
        scheduler.forget(URLS[:3])
        second = add_copy(scheduler, state, folder, NOW)
        third = copy_state(state, tmp_path / "third")
        after = scheduler.digest()
    assert entries(folder) == ["2023-11-14T22-13-20Z", "2023-11-14T22-13-20Z-2"]
    assert [path.parent for path in (first, second)] == [folder / name for name in entries(folder)]
    for path, digest in ((first, before), (second, after), (third, after)):
        assert check_directory(path.parent) == []
        with DurableScheduler.open(path.parent) as copy:
            assert copy.digest() == digest
        assert len(RecordBook(path.parent).read()[0]) == 1


def test_a_copy_that_is_damaged_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler()
    scheduler.discover(URLS, now=NOW)
    scheduler.save(tmp_path / "state")
    save = Scheduler.save

    def save_badly(self: Scheduler, path: Path) -> Path:
        image = save(self, path)
        raw = bytearray(image.read_bytes())
        raw[len(raw) // 2] ^= 1
        image.write_bytes(raw)
        return image

    monkeypatch.setattr(Scheduler, "save", save_badly)
    with pytest.raises(SnapshotError):
        add_copy(scheduler, tmp_path / "state", tmp_path / "copies", NOW)
    assert entries(tmp_path / "copies") == []
    with pytest.raises(SnapshotError):
        copy_state(tmp_path / "state", tmp_path / "target")
    monkeypatch.undo()
    copy_state(tmp_path / "state", tmp_path / "target")


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "copies" / ".2020-01-01T00-00-00Z.draft"
    left.mkdir(parents=True)
    (left / "snapshot-00000001.state").write_bytes(b"half")
    (tmp_path / "copies" / "own.txt").touch()
    add_copy(Scheduler(), tmp_path / "state", tmp_path / "copies", NOW)
    assert entries(tmp_path / "copies") == ["2023-11-14T22-13-20Z", "own.txt"]


def test_one_copy_at_a_time(tmp_path: Path) -> None:
    with lock_state(tmp_path, make=True), pytest.raises(StateInUse):
        add_copy(Scheduler(), tmp_path / "state", tmp_path, NOW)
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match="is a file"):
        add_copy(Scheduler(), tmp_path / "state", tmp_path / "file", NOW)


def test_no_state_is_replaced(tmp_path: Path) -> None:
    scheduler = Scheduler()
    scheduler.save(tmp_path / "copy")
    scheduler.discover(URLS, now=NOW)
    scheduler.save(tmp_path / "state")
    with pytest.raises(SnapshotError, match="holds a state"):
        copy_state(tmp_path / "copy", tmp_path / "state")
    with DurableScheduler.open(tmp_path / "used"), pytest.raises(StateInUse):
        copy_state(tmp_path / "copy", tmp_path / "used")
    assert len(Scheduler.load(tmp_path / "state")) == len(URLS)
    with pytest.raises(SnapshotError, match="no saved state"):
        copy_state(tmp_path / "nowhere", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_state_of_another_version_is_refused_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    monkeypatch.setattr(image_format, "FORMAT_VERSION", image_format.FORMAT_VERSION + 1)
    image = Scheduler().save(state)
    monkeypatch.undo()
    before = image.read_bytes()
    with pytest.raises(SnapshotError, match="format version"):
        copy_state(state, tmp_path / "target")
    with pytest.raises(SnapshotError, match="format version"):
        DurableScheduler.open(state)
    assert not (tmp_path / "target").exists()
    assert (image.read_bytes(), entries(state)) == (before, [image.name])


def test_a_disk_without_room_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _raw: bytes) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "evolutions.jsonl").touch()
    monkeypatch.setattr(state_copies, "write_file", refuse)
    with pytest.raises(SnapshotError, match="No space left"):
        add_copy(Scheduler(), tmp_path, tmp_path / "copies", NOW)
    assert entries(tmp_path / "copies") == []
