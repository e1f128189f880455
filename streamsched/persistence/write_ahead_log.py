"""The write-ahead log: the calls since the last image, on disk before they are acknowledged.

A segment is `MAGIC`, then frames: length of the payload, CRC-32C, number of the call, how many bytes of the segment
were synced when the frame was written; then the payload. Zeros follow the last frame: segments are allocated in
advance, so that a write changes only its own bytes and needs a single wait for the disk.

An unfinished frame at the end was never acknowledged and is cut off. A damaged frame that a later one lists as synced
is an error.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Final

from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.persistence.files import (
    as_snapshot_errors,
    draft_of,
    list_segments,
    put_in_place,
    segment_path,
    sync_directory,
    write_whole,
)

__all__ = ["CallLog", "Torn", "cut_log", "last_call", "read_calls"]

MAGIC: Final = b"streamsched calls 1\n"
_FRAME: Final = struct.Struct("<IIQQ")
_SEGMENT_BYTES: Final = 1 << 22  # milliseconds to prepare; a call that needs more gets a segment of its own
_ZEROS: Final = bytes(1 << 20)
_MOST_BYTES: Final = (1 << 32) - 1  # of one call


@dataclass(frozen=True, slots=True)
class Torn:
    """`nbytes` bytes at `offset`, the end of the last segment, are no whole frame."""

    path: Path
    offset: int
    nbytes: int

    def __str__(self) -> str:
        return f"{self.path}: ends in {self.nbytes} bytes of an unfinished call at byte {self.offset}"


class CallLog:
    """Appends calls to the segments in a directory. For several threads at once.

    ``sequence``: the number of the last call appended. `append` only queues a call; `commit` writes the queue to disk,
    once for all threads that wait for it. After an error nothing is appended until `restart`.
    """

    def __init__(self, directory: Path, sequence: int, segment_bytes: int = _SEGMENT_BYTES) -> None:
        self.sequence = sequence
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._changed = threading.Condition()
        self._pending: list[tuple[int, bytes]] = []
        self._on_disk = sequence
        self._writing = False
        self._failure: SnapshotError | None = None
        self._handle: int | None = None
        self._path = directory
        self._end = self._capacity = self._synced = 0  # bytes
        self._spare: Path | None = None
        self._numbers = count()

    @property
    def failure(self) -> SnapshotError | None:
        """The error that keeps calls from being written, until `restart`."""
        return self._failure

    def check(self) -> None:
        """Raise SnapshotError if calls cannot be written."""
        if self._failure is not None:
            raise SnapshotError(self._failure.path, self._failure.reason)

    def append(self, payload: bytes) -> int:
        """Queue a call; return its number. O(bytes). Raises SnapshotError, as `check` does."""
        if len(payload) > _MOST_BYTES:
            raise SnapshotError(
                str(self._directory), f"a call has {len(payload)} bytes, expected at most {_MOST_BYTES}"
            )
        with self._changed:
            self.check()
            self.sequence += 1
            self._pending.append((self.sequence, payload))
            return self.sequence

    def commit(self, sequence: int) -> None:
        """Return once the calls up to number `sequence` are on disk. Raises SnapshotError if they cannot be written."""
        while True:
            with self._changed:
                while self._writing and self._on_disk < sequence:
                    self._changed.wait()
                if self._on_disk >= sequence:
                    return
                self.check()
                self._writing = True
                calls, self._pending = self._pending, []
            error: SnapshotError | None = None
            try:
                self._write(calls)
            except OSError as cause:
                reason = f"cannot be written: {cause.strerror or cause}; calls are refused until a snapshot is saved"
                error = SnapshotError(str(self._path), reason)
            finally:
                with self._changed:
                    self._writing = False
                    self._failure = self._failure or error
                    if error is None and calls:
                        self._on_disk = calls[-1][0]
                    self._changed.notify_all()

    def restart(self) -> None:
        """Continue after an error, once an image holds all calls so far."""
        with self._changed:
            self._close_segment()
            self._pending.clear()
            self._on_disk = self.sequence
            self._failure = None
            self._changed.notify_all()

    @property
    def wants_spare(self) -> bool:
        """Whether the segment is half full and the next one not allocated."""
        return self._spare is None and 2 * self._end > self._capacity and self._failure is None

    def prepare(self) -> None:
        """Allocate the next segment if `wants_spare`, so that no call waits for it. For one thread. Raises OSError."""
        if self.wants_spare:
            spare = self._directory / f".calls-{next(self._numbers)}.draft"
            _make_segment(spare, self._segment_bytes)
            self._spare = spare

    def drop_until(self, sequence: int) -> None:
        """Remove the segments that hold only calls up to number `sequence`. Raises OSError."""
        segments = list_segments(self._directory)
        for (_, path), (first, _) in pairwise(segments):
            if first <= sequence + 1 and path != self._path:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the segment; calls not committed are lost."""
        with self._changed:
            self._close_segment()
            self._failure = SnapshotError(str(self._directory), "is closed")

    def _write(self, calls: list[tuple[int, bytes]]) -> None:
        """Write `calls` to disk."""
        at = 0
        while at < len(calls):
            if self._handle is None or self._end + _FRAME.size + len(calls[at][1]) > self._capacity:
                self._open_segment(*calls[at])
            frames, size = [], self._end
            while at < len(calls) and size + _FRAME.size + len(calls[at][1]) <= self._capacity:
                number, payload = calls[at]
                frames += [_FRAME.pack(len(payload), _checksum(number, self._synced, payload), number, self._synced)]
                frames += [payload]
                size += _FRAME.size + len(payload)
                at += 1
            assert self._handle is not None
            write_whole(self._handle, b"".join(frames))
            os.fdatasync(self._handle)
            self._end = self._synced = size

    def _open_segment(self, number: int, payload: bytes) -> None:
        """Start a segment that begins with call `number`, large enough for it."""
        self._close_segment()
        path = segment_path(self._directory, number)
        capacity = max(self._segment_bytes, len(MAGIC) + _FRAME.size + len(payload))
        draft, spare = draft_of(path), self._spare
        if spare is not None and capacity == self._segment_bytes:
            draft, self._spare = spare, None
        else:
            _make_segment(draft, capacity)
        put_in_place(draft, path)
        self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        os.lseek(self._handle, len(MAGIC), os.SEEK_SET)
        self._path, self._capacity = path, capacity
        self._end = self._synced = len(MAGIC)

    def _close_segment(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def read_calls(directory: Path, after: int) -> Iterator[tuple[int, bytes] | Torn]:
    """Yield the calls in `directory` from number ``after + 1`` on, in order; then a `Torn` if the end is unfinished.

    O(bytes). Raises SnapshotError if acknowledged calls are damaged or missing.
    """
    segments = list_segments(directory)
    wanted = after + 1
    for place, (first, path) in enumerate(segments):
        last = place == len(segments) - 1
        if not last and segments[place + 1][0] <= wanted:
            continue
        if first > wanted:
            reason = f"cannot be used: the preceding calls, number {wanted} to {first - 1}, are missing"
            raise SnapshotError(str(path), reason)
        number = first
        for found in _read_segment(path, first, last=last):
            if isinstance(found, Torn):
                yield found
                break
            number = found[0] + 1
            if found[0] >= wanted:
                yield found
                wanted = number


def last_call(directory: Path) -> int:
    """Return the number of the last call in the log of `directory`, 0 if there was none. O(bytes)."""
    segments = list_segments(directory)
    number = 0
    if segments:
        first, path = segments[-1]
        number = first - 1
        for found in _read_segment(path, first, last=True):
            number = number if isinstance(found, Torn) else found[0]
    return number


def cut_log(directory: Path, number: int) -> None:
    """Remove everything after call `number` from the log: unfinished calls, and calls that were not applied.

    It is on disk when this returns. Raises OSError.
    """
    for first, path in reversed(list_segments(directory)):
        if first > number:
            path.unlink()
            continue
        end = len(MAGIC)
        for found in _read_segment(path, first, last=True):
            if not isinstance(found, Torn) and found[0] <= number:
                end += _FRAME.size + len(found[1])
        handle = os.open(path, os.O_WRONLY)
        try:
            os.ftruncate(handle, end)
            os.fsync(handle)
        finally:
            os.close(handle)
        break
    sync_directory(directory)


def _read_segment(path: Path, first: int, *, last: bool) -> Iterator[tuple[int, bytes] | Torn]:
    with as_snapshot_errors(path, "cannot be read"):
        raw = path.read_bytes()
    if not raw.startswith(MAGIC):
        raise SnapshotError(str(path), "damaged: does not begin as a log of calls does")
    at, number = len(MAGIC), first
    while (frame := _read_frame(raw, at)) is not None and frame[0] == number:
        yield number, frame[1]
        at, number = at + _FRAME.size + len(frame[1]), number + 1
    rest = raw[at:]
    if not rest.strip(b"\0"):
        return
    if not last or _was_synced(raw, at):
        raise SnapshotError(str(path), f"damaged at byte {at}: call number {number} was on disk and cannot be read")
    yield Torn(path, at, len(rest.rstrip(b"\0")))


def _read_frame(raw: bytes, at: int) -> tuple[int, bytes, int] | None:
    """Return number, payload and synced bytes of the frame at `at`; None if there is no whole frame."""
    if at + _FRAME.size > len(raw):
        return None
    length, crc, number, synced = _FRAME.unpack_from(raw, at)
    payload = raw[at + _FRAME.size : at + _FRAME.size + length]
    if number == 0 or len(payload) < length or crc != _checksum(number, synced, payload):
        return None
    return number, payload, synced


def _was_synced(raw: bytes, at: int) -> bool:
    """Return whether a later frame lists the bytes at `at` as synced. O(bytes) of the unfinished write."""
    stop = len(raw.rstrip(b"\0"))
    for place in range(at + 1, stop):
        length, _, number, synced = _FRAME.unpack_from(raw, place) if place + _FRAME.size <= len(raw) else (0, 0, 0, 0)
        if number and at < synced <= place and place + _FRAME.size + length <= len(raw):
            frame = _read_frame(raw, place)
            if frame is not None:
                return True
    return False


def _checksum(number: int, synced: int, payload: bytes) -> int:
    return int(crc32c(payload, crc32c(struct.pack("<IQQ", len(payload), number, synced))))


def _make_segment(path: Path, size: int) -> None:
    """Write a segment of zeros to disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_whole(handle, MAGIC)
        left = size - len(MAGIC)
        while left > 0:
            write_whole(handle, memoryview(_ZEROS)[: min(left, len(_ZEROS))])
            left -= len(_ZEROS)
        os.fsync(handle)
    finally:
        os.close(handle)
