"""A scheduler's state as of the last call in a directory: its images, and the calls logged after them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamsched.errors import SnapshotError
from streamsched.persistence.call_codec import Rereader, StreamNeeded
from streamsched.persistence.files import list_segments, remove_drafts, remove_file
from streamsched.persistence.image_reader import load_images
from streamsched.persistence.image_writer import Closed, drop_images, save_image
from streamsched.persistence.lock import lock_state
from streamsched.persistence.verification import check_directory
from streamsched.persistence.write_ahead_log.log_reader import LogEnd, LoggedCalls
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.logged_calls import replay

if TYPE_CHECKING:
    from streamsched.persistence.image_reader import LoadedImages

__all__ = ["AppliedLog", "RecoveredState", "apply_log", "continue_without_lost_calls", "recover_state"]

_log: Final = logging.getLogger("streamsched.persistence")


@dataclass(frozen=True, slots=True)
class AppliedLog:
    """The log up to call `number`, the last one applied, was applied; ``end``: where it continues.

    ``is_damaged``: whether something of it that an image holds cannot be read.
    """

    number: int
    end: LogEnd
    is_damaged: bool


@dataclass(frozen=True, slots=True)
class RecoveredState:
    """The state in ``core``; ``needed``: why it is the state before some call, None if it is that after the last.

    ``unfinished_bytes``: of a call at the end of the log that was never acknowledged.
    """

    core: SchedulerCore
    needed: StreamNeeded | None
    unfinished_bytes: int


def recover_state(directory: Path, threads: int | None = None, *, report: bool = True) -> RecoveredState:
    """Return the newest state in `directory`, without a change to it; another process may own it.

    `report`: whether the logger says what is damaged without a loss. O(pages), O(calls since the newest image). Raises
    SnapshotError if there is no state, no image is whole, or calls are lost.
    """
    while True:
        loaded = load_images(directory)
        core = SchedulerCore.from_state(loaded.pages, loaded.state, threads)
        calls = LoggedCalls(directory, loaded.sequence, loaded.log)
        stream, needed = iter(calls), None
        try:
            try:
                for _ in replay(core, stream, str(directory)):
                    pass
            except StreamNeeded as error:
                needed = error
                for _ in stream:  # the rest of the log is only checked
                    pass
        except SnapshotError:
            if all(path.exists() for path in loaded.files):
                raise
            continue  # the process that owns the directory has removed files that it no longer needs
        if report:
            _report(calls)
        return RecoveredState(core, needed, 0 if calls.torn is None else calls.torn.nbytes)


def apply_log(core: SchedulerCore, directory: Path, loaded: LoadedImages, reread: Rereader | None) -> AppliedLog:
    """Apply the calls logged since the image `loaded` to `core`, which has its state. O(calls).

    Raises SnapshotError if calls are lost, StreamNeeded if `reread` is needed and missing.
    """
    calls = LoggedCalls(directory, loaded.sequence, loaded.log)
    number = loaded.sequence
    for number in replay(core, calls, str(directory), reread):  # noqa: B007
        pass
    _report(calls)
    return AppliedLog(number, calls.end, bool(calls.faults))


def continue_without_lost_calls(directory: Path, *, reread: Rereader | None = None) -> list[SnapshotError]:
    """Give up the calls of a damaged log that cannot be read, and damaged files that nothing needs; return the errors.

    The state as of the last call before the damage is saved as an image. Older images and the log are removed: later
    calls in the log, even whole ones, are lost. Nothing is changed if no file is damaged. O(pages). Raises StateInUse
    if another process owns the directory, SnapshotError if no image is whole, StreamNeeded as `apply_log`.
    """
    with lock_state(directory):
        faults = check_directory(directory)
        if not faults:
            return []
        remove_drafts(directory)
        loaded = load_images(directory)
        core = SchedulerCore.from_state(loaded.pages, loaded.state, None)
        try:
            apply_log(core, directory, loaded, reread)
        except StreamNeeded:
            raise
        except SnapshotError as error:
            faults = [error, *(fault for fault in faults if fault.path != error.path)]
        save_image(directory, core, None, Closed(), marking=False)
        drop_images(directory, 1)
        for _, path in list_segments(directory):
            remove_file(path)
        return faults


def _report(calls: LoggedCalls) -> None:
    """Report what of the log is damaged without a loss, and what is cut off."""
    for fault in calls.faults:
        _log.warning("%s; the image holds what is needed of it", fault)
    if calls.torn is not None:
        _log.warning("%s; they are ignored", calls.torn)
