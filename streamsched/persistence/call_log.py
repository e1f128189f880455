"""Appends calls to the log: each is on disk before it is acknowledged, several of them by one write."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Final

from streamsched.errors import SnapshotError
from streamsched.persistence.files import (
    as_snapshot_errors,
    draft_of,
    list_segments,
    open_regular,
    put_in_place,
    remove_file,
    segment_path,
    write_whole,
)
from streamsched.persistence.group_commit import GroupCommitLog
from streamsched.persistence.log_reader import LogEnd
from streamsched.persistence.log_segments import (
    FIRST_FRAME_AT,
    FRAME_BYTES,
    Header,
    LogName,
    make_segment,
    pack_frame,
    write_header,
    write_mark,
)

_SEGMENT_BYTES: Final = 1 << 22  # milliseconds to prepare; a call that needs more gets a segment of its own
_FIRST_BYTES: Final = 1 << 16  # of a log's first segment: most logs of short commands need no more
_MARK_S: Final = 0.05  # between marks: one in each write would cost a tenth of the calls a second


class CallLog(GroupCommitLog):
    """Appends calls to the segments in a directory, after the `end` of its log. See `GroupCommitLog`."""

    def __init__(self, directory: Path, end: LogEnd, segment_bytes: int = _SEGMENT_BYTES) -> None:
        super().__init__(end.sequence)
        self._identity = end.identity
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._broken = False  # whether the last write to the segment failed
        self._handle: int | None = None
        self._path = directory
        self._first = self._end = self._capacity = 0  # the segment's first call; bytes
        self._mark_due_s = 0.0  # on the monotonic clock
        self._spare: Path | None = None
        self._numbers = count()
        with as_snapshot_errors(directory, "cannot be written"):
            self._begin(end)

    @property
    def place(self) -> str:
        """The newest segment."""
        return str(self._path)

    @property
    def name(self) -> LogName:
        """What an image saved now says about the log."""
        return LogName(self._identity, self._first)

    def renew(self) -> None:
        """After an error, write the queue, in a new segment if the last one cannot be trusted. Raises OSError."""
        with self._changed:
            if self._broken:
                self._replace_segment()
            calls, self._pending = self._pending, []
            try:
                self._write(calls)
            finally:
                self._keep_unwritten(calls)

    @property
    def wants_spare(self) -> bool:
        """Whether the segment is half full and the next one not allocated."""
        return self._spare is None and 2 * self._end > self._capacity and self._failure is None

    def prepare(self) -> None:
        """Allocate the next segment if `wants_spare`, so that no call waits for it. For one thread. Raises OSError."""
        if self.wants_spare:
            spare = self._directory / f".calls-{next(self._numbers)}.draft"
            make_segment(spare, self._segment_bytes)
            self._spare = spare

    def drop_until(self, sequence: int) -> None:
        """Remove the segments that hold only calls before number `sequence`. Raises SnapshotError.

        An image that holds the calls up to that number may name the segment of the last of them.
        """
        segments = list_segments(self._directory)
        for (_, path), (first, _) in pairwise(segments):
            if first <= sequence and path != self._path:
                remove_file(path)

    def close(self) -> None:
        """Close the segment; calls not committed are lost."""
        with self._changed:
            self._closed = True
            while self._writing:
                self._changed.wait()
            if self._failure is None and self._handle is not None:
                with suppress(OSError):  # the mark only tells later that no call is missing
                    write_mark(self._handle, self._end, self._on_disk)
                    os.fdatasync(self._handle)
            self._close_segment()
            self._failure = SnapshotError(str(self._directory), "is closed")
            if self._spare is not None:
                with suppress(OSError):
                    self._spare.unlink()

    def _begin(self, end: LogEnd) -> None:
        """Continue at `end`; remove segments behind it, which have no calls of this log."""
        if end.path is None:
            self._start_segment(end.sequence + 1, min(_FIRST_BYTES, self._segment_bytes))
        else:
            self._handle = open_regular(end.path, os.O_WRONLY)
            self._path, self._first, self._capacity, self._end = end.path, end.first, end.capacity, end.end
            if end.torn is not None:
                os.pwrite(self._handle, bytes(end.torn.nbytes), end.torn.offset)
                os.fsync(self._handle)
            os.lseek(self._handle, self._end, os.SEEK_SET)
        for first, path in list_segments(self._directory):
            if first > end.sequence + 1 and path != self._path:
                path.unlink()

    def _replace_segment(self) -> None:
        """Continue in a new segment after the last call on disk; remove what a failed write left in the one before."""
        first = self._on_disk + 1
        if first == self._first:  # nothing of it was written: the new one replaces it
            self._start_segment(first, min(_FIRST_BYTES, self._segment_bytes))
            return
        self._close_segment()
        self._handle = open_regular(self._path, os.O_WRONLY)
        # Before the new segment is there: whole calls of the failed write would otherwise be in both.
        os.lseek(self._handle, self._end, os.SEEK_SET)
        write_whole(self._handle, bytes(self._capacity - self._end))
        os.fsync(self._handle)
        self._open_segment(first, min(_FIRST_BYTES, self._segment_bytes))

    def _write(self, calls: list[tuple[int, bytes]]) -> None:
        """Write `calls` to disk."""
        self._broken = True
        self._write_all(calls)
        self._broken = False

    def _write_all(self, calls: list[tuple[int, bytes]]) -> None:
        at = 0
        while at < len(calls):
            if self._handle is None or not self._has_room(self._end, calls[at][1]):
                number, payload = calls[at]
                needed = FIRST_FRAME_AT + 2 * FRAME_BYTES + len(payload)
                self._open_segment(number, max(self._segment_bytes, needed))
            assert self._handle is not None
            if time.monotonic() >= self._mark_due_s:
                self._mark_due_s = time.monotonic() + _MARK_S
                write_mark(self._handle, self._end, calls[at][0] - 1)
            frames, size = [], self._end
            while at < len(calls) and self._has_room(size, calls[at][1]):
                number, payload = calls[at]
                frames += [pack_frame(number, self._end, payload), payload]
                size += FRAME_BYTES + len(payload)
                at += 1
            write_whole(self._handle, b"".join(frames))
            os.fdatasync(self._handle)
            self._end, self._on_disk = size, calls[at - 1][0]

    def _has_room(self, end: int, payload: bytes) -> bool:
        """Return whether the segment has room for a call at byte `end`, and for the frame that ends it."""
        return end + 2 * FRAME_BYTES + len(payload) <= self._capacity

    def _open_segment(self, number: int, capacity: int) -> None:
        """Continue in a new segment that begins with call `number`."""
        before, end = self._handle, self._end
        self._handle = None
        try:
            self._start_segment(number, capacity)
            if before is not None:
                os.pwrite(before, pack_frame(number, end, b""), end)
                os.fdatasync(before)
        finally:
            if before is not None:
                os.close(before)

    def _start_segment(self, number: int, capacity: int) -> None:
        """Make a segment that begins with call `number` and write to it from now on."""
        self._close_segment()
        path = segment_path(self._directory, number)
        draft, spare = draft_of(path), self._spare
        if spare is not None and capacity == self._segment_bytes:
            draft, self._spare = spare, None
        else:
            make_segment(draft, capacity)
        write_header(draft, Header(self._identity, number, capacity))
        put_in_place(draft, path)
        self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        os.lseek(self._handle, FIRST_FRAME_AT, os.SEEK_SET)
        self._path, self._first, self._capacity, self._end = path, number, capacity, FIRST_FRAME_AT

    def _close_segment(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
