"""A consistent view of a shard's state at an instant, copied piece by piece while the shard runs.

At the instant, under the shard's lock, only small arrays are copied, into memory that was committed before (see
`CopySpace`), and dirty tracking starts again (see `dirty_tracking`). Records follow a few thousand at a time, under the
lock for milliseconds. Dirty tracking keeps the old version of a record that is written to before it was copied; these
versions come last and overwrite later ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bools, Hashes, Ints, Records
from streamsched.records.dirty_tracking import find_dirty
from streamsched.records.group_schema import GROUP
from streamsched.records.schema import (
    OLD_ADJUSTED,
    OLD_CONTENT,
    OLD_GROUP,
    OLD_ROW,
    OLD_SCHEDULE,
    OLD_SIGNAL,
    OLD_TEXT,
    ShardArrays,
)
from streamsched.records.validators import list_blocks
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import ARRAYS, BY_NAME, Saved, take_records

Piece = tuple[str, int, npt.NDArray[Any]]
"""The name of an array, the index of the first record, and the records, which are valid until the next piece."""

_AT_THE_INSTANT: Final = {Saved.COPIED, Saved.COPIED_IF_GROWN, Saved.RING}
_RUN: Final = 1 << 14  # records copied under the lock at a time: 1.8 MB of rows, half a millisecond
_PICKED: Final = 1 << 13  # ... of scattered records
_BYTES: Final = 1 << 22  # of text in a piece
_SEARCHED: Final = 1 << 22  # rows searched for dirty ones at a time


class Shard(Protocol):
    """The parts of a saved state: a page table, the rest of the state, and the lock that guards both."""

    @property
    def pages(self) -> PageTable:
        """The page table."""
        ...

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while the state changes."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return all of the state that the page table does not hold, as plain values for JSON."""
        ...


class CopySpace:
    """Memory for what is copied at an instant. Create it outside the shard's lock. O(bytes).

    The system takes several times as long to commit memory as to copy into it: 60 MB at 12 million pages.
    """

    def __init__(self, shard: Shard) -> None:
        with shard.lock:
            arrays = shard.pages.arrays
            sizes = {one.name: one.in_use(arrays).nbytes for one in ARRAYS if one.saved in _AT_THE_INSTANT}
        self._left = {name: np.ones(nbytes, np.uint8) for name, nbytes in sizes.items()}

    def copy(self, name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a copy of `array`, all or part of the array of that name; in new memory if it has grown. O(bytes)."""
        left = self._left[name]
        if left.size < array.nbytes:
            return array.copy()
        self._left[name] = left[array.nbytes :]
        taken = left[: array.nbytes]
        taken[:] = array.reshape(-1).view(np.uint8)  # as bytes: records are copied field by field, three times slower
        copied: npt.NDArray[Any] = taken.view(array.dtype).reshape(array.shape)
        return copied


class SnapshotView:
    """The state of `shard` at the instant of creation: all of it, or what changed since the instant of `since`.

    Create it under the shard's lock and under ``marks.turn``, with a `space` that was made before. ``corpus``:
    CORPUS[1] of that instant; ``state``: the rest of the state, as JSON.
    """

    def __init__(self, shard: Shard, since: Records | None, space: CopySpace) -> None:
        arrays = shard.pages.arrays
        self._shard = shard
        self._since = since
        self.state = shard.to_json()
        self.corpus = arrays.corpus.copy()
        grown = since is None or since["pages"][0] != self.corpus["pages"][0]
        copied = {Saved.COPIED, Saved.COPIED_IF_GROWN} if grown else {Saved.COPIED}
        self._copied = [
            (one.name, 0, space.copy(one.name, one.in_use(arrays))) for one in ARRAYS if one.saved in copied
        ]
        self._journal = list(_copy_visits(arrays, 0 if since is None else int(since["journaled"][0]), space))
        self._text, self._names = arrays.pages.text, arrays.groups.names  # append-only
        self._schedules = int(arrays.seasonality.state["schedules"][0])
        self._by_row = [one for one in ARRAYS if one.saved is Saved.BY_ROW and one.in_use(arrays).size]
        self._has_signals = BY_NAME["signals"] in self._by_row
        self._has_contents = BY_NAME["contents"] in self._by_row
        self._blocks = int(arrays.validators.state["blocks"][0])
        marks = shard.pages.marks
        self._dirty = marks.begin(
            self.rows, self.groups, signals=self._has_signals, contents=self._has_contents, texts=self._blocks
        )

    @property
    def _written(self) -> Hashes:
        """The rows that an increment holds, as bits: whole, or what was adjusted. uint64[words]."""
        return self._dirty.rows | self._dirty.adjusted

    @property
    def rows(self) -> int:
        """The number of pages."""
        return int(self.corpus["pages"][0])

    @property
    def groups(self) -> int:
        """The number of groups."""
        return int(self.corpus["groups"][0])

    def counts(self) -> dict[str, int]:
        """Return how many records the arrays must hold."""
        text, names = int(self.corpus["text_end"][0]), int(self.corpus["names_end"][0])
        return {"pages": self.rows, "text": text, "groups": self.groups, "names": names, "blocks": self._blocks}

    def pieces(self) -> Iterator[Piece]:
        """Yield the state piece by piece; iterate outside the shard's lock. O(bytes).

        Iterate once and to the end: until then old versions of records are kept.
        """
        before = None if self._since is None else self._since[0]
        yield from self._copied
        yield from self._journal
        if before is not None:
            yield from self._pick_rows()
            yield from self._pick_groups()
        yield from self._run_rows(self._dirty.known_rows if before is not None else 0)
        yield from self._run_groups(self._dirty.known_groups if before is not None else 0)
        yield from _run_bytes("text", self._text, self._since, self.corpus)
        yield from _run_bytes("names", self._names, self._since, self.corpus)
        with self._shard.lock:
            old = self._shard.pages.marks.end()
        yield "changed_schedules", 0, old.schedules
        yield "changed_texts", 0, old.texts
        by_row = {"changed_rows": old.rows, "changed_signals": old.signals, "changed_contents": old.contents}
        # Of a row that is in both, the adjusted part was kept first: it comes last.
        for name, records in (by_row | {"adjusted_rows": old.adjusted}).items():
            yield name, 0, _only(records, "row", self._written, self._dirty.known_rows, before is not None)
        groups = _only(old.groups, "number", self._dirty.groups, self._dirty.known_groups, before is not None)
        yield "changed_groups", 0, groups

    def dismiss(self, *, saved: bool, marking: bool) -> None:
        """End the save, under the lock; `saved`: whether it succeeded, `marking`: whether to continue dirty tracking.

        If it was not `saved`, the records that were dirty before it are dirty again.
        """
        marks = self._shard.pages.marks
        marks.end()
        if not marking:
            marks.stop()
        elif not saved:
            marks.take_back(self._dirty)

    def _run_rows(self, start: int) -> Iterator[Piece]:
        copies = [(array, np.empty(_RUN, array.dtype)) for array in self._by_row]
        schedules = np.empty(_RUN, OLD_SCHEDULE)
        for first in range(start, self.rows, _RUN):
            stop = min(first + _RUN, self.rows)
            with self._shard.lock:
                shard = self._shard.pages.arrays
                for array, out in copies:
                    _copy(out, array.of(shard), first, stop)
                found = self._gather_schedules(np.arange(first, stop), schedules)
                texts = self._gather_texts(np.arange(first, stop))
                self._shard.pages.marks.copied(rows=stop)
            for array, out in copies:
                yield array.name, first, out[: stop - first]
            yield "changed_schedules", 0, found
            yield "changed_texts", 0, texts

    def _run_groups(self, start: int) -> Iterator[Piece]:
        groups = np.empty(_RUN, GROUP)
        for first in range(start, self.groups, _RUN):
            stop = min(first + _RUN, self.groups)
            with self._shard.lock:
                _copy(groups, self._shard.pages.arrays.groups.records, first, stop)
                self._shard.pages.marks.copied(groups=stop)
            yield "groups", first, groups[: stop - first]

    def _pick_rows(self) -> Iterator[Piece]:
        out, schedules = np.empty(_PICKED, OLD_ROW), np.empty(_PICKED, OLD_SCHEDULE)
        signals = np.empty(_PICKED if self._has_signals else 0, OLD_SIGNAL)
        contents = np.empty(_PICKED if self._has_contents else 0, OLD_CONTENT)
        adjusted = np.empty(_PICKED, OLD_ADJUSTED)
        for found in _find_dirty(self._written, self._dirty.known_rows):
            is_whole = _are_set(self._dirty.rows, found)
            rows = found[is_whole]
            with self._shard.lock:
                others = _gather(self._shard.pages.arrays, found[~is_whole], adjusted)
                changed = _gather(self._shard.pages.arrays, rows, out)
                signalled = _gather(self._shard.pages.arrays, rows, signals) if self._has_signals else signals
                compared = _gather(self._shard.pages.arrays, rows, contents) if self._has_contents else contents
                scheduled = self._gather_schedules(rows, schedules)
                texts = self._gather_texts(rows)
                self._shard.pages.marks.copied(rows=int(found[-1]) + 1)
            yield "adjusted_rows", 0, others
            yield "changed_rows", 0, changed
            yield "changed_schedules", 0, scheduled
            yield "changed_texts", 0, texts
            yield "changed_signals", 0, signalled
            yield "changed_contents", 0, compared

    def _pick_groups(self) -> Iterator[Piece]:
        out = np.empty(_PICKED, OLD_GROUP)
        for groups in _find_dirty(self._dirty.groups, self._dirty.known_groups):
            with self._shard.lock:
                changed = _gather(self._shard.pages.arrays, groups, out)
                self._shard.pages.marks.copied(groups=int(groups[-1]) + 1)
            yield "changed_groups", 0, changed

    def _gather_schedules(self, rows: Ints, out: Records) -> Records:
        """Write the schedules of the pages ``rows``: int64[m] to `out`; return those written.

        Schedules of higher numbers were assigned after the instant; their pages' old records are kept elsewhere.
        """
        shard = self._shard.pages.arrays
        numbers = shard.seasonality.links["schedule"][rows]
        return _gather(shard, numbers[(numbers > 0) & (numbers <= self._schedules)], out)

    def _gather_texts(self, rows: Ints) -> Records:
        """Return the blocks of the validators of the pages ``rows``: int64[m].

        Not those of pages written to since the instant: they may have blocks that were another page's, and their own
        are kept elsewhere.
        """
        shard = self._shard.pages.arrays
        pages, written = shard.pages, shard.dirty.rows
        rows = rows[pages.validators[rows] > 0]
        rows = rows[~_are_set(written, rows)]
        if not rows.size:
            return np.empty(0, OLD_TEXT)
        numbers = np.empty(0, np.int64)
        numbers = np.empty(list_blocks(pages.validators, pages.validator_texts, rows, numbers), np.int64)
        list_blocks(pages.validators, pages.validator_texts, rows, numbers)
        return _gather(shard, numbers, np.empty(numbers.size, OLD_TEXT))


def _copy_visits(shard: ShardArrays, before: int, space: CopySpace) -> Iterator[Piece]:
    """Yield the journal's visits from number `before` on that it still has, in runs that do not wrap."""
    ring, stop = shard.journal, int(shard.corpus["journaled"][0])
    start = max(before, stop - ring.size)
    while start < stop:
        place = start % ring.size
        size = min(stop - start, ring.size - place)
        yield "journal", start, space.copy("journal", ring[place : place + size])
        start += size


def _run_bytes(name: str, text: npt.NDArray[np.uint8], since: Records | None, corpus: Records) -> Iterator[Piece]:
    start, stop = 0 if since is None else int(since[f"{name}_end"][0]), int(corpus[f"{name}_end"][0])
    for first in range(start, stop, _BYTES):
        yield name, first, text[first : min(first + _BYTES, stop)]


def _find_dirty(bits: Hashes, known: int) -> Iterator[Ints]:
    """Yield the indexes below `known` whose bits are set, some thousands at a time, ascending."""
    for start in range(0, known, _SEARCHED):
        numbers = find_dirty(bits, start, min(start + _SEARCHED, known))
        for first in range(0, numbers.size, _PICKED):
            yield numbers[first : first + _PICKED]


def _only(old: Records, field: str, bits: Hashes, known: int, wanted: bool) -> Records:
    """Return those of the records `old` that an increment holds: dirty or new ones."""
    if not wanted:
        return old
    numbers = old[field].astype(np.int64)
    marked = numbers >= known
    marked[~marked] = _are_set(bits, numbers[~marked])
    kept: Records = old[marked]
    return kept


def _are_set(bits: Hashes, numbers: Ints) -> Bools:
    """Return whether the bit of each number is set: bool[m]. O(m)."""
    found: Bools = (bits[numbers >> 6] >> (numbers & 63).astype(np.uint64)) & np.uint64(1) != 0
    return found


def _copy(out: npt.NDArray[Any], records: npt.NDArray[Any], first: int, stop: int) -> None:
    """Copy records as bytes, which is faster and releases the interpreter's lock."""
    np.copyto(out[: stop - first].view(np.uint8), records[first:stop].view(np.uint8))


def _gather(shard: ShardArrays, numbers: Ints | npt.NDArray[np.uint32], out: Records) -> Records:
    """Write the records with these numbers, of all arrays that `out` has fields of, to `out`; return those written."""
    assert out.dtype.names is not None
    place, *names = out.dtype.names
    gathered = out[: numbers.size]
    gathered[place] = numbers
    for name in names:
        take_records(BY_NAME[name].of(shard), numbers, gathered[name])
    return gathered
