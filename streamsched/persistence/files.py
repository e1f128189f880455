"""The files of a state directory: names, atomic durable writes, and large files written past the page cache."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamsched.errors import SnapshotError

_IMAGE: Final = re.compile(r"snapshot-(\d{8,})(?:\+(\d{4,}))?\.state")
_SEGMENT: Final = re.compile(r"calls-(\d{12,})\.log")
_FEED: Final = re.compile(r"changes-(\d{12,})\.feed")


_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True, order=True)
class ImageName:
    """Image `number`, or the increment number `step` after it: ``snapshot-00000007.state``, ``…07+0001.state``."""

    number: int
    step: int = 0

    def in_directory(self, directory: Path) -> Path:
        """Return its path in `directory`."""
        step = f"+{self.step:04d}" if self.step else ""
        return directory / f"snapshot-{self.number:08d}{step}.state"


def is_image_name(name: str) -> bool:
    """Return whether `name` is the name of an image's file, which has no folder in it."""
    return _IMAGE.fullmatch(name) is not None


def list_images(directory: Path) -> list[ImageName]:
    """Return the images in `directory`, oldest first; none if it is missing."""
    found = (_IMAGE.fullmatch(name) for name in _names(directory))
    return sorted(ImageName(int(match[1]), int(match[2] or 0)) for match in found if match)


def list_segments(directory: Path) -> list[tuple[int, Path]]:
    """Return the log's segments in `directory`, each with the number of its first call, oldest first."""
    found = (_SEGMENT.fullmatch(name) for name in _names(directory))
    return sorted((int(match[1]), directory / match[0]) for match in found if match)


def segment_path(directory: Path, first: int) -> Path:
    """Return the path of the segment that begins with call number `first`."""
    return directory / f"calls-{first:012d}.log"


def list_feed(directory: Path) -> list[tuple[int, Path]]:
    """Return the segments of the change feed in `directory`, each with the number of its first change, oldest first."""
    found = (_FEED.fullmatch(name) for name in _names(directory))
    return sorted((int(match[1]), directory / match[0]) for match in found if match)


def feed_path(directory: Path, first: int) -> Path:
    """Return the path of the segment of the change feed that begins with change number `first`."""
    return directory / f"changes-{first:012d}.feed"


def draft_of(path: Path) -> Path:
    """Return the path under which the file `path` is written until it is whole."""
    return path.with_name(f".{path.name}.draft")


def put_in_place(draft: Path, path: Path) -> None:
    """Rename `draft`, whose bytes are synced, to `path`, and sync the directory."""
    draft.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Sync the entries of `directory` to disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_file(path: Path) -> None:
    """Remove the file `path` if it is there. Raises SnapshotError, which names it, if it cannot be removed."""
    with as_snapshot_errors(path, "cannot be removed"):
        path.unlink(missing_ok=True)


def remove_drafts(directory: Path) -> None:
    """Remove unfinished files of a process that was killed. Call it under the directory's lock."""
    for name in _names(directory):
        if name.startswith(".") and name.endswith(".draft"):
            with suppress(OSError):
                (directory / name).unlink()


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Return a handle of the regular file at `path`, opened with `flags`; created if they have ``O_CREAT``.

    Never waits, as opening a named pipe does. Raises SnapshotError if it is no regular file, OSError if it cannot be
    opened.
    """
    try:
        handle = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and path.is_symlink():
            raise SnapshotError(str(path), "is a link to a missing file: expected a regular file") from error
        kind = _kind_of(path)  # a socket cannot be opened, nor a directory for writing
        if kind is None:
            raise
        raise SnapshotError(str(path), f"is {kind}: expected a regular file") from error
    kind = _KINDS.get(stat.S_IFMT(os.fstat(handle).st_mode))
    if kind is not None:
        os.close(handle)
        raise SnapshotError(str(path), f"is {kind}: expected a regular file")
    return handle


def read_regular(path: Path) -> bytes:
    """Return the bytes of the regular file at `path`. Raises SnapshotError, or FileNotFoundError if it is missing."""
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror or error}") from error


def _kind_of(path: Path) -> str | None:
    """Return what the entry `path` is if that is no regular file."""
    try:
        return _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except OSError:
        return None


def write_whole(handle: int, raw: bytes | memoryview) -> None:
    """Write all of `raw`, in as many calls as necessary."""
    view = memoryview(raw)
    while view:
        view = view[os.write(handle, view) :]


def write_file(path: Path, raw: bytes, *, mode: int = 0o666) -> None:
    """Put `raw` in place of the file `path`, atomically and synced. O(bytes). Raises OSError.

    `mode`: of the file, less what the process's umask takes.
    """
    draft = draft_of(path)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        write_whole(handle, raw)
        os.fsync(handle)
    finally:
        os.close(handle)
    put_in_place(draft, path)


def append_whole(handle: int, line: bytes, size: int) -> None:
    """Append `line` to a file of `size` bytes and wait for the disk, or leave the file unchanged."""
    try:
        write_whole(handle, line)
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


@contextmanager
def as_snapshot_errors(path: Path, what: str) -> Iterator[None]:
    """Convert an OSError of this block to a SnapshotError that names `path` and the failed action `what`."""
    try:
        yield
    except OSError as error:
        raise SnapshotError(str(path), f"{what}: {error.strerror or error}") from error


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be read: {error.strerror or error}") from error


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
