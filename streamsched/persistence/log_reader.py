"""Reads the log of a directory: the calls after those that an image holds, and whether any are missing.

Records of streams are not logged; a stream is read again up to where the log says that it was applied.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamsched.errors import SnapshotError
from streamsched.outcomes import OutcomeBatch
from streamsched.persistence.files import list_segments, segment_path
from streamsched.persistence.log_segments import LogName, Segment, Torn, read_segment
from streamsched.signals import SignalBatch


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a log continues: after call `sequence`, at byte `end` of the segment at ``path``; None for a new segment.

    ``first``: the first call of that segment; ``capacity``: its size; ``torn``: what follows its calls.
    """

    identity: str
    sequence: int
    path: Path | None = None
    first: int = 0
    end: int = 0
    capacity: int = 0
    torn: Torn | None = None

    @classmethod
    def of_new_log(cls) -> LogEnd:
        """Return the end of a log that has no call yet, with an identity of its own."""
        return cls(os.urandom(8).hex(), 0)


class LoggedCalls:
    """The calls of the log `name` in `directory` after number `after`, which an image holds: iterate once.

    ``faults``: damage that costs no call after `after`, each with its file; ``torn``: the unfinished end of the log;
    ``end``: where the log continues. All are known once the iteration has ended.
    """

    def __init__(self, directory: Path, after: int, name: LogName | None) -> None:
        self.faults: list[SnapshotError] = []
        self.torn: Torn | None = None
        self.end = LogEnd.of_new_log() if name is None else LogEnd(name.identity, after)
        self._directory = directory
        self._after = after
        self._name = name

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and payload of each call, in order. O(bytes).

        Raises SnapshotError before the first call that is damaged or missing, or may be.
        """
        if self._name is None:
            return
        listed = list_segments(self._directory)
        first = next((first for first, _ in reversed(listed) if first <= self._after + 1), None)
        if first is None:
            raise _missing(segment_path(self._directory, self._name.segment), self._after + 1)
        while True:
            segment = self._read(first, self._name)
            follower = segment_path(self._directory, segment.next_call)
            is_last = segment.next_call == first or not follower.exists()
            yield from self._calls(segment, is_last=is_last)
            if is_last:
                break
            first = segment.next_call
        self._check_end(segment, self._name, listed)

    def _read(self, first: int, name: LogName) -> Segment:
        path = segment_path(self._directory, first)
        try:
            segment = read_segment(path, first)
        except FileNotFoundError as error:
            raise _missing(path, first) from error
        if segment.header is not None and segment.header.identity != name.identity:
            raise SnapshotError(str(path), f"belongs to another log of calls: {_way_on(path)}")
        return segment

    def _calls(self, segment: Segment, *, is_last: bool) -> Iterator[tuple[int, bytes]]:
        """Yield the calls of `segment` up to the first that is lost."""
        for damage in segment.damages:
            if damage.is_within(self._after) or (damage.last is None and not is_last):
                self.faults.append(damage.error())
        lost = [damage for damage in segment.damages if not damage.is_within(self._after)]
        for number, start, stop, _ in segment.frames:
            for damage in lost:
                if damage.first < number:
                    raise _with_way_on(damage.error())
            if number > self._after:
                yield number, segment.raw[start:stop]
        for damage in lost:
            if is_last or damage.last is not None:
                raise _with_way_on(damage.error())

    def _check_end(self, segment: Segment, name: LogName, listed: list[tuple[int, Path]]) -> None:
        """Set `torn` and `end`. Raises SnapshotError if a segment after the last one read is missing."""
        number = segment.next_call
        if segment.is_sealed or segment.first < name.segment:
            raise _missing(segment_path(self._directory, max(number, name.segment)), number)
        for first, path in listed:
            if first > number and read_segment(path, first).frames:
                raise _missing(segment_path(self._directory, number), number, first - 1)
        self.torn = segment.torn
        if number <= self._after:
            reason = f"damaged at byte {segment.end}: ends before call number {number}, and {self._after} were logged"
            self.faults.append(SnapshotError(str(segment.path), reason))
        if number > self._after and not segment.damages and segment.header is not None:
            self.end = LogEnd(
                name.identity,
                number - 1,
                segment.path,
                segment.first,
                segment.end,
                segment.header.capacity,
                segment.torn,
            )
        else:
            self.end = LogEnd(name.identity, max(number - 1, self._after))


def newest_log(directory: Path) -> tuple[int, LogName | None]:
    """Return the number of the last call in the log of `directory`, and its name; 0 and None if there is no log.

    O(bytes). Raises SnapshotError if it is damaged.
    """
    segments = list_segments(directory)
    if not segments:
        return 0, None
    first, path = segments[-1]
    segment = read_segment(path, first)
    if segment.damages or segment.header is None:
        raise _with_way_on(segment.damages[0].error())
    return segment.next_call - 1, LogName(segment.header.identity, first)


def has_calls(directory: Path) -> bool:
    """Return whether the log in `directory` has calls, or is damaged. O(bytes)."""
    for first, path in list_segments(directory):
        segment = read_segment(path, first)
        if first > 1 or segment.frames or segment.damages:
            return True
    return False


def _way_on(path: Path) -> str:
    """Return what to do about the segment at `path` that cannot be read."""
    command = f"streamsched state repair --drop-lost-calls --state {shlex.quote(str(path.parent))}"
    return f"restore the file from a copy, or continue without these calls: `{command}`"


def _missing(path: Path, first: int, last: int | None = None) -> SnapshotError:
    which = f"from number {first} on, if there were any," if last is None else f"number {first} to {last}"
    return SnapshotError(str(path), f"is missing: the calls {which} are lost; {_way_on(path)}")


def _with_way_on(error: SnapshotError) -> SnapshotError:
    return SnapshotError(error.path, f"{error.reason}; {_way_on(Path(error.path))}")


class RereadStream:
    """A stream that is read again. ``beyond``: how many records after ``position`` were read."""

    def __init__(self, path: str, batches: Iterable[OutcomeBatch | SignalBatch]) -> None:
        self.position: Any = None
        self.beyond = 0
        self._path = path
        self._batches = iter(batches)
        self._batch: OutcomeBatch | SignalBatch = OutcomeBatch([], [])
        self._read = 0  # of the batch

    def read(self, count: int, log: str) -> Iterator[OutcomeBatch | SignalBatch]:
        """Yield the next `count` records. Raises SnapshotError if the stream ends before."""
        while count:
            if self._read == len(self._batch):
                self._batch, self._read = self._next(count, log), 0
            start, stop = self._read, min(self._read + count, len(self._batch))
            self._read, count = stop, count - (stop - start)
            yield self._batch if stop - start == len(self._batch) else self._batch.take(np.arange(start, stop))

    def _next(self, count: int, log: str) -> OutcomeBatch | SignalBatch:
        batch = next(self._batches, None)
        if batch is None:
            reason = f"{self._path} ends {count} records earlier than when they were taken: later calls are lost"
            raise SnapshotError(log, reason)
        return batch
