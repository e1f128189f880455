"""Writes the changes that a run finds to a file or a topic, at least once, and keeps the position that it reached."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self

import msgspec

from streamsched.api.answers import Change
from streamsched.connectors.kafka.sink import KafkaSink
from streamsched.errors import ChangesGone, SettingsError, SnapshotError, SourceError
from streamsched.persistence.files import open_regular, read_regular, write_file, write_whole
from streamsched.scheduler.durable import DurableScheduler
from streamsched.service.event_log import LOG

CURSOR_NAME: Final = "changes-to.json"
_MOST: Final = 1_000  # changes that are written at once
_PAUSE_S: Final = 0.1  # between two writes, so that changes that are found one by one share a wait for the disk
_AGAIN_S: Final = 1.0  # until what could not be written is tried again
_LONGEST_AGAIN_S: Final = 8.0  # after several attempts: each may store a part of the changes once more
_NEWLINE: Final = b"\n"


class _Kept(msgspec.Struct):
    """The position up to which the changes are written ``to`` a place."""

    to: str
    cursor: str


class PlaceOfChanges(Protocol):
    """Where changes are written."""

    def write(self, changes: Sequence[Change]) -> None:
        """Write changes; return once they are stored. Raises SourceError."""

    def close(self) -> None:
        """Close what was opened. Raises SourceError."""


class FileOfChanges:
    """A file of JSON Lines, to which changes are appended. A line that a crash has cut off is removed first.

    Raises SourceError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._encoder = msgspec.json.Encoder()
        try:
            self._handle = open_regular(path, os.O_RDWR | os.O_CREAT)
            self._end = _cut_line(self._handle)
        except SnapshotError as error:
            raise SourceError(str(path), error.reason) from error
        except OSError as error:
            raise SourceError(str(path), f"cannot be written: {error.strerror or error}") from error

    def write(self, changes: Sequence[Change]) -> None:  # noqa: D102  as PlaceOfChanges, and below
        raw = self._encoder.encode_lines(changes)
        try:
            os.lseek(self._handle, self._end, os.SEEK_SET)  # a write that failed may have left a part
            write_whole(self._handle, raw)
            os.fdatasync(self._handle)
        except OSError as error:
            raise SourceError(
                str(self._path), f"cannot be written: {error.strerror or error}", retriable=True
            ) from error
        self._end += len(raw)

    def close(self) -> None:  # noqa: D102
        with suppress(OSError):
            os.ftruncate(self._handle, self._end)
        os.close(self._handle)


class TopicOfChanges:
    """A topic, to which each change is sent as a message of JSON.

    `open_sink` opens it for the first change, unless `sink` is open already, and again after an error: a producer may
    have given up some messages and still have others.
    """

    def __init__(self, open_sink: Callable[[], KafkaSink], sink: KafkaSink | None = None) -> None:
        self._open = open_sink
        self._sink = sink

    def write(self, changes: Sequence[Change]) -> None:  # noqa: D102
        if self._sink is None:
            self._sink = self._open()
        try:
            self._sink.send_changes(changes)
            self._sink.flush()
        except SourceError:
            with suppress(SourceError):
                self.close()
            raise

    def close(self) -> None:  # noqa: D102
        sink, self._sink = self._sink, None
        if sink is not None:
            sink.close()


class ChangeWriter:
    """Writes what the feed of `scheduler` has to `place`, in a thread of its own; a context manager.

    The position is saved in the state directory once changes are stored, so a crash in between writes them again. `to`
    names the place; another one gets all that is kept. At the end it writes what there is. `about`: further fields of
    what the log says. ``written``: changes so far.
    """

    writes_rest: ClassVar[bool] = True  # at the end

    def __init__(
        self, scheduler: DurableScheduler, place: PlaceOfChanges, to: str, about: Mapping[str, Any] | None = None
    ) -> None:
        if scheduler.feed is None:
            raise SettingsError("changes.keep", 0, "a time above 0: what is written is read from the feed")
        self.written = 0
        self._scheduler = scheduler
        self._place = place
        self._path = scheduler.directory / CURSOR_NAME
        self._to = to.partition("?")[0]  # the rest may have passwords
        self._about = about or {}
        self._cursor = self._read_cursor()
        self._waiting: list[Change] = []  # read, not stored
        self._next = self._cursor
        self._failure: str | None = None  # why the last attempt failed
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="streamsched changes", daemon=True)
        scheduler.feed.listeners.append(self._wake.set)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        try:
            if self.writes_rest and (error is None or isinstance(error, Exception)):
                self._drain()
        finally:
            try:
                self._place.close()
            except SourceError as unsent:
                LOG.error("changes not taken", reason=str(unsent))

    def _work(self) -> None:
        again_s = _AGAIN_S
        while not self._stopping.is_set():
            self._wake.clear()
            if self._drain():
                again_s = _AGAIN_S
                self._stopping.wait(_PAUSE_S)
                self._wake.wait()
            else:
                self._stopping.wait(again_s)
                again_s = min(2.0 * again_s, _LONGEST_AGAIN_S)

    def _drain(self) -> bool:
        """Write all changes that there are; return whether that succeeded."""
        try:
            while self._write_some():
                pass
        except (SourceError, SnapshotError, OSError) as error:
            if self._failure is None:
                LOG.error("changes wait", to=self._to, reason=str(error), **self._about)
            self._failure = str(error)
            return False
        if self._failure is not None:
            LOG.info("changes are written again", to=self._to, **self._about)
        self._failure = None
        return True

    def _write_some(self) -> bool:
        """Write some changes and save the position behind them; return whether there were any."""
        if not self._waiting:
            try:
                found = self._scheduler.changes(self._cursor, _MOST)
            except ChangesGone as gone:
                self._miss(gone)
                return True
            self._waiting, self._next = found.changes, found.cursor
        if not self._waiting:
            return False
        self._place.write(self._waiting)
        self.written += len(self._waiting)
        self._waiting, self._cursor = [], self._next
        self._keep_cursor(self._cursor)
        return True

    def _miss(self, gone: ChangesGone) -> None:
        """Continue after changes that are not kept any more."""
        LOG.error("changes missed", to=self._to, after=gone.after, oldest=gone.oldest, **self._about)
        self._cursor = gone.oldest

    def _keep_cursor(self, cursor: str) -> None:
        """Keep the position up to which changes are written."""
        write_file(self._path, msgspec.json.encode(_Kept(self._to, cursor)))

    def _read_cursor(self) -> str:
        """Return the position up to which changes were written to this place, ``oldest`` if none were."""
        try:
            kept = msgspec.json.decode(read_regular(self._path), type=_Kept)
        except FileNotFoundError:
            return "oldest"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise SnapshotError(str(self._path), "is no position of changes: remove it to write all again") from None
        return kept.cursor if kept.to == self._to else "oldest"


def _cut_line(handle: int) -> int:
    """Cut off a last line that does not end; return the size. O(bytes of that line)."""
    size = end = os.fstat(handle).st_size
    while end > 0:
        start = max(0, end - (1 << 16))
        at = os.pread(handle, end - start, start).rfind(_NEWLINE)
        if at >= 0:
            end = start + at + 1
            break
        end = start
    if end < size:
        os.ftruncate(handle, end)
    return end
