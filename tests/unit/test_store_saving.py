"""Saved state: the files, their order, saves that fail half-way, and what is said of a file that cannot be read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from streamsched import Outcome, Scheduler, SnapshotError, snapshot
from streamsched.snapshot import FORMAT_VERSION, MAGIC, has_snapshot, load_state, newest_snapshot


class Crash(BaseException):
    """The process ends here."""


def made(pages: int = 3) -> Scheduler:
    scheduler = Scheduler(seed=9)
    scheduler.observe([Outcome(f"https://a.example/ä/{i}", float(i)) for i in range(pages)])
    scheduler.positions["crawl"] = pages
    return scheduler


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of a state file and make its checksum fit again."""
    raw = path.read_bytes()
    start = len(MAGIC) + 16
    length = int.from_bytes(raw[len(MAGIC) : len(MAGIC) + 8], "little")
    header = json.loads(raw[start : start + length])
    change(header)
    text = json.dumps(header).encode()
    sums = len(text).to_bytes(8, "little") + crc32c(text).to_bytes(8, "little")
    path.write_bytes(MAGIC + sums + text + raw[start + length :])


def test_saves_are_numbered_and_the_last_two_kept(tmp_path: Path) -> None:
    scheduler = Scheduler()
    paths = [scheduler.save(tmp_path / "state") for _ in range(4)]
    assert [path.name for path in paths] == [f"snapshot-0000000{i}.state" for i in (1, 2, 3, 4)]
    assert names(tmp_path / "state") == ["snapshot-00000003.state", "snapshot-00000004.state"]
    assert newest_snapshot(tmp_path / "state") == paths[-1]


def test_newest_is_by_number_not_by_name(tmp_path: Path) -> None:
    first = made(1).save(tmp_path)
    first.rename(tmp_path / "snapshot-99999999.state")
    assert made(2).save(tmp_path).name == "snapshot-100000000.state"
    (tmp_path / "snapshot-200000000.state.draft").touch()
    (tmp_path / "notes.txt").touch()
    assert Scheduler.load(str(tmp_path)).positions == {"crawl": 2}


@pytest.mark.parametrize("pages", [0, 1, 100])
def test_what_is_loaded_is_what_was_saved(tmp_path: Path, pages: int) -> None:
    scheduler = made(pages)
    scheduler.use("t * X")
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    assert loaded.digest() == scheduler.digest()
    assert (len(loaded), loaded.positions, loaded.formula) == (pages, {"crawl": pages}, scheduler.formula)
    assert loaded.pages.faults() == []
    assert loaded.save(tmp_path).read_bytes() == (tmp_path / "snapshot-00000001.state").read_bytes()


def test_positions_are_no_part_of_the_digest() -> None:
    scheduler = made()
    before = scheduler.digest()
    scheduler.positions["crawl"] = {"file": 3}
    assert scheduler.digest() == before


def test_directory_without_state(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        assert not has_snapshot(folder)
        with pytest.raises(SnapshotError, match="holds no saved state: expected a file named snapshot-") as caught:
            Scheduler.load(folder)
        assert caught.value.path == str(folder)
    made().save(tmp_path)
    assert has_snapshot(tmp_path)


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SnapshotError, match="cannot be written: "):
            made().save(folder)


def test_state_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "snapshot-00000001.state").mkdir()
    with pytest.raises(SnapshotError, match="cannot be read: Is a directory"):
        Scheduler.load(tmp_path)


@pytest.mark.parametrize(
    ("owner", "step"),
    [(os, "fsync"), (Path, "replace"), (snapshot, "_sync_directory"), (snapshot, "_write"), (Path, "open")],
)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Crash()])
def test_failure_at_any_step_leaves_the_state_before_or_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, error: BaseException
) -> None:
    before, after = made(1), made(2)
    before.save(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fail)
        with pytest.raises((SnapshotError, Crash)) as caught:
            after.save(tmp_path)
    if isinstance(error, OSError):
        assert str(caught.value) == f"{tmp_path}: cannot be written: No space left on device"
    assert Scheduler.load(tmp_path).digest() == (after if step == "_sync_directory" else before).digest()
    assert not list(tmp_path.glob(".*"))  # no draft left behind
    after.save(tmp_path)
    assert Scheduler.load(tmp_path).digest() == after.digest()


def test_draft_of_a_killed_process_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".snapshot-00000001.state.draft").write_bytes(b"x" * 10**6)
    made().save(tmp_path)
    assert names(tmp_path) == ["snapshot-00000001.state"]
    assert Scheduler.load(tmp_path).digest() == made().digest()


def test_positions_that_json_cannot_hold_save_nothing(tmp_path: Path) -> None:
    scheduler = made()
    scheduler.save(tmp_path)
    scheduler.positions["crawl"] = object()
    with pytest.raises(TypeError, match="not JSON serializable"):
        scheduler.save(tmp_path)
    assert names(tmp_path) == ["snapshot-00000001.state"]


def test_state_of_another_version(tmp_path: Path) -> None:
    path = made().save(tmp_path)
    rewrite(path, lambda header: header.update(version=FORMAT_VERSION + 1))
    with pytest.raises(
        SnapshotError, match=f"is of format version {FORMAT_VERSION + 1}, this release reads {FORMAT_VERSION} only"
    ):
        load_state(tmp_path)


def test_arrays_other_than_expected(tmp_path: Path) -> None:
    path = made().save(tmp_path)
    rewrite(path, lambda header: header["arrays"].pop())
    with pytest.raises(SnapshotError, match=r"damaged: holds \['corpus', .*, expected \['candidates', "):
        load_state(tmp_path)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "is no saved state, or its first bytes are damaged"),
        (b"streamsched", "is no saved state, or its first bytes are damaged"),
        (MAGIC, "damaged: ends within its header"),
        (MAGIC + b"\0" * 15, "damaged: ends within its header"),
        (MAGIC + b"\xff" * 16, "damaged: its header does not match its checksum"),
        (MAGIC + (5).to_bytes(8, "little") + b"\0" * 8 + b"{}", "damaged: its header does not match its checksum"),
    ],
)
def test_file_that_is_no_state(tmp_path: Path, raw: bytes, reason: str) -> None:
    path = tmp_path / "snapshot-00000001.state"
    path.write_bytes(raw)
    with pytest.raises(SnapshotError) as caught:
        load_state(tmp_path)
    assert str(caught.value) == f"{path}: {reason}"


def test_damage_names_the_array(tmp_path: Path) -> None:
    path = made().save(tmp_path)
    raw = path.read_bytes()
    place = raw.index("https://a.example/ä/1".encode())
    path.write_bytes(raw[:place] + b"X" + raw[place + 1 :])
    with pytest.raises(SnapshotError, match="damaged: text does not match its checksum"):
        load_state(tmp_path)
    path.write_bytes(raw[: place + 5])
    with pytest.raises(SnapshotError, match="damaged: ends within text"):
        load_state(tmp_path)
    path.write_bytes(raw + b"!")
    with pytest.raises(SnapshotError, match="damaged: bytes after the last array"):
        load_state(tmp_path)


def test_older_state_is_there_to_fall_back_on(tmp_path: Path) -> None:
    """A damaged newest file is an error, not skipped in silence; the one before it is still whole."""
    made(1).save(tmp_path)
    newest = made(2).save(tmp_path)
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.raises(SnapshotError):
        Scheduler.load(tmp_path)
    newest.unlink()
    assert Scheduler.load(tmp_path).positions == {"crawl": 1}
