"""Saved state: the files, their order, saves that fail half-way, and the errors of files that cannot be read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from streamsched import Outcome, Scheduler, SnapshotError
from streamsched.persistence import files, image_format
from streamsched.persistence.image_format import FORMAT_VERSION, MAGIC
from streamsched.persistence.image_reader import load_images
from streamsched.persistence.state_directory import has_state, newest_image


class Crash(BaseException):
    """The process ends here."""


def made(pages: int = 3) -> Scheduler:
    scheduler = Scheduler(seed=9)
    scheduler.observe([Outcome(f"https://a.example/ä/{i}", 1.0 + i) for i in range(pages)])
    scheduler.positions["crawl"] = pages
    return scheduler


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the contents of an image and make their checksum fit again."""
    raw = path.read_bytes()
    offset, length, _, magic = image_format._TRAILER.unpack(raw[-image_format._TRAILER.size :])
    contents = json.loads(raw[offset : offset + length])
    change(contents)
    text = json.dumps(contents).encode()
    path.write_bytes(raw[:offset] + text + image_format._TRAILER.pack(offset, len(text), crc32c(text), magic))


def test_saves_are_numbered_and_the_last_two_kept(tmp_path: Path) -> None:
    scheduler = Scheduler()
    paths = [scheduler.save(tmp_path / "state") for _ in range(4)]
    assert [path.name for path in paths] == [f"snapshot-0000000{i}.state" for i in (1, 2, 3, 4)]
    assert names(tmp_path / "state") == ["snapshot-00000003.state", "snapshot-00000004.state"]
    assert newest_image(tmp_path / "state") == paths[-1]


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
    assert loaded.core.pages.faults() == []
    assert Scheduler.load(loaded.save(tmp_path).parent).digest() == scheduler.digest()


def test_positions_are_no_part_of_the_digest() -> None:
    scheduler = made()
    before = scheduler.digest()
    scheduler.positions["crawl"] = {"file": 3}
    assert scheduler.digest() == before


def test_directory_without_state(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "missing", tmp_path / "file"):
        assert not has_state(folder)
        with pytest.raises(SnapshotError, match="holds no saved state: expected a file named snapshot-") as caught:
            Scheduler.load(folder)
        assert caught.value.path == str(folder)
    made().save(tmp_path)
    assert has_state(tmp_path)


def test_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(SnapshotError, match="cannot be written: "):
            made().save(folder)


def test_state_file_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "snapshot-00000001.state").mkdir()
    with pytest.raises(SnapshotError, match="is a directory: expected a regular file"):
        Scheduler.load(tmp_path)


@pytest.mark.parametrize(
    ("owner", "step"),
    [(os, "fsync"), (Path, "replace"), (files, "sync_directory"), (files, "write_whole"), (os, "open")],
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
    assert Scheduler.load(tmp_path).digest() == (after if step == "sync_directory" else before).digest()
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
    rewrite(path, lambda contents: contents.update(version=FORMAT_VERSION + 1))
    with pytest.raises(SnapshotError, match=f"has format version {FORMAT_VERSION + 1}; this release reads"):
        load_images(tmp_path)


def test_without_content_there_is_neither_array_nor_setting(tmp_path: Path) -> None:
    before = made()
    found = image_format.read_image(before.save(tmp_path))
    assert "contents" not in {part.name for part in found.parts}
    assert "changes" not in found.contents["state"]["settings"]
    after = Scheduler.load(tmp_path)
    assert after.digest() == before.digest()
    after.observe(Outcome("https://new.example/", 1e6, content=5))
    after.save(tmp_path)
    assert Scheduler.load(tmp_path).digest() == after.digest() != before.digest()


def test_setting_changes_is_kept(tmp_path: Path) -> None:
    scheduler = Scheduler(changes="similar")
    scheduler.save(tmp_path)
    loaded = Scheduler.load(tmp_path)
    url = "https://a.example/"
    for number in range(2):
        assert loaded.observe(Outcome(url, 10.0 + number, fingerprint=1, content=number)).changed == 0
    assert loaded.digest() != Scheduler().digest()


def test_contents_that_do_not_fit_the_file(tmp_path: Path) -> None:
    path = made().save(tmp_path)
    rewrite(path, lambda contents: contents["parts"].pop())
    with pytest.raises(SnapshotError, match="damaged: its parts do not fill the file"):
        load_images(tmp_path)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "damaged: ends too early"),
        (MAGIC, "damaged: ends too early"),
        (b"x" * 100, "is no saved state, or its first bytes are damaged"),
        (MAGIC + b"\0" * 100, "damaged: its last bytes are not those of a whole file"),
        (MAGIC + b"\xff" * 100 + MAGIC, "damaged: its last bytes are not those of a whole file"),
        (
            MAGIC + b"{}" + image_format._TRAILER.pack(len(MAGIC), 2, 0, MAGIC),
            "damaged: its contents do not match their checksum",
        ),
    ],
)
def test_file_that_is_no_state(tmp_path: Path, raw: bytes, reason: str) -> None:
    path = tmp_path / "snapshot-00000001.state"
    path.write_bytes(raw)
    with pytest.raises(SnapshotError) as caught:
        load_images(tmp_path)
    assert str(caught.value) == f"{path}: {reason}"


def test_damage_names_the_array(tmp_path: Path) -> None:
    path = made().save(tmp_path)
    raw = path.read_bytes()
    place = raw.index("https://a.example/ä/0".encode())
    path.write_bytes(raw[:place] + b"X" + raw[place + 1 :])
    with pytest.raises(SnapshotError, match="damaged: text does not match its checksum"):
        load_images(tmp_path)


def test_damaged_state_is_named_and_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made(1).save(tmp_path)
    newest = made(2).save(tmp_path)
    newest.write_bytes(newest.read_bytes()[:-1])
    assert Scheduler.load(tmp_path).positions == {"crawl": 1}
    assert caplog.messages == [
        f"{newest}: damaged: its last bytes are not those of a whole file; the state before it is loaded instead"
    ]
