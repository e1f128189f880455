"""One writer at a time on a state directory. Readers need no lock: state files appear whole or not at all."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from streamsched.errors import SnapshotError, StateInUse

__all__ = ["lock_state"]

_NAME: Final = ".lock"  # never removed: else two processes could lock two files of that name


@contextmanager
def lock_state(directory: Path, *, make: bool = False) -> Iterator[None]:
    """Be the only process that changes the state in `directory` within this block; `make` the directory if missing.

    The system releases the lock when the process ends, however it ends. Raises StateInUse if another process holds it,
    SnapshotError if the directory is missing or cannot be written.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise SnapshotError(str(directory), "is a file: expected a directory")
        if make:
            directory.mkdir(parents=True, exist_ok=True)
        file = (directory / _NAME).open("ab")
    except FileNotFoundError as error:
        if make:
            raise SnapshotError(str(directory), f"cannot be written: {error.strerror}") from error
        raise SnapshotError(str(directory), "no such directory: `run` creates it, or `replay --save-state`") from error
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror or error}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            reason = "another streamsched process is changing this state: try again when it is done"
            raise StateInUse(str(directory), reason) from error
        except OSError as error:
            raise SnapshotError(str(directory), f"cannot be locked: {error.strerror or error}") from error
        yield
