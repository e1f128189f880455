"""The log of calls: segments, commits shared by threads, what is cut off and what is an error."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from streamsched import SnapshotError
from streamsched.persistence.files import list_segments
from streamsched.persistence.write_ahead_log import MAGIC, CallLog, Torn, cut_log, last_call, read_calls

SEGMENT = 256


def written(folder: Path, count: int, size: int = 30, after: int = 0) -> CallLog:
    """A log of `count` calls, each on disk before the next."""
    log = CallLog(folder, after, SEGMENT)
    for number in range(after + 1, after + count + 1):
        log.commit(log.append(bytes([number]) * size))
    return log


def numbers(folder: Path, after: int = 0) -> list[int | str]:
    return ["torn" if isinstance(found, Torn) else found[0] for found in read_calls(folder, after)]


def test_calls_come_back_in_order(tmp_path: Path) -> None:
    assert numbers(tmp_path) == []
    assert last_call(tmp_path) == 0
    log = written(tmp_path, 9)
    log.close()
    assert list(read_calls(tmp_path, 0)) == [(number, bytes([number]) * 30) for number in range(1, 10)]
    assert numbers(tmp_path, 7) == [8, 9]
    assert numbers(tmp_path, 9) == numbers(tmp_path, 12) == []
    assert last_call(tmp_path) == 9
    assert [first for first, _ in list_segments(tmp_path)] == [1, 5, 9]
    assert {path.stat().st_size for _, path in list_segments(tmp_path)} == {SEGMENT}


def test_large_call_gets_a_segment_of_its_own(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    log.commit(log.append(b"x" * 1000))
    log.commit(log.append(b"y"))
    assert list(read_calls(tmp_path, 2)) == [(3, b"x" * 1000), (4, b"y")]
    log.close()


def test_what_is_not_committed_is_not_there(tmp_path: Path) -> None:
    log = written(tmp_path, 1)
    assert log.append(b"two") == 2
    assert numbers(tmp_path) == [1]
    log.commit(2)
    assert numbers(tmp_path) == [1, 2]
    log.close()
    with pytest.raises(SnapshotError, match="is closed"):
        log.append(b"three")


def test_threads_share_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one waits for the disk others queue up; one write serves all of them."""
    log = written(tmp_path, 1)
    syncs, first, go_on = [], threading.Event(), threading.Event()

    def slow(_handle: int) -> None:
        syncs.append(1)
        first.set()
        assert go_on.wait(60)

    monkeypatch.setattr(os, "fdatasync", slow)
    threads = [threading.Thread(target=lambda: log.commit(log.append(b"call"))) for _ in range(4)]
    threads[0].start()
    assert first.wait(60)
    for thread in threads[1:]:
        thread.start()
    while log.sequence < 5:
        pass
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(syncs) <= 3  # the first, those that had lined up, perhaps one that came late
    assert numbers(tmp_path) == [1, 2, 3, 4, 5]
    log.close()


def test_segments_are_made_ahead(tmp_path: Path) -> None:
    log = written(tmp_path, 1)
    assert not log.wants_spare
    log.commit(log.append(b"x" * 100))
    assert log.wants_spare
    log.prepare()
    log.prepare()
    assert not log.wants_spare
    assert len(list(tmp_path.glob(".calls-*.draft"))) == 1
    log.commit(log.append(b"x" * 100))
    assert not list(tmp_path.glob(".calls-*.draft"))
    assert numbers(tmp_path) == [1, 2, 3]
    log.close()


def test_segments_that_images_hold_are_dropped(tmp_path: Path) -> None:
    log = written(tmp_path, 9)
    log.drop_until(4)
    assert [first for first, _ in list_segments(tmp_path)] == [5, 9]
    log.drop_until(9)
    assert [first for first, _ in list_segments(tmp_path)] == [9]
    with pytest.raises(SnapshotError, match="the preceding calls, number 3 to 8, are missing"):
        numbers(tmp_path, 2)
    log.close()


def ends(folder: Path) -> tuple[Path, bytes, int]:
    """The last segment, its bytes, and where its last frame ends."""
    path = list_segments(folder)[-1][1]
    raw = path.read_bytes()
    return path, raw, len(raw.rstrip(b"\0"))


@pytest.mark.parametrize("junk", [b"\1", b"\0\0\1", b"\xff" * 40, (5).to_bytes(4, "little") + b"\1" * 30])
def test_unfinished_end_is_reported_and_cut(tmp_path: Path, junk: bytes) -> None:
    written(tmp_path, 3).close()
    path, raw, end = ends(tmp_path)
    path.write_bytes(raw[:end] + junk + bytes(50))
    assert numbers(tmp_path) == [1, 2, 3, "torn"]
    torn = list(read_calls(tmp_path, 0))[-1]
    assert isinstance(torn, Torn)
    assert (torn.path, torn.offset, torn.nbytes) == (path, end, len(junk))
    assert str(path) in str(torn)
    cut_log(tmp_path, 3)
    assert path.stat().st_size == end
    assert numbers(tmp_path) == [1, 2, 3]


def test_calls_that_were_not_applied_are_cut(tmp_path: Path) -> None:
    written(tmp_path, 9).close()
    cut_log(tmp_path, 6)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6]
    log = written(tmp_path, 2, after=6)
    log.close()
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]
    cut_log(tmp_path, 0)
    assert numbers(tmp_path) == []


def test_damage_to_what_was_on_disk_is_an_error(tmp_path: Path) -> None:
    """Every byte of a frame that a later frame of its segment, or a later segment, says was on disk."""
    written(tmp_path, 7).close()
    (_, first), (_, last) = list_segments(tmp_path)
    for path, until in ((first, len(first.read_bytes().rstrip(b"\0"))), (last, len(MAGIC) + 2 * (24 + 30))):
        raw = path.read_bytes()
        for place in range(until):
            path.write_bytes(raw[:place] + bytes([raw[place] ^ 0x20]) + raw[place + 1 :])
            with pytest.raises(SnapshotError, match="damaged") as caught:
                numbers(tmp_path)
            assert caught.value.path == str(path)
        path.write_bytes(raw)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


def test_failed_write_refuses_calls_until_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path, 1)

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(SnapshotError, match="cannot be written: No space left on device; calls are refused until"):
            log.commit(log.append(b"lost?"))
    for refused in (log.check, lambda: log.append(b"no"), lambda: log.commit(2)):
        with pytest.raises(SnapshotError, match="No space left"):
            refused()
    assert log.failure is not None
    log.restart()
    log.commit(log.append(b"three"))
    assert list(read_calls(tmp_path, 2)) == [(3, b"three")]
    log.close()
