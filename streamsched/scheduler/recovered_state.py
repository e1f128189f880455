"""A scheduler's state as of the last call in a directory: its images, and the calls logged after them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from streamsched.errors import SnapshotError
from streamsched.numerics.arrays import Records
from streamsched.persistence.call_codec import Rereader, StreamNeeded, decode_call
from streamsched.persistence.call_log import CallLog
from streamsched.persistence.change_feed import remove_feed
from streamsched.persistence.files import list_segments, remove_drafts, remove_file
from streamsched.persistence.group_commit import GroupCommitLog
from streamsched.persistence.image_reader import LoadedImages, load_images
from streamsched.persistence.image_writer import Closed, SavedImage, drop_images, oldest_call, save_image
from streamsched.persistence.log_reader import LogEnd, LoggedCalls, RereadStream
from streamsched.persistence.state_directory import check_directory, lock_state
from streamsched.persistence.taken_records import StreamOffsets, TakenTurns
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.logged_calls import LOGGED_CALLS, LogMismatch, Replayed, take_records
from streamsched.state.future_times import TimeBounds, find_future_leases, mend_times

TAKE_AGAIN: Final = "take again"
"""The kind of an entry that cancels what was taken from streams since the last call: a restart reads it again."""
TAKEN: Final = "taken"
"""The kind of an entry that keeps what was taken from streams since the last call: a restart takes it in these turns,
so that its changes can be read before an image has them."""
_log: Final = logging.getLogger("streamsched.persistence")


class KeptLog(Protocol):
    """The log that follows the images of a state."""

    def apply(self, core: SchedulerCore, loaded: LoadedImages | None, reread: Rereader | None) -> int:
        """Apply the calls logged since the image `loaded`, None for a new state, to `core`; return the last's number.

        O(calls). Raises SnapshotError if calls are lost, StreamNeeded if `reread` is needed and missing.
        """
        ...

    @property
    def is_damaged(self) -> bool:
        """Whether something of it that an image holds cannot be read."""
        ...

    @property
    def feed_identity(self) -> str | None:
        """The identity of a change feed that begins beside it; None for a random one."""
        ...

    def begin(self) -> GroupCommitLog:
        """Return the log, for calls after those that were applied."""
        ...

    def release(self, directory: Path, saved: SavedImage, sequence: int, *, is_whole: bool, kept: int) -> None:
        """Let go of what is not needed beside the image `saved` in `directory`, which has the calls up to `sequence`.

        `kept`: how many whole images stay. Raises SnapshotError.
        """
        ...


class DirectoryLog:
    """The log in the directory of the images. See `KeptLog`."""

    feed_identity = None

    def __init__(self, directory: Path) -> None:
        self.is_damaged = False
        self._directory = directory
        self._end = LogEnd.of_new_log()
        self._log: CallLog | None = None

    def apply(self, core: SchedulerCore, loaded: LoadedImages | None, reread: Rereader | None) -> int:  # noqa: D102
        if loaded is None:
            return 0
        calls = LoggedCalls(self._directory, loaded.sequence, loaded.log)
        number = loaded.sequence
        for number in replay(core, calls, str(self._directory), reread):  # noqa: B007
            pass
        _report(calls)
        self.is_damaged, self._end = bool(calls.faults), calls.end
        return number

    def begin(self) -> GroupCommitLog:  # noqa: D102
        self._log = CallLog(self._directory, self._end)
        return self._log

    def release(  # noqa: D102
        self,
        directory: Path,
        saved: SavedImage,  # noqa: ARG002
        sequence: int,  # noqa: ARG002
        *,
        is_whole: bool,
        kept: int,
    ) -> None:
        if is_whole and self._log is not None:  # older images first, then the log that none of those left needs
            drop_images(directory, kept)
            self._log.drop_until(oldest_call(directory))


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


def continue_without_lost_calls(directory: Path, *, reread: Rereader | None = None) -> list[SnapshotError]:
    """Give up the calls of a damaged log that cannot be read, and damaged files that nothing needs; return the errors.

    The state as of the last call before the damage is saved as an image. Older images and the log are removed: later
    calls in the log, even whole ones, are lost. Nothing is changed if no file is damaged. O(pages). Raises StateInUse
    if another process owns the directory, SnapshotError if no image is whole, StreamNeeded as `KeptLog.apply`.
    """
    with lock_state(directory):
        faults = check_directory(directory)
        if not faults:
            return []
        remove_drafts(directory)
        loaded = load_images(directory)
        core = SchedulerCore.from_state(loaded.pages, loaded.state, None)
        try:
            DirectoryLog(directory).apply(core, loaded, reread)
        except StreamNeeded:
            raise
        except SnapshotError as error:
            faults = [error, *(fault for fault in faults if fault.path != error.path)]
        save_image(directory, core, None, Closed(), marking=False)
        drop_images(directory, 1)
        for _, path in list_segments(directory):
            remove_file(path)
        remove_feed(directory)  # its later changes would get the numbers of those that are lost
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

    Leases that began later end. Rests of hosts may end later by the longest back-off. The whole state must be saved
    afterwards.
    """
    with core.lock:
        shard = core.pages.arrays
        bounds = TimeBounds.up_to(latest_s, shard, float(core.politeness_policy.politeness.backoff_most))
        leased = find_future_leases(shard, latest_s)
        core.politeness_policy.leases.release(shard, leased)
        changed = {"leases": leased.size} | mend_times(shard, bounds)
        changed["keys"] = core.keys.forget_later(latest_s)
        changed["panel"] = core.panel.turn_back(latest_s, bounds.present_s)
        changed["stream_time"] = core.clock.turn_back(latest_s, bounds.present_s)
        core.formula_switch.forget()
    return changed


def replay(
    core: SchedulerCore, calls: Iterable[tuple[int, bytes]], path: str, reread: Rereader | None = None
) -> Iterator[int]:
    """Apply the logged `calls` in order; yield the number of each once it is applied. `path` names the log in errors.

    Raises StreamNeeded before a call that depends on records of a stream if `reread` is None, and SnapshotError if
    the calls do not fit the state or a stream has too few records.
    """
    streams = _StreamReplay(core, reread)
    pending: list[tuple[int, TakenTurns]] = []  # read again only if a call follows them
    for number, payload in calls:
        fields, arrays = decode_call(payload)
        kind = fields.pop("call")
        if kind == TakenTurns.kind:
            pending.append((number, TakenTurns.decode(fields, arrays)))
            continue
        if kind == TAKE_AGAIN:
            pending = []
            yield number
            continue
        for earlier, taken in pending:
            if reread is None:
                raise StreamNeeded(path, taken.streams[0].path, number)
            streams.take(taken, path)
            yield earlier
        pending = []
        if kind == TAKEN:
            yield number
            continue
        if kind not in LOGGED_CALLS:
            raise SnapshotError(path, f"call {number} has a kind that this release does not know: {kind!r}")
        try:
            LOGGED_CALLS[kind].replay(core, fields, arrays)
        except LogMismatch as error:
            raise SnapshotError(path, f"call {number} {error}") from None
        yield number


class _StreamReplay:
    """Reads records of streams again, in the same portions and turns as before."""

    def __init__(self, core: SchedulerCore, reread: Rereader | None) -> None:
        self._core = core
        self._reread = reread
        self._streams: dict[str, RereadStream] = {}

    def take(self, taken: TakenTurns, log: str) -> None:
        """Apply the records `taken` again. Raises SnapshotError, naming `log`, if a stream ends before."""
        streams = [self._open(one, log) for one in taken.streams]
        for number, count in zip(taken.turns, taken.counts, strict=True):
            offsets = taken.streams[number]
            for batch in streams[number].read(count, log):
                take_records(Replayed(self._core), batch, offsets.latest_s)
        for stream, offsets in zip(streams, taken.streams, strict=True):
            stream.position, stream.beyond = offsets.position, offsets.beyond
            self._core.reached.reach(offsets)

    def _open(self, offsets: StreamOffsets, log: str) -> RereadStream:
        """Return the stream where `offsets` begin."""
        stream = self._streams.get(offsets.path)
        if stream is None or (stream.position, stream.beyond) != (offsets.start, offsets.skipped):
            assert self._reread is not None
            stream = RereadStream(offsets.path, self._reread(offsets.path, offsets.start))
            self._streams[offsets.path] = stream
            for _ in stream.read(offsets.skipped, log):
                pass
        return stream
