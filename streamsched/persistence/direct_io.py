"""Sequential writes of a large new file that bypass the page cache and leave the disk queue to others."""

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
_ALIGNED: Final = 4096  # bytes: disks require multiples of it for direct writes
_SYNC_BYTES: Final = 1 << 24  # written through the cache between syncs
_DIRECT: Final = getattr(os, "O_DIRECT", 0)


class NewFile:
    """Writes the new file at `path`, bypassing the page cache if the file system allows it.

    Through the cache, gigabytes fill the disk's queue, and the few bytes of a logged call wait behind them for a tenth
    of a second. Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._view = memoryview(mmap.mmap(-1, _BLOCK))  # page-aligned, as direct writes require
        self._filled = self._unsynced = 0
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._handle = os.open(path, flags | _DIRECT, 0o666)
            self._is_direct = _DIRECT != 0
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._handle = os.open(path, flags, 0o666)  # a file system without direct writes
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
        """Write the rest and sync the file."""
        if self._filled:
            stop = -(-self._filled // _ALIGNED) * _ALIGNED
            self._view[self._filled : stop] = bytes(stop - self._filled)
            self._write(stop)
            os.ftruncate(self._handle, self.size)
        os.fsync(self._handle)

    def close(self) -> None:
        """Close the file, finished or not."""
        os.close(self._handle)

    def _write(self, stop: int) -> None:
        """Write the buffer up to `stop` and empty it."""
        try:
            write_whole(self._handle, self._view[:stop])
        except OSError as error:
            if error.errno != errno.EINVAL or not self._is_direct:
                raise
            self._is_direct = False  # a disk with a larger alignment: nothing of the block is written
            fcntl.fcntl(self._handle, fcntl.F_SETFL, fcntl.fcntl(self._handle, fcntl.F_GETFL) & ~_DIRECT)
            write_whole(self._handle, self._view[:stop])
        self._filled = 0
        self._unsynced += stop
        if not self._is_direct and self._unsynced >= _SYNC_BYTES:
            os.fdatasync(self._handle)
            self._unsynced = 0
