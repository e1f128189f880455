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
from streamsched.persistence.image_writer import Closed, SavedImage, drop_images, save_image
from streamsched.persistence.lock import lock_state
from streamsched.persistence.verification import check_directory
from streamsched.persistence.write_ahead_log.log_reader import LogEnd, LoggedCalls
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.logged_calls import replay
from streamsched.state.future_times import TimeBounds, find_future_leases, mend_times

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Records
    from streamsched.persistence.image_reader import LoadedImages

__all__ = [
    "AppliedLog",
    "RecoveredState",
    "apply_log",
    "begin_marks",
    "continue_without_lost_calls",
    "describe_image",
    "mend_state",
    "recover_state",
]

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


def begin_marks(core: SchedulerCore) -> Records:
    """Mark records that are written to from now on, as if a save had just ended; return the CORPUS record of now."""
    marks, corpus = core.pages.marks, core.pages.arrays.corpus
    marks.begin(int(corpus["pages"][0]), int(corpus["groups"][0]))
    marks.end()
    copied: Records = corpus.copy()
    return copied


def describe_image(loaded: LoadedImages, corpus: Records) -> SavedImage:
    """Return the newest image that was loaded."""
    path = loaded.files[-1]
    return SavedImage(loaded.name, path, path.stat().st_size, corpus, loaded.mark, dict(loaded.state["positions"]))


def mend_state(core: SchedulerCore, latest_s: float) -> dict[str, int]:
    """Replace all times later than `latest_s` by the newest time before; return how many of each kind. O(pages).

    Leases and rests of hosts may end later by the longest back-off. The whole state must be saved afterwards.
    """
    with core.lock:
        shard = core.pages.arrays
        bounds = TimeBounds.up_to(latest_s, shard, float(core.politeness_policy.politeness.backoff_most))
        leased = find_future_leases(shard, bounds.wait_s)
        core.politeness_policy.leases.release(shard, leased)
        changed = {"leases": leased.size} | mend_times(shard, bounds)
        changed["keys"] = core.keys.forget_later(latest_s)
        changed["panel"] = core.panel.turn_back(latest_s, bounds.present_s)
        changed["stream_time"] = core.clock.turn_back(latest_s, bounds.present_s)
        core.formula_switch.forget()
    return changed
