"""A state directory: its only writer, what it holds, and a check of every file.

One process at a time changes the state. Readers need no lock: state files appear whole or not at all. The check covers
older images and what they hold of the log; what a crash leaves is no error.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from streamsched.errors import SnapshotError, StateInUse
from streamsched.persistence.change_feed import check_feed
from streamsched.persistence.files import ImageName, list_images, list_segments, open_regular
from streamsched.persistence.image_format import Image, read_image
from streamsched.persistence.image_reader import check_image, check_place, log_of
from streamsched.persistence.log_reader import LoggedCalls, has_calls
from streamsched.persistence.log_segments import read_segment

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


def has_state(directory: Path) -> bool:
    """Return whether `directory` holds saved state, damaged or not. Raises SnapshotError if only its log remains."""
    if list_images(directory):
        return True
    if has_calls(directory):
        raise SnapshotError(str(directory), "holds a log of calls and no image: expected snapshot-00000001.state")
    return False


def newest_image(directory: Path) -> Path:
    """Return the path of the newest image in `directory`. Raises SnapshotError if there is none."""
    names = list_images(directory)
    if not names:
        raise SnapshotError(str(directory), "holds no saved state: expected a file named snapshot-00000001.state")
    return names[-1].in_directory(directory)


def check_directory(directory: Path) -> list[SnapshotError]:
    """Return the errors of the files in `directory`, newest image first, each with its file. O(bytes).

    Nothing is changed, and another process may own the directory. What a crash leaves is no error. Raises SnapshotError
    if there is no saved state.
    """
    newest_image(directory)
    while True:
        names = list_images(directory)
        faults = [*_check_images(directory, names), *_check_log(directory, names), *_check_feed(directory, names)]
        if not faults or names == list_images(directory):
            return faults  # else files were removed meanwhile, by the process that owns the directory


def _check_images(directory: Path, names: list[ImageName]) -> list[SnapshotError]:
    faults: list[SnapshotError] = []
    whole: dict[ImageName, Image] = {}
    for name in sorted(names):
        before = ImageName(name.number, name.step - 1)
        if name.step and before not in names:
            path = name.in_directory(directory)
            faults.append(SnapshotError(str(path), f"cannot be used: {before.in_directory(directory).name} is missing"))
        try:
            whole[name] = check_image(name.in_directory(directory))
            if not name.step or before in whole:  # else the error of that one says it
                check_place(whole[name], whole.get(before))
        except FileNotFoundError:
            continue
        except SnapshotError as error:
            faults.append(error)
    return faults[::-1]


def _check_log(directory: Path, names: list[ImageName]) -> list[SnapshotError]:
    """Return the damages of all segments, and the first call that an image cannot be continued with."""
    faults = [fault for first, path in list_segments(directory) for fault in _check_segment(path, first)]
    known = {fault.path for fault in faults}
    for contents in _each_log(directory, names):
        calls = LoggedCalls(directory, contents["sequence"], log_of(contents))
        try:
            for _ in calls:
                pass
            found = calls.faults
        except SnapshotError as error:
            found = [error]
        faults += [fault for fault in found if fault.path not in known]
        known |= {fault.path for fault in found}
    return faults


def _check_segment(path: Path, first: int) -> list[SnapshotError]:
    """Return the damages of the segment at `path`, none if the process that owns the directory has removed it."""
    try:
        segment = read_segment(path, first)
    except FileNotFoundError:
        return []
    except SnapshotError as error:
        return [error]
    faults = [damage.error() for damage in segment.damages]
    if segment.torn is not None and not segment.torn.is_prefix:
        faults.append(SnapshotError(str(path), str(segment.torn).removeprefix(f"{path}: ")))
    return faults


def _check_feed(directory: Path, names: list[ImageName]) -> list[SnapshotError]:
    newest = next(iter(_each_log(directory, names)), None)
    return [] if newest is None else check_feed(directory, newest["state"].get("changes", 0))


def _each_log(directory: Path, names: list[ImageName]) -> list[dict[str, Any]]:
    """Return the contents of the newest image and of the oldest with the same log, which needs the most of that log."""
    found: list[dict[str, Any]] = []
    for name in sorted(names):
        try:
            found.append(read_image(name.in_directory(directory)).contents)
        except (FileNotFoundError, SnapshotError):
            continue
    if not found:
        return []
    newest = found[-1]
    same = [
        contents for contents in found if contents["log"] and newest["log"] and contents["log"][0] == newest["log"][0]
    ]
    return [newest, *same[:1]]
