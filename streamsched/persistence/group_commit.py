"""The log of calls, wherever it is kept: several calls that wait are written together (group commit)."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from streamsched.errors import SnapshotError
from streamsched.persistence.log_segments import LogName

REFUSED: Final = "calls are refused until a snapshot is saved"
MOST_BYTES: Final = (1 << 32) - 1  # of one call


class GroupCommitLog(ABC):
    """A log of calls. For several threads at once.

    ``sequence``: the number of the last call appended. `append` only queues a call; `commit` writes the queue, once for
    all threads that wait for it. After an error `commit` refuses all calls until `restart`. What is refused stays in
    the queue, because the state has it: `renew` writes it, so that the log has no gap. ``on_written``: called with the
    number of the last call written. Raises SnapshotError if the log cannot be written.
    """

    def __init__(self, sequence: int) -> None:
        self.sequence = sequence
        self.on_written: Callable[[int], None] | None = None
        self._changed = threading.Condition()
        self._pending: list[tuple[int, bytes]] = []
        self._on_disk = sequence
        self._writing = False
        self._closed = False
        self._failure: SnapshotError | None = None

    @property
    @abstractmethod
    def place(self) -> str:
        """What errors name."""

    @property
    @abstractmethod
    def name(self) -> LogName:
        """What an image saved now says about the log."""

    @property
    def wants_spare(self) -> bool:
        """Whether `prepare` has something to do."""
        return False

    def prepare(self) -> None:  # noqa: B027  most logs need nothing
        """Make ready what later calls need, so that none of them waits for it. For one thread. Raises OSError."""

    @abstractmethod
    def drop_until(self, sequence: int) -> None:
        """Remove what holds only calls before number `sequence`, which the images have. Raises SnapshotError."""

    @abstractmethod
    def renew(self) -> None:
        """After an error, write the queue, so that an image of the state may name the log. Raises OSError."""

    @abstractmethod
    def close(self) -> None:
        """Close the log; calls not committed are lost."""

    @abstractmethod
    def _write(self, calls: list[tuple[int, bytes]]) -> None:
        """Write `calls`, and set ``_on_disk``. Raises OSError or SnapshotError. For one thread at a time."""

    @property
    def failure(self) -> SnapshotError | None:
        """The error that keeps calls from being written, until `restart`."""
        return self._failure

    def check(self) -> None:
        """Raise SnapshotError if calls cannot be written."""
        if self._failure is not None:
            raise type(self._failure)(self._failure.path, self._failure.reason)

    def append(self, payload: bytes) -> int:
        """Queue a call; return its number. O(bytes). Raises SnapshotError if the log is closed."""
        if len(payload) > MOST_BYTES:
            raise SnapshotError(self.place, f"a call has {len(payload)} bytes, expected at most {MOST_BYTES}")
        with self._changed:
            if self._closed:
                self.check()
            self.sequence += 1
            self._pending.append((self.sequence, payload))
            return self.sequence

    def commit(self, sequence: int) -> None:
        """Return once the calls up to number `sequence` are on disk. Raises SnapshotError if they cannot be written."""
        while True:
            with self._changed:
                while self._writing and self._on_disk < sequence:
                    self._changed.wait()
                if self._on_disk >= sequence:
                    return
                self.check()
                self._writing = True
                calls, self._pending = self._pending, []
            error: SnapshotError | None = SnapshotError(self.place, f"a write was interrupted; {REFUSED}")
            try:
                self._write(calls)
                error = None
            except SnapshotError as cause:
                error = cause
            except OSError as cause:
                error = SnapshotError(self.place, f"cannot be written: {cause.strerror or cause}; {REFUSED}")
            finally:
                with self._changed:
                    self._writing = False
                    self._failure = self._failure or error
                    self._keep_unwritten(calls)
                    self._changed.notify_all()
            if self.on_written is not None:
                self.on_written(self._on_disk)

    def restart(self) -> None:
        """Accept calls again after an error and `renew`."""
        with self._changed:
            self._failure = None
            self._changed.notify_all()

    def _keep_unwritten(self, calls: list[tuple[int, bytes]]) -> None:
        """Put those of `calls` that are not on disk back at the head of the queue."""
        self._pending = [call for call in calls if call[0] > self._on_disk] + self._pending


class JoinedCommits:
    """Commits calls to a log at once, or within a block of `together` at its end. For several threads at once."""

    def __init__(self, log: GroupCommitLog) -> None:
        self._log = log
        self._mine = _Waits()

    def commit(self, number: int) -> None:
        """Return once the calls up to `number` are on disk; within a block, leave that to its end."""
        if self._mine.blocks:
            self._mine.number = number
        else:
            self._log.commit(number)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit this thread's calls in the block at its end, however it ends. Raises SnapshotError then."""
        self._mine.blocks += 1
        try:
            yield
        finally:
            self._mine.blocks -= 1
            if not self._mine.blocks:
                self._log.commit(self._mine.number)


class _Waits(threading.local):
    """Of each thread: the blocks that it is in, and the last call that they must write."""

    blocks = 0
    number = 0
