"""A scheduler that survives crashes: it owns a directory, logs every call, and saves its state in the background."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, overload

from streamsched.api.answers import Changes
from streamsched.api.views import Noticed, Observed
from streamsched.errors import SettingsError, SnapshotError
from streamsched.formula.champion import Champion
from streamsched.formula.formula import Formula
from streamsched.numerics.argument_checks import (
    TIME_LIMIT_S,
    check_flag,
    check_path,
    check_time,
    check_type,
    check_whole,
)
from streamsched.numerics.durations import parse_duration
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.call_codec import Rereader, encode_call
from streamsched.persistence.change_feed import CURSOR_EXPECTED, ChangeFeed, has_feed, remove_feed
from streamsched.persistence.files import as_snapshot_errors, remove_drafts
from streamsched.persistence.group_commit import JoinedCommits
from streamsched.persistence.image_reader import LoadedImages, load_images
from streamsched.persistence.image_writer import (
    ImageSeries,
    SavedImage,
    SavePlan,
    save_image,
    save_state,
)
from streamsched.persistence.log_segments import LogName
from streamsched.persistence.state_directory import has_state, lock_state
from streamsched.persistence.taken_records import TakenRecords
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.logged_calls import LOGGED_CALLS, Given, LoggedCall, take_records
from streamsched.scheduler.recovered_state import TAKE_AGAIN, DirectoryLog, KeptLog, begin_marks, describe_image
from streamsched.scheduler.results import show_changes
from streamsched.scheduler.scheduler import Scheduler
from streamsched.signals import SignalBatch
from streamsched.state.stream_clock import WallClock

_CLOSED: Final = "is closed"
_logger: Final = logging.getLogger("streamsched.persistence")


class DurableScheduler(Scheduler):
    """A scheduler that owns a state directory from `open` to `close`; use it as a context manager.

    A call that changes the state returns once it is on disk, and is never lost; concurrent calls share the wait for the
    disk. Outcomes and signals of a stream that can be read again go through `take`, with the stream's position, and are
    not logged. If a call cannot be written (a full disk), it and all later ones raise SnapshotError until a save
    succeeds; saves are tried again, and `trouble` holds the error. It belongs to the process that opened it: in a
    forked process, `close` does nothing and every other call raises SnapshotError.

    Created by `open`, not by its constructor.
    """

    def __init__(
        self, core: SchedulerCore, directory: Path, plan: SavePlan, kept: KeptLog, feed: ChangeFeed | None = None
    ) -> None:
        """Log calls in that of `kept`; `feed` has the changes that were found up to its end."""
        self._process = os.getpid()
        self.directory = directory
        self.core = core
        self.plan = plan
        self._not_saved: SnapshotError | None = None  # why the last save failed
        self._kept = kept
        self._log = kept.begin()
        self._commits = JoinedCommits(self._log)
        self.feed = feed
        if feed is not None:
            self._log.on_written = feed.reach
        self._clock: WallClock | None = None
        self._resources = ExitStack()
        self._taken = TakenRecords()
        self._images = ImageSeries(plan)
        self._saving = threading.Lock()
        self._wants_segment = threading.Event()
        self._stopping = threading.Event()
        self._closing = False
        self._changes = self._saved_changes = 0  # changes of the state; those of them that are saved
        work = {"saves": self._save_regularly, "segments": self._prepare_segments}
        self._threads = [threading.Thread(target=work[name], name=f"streamsched {name}", daemon=True) for name in work]
        core.on_champion = self._log_champion

    @classmethod
    def open(  # noqa: PLR0913  all but the first by name
        cls,
        directory: str | Path,
        settings: Mapping[str, Any] | None = None,
        *,
        reread: Rereader | None = None,
        plan: SavePlan | None = None,
        threads: int | None = None,
        clock: WallClock | None = None,
        keep_changes: str | float | None = None,
        log: KeptLog | None = None,
    ) -> Self:
        """Return the scheduler whose state is in `directory`, as after its last call; a new one if there is none.

        - `settings`: keyword arguments of `Scheduler`, for a new one;
        - `reread`: reads records of a stream again, if calls depend on them;
        - `threads`: as for `Scheduler`;
        - `clock`: rejects outcomes and times of calls that are ahead of it, in place of the stream's own times;
        - `keep_changes`: for how long at least the changes that are found are kept, for `changes`; 0 for no feed of
          them, None to continue the one that is there and to remove nothing of it;
        - `log`: the log that follows the images, None for that in the directory.

        O(pages), and O(calls since the last save). Raises StateInUse if another process owns the directory,
        SnapshotError if it cannot be written or has no whole image, StreamNeeded if `reread` is needed and missing.
        """
        directory = check_path("directory", directory)
        keep_s = None if keep_changes is None else parse_duration(keep_changes, "keep_changes", zero=True)
        if reread is not None and not callable(reread):
            raise SettingsError("reread", reread, "a function that reads a stream again, or None")
        with ExitStack() as stack:
            stack.enter_context(lock_state(directory, make=True))
            remove_drafts(directory)
            log = DirectoryLog(directory) if log is None else log
            loaded = load_images(directory) if has_state(directory) else None
            last: SavedImage | None = None
            if loaded is None:
                given: dict[str, Any] = {"threads": threads} | dict(settings or {})
                core = Scheduler(**given).core
            else:
                core = SchedulerCore.from_state(loaded.pages, loaded.state, threads)
                last = describe_image(loaded, begin_marks(core))
            feed = open_feed(core, directory, keep_s, log.feed_identity)
            number = log.apply(core, loaded, reread)
            core.reached.beyond.clear()  # streams deliver again what follows their positions
            plan = SavePlan() if plan is None else plan
            scheduler = cls(core, directory, plan, log, feed)
            scheduler._clock = clock
            if number < scheduler._log.sequence:
                scheduler._log.append(encode_call({"call": TAKE_AGAIN}))
            if feed is not None:
                stack.callback(feed.close)
                feed.secure()  # the image and the log have them all
            scheduler._begin_to_save(loaded, last, is_damaged=log.is_damaged)
            scheduler._resources.push(stack.pop_all())
        return scheduler

    @property
    def core(self) -> SchedulerCore:  # an attribute in Scheduler
        """The internals. Raises SnapshotError in a process forked from the one that opened the scheduler."""
        if os.getpid() != self._process:
            raise SnapshotError(
                str(self.directory), f"belongs to process {self._process}, from which this one was forked: open it here"
            )
        return self._core

    @core.setter
    def core(self, core: SchedulerCore) -> None:
        self._core = core

    def _begin_to_save(self, loaded: LoadedImages | None, last: SavedImage | None, *, is_damaged: bool) -> None:
        """Save a new or damaged state, or set what the next increment follows; then save in the background."""
        if loaded is None or last is None or loaded.faults or is_damaged:
            self.snapshot(full=True)
        else:
            self._images.continue_after(last, [path.stat().st_size for path in loaded.files], len(self))
            self._saved_changes = -int(self._log.sequence > loaded.sequence)
            if loaded.log is None:  # calls are acknowledged only once an image names their log
                self.snapshot()
        for thread in self._threads:
            thread.start()

    def latest_time(self) -> tuple[float, bool]:
        """Return the latest time that is believed of a record now, inf if any is, and whether it can only grow."""
        with self.core.lock:
            return self.core.clock.latest_valid(self._latest_s())

    @overload
    def take(self, records: OutcomeBatch, path: str, position: Any) -> Observed: ...
    @overload
    def take(self, records: SignalBatch, path: str, position: Any) -> Noticed: ...
    def take(self, records: OutcomeBatch | SignalBatch, path: str, position: Any) -> Observed | Noticed:
        """Apply records of the stream `path` and set its position, JSON, to `position`. O(1) a record.

        `position` None leaves the position as it is, for parts of a delivery before the last. The records are on disk
        after the next save; until then the stream must be able to deliver them again.
        """
        core = self.core  # raises after a fork, whatever was given
        check_type("path", path, str, "the name of a stream")
        _check_position(position)
        with core.lock:
            if self.feed is not None:
                self.feed.check()
            latest_s = self._latest_s()
            result = take_records(self, records, latest_s)
            if latest_s is not None and not result.rejected:
                latest_s = TIME_LIMIT_S  # the same for all that are accepted whole, so that one entry holds many
            self._taken.add(core.reached.advance(path, len(records), position, latest_s))
            self._changes += 1
        return result

    def use(self, formula: str | Formula | Champion, *, wait: bool = True) -> None:  # noqa: ARG002, D102  it always waits
        core = self.core
        self._log.check()
        core.use(formula, wait=True)  # it is on disk when this returns
        self._commits.commit(self._log.sequence)

    def changes(self, after: str = "oldest", limit: int = 1_000) -> Changes:
        """Return at most `limit` changes after the position `after`: a cursor, ``oldest`` or ``newest``. O(changes).

        Those of the calls and streams that are on disk, in order, each once; fewer than `limit` if they are large.
        Raises ChangesGone if they are not kept, SettingsError if the scheduler has no feed or `after` is no position.
        """
        limit = check_whole("limit", limit, 1, "1 or more changes")
        check_type("after", after, str, CURSOR_EXPECTED)
        if self.feed is None:
            raise SettingsError("keep_changes", 0, "a time for which changes are kept")
        return show_changes(*self.feed.read(self.feed.find(after), limit))

    def together(self) -> AbstractContextManager[None]:
        """Return a context manager that joins this thread's calls in its block into one write to disk, at its end.

        Until then nothing may be acknowledged: a crash, or a SnapshotError at the end, can lose any of the calls, the
        last ones first. That also holds if the block raises. Blocks may be nested; the outermost one writes.
        """
        self._check_open()
        return self._commits.together()

    def _perform(self, call: LoggedCall, given: Given) -> Any:
        with self.core.lock:
            self._log.check()
            if self.feed is not None:
                self.feed.check()
            result = super()._perform(call, given)
            entry = call.encode(self.core, result, given)
            number = self._log.sequence if entry is None else self._append(entry)  # None: what it repeats is on disk
        self._commits.commit(number)
        return result

    def _latest_s(self) -> float | None:
        return None if self._clock is None else self._clock.latest_s()

    def _check_now(self, now: float) -> float:
        now = check_time(now)
        return now if self._clock is None else self._clock.check_now(now, self.core.clock.newest_s)

    def _log_champion(self, champion: Champion) -> None:
        """Log, under the lock, that `champion` has taken over."""
        entry = LOGGED_CALLS["use"].encode(self.core, None, {"champion": champion})
        if entry is not None and not self._closing:
            self._append(entry)

    def _append(self, entry: bytes) -> int:
        """Append an entry to the log, after those of what was taken from streams; return its number. Under the lock."""
        self._changes += 1
        self._log_taken()
        if self._log.wants_spare:
            self._wants_segment.set()
        if self.feed is not None:  # before another thread can write it
            self.feed.promise(self._log.sequence + 1)
        return self._log.append(entry)

    def _log_taken(self) -> None:
        for entry in self._taken.encode():
            self._log.append(entry)
        self._taken.clear()

    @property
    def saved(self) -> SavedImage:
        """The newest image on disk: its ``path``, and the ``positions`` of streams saved with it."""
        assert self._images.newest is not None
        return self._images.newest

    @property
    def offers_changes(self) -> bool:
        """Whether readers can ask for `changes`."""
        return self.feed is not None

    @property
    def trouble(self) -> SnapshotError | None:
        """Why calls are refused, or the last save has failed; None again after a save."""
        return self._log.failure or (self.feed and self.feed.failure) or self._not_saved

    @property
    def is_saved(self) -> bool:
        """Whether nothing changed since the newest image, and calls can be written."""
        return self._changes == self._saved_changes and self.trouble is None

    def snapshot(self, *, full: bool = False) -> Path:
        """Save the changes since the last save, or the whole state if that is due or `full`; return the file written.

        When this returns, everything done before the call is on disk, positions of streams included. Other threads go
        on meanwhile. Raises SnapshotError if it cannot be written; nothing is lost by that.
        """
        self._check_open()
        with self._saving:
            # 1. Choose between a whole image and an increment.
            before = None if full else self._images.next_before(len(self))
            # 2. Complete the log up to the instant of the save, and write the image.
            instant = _SaveInstant(self)
            try:
                saved = save_image(self.directory, self.core, before, instant, marking=True)
                self._finish_save(saved, before, instant)
            except SnapshotError as error:
                self._not_saved = error
                raise
            # 3. Accept calls again if the log had failed: by now it has what was refused, as the image has.
            with self.core.lock:
                if self._log.failure is not None and instant.failed:
                    self._log.restart()
                self._not_saved = None
            return saved.path

    def _reach_instant(self) -> tuple[int, int]:
        """Make the log complete up to the instant of a save; return the counts of entries and changes."""
        self._log_taken()
        if self.feed is not None:
            self.feed.cut()
        return self._log.sequence, self._changes

    def _keep_changes(self, number: int) -> None:  # noqa: ARG002  shards need it
        """Keep the first `number` changes before an image that has them is put in place. Raises what keeps it from it.

        The log has the calls that found them.
        """
        if self.feed is not None:
            self.feed.sync()

    def _finish_save(self, saved: SavedImage, before: SavedImage | None, instant: _SaveInstant) -> None:
        """Note that an image is on disk, and remove the files that are no longer needed."""
        # 1. Note what the image has, so that the next one continues from it.
        self._images.add(saved, is_whole=before is None)
        # 2. Let the changes that it has be read, and remove old ones.
        if self.feed is not None:
            self.feed.secure(instant.found)
            with as_snapshot_errors(self.directory, "cannot be written"):
                self.feed.drop_old(instant.found, saved.path.stat().st_mtime)
        # 3. Remove what is no longer needed.
        is_whole = before is None
        self._kept.release(self.directory, saved, instant.number, is_whole=is_whole, kept=self.plan.kept)
        self._saved_changes = instant.changes

    def _save_regularly(self) -> None:
        every = float(self.plan.every)
        due = time.monotonic() + every
        while not self._stopping.wait(min(max(0.0, due - time.monotonic()), threading.TIMEOUT_MAX)):
            due = time.monotonic() + every
            with suppress(OSError, SnapshotError):  # `trouble` has it; the next attempt may succeed
                if not self.is_saved:
                    self.snapshot()

    def _prepare_segments(self) -> None:
        """Prepare the log's segments, also while a save takes its seconds."""
        while not self._stopping.is_set():
            self._wants_segment.wait()
            self._wants_segment.clear()
            with suppress(OSError):  # a call then allocates the segment, or fails and says why
                self._log.prepare()

    def _check_open(self) -> None:
        self.core  # noqa: B018  raises after a fork
        if self._closing:
            raise SnapshotError(str(self.directory), _CLOSED)

    def close(self, *, save: bool = True) -> None:
        """Save the changes, unless `save` is False, and release the directory; a second call does nothing.

        It also does nothing in a process forked from the one that opened it.
        """
        check_flag("save", save)
        if self._closing or os.getpid() != self._process:
            return
        self._stopping.set()
        self._wants_segment.set()
        for thread in self._threads:
            thread.join()
        try:
            if save and self._changes != self._saved_changes:
                self.snapshot()
        finally:
            self._closing = True
            self._log.close()
            self.core.pages.marks.stop()
            self._resources.close()

    def save(self, path: str | Path) -> Path:
        """Save the whole state to the directory `path`, its own or another; return the file written. O(pages)."""
        core = self.core
        path = check_path("path", path)
        if path.resolve() == self.directory.resolve():
            return self.snapshot(full=True)
        return save_state(path, core)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it. An exit at once, as after a second Ctrl-C, does not wait for a save; nothing is lost by that."""
        self.close(save=error is None or isinstance(error, Exception))


class _SaveInstant:
    """The log of a scheduler as one save sees it: its length and counts at the instant that the image holds."""

    def __init__(self, scheduler: DurableScheduler) -> None:
        self.changes = self.number = 0
        self.found = 0  # changes of pages
        self.failed = False
        self._scheduler = scheduler

    def at_instant(self) -> int:
        scheduler = self._scheduler
        self.failed = scheduler._log.failure is not None  # noqa: SLF001  part of it
        self.number, self.changes = scheduler._reach_instant()  # noqa: SLF001
        self.found = scheduler.core.changes
        return self.number

    def before_placing(self) -> LogName:
        log = self._scheduler._log  # noqa: SLF001
        if self.failed:
            log.renew()
        else:
            log.commit(self.number)
        self._scheduler._keep_changes(self.found)  # noqa: SLF001
        return log.name


def open_feed(
    core: SchedulerCore, directory: Path, keep_s: float | None, identity: str | None = None
) -> ChangeFeed | None:
    """Return the change feed in `directory`, up to the state of `core`, to which it is attached; None for none.

    `keep_s`: as `keep_changes` of `DurableScheduler.open`; `identity`: of a feed that begins here, None for a random
    one.
    """
    if keep_s == 0.0 and has_feed(directory):
        _logger.warning("%s: the change feed is removed, as changes.keep is 0; cursors of it are gone", directory)
        remove_feed(directory)
    if keep_s == 0.0 or (keep_s is None and not has_feed(directory)):
        return None
    feed = ChangeFeed(directory, core.changes, keep_s, identity=identity)
    core.on_changes = feed.add
    return feed


def _check_position(position: object) -> None:
    """Raise SettingsError if `position` cannot be saved."""
    try:
        json.dumps(position)
    except (TypeError, ValueError, RecursionError):
        raise SettingsError("position", position, "plain values for JSON") from None
