"""A scheduler whose state survives: it owns a directory, logs every call, and saves itself while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError, SnapshotError
from streamsched.formula import Formula
from streamsched.formula.champion import Champion
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.durations import parse_duration
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.persistence.call_codec import (
    Rereader,
    StreamOffsets,
    encode_call,
    pack_batch,
    pack_rules,
    pack_urls,
    replay,
    sum_hashes,
)
from streamsched.persistence.files import as_snapshot_errors, list_images, remove_drafts
from streamsched.persistence.image_format import read_image
from streamsched.persistence.image_reader import LoadedImages, load_images
from streamsched.persistence.image_writer import IMAGES_KEPT, SavedImage, drop_images, oldest_call, save_image
from streamsched.persistence.lock import lock_state
from streamsched.persistence.recovery import has_state, whole_calls
from streamsched.persistence.write_ahead_log import CallLog, cut_log, last_call
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.scheduler.results import Batch, Observed
from streamsched.scheduler.scheduler import Scheduler

__all__ = ["DurableScheduler", "SavePlan"]


@dataclass(frozen=True, slots=True)
class SavePlan:
    """When state is saved: an increment every `every` while something changes, and all of it once the increments are as
    large as `share` of all of it, or `increments` of them; `kept`: how many images with their increments are kept.
    """

    every: str | float = "30s"
    increments: int = 100
    share: float = 1.0
    kept: int = IMAGES_KEPT

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", parse_duration(self.every, "every"))
        check_whole("increments", self.increments, 0, "0 or more increments")
        check_whole("kept", self.kept, 1, "1 or more images")
        if isinstance(self.share, bool) or not isinstance(self.share, int | float) or not self.share > 0.0:
            raise SettingsError("share", self.share, "a number above 0")


_CLOSED: Final = "is closed"


class _Calls:
    """The log of `scheduler` as an image sees it: how far it was at the image's instant."""

    def __init__(self, scheduler: DurableScheduler, log: CallLog) -> None:
        self.log = log
        self.changes = self.missed = self._number = 0
        self.failed = False
        self._scheduler = scheduler

    def at_instant(self) -> int:
        self.failed = self.log.failure is not None
        self.changes, self.missed = self._scheduler.note_instant(failed=self.failed)
        self._number = self.log.sequence
        return self._number

    def before_placing(self) -> None:
        if not self.failed:
            self.log.commit(self._number)


class DurableScheduler(Scheduler):
    """A scheduler that owns the state directory it was opened with, until it is closed: use it as a context manager.

    What changes the state by a call returns once that is on disk, and never is lost; concurrent calls share the wait.
    Outcomes from a stream that can be read again go through `take`, with where the stream stands then: they are not
    logged. Where a call cannot be written (a full disk) it raises SnapshotError, and so do all others until a save has
    succeeded, which is tried again and again; `trouble` says what is wrong.

    Made by `open`, not by its constructor.
    """

    _log: CallLog | None = None  # while state is brought back, what is done is not logged
    _missed = 0  # changes that could not be logged, nor be refused

    @classmethod
    def open(
        cls,
        directory: str | Path,
        settings: Mapping[str, Any] | None = None,
        *,
        reread: Rereader | None = None,
        plan: SavePlan | None = None,
        threads: int | None = None,
    ) -> Self:
        """Return the scheduler whose state is in `directory`, as after its last call; a new one where there is none.

        `settings`: of a new one, as `Scheduler` takes them; `reread`: reads outcomes of a
        stream again, for calls that came after them; `threads`: as for `Scheduler`. O(pages), and O(calls since the
        last save). Raises StateInUse where another process owns the directory, SnapshotError where it cannot be
        written, or the state in it is damaged beyond what stands before it, StreamNeeded without a `reread` that is
        needed.
        """
        directory = Path(directory)
        with ExitStack() as stack:
            stack.enter_context(lock_state(directory, make=True))
            remove_drafts(directory)
            loaded = load_images(directory) if has_state(directory) else None
            if loaded is None:
                scheduler, number = cls(**(settings or {})), 0
            else:
                scheduler = cls.restored(loaded.pages, loaded.settings, threads)
                number = scheduler._go_through(directory, loaded, reread)  # noqa: SLF001  its own
            number = max(number, last_call(directory))
            scheduler._own(directory, SavePlan() if plan is None else plan, number, loaded)  # noqa: SLF001  its own
            scheduler._resources.push(stack.pop_all())  # noqa: SLF001
        return scheduler

    def _go_through(self, directory: Path, loaded: LoadedImages, reread: Rereader | None) -> int:
        """Apply the calls since the image, and let them be the last in the log; return the number of the last."""
        self._begin_marks()
        number = loaded.sequence
        calls = whole_calls(directory, loaded.sequence)
        for number in replay(self, calls, str(directory), reread):  # noqa: B007
            pass
        with as_snapshot_errors(directory, "cannot be written"):
            cut_log(directory, number)
        return number

    def _begin_marks(self) -> None:
        """Mark what is written to from now on, as though a save had just ended."""
        marks, corpus = self.pages.marks, self.pages.arrays.corpus[0]
        marks.begin(int(corpus["pages"]), int(corpus["groups"]))
        marks.end()
        self._loaded_corpus = self.pages.arrays.corpus.copy()

    def _own(self, directory: Path, plan: SavePlan, number: int, loaded: LoadedImages | None) -> None:
        """Log calls from number `number` on, and save."""
        self._resources = ExitStack()
        self.directory = directory
        self.plan = plan
        self._log = CallLog(directory, number)
        self._taken: list[StreamOffsets] = []  # from streams, since the log was last written to
        self._beyond: dict[str, int] = {}  # outcomes taken of streams that stand within what comes as one
        self._last: SavedImage | None = None  # what an increment would follow
        self._steps_bytes = self._base_bytes = self._base_pages = 0  # of increments, of the image before, its pages
        self._saving = threading.Lock()
        self._wake = threading.Event()
        self._stopping = self._closing = False
        self._changes = self._saved_changes = 0  # counted: what was done, and what of it is saved
        self.trouble: SnapshotError | None = None
        self._thread: threading.Thread | None = None
        self._settle(loaded)

    def _settle(self, loaded: LoadedImages | None) -> None:
        """Save a new state, or find what increments are to follow; then begin to save by itself."""
        if loaded is None or loaded.faults:
            self.snapshot(full=True)
        else:
            nbytes = [path.stat().st_size for path in loaded.files]
            path, positions = loaded.files[-1], loaded.settings["positions"]
            self._last = SavedImage(loaded.name, path, nbytes[-1], self._loaded_corpus, loaded.mark, positions)
            self._saved_changes = -int(self._log is not None and self._log.sequence > loaded.sequence)
            self._base_bytes, self._base_pages, self._steps_bytes = nbytes[0], len(self), sum(nbytes[1:])
        self._thread = threading.Thread(target=self._save_now_and_then, name="streamsched saves", daemon=True)
        self._thread.start()

    def take(self, outcomes: OutcomeBatch, path: str, position: Any) -> Observed:
        """Apply outcomes of the stream `path`, which stands at `position` then, as JSON can hold it. O(1) an outcome.

        None: where it stood before, for the first part of what comes as one. They are on disk with the next save: until
        then the stream must be able to give them again.
        """
        with self._lock:
            seen = super().observe(outcomes)
            if not self._taken or self._taken[-1].path != path:
                self._taken.append(StreamOffsets(path, self.positions.get(path), self._beyond.get(path, 0), 0, None))
            if position is None:
                self._beyond[path] = self._beyond.get(path, 0) + len(outcomes)
            else:
                self.positions[path] = position
                self._beyond.pop(path, None)
            last = self._taken[-1]
            self._taken[-1] = replace(last, outcomes=last.outcomes + len(outcomes), position=self.positions.get(path))
            self._changes += 1
        return seen

    def observe(self, outcomes: OutcomeBatch | Outcome | Iterable[Outcome]) -> Observed:
        """Apply crawl outcomes as `Scheduler.observe` does; on disk when this returns."""
        if self._log is None:
            return super().observe(outcomes)
        if isinstance(outcomes, Outcome):
            outcomes = [outcomes]
        batch = outcomes if isinstance(outcomes, OutcomeBatch) else OutcomeBatch.from_outcomes(outcomes)
        with self._lock:
            self._log.check()
            seen = super().observe(batch)
            number = self._note({"call": "observe"}, pack_batch(batch)) if seen.applied else 0
        self._log.commit(number)
        return seen

    def discover(self, urls: Sequence[str] | PackedUrls, *, now: float, importance: npt.ArrayLike | None = None) -> int:
        """Add pages as `Scheduler.discover` does; on disk when this returns."""
        if self._log is None:
            return super().discover(urls, now=now, importance=importance)
        packed = urls if isinstance(urls, PackedUrls) else PackedUrls.pack(urls)
        arrays = pack_urls(packed)
        if importance is not None:
            arrays["importance"] = np.broadcast_to(np.asarray(importance, np.float64), len(packed))
        with self._lock:
            self._log.check()
            added = super().discover(packed, now=now, importance=importance)
            number = self._note({"call": "discover", "now": float(now)}, arrays)
        self._log.commit(number)
        return added

    def next_batch(self, k: int = 1000, *, now: float, lease: str | float = "10m") -> Batch:
        """Return and lease the best pages as `Scheduler.next_batch` does; the leases are on disk when this returns."""
        if self._log is None:
            return super().next_batch(k, now=now, lease=lease)
        with self._lock:
            self._log.check()
            batch = super().next_batch(k, now=now, lease=lease)
            call = {
                "call": "hand out",
                "now": float(batch.now),
                "until_s": batch.lease_until_s,
                "panel": batch.panel,
                "sum": sum_hashes(self.pages, batch.rows),
                "panel_state": self._panel.state(),
                "shares_state": self._quotas.state(),
            }
            number = self._note(call, {"rows": batch.rows.astype(np.uint32)})
        self._log.commit(number)
        return batch

    def release(self, urls: Sequence[str]) -> int:
        """Take leases back as `Scheduler.release` does; on disk when this returns."""
        if self._log is None:
            return super().release(urls)
        with self._lock:
            self._log.check()
            known = super().release(urls)
            number = self._note({"call": "release"}, pack_urls(PackedUrls.pack(urls)))
        self._log.commit(number)
        return known

    def ask(self, urls: Sequence[str], *, now: float) -> int:
        """Let pages be visited as `Scheduler.ask` does; on disk when this returns."""
        if self._log is None:
            return super().ask(urls, now=now)
        with self._lock:
            self._log.check()
            added = super().ask(urls, now=now)
            number = self._note({"call": "ask", "now": float(now)}, pack_urls(PackedUrls.pack(urls)))
        self._log.commit(number)
        return added

    def block(self, host: str, until: float) -> int:
        """Let hosts rest as `Scheduler.block` does; on disk when this returns."""
        if self._log is None:
            return super().block(host, until)
        with self._lock:
            self._log.check()
            blocked = super().block(host, until)
            number = self._note({"call": "block", "host": host, "until": float(until)})
        self._log.commit(number)
        return blocked

    def set_rules(self, rules: Mapping[str, Rule | HostRule | None]) -> int:
        """Set rules as `Scheduler.set_rules` does; on disk when this returns."""
        if self._log is None:
            return super().set_rules(rules)
        with self._lock:
            self._log.check()
            concerned = super().set_rules(rules)
            number = self._note({"call": "set rules", "rules": pack_rules(rules)})
        self._log.commit(number)
        return concerned

    def set_politeness(self, politeness: Politeness) -> None:
        """Keep to other politeness as `Scheduler.set_politeness` does; on disk when this returns."""
        if self._log is None:
            super().set_politeness(politeness)
            return
        with self._lock:
            self._log.check()
            super().set_politeness(politeness)
            number = self._note({"call": "set politeness", "politeness": politeness.to_json()})
        self._log.commit(number)

    @property
    def per_host(self) -> int | None:
        """The most pages of one host in a batch, as `Scheduler.per_host`; on disk once it is set."""
        return self.politeness.per_batch

    @per_host.setter
    def per_host(self, most: int | None) -> None:
        with self._lock:
            if self._log is not None:
                self._log.check()
            self._politeness_policy.limit_batches(most)
            self._pages.limits = self._politeness_policy.limits
            number = self._note({"call": "limit", "per_host": self.politeness.per_batch})
        if self._log is not None:
            self._log.commit(number)

    def use(self, formula: str | Formula | Champion, *, wait: bool = True) -> None:  # noqa: ARG002  what is on disk must be so
        """Rank by `formula` as `Scheduler.use` does; it does, and that is on disk, when this returns."""
        if self._log is not None:
            self._log.check()
        super().use(formula, wait=True)
        if self._log is not None:
            self._log.commit(self._log.sequence)

    def _crown(self, champion: Champion) -> None:
        super()._crown(champion)
        if self._log is not None and self._log.failure is None:
            self._note({"call": "use", "champion": champion.to_json()})
        else:
            self._missed += 1

    def _note(self, call: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]] | None = None) -> int:
        """Append a call to the log, after what was taken from streams before it; return its number. Under the lock."""
        if self._log is None:
            return 0
        self._changes += 1
        self._note_taken()
        if self._log.wants_spare:
            self._wake.set()
        return self._log.append(encode_call(call, arrays))

    def _note_taken(self) -> None:
        assert self._log is not None
        for taken in self._taken:
            self._log.append(encode_call({"call": "take"} | asdict(taken)))
        self._taken.clear()

    def note_instant(self, *, failed: bool) -> tuple[int, int]:
        """Have the log agree with the state at an image's instant; return how many changes that holds, and missed."""
        if failed:
            self._taken.clear()
        else:
            self._note_taken()
        return self._changes, self._missed

    @property
    def saved(self) -> SavedImage:
        """The newest image on disk: its ``path``, and the ``positions`` of streams that are safe with it."""
        assert self._last is not None
        return self._last

    def streams_in_all_images(self) -> set[str]:
        """Return the streams whose positions every whole image kept on disk holds. O(bytes of their contents)."""
        known: list[set[str]] = []
        for name in list_images(self.directory):
            with suppress(SnapshotError, FileNotFoundError):
                if not name.step:
                    known.append(set(read_image(name.in_directory(self.directory)).contents["settings"]["positions"]))
        return set.intersection(*known) if known else set()

    @property
    def is_saved(self) -> bool:
        """Whether nothing was done since the newest image, and calls can be written."""
        return self._changes == self._saved_changes and self.trouble is None

    def snapshot(self, *, full: bool = False) -> Path:
        """Save what changed since the last save, or all of the state where that is due or asked for; return the file.

        When this returns, all that was done before the call is on disk, the positions of streams included. Others go on
        meanwhile. Raises SnapshotError where it cannot be written; nothing is lost by that.
        """
        log = self._owned()
        with self._saving:
            before = None if full or self._is_full_due() else self._last
            calls = _Calls(self, log)
            try:
                saved = save_image(self.directory, self, before, calls, marking=True)
                self._take_stock(saved, before, calls)
            except SnapshotError as error:
                self.trouble = error
                raise
            with self._lock:
                if log.failure is not None and calls.failed and self._missed == calls.missed:
                    log.restart()
                self.trouble = log.failure
            return saved.path

    def _take_stock(self, saved: SavedImage, before: SavedImage | None, calls: _Calls) -> None:
        """Note that an image is on disk, and remove what it makes needless."""
        self._last, self._saved_changes = saved, calls.changes
        if before is None:
            self._base_bytes, self._base_pages, self._steps_bytes = saved.nbytes, int(saved.corpus["pages"][0]), 0
            with as_snapshot_errors(self.directory, "cannot be written"):
                drop_images(self.directory, self.plan.kept)
                calls.log.drop_until(oldest_call(self.directory))
        else:
            self._steps_bytes += saved.nbytes

    def _is_full_due(self) -> bool:
        if self._last is None or self._last.name.step >= self.plan.increments:
            return True
        grown = len(self) - int(self._last.corpus["pages"][0])  # an increment holds them whole
        expected = self._steps_bytes + grown * self._base_bytes / max(self._base_pages, 1)
        return expected > self.plan.share * self._base_bytes

    def _save_now_and_then(self) -> None:
        log, every = self._owned(), float(self.plan.every)
        due = time.monotonic() + every
        while not self._stopping:
            self._wake.wait(min(max(0.0, due - time.monotonic()), threading.TIMEOUT_MAX))
            self._wake.clear()
            with suppress(OSError, SnapshotError):  # `trouble` tells; next time it may work
                log.prepare()
                if time.monotonic() >= due and not self._stopping:
                    due = time.monotonic() + every
                    if not self.is_saved:
                        self.snapshot()

    def _owned(self) -> CallLog:
        if self._log is None or self._closing:
            raise SnapshotError(str(getattr(self, "directory", "")), _CLOSED)
        return self._log

    def close(self, *, save: bool = True) -> None:
        """Save what changed, and let go of the directory; a second call does nothing."""
        if self._log is None or self._closing:
            return
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            if save and self._changes != self._saved_changes:
                self.snapshot()
        finally:
            self._closing = True
            self._log.close()
            self.pages.marks.stop()
            self._resources.close()

    def save(self, path: str | Path) -> Path:
        """Save the state to the directory `path` as `Scheduler.save` does; to its own as `snapshot` does."""
        if self._log is not None and Path(path).resolve() == self.directory.resolve():
            return self.snapshot(full=True)
        return super().save(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; what leaves at once, as a second Ctrl-C does, does not wait for a save: nothing is lost by that."""
        self.close(save=error is None or isinstance(error, Exception))
