"""The change feed: the changes that outcomes have shown, numbered in their order, on disk for a bounded time.

It is made of the calls. A change is number i if i - 1 changes precede it in the state's history; the state holds how
many there were. So nothing waits for the disk: a feed is synced before an image is put in place, and after a crash it
is cut to the count of the image and made again by the calls that follow. Readers get only changes of calls that are on
disk, so no change that was read can get another number.

The files are segments: a header, then frames as in the log of calls, whose number is that of the first change and whose
second number is how many changes they hold. A directory that lacks changes which its state has counted, such as a copy
of an image, gets a feed with another identity; positions of the old one are refused.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

from streamsched.errors import ChangesGone, SettingsError, SnapshotError
from streamsched.persistence.call_codec import decode_call, encode_call
from streamsched.persistence.files import (
    as_snapshot_errors,
    draft_of,
    feed_path,
    list_feed,
    open_regular,
    put_in_place,
    read_regular,
    remove_file,
    sync_directory,
    write_whole,
)
from streamsched.persistence.log_segments import FRAME, FRAME_BYTES, pack_frame, read_frame
from streamsched.state.found_changes import FoundChanges

_logger: Final = logging.getLogger("streamsched.persistence")

MAGIC: Final = b"streamsched feed 01\n"
_HEADER: Final = struct.Struct(f"<{len(MAGIC)}s4sQd")  # identity, first change, when it was begun
_CRC: Final = struct.Struct("<I")
_FRAMES_AT: Final = 64
_SEGMENT_BYTES: Final = 1 << 23
_BLOCK: Final = 1 << 12  # changes of a frame
_BLOCK_BYTES: Final = 1 << 18  # of their texts; also what is collected before it is written
_READ_BYTES: Final = 1 << 20  # of the changes of one answer
_MARK_BYTES: Final = 1 << 16  # between two places in a segment that are known
_PARTS: Final = 8  # segments in which what is kept is written, at least
CURSOR_EXPECTED: Final = "a cursor of this service, such as 00c0ffee-12, or oldest, or newest"
NO_IDENTITY: Final = "0" * 8


class Cursor(NamedTuple):
    """A position in a feed: after change `number` of the feed `identity`."""

    identity: str
    number: int

    def __str__(self) -> str:
        return f"{self.identity}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Return the cursor that was written as `text`. Raises SettingsError.

        >>> Cursor.parse("00c0ffee-12").number
        12
        """
        identity, dash, number = text.partition("-")
        is_hex = len(identity) == len(NO_IDENTITY) and not set(identity) - set("0123456789abcdef")
        if not dash or not is_hex or not number.isascii() or not number.isdigit() or len(number) > 18:
            raise SettingsError("after", text, CURSOR_EXPECTED)
        return cls(identity, int(number))


@dataclass(slots=True)
class _Segment:
    """A file of frames up to byte ``end``.

    ``first``: its first change; ``begun_s``: when it was made, UTC epoch seconds; ``numbers``, ``places``: of some of
    its frames.
    """

    path: Path
    first: int
    begun_s: float = 0.0
    numbers: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    end: int = _FRAMES_AT

    def mark(self, number: int, place: int) -> None:
        """Note that the frame at `place` begins with change `number`, if the last one noted is far before."""
        if not self.places or place >= self.places[-1] + _MARK_BYTES:
            self.numbers.append(number)
            self.places.append(place)

    def place_before(self, number: int) -> int:
        """Return a place at or before the frame with change `number`."""
        at = bisect_right(self.numbers, number) - 1
        return self.places[at] if at >= 0 else _FRAMES_AT


class ChangeFeed:
    """The feed in a state directory, after the first `count` changes of the state; later ones on disk are cut off.

    `keep_s`: how long changes are kept at least, None for ever; `identity`: of a feed that begins here, eight
    hexadecimal digits, None for random ones. ``listeners``: each is called, from any thread, when changes can be read.
    `add` and `promise` are called under the scheduler's lock; for several threads otherwise. `add` raises nothing: what
    cannot be written is kept, and ``failure`` says why, until `sync` succeeds. Raises SnapshotError if it cannot be
    opened or made.
    """

    def __init__(
        self,
        directory: Path,
        count: int,
        keep_s: float | None,
        *,
        identity: str | None = None,
        segment_bytes: int = _SEGMENT_BYTES,
    ) -> None:
        self.failure: SnapshotError | None = None
        self.listeners: list[Callable[[], object]] = []
        self._directory = directory
        self._keep_s = keep_s
        self._segment_bytes = segment_bytes
        self._lock = threading.RLock()
        self._last = self._written = self._reached = count
        self._pending: list[FoundChanges] = []
        self._pending_bytes = 0
        self._blocks: deque[tuple[int, int, bytes]] = deque()  # first change, count and payload of what is not written
        self._promised: deque[tuple[int, int]] = deque()  # numbers of calls, and of their last changes
        self._handle = -1
        with as_snapshot_errors(directory, "cannot be written"):
            self._open(count, identity or os.urandom(4).hex())

    @property
    def newest(self) -> Cursor:
        """The position after all changes that can be read."""
        return Cursor(self.identity, self._reached)

    @property
    def oldest(self) -> Cursor:
        """The position before all changes that are kept."""
        return Cursor(self.identity, min(self._segments[0].first - 1, self._reached))

    def check(self) -> None:
        """Raise SnapshotError if changes cannot be written."""
        if self.failure is not None:
            raise SnapshotError(self.failure.path, self.failure.reason)

    def add(self, found: FoundChanges) -> None:
        """Append changes. O(1), amortised O(bytes)."""
        with self._lock:
            self._pending.append(found)
            self._pending_bytes += found.nbytes
            self._last += found.size
            if self._pending_bytes >= _BLOCK_BYTES and self.failure is None:
                try:
                    self._flush()
                except OSError as error:
                    self._fail(error)

    def cut(self) -> int:
        """End a frame here, so that a feed can be cut to the changes up to now; return how many there were."""
        with self._lock:
            self._seal()
            return self._last

    def sync(self) -> None:
        """Write all changes to disk, before an image that has them is put in place. Raises OSError."""
        with self._lock:
            self._flush()
            os.fdatasync(self._handle)
            self.failure = None

    def promise(self, call: int) -> None:
        """Note that the changes up to now are on disk once call number `call` of the log is."""
        with self._lock:
            if self._last > (self._promised[-1][1] if self._promised else self._reached):
                self._promised.append((call, self._last))

    def reach(self, call: int) -> None:
        """Let the changes of the calls up to number `call`, which are on disk, be read."""
        if not self._promised:
            return
        with self._lock:
            number = self._reached
            while self._promised and self._promised[0][0] <= call:
                number = self._promised.popleft()[1]
        self.secure(number)

    def secure(self, number: int | None = None) -> None:
        """Let the changes up to `number`, which an image or the log has, be read; None for all."""
        with self._lock:
            number = self._last if number is None else number
            if number <= self._reached:
                return
            self._reached = number
        for listener in self.listeners:
            listener()

    def find(self, after: str) -> Cursor:
        """Return the position `after`: a cursor, ``oldest`` or ``newest``. Raises SettingsError, ChangesGone."""
        if after in ("oldest", "newest"):
            return self.oldest if after == "oldest" else self.newest
        cursor = Cursor.parse(after)
        if cursor.identity != self.identity or not self.oldest.number <= cursor.number <= self._reached:
            raise ChangesGone(after, str(self.oldest))
        return cursor

    def read(self, cursor: Cursor, most: int) -> tuple[FoundChanges | None, Cursor]:
        """Return at most `most` changes after `cursor`, fewer if they are large, and the cursor after them.

        None if there are none yet. O(bytes), at most some of a segment. Raises ChangesGone, SnapshotError.
        """
        parts: list[FoundChanges] = []
        number, nbytes = cursor.number, 0
        with self._lock:
            self.find(str(cursor))
            stop = min(self._reached, number + most)
            if self._written < stop:
                with as_snapshot_errors(self._directory, "cannot be written"):
                    self._flush()
        while number < stop and nbytes < _READ_BYTES:
            with self._lock:
                segment = self._segment_of(number + 1)
                place, end = segment.place_before(number + 1), segment.end
            before = number
            for first, found in self._read_frames(cursor, segment, place, end, number):
                part = found.slice(number + 1 - first, min(found.size, stop + 1 - first))
                parts.append(part)
                number += part.size
                nbytes += part.nbytes
                if number >= stop or nbytes >= _READ_BYTES:
                    break
            if number == before:
                raise ChangesGone(str(cursor), self._behind(segment))  # the file is damaged
        return (FoundChanges.concatenate(parts) if parts else None), Cursor(cursor.identity, number)

    def close(self) -> None:
        """Write what is to be written, if it can be, and close the file."""
        with self._lock:
            if self._handle >= 0:
                with suppress(OSError):  # the calls make it again
                    self._flush()
                os.close(self._handle)
                self._handle = -1

    def _behind(self, segment: _Segment) -> str:
        """Return the first position behind `segment`."""
        with self._lock:
            later = [one.first - 1 for one in self._segments if one.first > segment.first]
        return str(Cursor(self.identity, min([*later, self._reached])))

    def _segment_of(self, number: int) -> _Segment:
        at = bisect_right(self._segments, number, key=lambda segment: segment.first) - 1
        segment = self._segments[max(at, 0)]
        if segment is not self._segments[-1] and not segment.places:
            with suppress(OSError), segment.path.open("rb") as file:
                for head in _walk(file, _FRAMES_AT, segment.end):
                    segment.mark(head.first, head.place)
        return segment

    def _read_frames(
        self, cursor: Cursor, segment: _Segment, place: int, end: int, number: int
    ) -> Iterator[tuple[int, FoundChanges]]:
        """Yield the frames of `segment` from `place` on that hold changes after `number`, with their first numbers."""
        try:
            with segment.path.open("rb") as file:
                for head in _walk(file, place, end):
                    if head.first + head.size - 1 <= number:
                        continue
                    file.seek(head.place)
                    frame = read_frame(raw := file.read(head.nbytes), 0)
                    if frame is None or frame.number > number + 1:
                        return
                    found = FoundChanges.unpack(decode_call(raw[frame.start :])[1])
                    yield frame.number, found
                    number = frame.number + found.size - 1
        except FileNotFoundError:  # removed in the meantime
            raise ChangesGone(str(cursor), str(self.oldest)) from None
        except OSError as error:
            raise SnapshotError(str(segment.path), f"cannot be read: {error.strerror or error}") from error

    def _fail(self, error: OSError) -> None:
        reason = f"cannot be written: {error.strerror or error}; calls are refused until a snapshot is saved"
        self.failure = SnapshotError(str(self._segments[-1].path), reason)

    def _seal(self) -> None:
        """Make frames of what was added."""
        if not self._pending:
            return
        found = FoundChanges.concatenate(self._pending)
        first = self._last - found.size + 1
        self._pending, self._pending_bytes = [], 0
        for part in found.split(_BLOCK, _BLOCK_BYTES):
            self._blocks.append((first, part.size, encode_call({}, part.pack())))
            first += part.size

    def _flush(self) -> None:
        """Write all that was added to the file, not yet to disk. Raises OSError; what is not written is kept."""
        self._seal()
        while self._blocks:
            segment = self._segments[-1]
            if segment.end >= self._segment_bytes:
                self._start_segment(self._blocks[0][0])
                continue
            first, count, payload = self._blocks[0]
            raw = pack_frame(first, count, payload) + payload
            os.lseek(self._handle, segment.end, os.SEEK_SET)  # a write that failed may have left a part
            write_whole(self._handle, raw)
            segment.mark(first, segment.end)
            segment.end += len(raw)
            self._written = first + count - 1
            self._blocks.popleft()

    def _open(self, count: int, new_identity: str) -> None:
        """Continue in the segment with change number `count`, or begin a feed of `new_identity` behind it."""
        listed = list_feed(self._directory)
        self._segments = [
            _Segment(path, first, end=path.stat().st_size) for first, path in listed if first <= count + 1
        ]
        self.identity = self._continue(count) if self._segments else NO_IDENTITY
        kept = self._segments if self.identity != NO_IDENTITY else []
        for _, path in reversed(listed):
            if path not in [segment.path for segment in kept]:
                path.unlink()
        if not kept:
            if listed:
                _logger.warning(
                    "%s: the change feed is damaged or of another state, as it lacks changes up to number %d; it "
                    "begins anew, and cursors of it are gone",
                    self._directory,
                    count,
                )
            self._segments = []
            self.identity = new_identity
            self._start_segment(count + 1)
        else:
            sync_directory(self._directory)

    def _continue(self, count: int) -> str:
        """Cut the last segment behind change number `count`; return the feed's identity, NO_IDENTITY if it lacks it."""
        segment = self._segments[-1]
        raw = read_regular(segment.path)
        identity, segment.begun_s = _read_header(raw, segment.first)
        at, number = _FRAMES_AT, segment.first - 1
        while number < count and (frame := read_frame(raw, at)) is not None and frame.number == number + 1:
            segment.mark(frame.number, at)
            at, number = frame.stop, number + frame.synced
        if number != count:
            return NO_IDENTITY
        segment.end = at
        self._handle = open_regular(segment.path, os.O_WRONLY)
        os.ftruncate(self._handle, at)
        os.fsync(self._handle)
        return identity

    def _start_segment(self, first: int) -> None:
        """Write to a new segment that begins with change number `first` from now on. Raises OSError."""
        if self._handle >= 0:
            os.fdatasync(self._handle)
        path = feed_path(self._directory, first)
        draft = draft_of(path)
        handle = open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            begun_s = os.fstat(handle).st_mtime
            header = _HEADER.pack(MAGIC, bytes.fromhex(self.identity), first, begun_s)
            write_whole(handle, (header + _CRC.pack(crc32c(header))).ljust(_FRAMES_AT, b"\0"))
            os.fsync(handle)
            put_in_place(draft, path)
        except OSError:
            os.close(handle)
            raise
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = handle
        self._segments.append(_Segment(path, first, begun_s))

    def drop_old(self, number: int, now_s: float) -> None:
        """Remove segments whose changes are older than is kept and among the first `number`. Raises OSError.

        A segment that has been written to for a part of that time is followed by another one. `number`: how many
        changes an image on disk has; `now_s`: the present, by the clock of the file system.
        """
        if self._keep_s is None:
            return
        with self._lock:
            current = self._segments[-1]
            if current.end > _FRAMES_AT and now_s - current.begun_s > self._keep_s / _PARTS:
                self._start_segment(self._written + 1)
            while len(self._segments) > 1 and self._segments[1].first - 1 <= number:
                oldest = self._segments[0]
                if now_s - oldest.path.stat().st_mtime <= self._keep_s:
                    break
                oldest.path.unlink()
                del self._segments[0]


class _Head(NamedTuple):
    """The frame of `size` changes from number `first` on, `nbytes` bytes at `place`."""

    first: int
    size: int
    place: int
    nbytes: int


def _walk(file: BinaryIO, place: int, end: int) -> Iterator[_Head]:
    """Yield the frames from `place` up to `end`, unchecked but for their order. O(frames). Raises OSError."""
    expected: int | None = None
    while place + FRAME_BYTES <= end:
        head = os.pread(file.fileno(), FRAME_BYTES, place)
        if len(head) < FRAME_BYTES:
            return  # somebody else has cut the file
        length, _, first, count = FRAME.unpack(head)
        nbytes = FRAME_BYTES + length
        if expected not in (None, first) or not count or place + nbytes > end:
            return
        yield _Head(first, count, place, nbytes)
        place, expected = place + nbytes, first + count


def check_feed(directory: Path, count: int) -> list[SnapshotError]:
    """Return the errors of the files of the feed in `directory`, oldest first. O(bytes).

    `count`: how many changes the newest image has, which are on disk; what a crash leaves after them is no error.
    Raises SnapshotError if a file cannot be read.
    """
    faults, listed, identities = [], list_feed(directory), set()
    for at, (first, path) in enumerate(listed):
        try:
            raw = read_regular(path)
        except FileNotFoundError:
            continue  # removed by the process that owns the directory
        is_last = at + 1 == len(listed)
        wanted = max(count, first - 1) if is_last else listed[at + 1][0] - 1
        identity, _ = _read_header(raw, first)
        place, number = _FRAMES_AT, first - 1
        while (frame := read_frame(raw, place)) is not None and frame.number == number + 1:
            place, number = frame.stop, number + frame.synced
        if identity == NO_IDENTITY:
            faults.append(SnapshotError(str(path), "damaged: its header is not that of a change feed"))
        elif number < wanted:
            faults.append(
                SnapshotError(str(path), f"damaged at byte {place}: changes {number + 1} to {wanted} are missing")
            )
        identities.add(identity)
        if identity != NO_IDENTITY and len(identities - {NO_IDENTITY}) > 1:
            faults.append(SnapshotError(str(path), "belongs to another change feed than the files before it"))
    return faults


def remove_feed(directory: Path) -> None:
    """Remove the feed in `directory`, if it has one. Raises SnapshotError."""
    for _, path in list_feed(directory):
        remove_file(path)


def has_feed(directory: Path) -> bool:
    """Return whether there is a feed in `directory`."""
    return bool(list_feed(directory))


def _read_header(raw: bytes, first: int) -> tuple[str, float]:
    """Return the identity of the feed whose segment begins with change `first`, and when that was begun.

    NO_IDENTITY if it is damaged.
    """
    if len(raw) >= _FRAMES_AT and _CRC.unpack_from(raw, _HEADER.size)[0] == crc32c(raw[: _HEADER.size]):
        magic, identity, found, begun_s = _HEADER.unpack_from(raw)
        if magic == MAGIC and found == first:
            return identity.hex(), begun_s
    return NO_IDENTITY, 0.0
