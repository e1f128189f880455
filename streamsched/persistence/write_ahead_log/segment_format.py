"""The layout of a segment of the log.

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
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from streamsched.persistence.files import write_whole

__all__ = [
    "FIRST_FRAME_AT",
    "FRAME_BYTES",
    "MAGIC",
    "MARK_AT",
    "NUMBER_AT",
    "Header",
    "LogName",
    "RawFrame",
    "make_segment",
    "pack_frame",
    "read_frame",
    "read_header",
    "read_mark",
    "write_header",
    "write_mark",
]

MAGIC: Final = b"streamsched calls 2\n"
_HEADER: Final = struct.Struct(f"<{len(MAGIC)}s8sQQ")
_MARK: Final = struct.Struct("<QQ")
_CRC: Final = struct.Struct("<I")
MARK_AT: Final = 64
FIRST_FRAME_AT: Final = 128
_FRAME: Final = struct.Struct("<IIQQ")
FRAME_BYTES: Final = _FRAME.size  # without payload
NUMBER_AT: Final = 8  # where a frame has the number of its call
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
    return _FRAME.pack(len(payload), _checksum(number, synced, payload), number, synced)


def read_frame(raw: bytes, at: int) -> RawFrame | None:
    """Return the frame at byte `at`; None if there is no whole one. O(bytes)."""
    if at + FRAME_BYTES > len(raw):
        return None
    length, crc, number, synced = _FRAME.unpack_from(raw, at)
    start, stop = at + FRAME_BYTES, at + FRAME_BYTES + length
    if number == 0 or stop > len(raw) or crc != _checksum(number, synced, memoryview(raw)[start:stop]):
        return None
    return RawFrame(number, start, stop, synced)


def _checksum(number: int, synced: int, payload: bytes | memoryview) -> int:
    return int(crc32c(payload, crc32c(struct.pack("<IQQ", len(payload), number, synced))))
