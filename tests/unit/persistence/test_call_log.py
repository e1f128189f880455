"""The log of calls: segments, commits shared by threads, what is cut off and what is an error."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from streamsched import SnapshotError
from streamsched.persistence import call_log, log_segments
from streamsched.persistence.call_log import CallLog
from streamsched.persistence.files import list_segments
from streamsched.persistence.log_reader import LogEnd, LoggedCalls, has_calls, newest_log
from streamsched.persistence.log_segments import (
    FIRST_FRAME_AT,
    FRAME_BYTES,
    MARK_AT,
    LogName,
    make_segment,
    read_segment,
)
from tests.support.waiting import pause

SEGMENT = 400
IDENTITY = "0123456789abcdef"
FRAME = FRAME_BYTES + 30


@pytest.fixture(autouse=True)
def marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write says what was on disk before."""
    monkeypatch.setattr(call_log, "_MARK_S", 0.0)


def written(folder: Path, count: int, size: int = 30, end: LogEnd | None = None) -> CallLog:
    """A log of `count` calls, each on disk before the next."""
    end = LogEnd(IDENTITY, 0) if end is None else end
    log = CallLog(folder, end, SEGMENT)
    for number in range(end.sequence + 1, end.sequence + count + 1):
        log.commit(log.append(bytes([number]) * size))
    return log


def killed(folder: Path, count: int) -> Path:
    """The last segment of a log of `count` calls whose process was killed: `close` would write a mark."""
    os.close(written(folder, count)._handle or 0)
    return list_segments(folder)[-1][1]


def read(folder: Path, after: int = 0, segment: int = 1) -> LoggedCalls:
    calls = LoggedCalls(folder, after, LogName(IDENTITY, segment))
    calls.found = [number for number, _ in calls]  # type: ignore[attr-defined]
    return calls


def numbers(folder: Path, after: int = 0, segment: int = 1) -> list[int]:
    found: list[int] = read(folder, after, segment).found  # type: ignore[attr-defined]
    return found


def assert_refused(folder: Path, match: str, path: Path | None = None, after: int = 0, segment: int = 1) -> None:
    """Reading is an error, of the file at `path`."""
    with pytest.raises(SnapshotError, match=match) as caught:
        numbers(folder, after, segment)
    assert path is None or caught.value.path == str(path)


def flip(path: Path, place: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= 0x20
    path.write_bytes(raw)


def zero(path: Path, start: int) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:start] + bytes(len(raw) - start))


def test_calls_come_back_in_order(tmp_path: Path) -> None:
    assert newest_log(tmp_path) == (0, None)
    assert not has_calls(tmp_path)
    log = written(tmp_path, 9)
    assert log.name == LogName(IDENTITY, 9)
    log.close()
    calls = LoggedCalls(tmp_path, 0, LogName(IDENTITY, 1))
    assert list(calls) == [(number, bytes([number]) * 30) for number in range(1, 10)]
    assert (calls.faults, calls.torn, calls.end.sequence, calls.end.first) == ([], None, 9, 9)
    assert numbers(tmp_path, 7) == [8, 9]
    assert numbers(tmp_path, 9, segment=9) == []
    assert newest_log(tmp_path) == (9, LogName(IDENTITY, 9))
    assert [first for first, _ in list_segments(tmp_path)] == [1, 5, 9]
    assert {path.stat().st_size for _, path in list_segments(tmp_path)} == {SEGMENT}
    assert has_calls(tmp_path)


def test_log_without_a_name_has_no_calls(tmp_path: Path) -> None:
    written(tmp_path, 3).close()
    assert list(LoggedCalls(tmp_path, 0, None)) == []


def test_new_log_has_a_segment_at_once(tmp_path: Path) -> None:
    CallLog(tmp_path, LogEnd(IDENTITY, 0)).close()
    assert [path.stat().st_size for _, path in list_segments(tmp_path)] == [call_log._FIRST_BYTES]
    assert numbers(tmp_path) == []
    assert not has_calls(tmp_path)


@pytest.mark.parametrize("before", [0, 2])
def test_large_call_gets_a_segment_of_its_own(tmp_path: Path, before: int) -> None:
    log = written(tmp_path, before)
    log.commit(log.append(b"x" * 1000))
    log.commit(log.append(b"y"))
    calls = LoggedCalls(tmp_path, before, LogName(IDENTITY, before + 1))
    assert list(calls) == [(before + 1, b"x" * 1000), (before + 2, b"y")]
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


def test_log_continues_in_its_segment(tmp_path: Path) -> None:
    written(tmp_path, 6).close()
    for total in (7, 8, 9):
        written(tmp_path, 1, end=read(tmp_path).end).close()
        assert numbers(tmp_path) == list(range(1, total + 1))
    assert [first for first, _ in list_segments(tmp_path)] == [1, 5, 9]


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
        pause()
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(syncs) <= 3  # the first, those that had lined up, perhaps one that came late
    assert numbers(tmp_path) == [1, 2, 3, 4, 5]
    log.close()


def test_a_write_that_is_interrupted_acknowledges_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    log = written(tmp_path, 1)
    number = log.append(b"x")
    monkeypatch.setattr(call_log, "write_whole", interrupt)
    with pytest.raises(KeyboardInterrupt):
        log.commit(number)
    monkeypatch.undo()
    for refused in (number, log.append(b"y")):
        with pytest.raises(SnapshotError):
            log.commit(refused)
    log.close()
    assert numbers(tmp_path) == [1]


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
    log.prepare()
    log.close()
    assert not list(tmp_path.glob(".calls-*.draft"))


def test_segments_that_images_hold_are_dropped(tmp_path: Path) -> None:
    log = written(tmp_path, 9)
    log.drop_until(4)  # an image of call 4 may name the segment that held it
    assert [first for first, _ in list_segments(tmp_path)] == [1, 5, 9]
    log.drop_until(5)
    assert [first for first, _ in list_segments(tmp_path)] == [5, 9]
    log.drop_until(9)
    assert [first for first, _ in list_segments(tmp_path)] == [9]
    assert_refused(tmp_path, "is missing: the calls from number 3 on", after=2)
    log.close()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_missing_segment_is_an_error(tmp_path: Path, missing: int) -> None:
    """The last one too, which no image may name: the one before says that it continues there."""
    written(tmp_path, 9).close()
    path = list_segments(tmp_path)[missing][1]
    path.unlink()
    assert_refused(tmp_path, "is missing", path)


def test_missing_log_is_an_error_though_an_image_holds_all_its_calls(tmp_path: Path) -> None:
    """There may have been later ones."""
    assert_refused(tmp_path, "is missing: the calls from number 10 on", after=9, segment=9)


def test_log_of_another_state_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 3).close()
    with pytest.raises(SnapshotError, match="belongs to another log of calls"):
        list(LoggedCalls(tmp_path, 0, LogName("f" * 16, 1)))


@pytest.mark.parametrize("junk", [b"\1", b"\0\0\1", b"\xff" * 40, (5).to_bytes(4, "little") + b"\1" * 30])
def test_unfinished_end_is_reported_and_overwritten(tmp_path: Path, junk: bytes) -> None:
    path = killed(tmp_path, 3)
    raw = path.read_bytes()
    end = FIRST_FRAME_AT + 3 * FRAME
    path.write_bytes(raw[:end] + junk + raw[end + len(junk) :])
    calls = read(tmp_path)
    assert calls.found == [1, 2, 3]  # type: ignore[attr-defined]
    assert calls.torn is not None
    assert (calls.torn.path, calls.torn.offset, calls.torn.nbytes) == (path, end, len(junk))
    assert str(path) in str(calls.torn)
    CallLog(tmp_path, calls.end, SEGMENT).close()
    assert path.read_bytes()[FIRST_FRAME_AT:] == raw[FIRST_FRAME_AT:]
    assert read(tmp_path).torn is None


def test_beginning_of_a_write_is_told_from_a_damaged_call(tmp_path: Path) -> None:
    path = killed(tmp_path, 3)
    raw = path.read_bytes()
    for harm, is_prefix in ((zero, True), (flip, False)):
        path.write_bytes(raw)
        harm(path, FIRST_FRAME_AT + 3 * FRAME - 5)
        torn = read(tmp_path).torn
        assert torn is not None
        assert torn.is_prefix == is_prefix


@pytest.mark.parametrize("left", [0, 1])
def test_calls_zeroed_up_to_the_last_mark_are_missed(tmp_path: Path, left: int) -> None:
    """The last write says what was on disk before it: only its own call may vanish."""
    path = killed(tmp_path, 3)
    zero(path, FIRST_FRAME_AT + left * FRAME)
    assert_refused(tmp_path, r"calls? number", path)
    assert numbers(tmp_path, 2) == []  # an image holds them


def test_last_call_zeroed_is_missed_after_close(tmp_path: Path) -> None:
    written(tmp_path, 3).close()
    path = list_segments(tmp_path)[0][1]
    zero(path, FIRST_FRAME_AT + 2 * FRAME)
    assert_refused(tmp_path, "call number 3 cannot be read", path)


@pytest.mark.parametrize("size", [0, 1, MARK_AT, FIRST_FRAME_AT, FIRST_FRAME_AT + FRAME, SEGMENT - 1])
def test_shortened_segment_is_an_error(tmp_path: Path, size: int) -> None:
    written(tmp_path, 3).close()
    path = list_segments(tmp_path)[0][1]
    os.truncate(path, size)
    for after in (0, 3):  # later calls may be lost with the end of the file
        assert_refused(tmp_path, "cannot be read", path, after)


def test_damage_to_what_was_on_disk_is_an_error(tmp_path: Path) -> None:
    """Every byte of a frame that a later frame of its segment, a mark or a later segment says was on disk."""
    last = killed(tmp_path, 7)
    first = list_segments(tmp_path)[0][1]
    for path, until in ((first, 4), (last, 2)):
        raw = path.read_bytes()
        for place in range(FIRST_FRAME_AT, FIRST_FRAME_AT + until * FRAME):
            flip(path, place)
            assert_refused(tmp_path, "damaged", path)
            path.write_bytes(raw)
    assert numbers(tmp_path) == [1, 2, 3, 4, 5, 6, 7]


def test_damage_to_what_an_image_holds_is_passed_over(tmp_path: Path) -> None:
    """Every byte of the header, the mark, and the calls up to the image's."""
    path = killed(tmp_path, 4)
    raw = path.read_bytes()
    used = [*range(44), *range(MARK_AT, MARK_AT + 20), *range(FIRST_FRAME_AT, FIRST_FRAME_AT + 2 * FRAME)]
    for place in used:
        flip(path, place)
        calls = read(tmp_path, 2)
        assert calls.found == [3, 4]  # type: ignore[attr-defined]
        assert [fault.path for fault in calls.faults] == [str(path)]
        assert (calls.end.path, calls.end.sequence) == (None, 4)  # the log continues in another segment
        path.write_bytes(raw)


def test_last_call_damaged_but_held_by_an_image(tmp_path: Path) -> None:
    path = killed(tmp_path, 3)
    flip(path, FIRST_FRAME_AT + 3 * FRAME - 1)
    calls = read(tmp_path, 3)
    assert calls.found == []  # type: ignore[attr-defined]
    assert [fault.path for fault in calls.faults] == [str(path)]
    written(tmp_path, 2, end=calls.end).close()
    assert numbers(tmp_path, 3, segment=4) == [4, 5]


def test_group_write_torn_out_of_order_is_cut(tmp_path: Path) -> None:
    """Power was lost: a later call of one write is on disk, an earlier one is not. Neither was acknowledged."""
    log = written(tmp_path, 1)
    log.append(b"two" * 9)
    log.commit(log.append(b"three" * 9))
    os.close(log._handle or 0)
    path = list_segments(tmp_path)[0][1]
    flip(path, FIRST_FRAME_AT + FRAME + FRAME_BYTES)
    calls = read(tmp_path)
    assert calls.found == [1]  # type: ignore[attr-defined]
    assert calls.torn is not None


def test_failed_write_refuses_calls_until_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(tmp_path, 1)

    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(SnapshotError, match="cannot be written: No space left on device; calls are refused until"):
            log.commit(log.append(b"lost?"))
    for refused in (log.check, lambda: log.commit(2)):
        with pytest.raises(SnapshotError, match="No space left"):
            refused()
    assert log.failure is not None
    log.renew()
    log.restart()
    log.commit(log.append(b"three"))
    assert log.name == LogName(IDENTITY, 2)
    assert list(LoggedCalls(tmp_path, 2, log.name)) == [(3, b"three")]
    log.close()


@pytest.mark.parametrize("fails", ["open_regular", "make_segment", "write_header", "put_in_place", "write", "sync"])
@pytest.mark.parametrize("on_disk", [0, 1, 4])
def test_log_has_no_gap_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, on_disk: int
) -> None:
    """What was refused is written before the calls after it, also if that fails at first, at whatever step."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = written(tmp_path, on_disk)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        refused = [log.append(bytes([number]) * 30) for number in range(on_disk + 1, on_disk + 9)]
        with pytest.raises(SnapshotError):
            log.commit(refused[-1])
    with monkeypatch.context() as patch:
        where = (os, "fdatasync") if fails == "sync" else (call_log, "write_whole" if fails == "write" else fails)
        patch.setattr(*where, fail)
        with suppress(OSError):
            log.renew()
        assert log.failure is not None
    log.renew()
    log.restart()
    log.commit(log.append(b"last"))
    assert list(LoggedCalls(tmp_path, 0, LogName(IDENTITY, 1)))[-1] == (on_disk + 9, b"last")
    assert numbers(tmp_path) == list(range(1, on_disk + 10))
    assert newest_log(tmp_path) == (on_disk + 9, log.name)
    log.close()
    assert not any(read_segment(path, first).damages for first, path in list_segments(tmp_path))


def test_segments_without_calls_behind_the_end_are_removed(tmp_path: Path) -> None:
    """A process that was killed after an error may have left one, which no image names."""
    written(tmp_path, 2).close()
    CallLog(tmp_path, LogEnd(IDENTITY, 7), SEGMENT).close()
    assert [first for first, _ in list_segments(tmp_path)] == [1, 8]
    written(tmp_path, 1, end=read(tmp_path).end).close()
    assert numbers(tmp_path) == [1, 2, 3]
    assert [first for first, _ in list_segments(tmp_path)] == [1]


def test_calls_missing_between_segments_are_an_error(tmp_path: Path) -> None:
    written(tmp_path, 2).close()
    written(tmp_path, 1, end=LogEnd(IDENTITY, 7)).close()
    assert_refused(tmp_path, "is missing: the calls number 3 to 7 are lost")
    assert numbers(tmp_path, 7, segment=8) == [8]


def test_a_draft_that_does_not_fit_leaves_its_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would take the last of a disk, and no image would fit after which calls are accepted again."""

    def fill_disk(handle: int, content: memoryview) -> None:
        os.write(handle, content[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log_segments, "write_whole", fill_disk)
    with pytest.raises(OSError, match="No space left"):
        make_segment(tmp_path / "draft", 10)
    assert list(tmp_path.iterdir()) == []


def test_draft_in_the_way_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "draft")
    make_segment(tmp_path / "draft", 10)
    assert (tmp_path / "draft").read_bytes() == bytes(10)
