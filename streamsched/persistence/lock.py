"""One writer at a time on a state directory. Readers need no lock: state files appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from streamsched.errors import SnapshotError, StateInUse
from streamsched.persistence.files import open_regular

__all__ = ["lock_state"]

_NAME: Final = ".lock"  # never removed: else two processes could lock two files of that name
_held: Final[set[int]] = set()  # handles of this process


@contextmanager
def lock_state(directory: Path, *, make: bool = False) -> Iterator[None]:
    """Be the only process that changes the state in `directory` within this block; `make` the directory if missing.

    The system releases the lock when the process ends, however it ends; processes forked from it do not hold it. Raises
    StateInUse if another process holds it, SnapshotError if the directory is missing or cannot be written.
    """
    handle = _open_lock(directory, make=make)
    owner = os.getpid()
    _held.add(handle)
    try:
        _lock(handle, directory)
        yield
    finally:
        if os.getpid() == owner:  # in a forked process the handle is closed, and its number may be another file's
            _held.discard(handle)
            os.close(handle)


def _open_lock(directory: Path, *, make: bool) -> int:
    try:
        if directory.exists() and not directory.is_dir():
            raise SnapshotError(str(directory), "is a file: expected a directory")
        if make:
            directory.mkdir(parents=True, exist_ok=True)
        return open_regular(directory / _NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except FileNotFoundError as error:
        if make:
            raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
        raise SnapshotError(str(directory), "no such directory: `run` creates it, or `replay --save-state`") from error
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror or error}") from error


def _lock(handle: int, directory: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        reason = "another streamsched process is changing this state: try again when it is done"
        raise StateInUse(str(directory), reason) from error
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be locked: {error.strerror or error}") from error


def _forget_in_child() -> None:
    """Close the handles that a forked process has of its parent's locks: they would hold the locks on."""
    for handle in _held:
        with suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
