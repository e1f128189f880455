"""The change feed on disk: order, cursors, what is cut, kept and removed, and a disk that is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamsched import ChangesGone, DurableScheduler, Outcome, SettingsError, SnapshotError
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.persistence import change_feed
from streamsched.persistence.change_feed import ChangeFeed, Cursor, check_feed, has_feed, remove_feed
from streamsched.persistence.files import list_feed
from streamsched.state.found_changes import FoundChanges


def changes(first: int, count: int) -> FoundChanges:
    """Changes whose columns all tell their numbers."""
    numbers = np.arange(first, first + count)
    return FoundChanges(
        PackedUrls.pack([f"https://a.example/{number}" for number in numbers]),
        numbers.astype(np.float64),
        numbers.astype(np.float64) - 0.5,
        np.where(numbers % 2, np.nan, numbers / 1e6),
        numbers % 3 == 0,
        np.where(numbers % 4 == 0, numbers, 0).astype(np.uint64),
        numbers % 4 == 0,
        PackedUrls.pack([f"https://moved.example/{number}" if number % 5 == 0 else "" for number in numbers]),
    )


def rows(found: FoundChanges) -> list[str]:
    return [
        repr(row) for row in zip(found.urls, found.moved_to, *(column.tolist() for column in found[1:7]), strict=True)
    ]


def read_all(feed: ChangeFeed, cursor: Cursor | None = None, most: int = 7) -> list[str]:
    """All that can be read after `cursor`, in parts."""
    cursor, read = feed.oldest if cursor is None else cursor, list[str]()
    while True:
        found, cursor = feed.read(cursor, most)
        if found is None:
            return read
        read += rows(found)


def fill(feed: ChangeFeed, first: int, counts: list[int]) -> int:
    for count in counts:
        feed.add(changes(first, count))
        feed.cut()
        first += count
    feed.sync()
    feed.secure()
    return first


@pytest.mark.parametrize("most", [1, 7, 10_000])
def test_changes_are_read_in_order_from_each_cursor(tmp_path: Path, most: int) -> None:
    feed = ChangeFeed(tmp_path, 0, None, segment_bytes=2_000)
    fill(feed, 1, [3, 1, 40, 1, 1, 90])
    assert len(list_feed(tmp_path)) > 1
    for number in (0, 2, 3, 4, 43, 44, 135, 136):
        assert read_all(feed, Cursor(feed.identity, number), most) == rows(changes(number + 1, 136 - number))
    feed.close()


def test_large_calls_are_cut_into_frames_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "_BLOCK", 50)
    monkeypatch.setattr(change_feed, "_BLOCK_BYTES", 1_000)
    monkeypatch.setattr(change_feed, "_READ_BYTES", 5_000)
    feed = ChangeFeed(tmp_path, 0, None)
    fill(feed, 1, [1_000])
    found, cursor = feed.read(feed.oldest, 10_000)
    assert found is not None
    assert 0 < found.size == cursor.number < 1_000
    assert read_all(feed, most=10_000) == rows(changes(1, 1_000))
    feed.close()


def test_only_changes_of_calls_on_disk_are_read(tmp_path: Path) -> None:
    feed = ChangeFeed(tmp_path, 0, None)
    rung = list[int]()
    feed.listeners.append(lambda: rung.append(feed.newest.number))
    for call in (1, 2, 4):
        feed.add(changes(10 * call, 2))
        feed.promise(call)
    feed.promise(5)  # a call without a change
    assert feed.read(feed.oldest, 10) == (None, feed.oldest)
    feed.reach(0)
    feed.reach(3)
    assert read_all(feed) == rows(changes(10, 2)) + rows(changes(20, 2))
    feed.reach(5)
    feed.reach(5)
    assert (feed.newest.number, rung) == (6, [4, 6])
    feed.close()


@pytest.mark.parametrize("kept", [0, 1, 3, 44, 130, 136])
def test_a_feed_is_cut_to_the_count_of_its_state(tmp_path: Path, kept: int) -> None:
    feed = ChangeFeed(tmp_path, 0, None, segment_bytes=2_000)
    fill(feed, 1, [1, 2, 41, 86, 6])
    identity = feed.identity
    feed.close()
    feed = ChangeFeed(tmp_path, kept, None, segment_bytes=2_000)
    assert (feed.identity, feed.newest.number, feed.oldest.number) == (identity, kept, 0)
    fill(feed, kept + 1, [5])
    assert read_all(feed) == rows(changes(1, kept + 5))
    feed.close()


def test_a_torn_tail_is_cut_off(tmp_path: Path) -> None:
    feed = ChangeFeed(tmp_path, 0, None)
    fill(feed, 1, [5, 5])
    identity = feed.identity
    feed.close()
    ((_, path),) = list_feed(tmp_path)
    size = path.stat().st_size
    for end in range(size - 200, size):
        os.truncate(path, end)
        feed = ChangeFeed(tmp_path, 5, None)
        assert (feed.identity, read_all(feed)) == (identity, rows(changes(1, 5)))
        fill(feed, 6, [5])
        assert read_all(feed) == rows(changes(1, 10))
        feed.close()
        assert path.stat().st_size == size


@pytest.mark.parametrize("loss", ["file", "frame", "header", "count"])
def test_a_feed_that_lacks_changes_gets_another_identity(
    tmp_path: Path, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    feed = ChangeFeed(tmp_path, 0, None)
    fill(feed, 1, [5, 5])
    old = feed.newest
    feed.close()
    ((_, path),) = list_feed(tmp_path)
    if loss == "file":
        path.unlink()
    elif loss != "count":
        raw = bytearray(path.read_bytes())
        raw[{"frame": -1, "header": 30}[loss]] ^= 1
        path.write_bytes(raw)
    feed = ChangeFeed(tmp_path, 12 if loss == "count" else 10, None)
    assert feed.identity != old.identity
    assert len(caplog.records) == (loss != "file")
    assert feed.oldest == feed.newest
    with pytest.raises(ChangesGone) as gone:
        feed.find(str(old))
    assert (gone.value.after, gone.value.oldest) == (str(old), str(feed.oldest))
    feed.close()


def test_damage_in_an_old_segment_is_passed_over_by_its_reader(tmp_path: Path) -> None:
    feed = ChangeFeed(tmp_path, 0, None, segment_bytes=500)
    fill(feed, 1, [4] * 6)
    (_, path), (second, _), *_ = list_feed(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ChangesGone) as gone:
        read_all(feed)
    assert gone.value.oldest == str(Cursor(feed.identity, second - 1))
    assert read_all(feed, Cursor.parse(gone.value.oldest)) == rows(changes(second, 25 - second))
    feed.close()


def test_whatever_is_damaged_no_change_is_invented_or_out_of_order(tmp_path: Path) -> None:
    feed = ChangeFeed(tmp_path, 0, None, segment_bytes=500)
    fill(feed, 1, [4] * 6)
    paths, written, rng = [path for _, path in list_feed(tmp_path)], rows(changes(1, 24)), np.random.default_rng(3)
    for turn in range(300):
        path = paths[turn % len(paths)]
        whole = path.read_bytes()
        damaged = bytearray(whole[: rng.integers(len(whole) + 1)] if rng.random() < 0.3 else whole)
        for place in rng.integers(0, max(len(damaged), 1), rng.integers(1, 4)) if damaged else ():
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        first = int(rng.integers(24))
        try:
            found = read_all(feed, Cursor(feed.identity, first))
        except (ChangesGone, SnapshotError):
            found = []
        assert found == written[first : first + len(found)]
        path.write_bytes(whole)
    feed.close()


def test_each_damaged_file_is_reported(tmp_path: Path) -> None:
    feed = ChangeFeed(tmp_path, 0, None, segment_bytes=500)
    fill(feed, 1, [4] * 6)
    feed.close()
    paths = [path for _, path in list_feed(tmp_path)]
    assert len(paths) > 2
    assert check_feed(tmp_path, 24) == []
    for path in paths:
        raw = path.read_bytes()
        for at in (0, 30, len(raw) - 1):
            path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
            assert [fault.path for fault in check_feed(tmp_path, 24)] == [str(path)]
        path.write_bytes(raw[:-1])
        assert [fault.path for fault in check_feed(tmp_path, 24)] == [str(path)]
        path.write_bytes(raw)
    paths[1].rename(tmp_path / "aside")
    assert [fault.path for fault in check_feed(tmp_path, 24)] == [str(paths[0])]  # what follows it is missing
    (tmp_path / "aside").rename(paths[1])
    paths[-1].write_bytes(paths[-1].read_bytes() + b"torn")
    assert check_feed(tmp_path, 24) == []
    assert [fault.path for fault in check_feed(tmp_path, 25)] == [str(paths[-1])]


def test_old_changes_are_removed_once_an_image_has_them(tmp_path: Path) -> None:
    feed = ChangeFeed(tmp_path, 0, 800.0, segment_bytes=500)
    fill(feed, 1, [4] * 6)
    first = feed.oldest
    segments = list_feed(tmp_path)
    now_s = segments[-1][1].stat().st_mtime
    feed.drop_old(24, now_s + 799.0)
    assert list_feed(tmp_path)[: len(segments)] == segments
    feed.drop_old(segments[2][0] - 1, now_s + 2_000.0)
    assert feed.oldest.number == segments[2][0] - 1
    with pytest.raises(ChangesGone) as gone:
        feed.read(first, 10)
    assert gone.value.oldest == str(feed.oldest)
    assert read_all(feed) == rows(changes(segments[2][0], 25 - segments[2][0]))
    feed.drop_old(24, now_s + 2_000.0)
    assert feed.oldest == feed.newest
    fill(feed, 25, [3])
    assert read_all(feed) == rows(changes(25, 3))
    feed.close()
    feed = ChangeFeed(tmp_path, 27, 800.0)
    assert (feed.oldest.number, feed.newest.number) == (24, 27)
    feed.close()


def test_what_a_full_disk_refuses_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ChangeFeed(tmp_path, 0, None)
    fill(feed, 1, [5])

    def refuse(handle: int, raw: Any) -> None:
        os.write(handle, memoryview(raw)[: len(raw) // 2])  # a part gets there
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(change_feed, "write_whole", refuse)
        full.setattr(change_feed, "_BLOCK_BYTES", 100)
        feed.add(changes(6, 10))
        with pytest.raises(SnapshotError):
            feed.check()
        feed.add(changes(16, 10))  # of a call that was under way
        feed.secure()
        with pytest.raises(SnapshotError):
            feed.read(Cursor(feed.identity, 5), 10)
        with pytest.raises(OSError, match="No space"):
            feed.sync()
    feed.sync()
    feed.check()
    assert read_all(feed) == rows(changes(1, 25))
    feed.close()
    feed = ChangeFeed(tmp_path, 25, None)
    assert read_all(feed) == rows(changes(1, 25))
    feed.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "0",
        "oldest ",
        "00c0ffee",
        "00c0ffee-",
        "00C0FFEE-1",
        "00c0ffee-1x",
        "00c0ffee--1",
        "00c0ffee-²",
        "0c0ffee-1",
        "00c0ffee-" + "9" * 30,
    ],
)
def test_texts_that_are_no_cursors(text: str) -> None:
    with pytest.raises(SettingsError):
        Cursor.parse(text)


def test_cursors_beyond_the_feed_or_of_another_are_refused(tmp_path: Path) -> None:
    feed = ChangeFeed(tmp_path, 0, None)
    fill(feed, 1, [5])
    assert (feed.find("oldest"), feed.find("newest"), feed.find(f"{feed.identity}-3").number) == (
        feed.oldest,
        feed.newest,
        3,
    )
    other = f"{int(feed.identity, 16) ^ 1:08x}"
    for after in (f"{feed.identity}-6", f"{other}-3"):
        with pytest.raises(ChangesGone):
            feed.find(after)
    feed.close()


def test_a_feed_can_be_removed(tmp_path: Path) -> None:
    ChangeFeed(tmp_path, 0, None).close()
    assert has_feed(tmp_path)
    remove_feed(tmp_path)
    assert not has_feed(tmp_path)


def test_a_feed_that_is_no_longer_kept_is_removed_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = "https://a.example/"
    with DurableScheduler.open(tmp_path, keep_changes="1d") as scheduler:
        scheduler.observe([Outcome(url, 1.0), Outcome(url, 2.0, changed=True)])
        assert len(scheduler.changes()) == 1
    with DurableScheduler.open(tmp_path) as scheduler:  # None: it goes on
        assert len(scheduler.changes()) == 1
    assert not caplog.records
    with DurableScheduler.open(tmp_path, keep_changes=0):
        assert not has_feed(tmp_path)
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    with DurableScheduler.open(tmp_path, keep_changes=0):
        assert len(caplog.records) == 1
