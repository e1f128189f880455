"""A large new file, written from front to end without keeping others from the disk or out of the system's cache."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path
from typing import Final

from streamsched.persistence.files import write_whole

__all__ = ["NewFile"]

_BLOCK: Final = 1 << 20  # bytes written at a time: some disks' largest request
_ALIGNED: Final = 4096  # what disks ask of the length of a write past the cache
_SYNC_BYTES: Final = 1 << 24  # written through the cache before the disk is waited for
_DIRECT: Final = getattr(os, "O_DIRECT", 0)


class NewFile:
    """Writes the new file at `path`, past the system's cache where that can be.

    Through the cache, gigabytes fill the disk's queue, and the few bytes of a call that is to be logged wait
    behind them for a tenth of a second. Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._view = memoryview(mmap.mmap(-1, _BLOCK))  # aligned as a write past the cache needs it
        self._filled = self._unsynced = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        try:
            self._handle = os.open(path, flags | _DIRECT, 0o666)
            self._is_direct = _DIRECT != 0
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._handle = os.open(path, flags, 0o666)  # a file system that has nothing but its cache
            self._is_direct = False

    def put(self, raw: bytes | memoryview) -> None:
        """Append `raw`. O(bytes)."""
        rest = memoryview(raw)
        self.size += len(rest)
        while rest:
            part = rest[: _BLOCK - self._filled]
            self._view[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            rest = rest[len(part) :]
            if self._filled == _BLOCK:
                self._write(_BLOCK)

    def finish(self) -> None:
        """Have all of it on disk."""
        if self._filled:
            stop = -(-self._filled // _ALIGNED) * _ALIGNED
            self._view[self._filled : stop] = bytes(stop - self._filled)
            self._write(stop)
            os.ftruncate(self._handle, self.size)
        os.fsync(self._handle)

    def close(self) -> None:
        """Close it, whether it was finished or not."""
        os.close(self._handle)

    def _write(self, stop: int) -> None:
        """Write the buffer up to `stop`, and begin it anew."""
        try:
            write_whole(self._handle, self._view[:stop])
        except OSError as error:
            if error.errno != errno.EINVAL or not self._is_direct:
                raise
            self._is_direct = False  # a disk that asks for more than our alignment: nothing of the block is written
            fcntl.fcntl(self._handle, fcntl.F_SETFL, fcntl.fcntl(self._handle, fcntl.F_GETFL) & ~_DIRECT)
            write_whole(self._handle, self._view[:stop])
        self._filled = 0
        self._unsynced += stop
        if not self._is_direct and self._unsynced >= _SYNC_BYTES:
            os.fdatasync(self._handle)
            self._unsynced = 0
