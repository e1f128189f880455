"""Segments of the log of calls: their layout, and how one is read whatever of it is damaged.

A segment is a header, a mark, and frames. The header has `MAGIC`, the identity of the log, the number of the segment's
first call, the segment's size, and their CRC-32C. The mark says up to which byte and call the segment was on disk at
some time. A frame is the length of the payload, CRC-32C, number of the call, how many bytes of the segment were on disk
when the frame was written; then the payload. A frame without payload is the last: the calls continue in the segment
that begins with its number. Zeros follow: segments are allocated in advance, so that a write changes only its own bytes
and needs a single wait for the disk. So a file that is shorter than its header says is damaged.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.persistence.files import read_regular, write_whole

MAGIC: Final = b"streamsched calls 2\n"
_HEADER: Final = struct.Struct(f"<{len(MAGIC)}s8sQQ")
_MARK: Final = struct.Struct("<QQ")
_CRC: Final = struct.Struct("<I")
MARK_AT: Final = 64
FIRST_FRAME_AT: Final = 128
FRAME: Final = struct.Struct("<IIQQ")
FRAME_BYTES: Final = FRAME.size  # without payload
NUMBER_AT: Final = 8  # where a frame has the number of its call
_WORD: Final = np.dtype("<u8")
_ZEROS: Final = bytes(1 << 20)


class LogName(NamedTuple):
    """Which log belongs to an image: its identity, and the first call of the segment in use when the image was saved.

    The file of that segment exists from then on, as long as the image does.
    """

    identity: str
    segment: int


class Header(NamedTuple):
    """The identity of the log, eight bytes in hexadecimal; the segment's first call; its size in bytes."""

    identity: str
    first: int
    capacity: int


class RawFrame(NamedTuple):
    """Call `number` with the payload ``raw[start:stop]``; the segment was on disk up to byte `synced` before."""

    number: int
    start: int
    stop: int
    synced: int


def make_segment(path: Path, size: int) -> None:
    """Write a segment of zeros to disk. Raises OSError and leaves nothing if it does not fit."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        left = size
        while left > 0:
            write_whole(handle, memoryview(_ZEROS)[: min(left, len(_ZEROS))])
            left -= len(_ZEROS)
        os.fsync(handle)
    except OSError:
        path.unlink(missing_ok=True)  # an image, after which calls are accepted again, may need this room
        raise
    finally:
        os.close(handle)


def write_header(path: Path, header: Header) -> None:
    """Write the header and the first mark of the segment at `path`, to disk."""
    raw = _HEADER.pack(MAGIC, bytes.fromhex(header.identity), header.first, header.capacity)
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        write_whole(handle, raw + _CRC.pack(crc32c(raw)))
        write_mark(handle, FIRST_FRAME_AT, header.first - 1)
        os.fdatasync(handle)
    finally:
        os.close(handle)


def read_header(raw: bytes) -> Header | None:
    """Return the header of a segment, None if it is damaged."""
    if len(raw) < FIRST_FRAME_AT:
        return None
    magic, identity, first, capacity = _HEADER.unpack_from(raw)
    if magic != MAGIC or _CRC.unpack_from(raw, _HEADER.size)[0] != crc32c(raw[: _HEADER.size]):
        return None
    return Header(identity.hex(), first, capacity)


def write_mark(handle: int, end: int, number: int) -> None:
    """Write that the segment is on disk up to byte `end` and call `number`. The next sync takes it to disk."""
    raw = _MARK.pack(end, number)
    os.pwrite(handle, raw + _CRC.pack(crc32c(raw)), MARK_AT)


def read_mark(raw: bytes) -> tuple[int, int] | None:
    """Return the byte and the call up to which the segment was on disk, None if the mark is damaged."""
    found = raw[MARK_AT : MARK_AT + _MARK.size]
    if len(raw) < FIRST_FRAME_AT or _CRC.unpack_from(raw, MARK_AT + _MARK.size)[0] != crc32c(found):
        return None
    end, number = _MARK.unpack(found)
    return end, number


def pack_frame(number: int, synced: int, payload: bytes) -> bytes:
    """Return the frame of call `number` without its payload, which follows."""
    return FRAME.pack(len(payload), _checksum(number, synced, payload), number, synced)


def read_frame(raw: bytes, at: int) -> RawFrame | None:
    """Return the frame at byte `at`; None if there is no whole one. O(bytes)."""
    if at + FRAME_BYTES > len(raw):
        return None
    length, crc, number, synced = FRAME.unpack_from(raw, at)
    start, stop = at + FRAME_BYTES, at + FRAME_BYTES + length
    if number == 0 or stop > len(raw) or crc != _checksum(number, synced, memoryview(raw)[start:stop]):
        return None
    return RawFrame(number, start, stop, synced)


def _checksum(number: int, synced: int, payload: bytes | memoryview) -> int:
    return int(crc32c(payload, crc32c(struct.pack("<IQQ", len(payload), number, synced))))


@dataclass(frozen=True, slots=True)
class Torn:
    """The `nbytes` bytes at `offset`, after the last call, that are not a whole call.

    ``is_prefix``: whether they may be the beginning of a write that was interrupted, which was never acknowledged.
    """

    path: Path
    offset: int
    nbytes: int
    is_prefix: bool

    def __str__(self) -> str:
        what = "of an unfinished call" if self.is_prefix else "that are no call"
        return f"{self.path}: ends in {self.nbytes} bytes {what} at byte {self.offset}"


@dataclass(frozen=True, slots=True)
class Damage:
    """What cannot be read of the segment at `path`, from byte `offset` on: the calls `first` to `last`.

    ``last``: None for all calls from `first` on, if there were any; less than `first` if no call is lost.
    """

    path: Path
    offset: int
    first: int
    last: int | None

    def is_within(self, number: int) -> bool:
        """Return whether only calls up to `number` are lost."""
        return self.last is not None and (self.last < self.first or self.last <= number)

    def error(self) -> SnapshotError:
        """Return the error that says which calls are concerned."""
        if self.last is None:
            calls = f"the calls from number {self.first} on, if there were any, cannot be read"
        elif self.last < self.first:
            calls = "no call is affected"
        elif self.last == self.first:
            calls = f"call number {self.first} cannot be read"
        else:
            calls = f"calls number {self.first} to {self.last} cannot be read"
        return SnapshotError(str(self.path), f"damaged at byte {self.offset}: {calls}")


@dataclass(frozen=True, slots=True)
class Segment:
    """What was read of a segment.

    ``header``: None if it is damaged; ``next_call``: the number of the call after its calls; ``end``: the byte behind
    them; ``is_sealed``: whether it says that the calls continue in another segment.
    """

    path: Path
    first: int
    raw: bytes
    header: Header | None
    frames: tuple[RawFrame, ...]
    next_call: int
    end: int
    is_sealed: bool
    torn: Torn | None
    damages: tuple[Damage, ...]


def read_segment(path: Path, first: int) -> Segment:
    """Return what can be read of the segment at `path`, whose name says that it begins with call `first`. O(bytes).

    Raises SnapshotError if the file cannot be read, FileNotFoundError if it is missing.
    """
    raw = read_regular(path)
    header, mark = read_header(raw), read_mark(raw)
    frames = _read_frames(raw, first, FIRST_FRAME_AT if mark is None else mark[0])
    torn = None if frames.is_sealed else _find_torn(path, raw, frames)
    damages = [Damage(path, at, number, after - 1) for at, number, after in frames.gaps]
    is_blank = mark is None and not frames.found  # nothing says how many calls there were
    if header is None or header.first != first:
        is_whole = torn is None and len(raw) >= FIRST_FRAME_AT and not is_blank
        damages.append(Damage(path, 0, frames.next_call, frames.next_call - 1 if is_whole else None))
    elif len(raw) < header.capacity:
        damages.append(Damage(path, len(raw), frames.next_call, frames.next_call - 1 if frames.is_sealed else None))
    if mark is None and len(raw) >= FIRST_FRAME_AT:
        damages.append(Damage(path, MARK_AT, frames.next_call, None if is_blank else frames.next_call - 1))
    if mark is not None and mark[0] > frames.end and not frames.is_sealed:
        torn = None
        damages.append(Damage(path, frames.end, frames.next_call, max(mark[1], frames.next_call)))
    return Segment(
        path,
        first,
        raw,
        header,
        tuple(frames.found),
        frames.next_call,
        frames.end,
        frames.is_sealed,
        torn,
        tuple(damages),
    )


class _Frames(NamedTuple):
    """The frames found; ``gaps``: byte, number expected there, and number of the next frame found."""

    found: list[RawFrame]
    gaps: list[tuple[int, int, int]]
    next_call: int
    end: int
    is_sealed: bool


def _read_frames(raw: bytes, first: int, synced: int) -> _Frames:
    """Return the frames of a segment that was on disk up to byte `synced`.

    Frames after bytes that are not a frame count only if these bytes were on disk; otherwise all of them belong to one
    unfinished write.
    """
    at, number = FIRST_FRAME_AT, first
    found: list[RawFrame] = []
    gaps: list[tuple[int, int, int, int]] = []  # as in _Frames, then the number of frames before
    is_sealed = False
    while not is_sealed:
        frame = read_frame(raw, at)
        if frame is None or frame.number != number:
            frame = next(_frames_behind(raw, at, number), None)
            if frame is None:
                break
            gaps.append((at, number, frame.number, len(found)))
        synced = max(synced, frame.synced)
        is_sealed = frame.start == frame.stop
        if not is_sealed:
            found.append(frame)
        at, number = frame.stop, frame.number + (not is_sealed)
    unsynced = next((gap for gap in gaps if gap[0] >= synced and not is_sealed), None)
    if unsynced is not None:
        at, number, _, count = unsynced
        found, gaps = found[:count], gaps[: gaps.index(unsynced)]
    return _Frames(found, [gap[:3] for gap in gaps], number, at, is_sealed)


def _frames_behind(raw: bytes, at: int, number: int) -> Iterator[RawFrame]:
    """Yield the whole frames of call `number` and later ones that begin behind byte `at`. O(bytes)."""
    numbers_from = at + 1 + NUMBER_AT
    most = number + (len(raw) - at) // FRAME_BYTES
    places = []
    for phase in range(_WORD.itemsize):
        count = (len(raw) - numbers_from - phase) // _WORD.itemsize
        if count > 0:
            words = np.frombuffer(raw, _WORD, count, numbers_from + phase)
            hits = np.flatnonzero((words >= number) & (words <= most))
            places.append(hits * _WORD.itemsize + (at + 1 + phase))
    for place in np.sort(np.concatenate(places)).tolist() if places else ():
        frame = read_frame(raw, place)
        if frame is not None:
            yield frame


def _find_torn(path: Path, raw: bytes, frames: _Frames) -> Torn | None:
    """Return what follows the frames, None if that is zeros."""
    rest = raw[frames.end :].rstrip(b"\0")
    if not rest:
        return None
    length = int.from_bytes(rest[:4], "little")
    number = int.from_bytes(rest[NUMBER_AT : NUMBER_AT + 8], "little")
    is_prefix = len(rest) < NUMBER_AT + 8 or (number == frames.next_call and FRAME_BYTES + length > len(rest))
    return Torn(path, frames.end, len(rest), is_prefix and not rest.startswith(bytes(4)))
