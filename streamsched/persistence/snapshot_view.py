"""A consistent view of a shard's state at an instant, copied piece by piece while the shard goes on.

At the instant, under the shard's lock, only small arrays are copied, and dirty tracking starts again (see
`dirty_tracking`). Records follow a few thousand at a time, under the lock for milliseconds. Dirty tracking keeps the
old version of a record that is written to before it was copied; these versions come last and overwrite later ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from streamsched.numerics.jit import bare_kernel
from streamsched.records.dirty_tracking import find_dirty
from streamsched.records.group_schema import GROUP
from streamsched.records.page_schema import PAGE, TRACE
from streamsched.records.schema import OLD_GROUP, OLD_ROW, OLD_SCHEDULE, OLD_SIGNAL, ShardArrays
from streamsched.records.seasonality_schema import SEASONAL_LINK
from streamsched.records.signals.signal_schema import SIGNAL
from streamsched.records.url_patterns import candidate_space

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes, Ints, Record, Records
    from streamsched.state.page_table import PageTable

__all__ = ["Piece", "Shard", "SnapshotView"]

Piece = tuple[str, int, npt.NDArray[Any]]
"""The name of an array, the index of the first record, and the records, which are valid until the next piece."""

_RUN: Final = 1 << 14  # records copied under the lock at a time: 1.8 MB of rows, half a millisecond
_PICKED: Final = 1 << 13  # ... of scattered records
_BYTES: Final = 1 << 22  # of text in a piece
_SEARCHED: Final = 1 << 22  # rows searched for dirty ones at a time


class Shard(Protocol):
    """What is saved: a page table, the rest of the state, and the lock that guards both."""

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


class SnapshotView:
    """The state of `shard` at the instant of creation: all of it, or what changed since the instant of `since`.

    Create it under the shard's lock and under ``marks.turn``. ``corpus``: CORPUS[1] of that instant; ``state``: the
    rest of the state, as JSON.
    """

    def __init__(self, shard: Shard, since: Records | None = None) -> None:
        arrays = shard.pages.arrays
        self._shard = shard
        self._since = since
        self.state = shard.to_json()
        self.corpus = arrays.corpus.copy()
        self._journal = list(_copy_visits(arrays, 0 if since is None else int(since["journaled"][0])))
        self._shadows = arrays.shadows[: -(-self.rows // int(self.corpus["shadow_stride"][0]))].copy()
        grown = since is None or since["pages"][0] != self.corpus["pages"][0]
        self._candidates = arrays.groups.candidates[: candidate_space(self.rows)].copy() if grown else None
        self._text, self._names = arrays.pages.text, arrays.groups.names  # append-only
        self._seasonality = arrays.seasonality.state.copy()
        self._profiles = arrays.seasonality.profiles[
            : int(self._seasonality["profiles"][0])
        ].copy()  # 27 kB a thousand pages
        self._related = arrays.related.state.copy()
        self._chances = arrays.related.chances[: int(self._related["keys"][0])].copy()
        self._signals = _copy_sources(arrays)
        self._dirty = shard.pages.marks.begin(self.rows, self.groups, signals=self._has_signals)

    @property
    def _has_signals(self) -> bool:
        """Whether pages had records of signals."""
        return bool(self._signals[0][2]["kinds"][0])

    @property
    def _schedules(self) -> int:
        """The number of schedules."""
        return int(self._seasonality["schedules"][0])

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
        return {"pages": self.rows, "text": text, "groups": self.groups, "names": names}

    def pieces(self) -> Iterator[Piece]:
        """Yield the state piece by piece; iterate outside the shard's lock. O(bytes).

        Iterate once and to the end: until then old versions of records are kept.
        """
        before = None if self._since is None else self._since[0]
        yield "corpus", 0, self.corpus
        yield "seasonality", 0, self._seasonality
        yield "profiles", 0, self._profiles
        yield "shadows", 0, self._shadows
        yield "related", 0, self._related
        yield "chances", 0, self._chances
        yield from self._signals
        yield from self._journal
        if self._candidates is not None:
            yield "candidates", 0, self._candidates
        if before is not None:
            yield from self._pick_rows()
            yield from self._pick_groups()
        yield from self._run_rows(self._dirty.known_rows if before is not None else 0)
        yield from self._run_groups(self._dirty.known_groups if before is not None else 0)
        yield from _run_bytes("text", self._text, self._since, self.corpus)
        yield from _run_bytes("names", self._names, self._since, self.corpus)
        with self._shard.lock:
            old_rows, old_schedules, old_signals, old_groups = self._shard.pages.marks.end()
        yield "changed_schedules", 0, old_schedules
        for name, old in (("changed_rows", old_rows), ("changed_signals", old_signals)):
            yield name, 0, _only(old, "row", self._dirty.rows, self._dirty.known_rows, before is not None)
        groups = _only(old_groups, "number", self._dirty.groups, self._dirty.known_groups, before is not None)
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
        pages, traces, leases, links = (
            np.empty(_RUN, PAGE),
            np.empty(_RUN, TRACE),
            np.empty(_RUN),
            np.empty(_RUN, SEASONAL_LINK),
        )
        signals = np.empty(_RUN if self._has_signals else 0, SIGNAL)
        schedules = np.empty(_RUN, OLD_SCHEDULE)
        for first in range(start, self.rows, _RUN):
            stop = min(first + _RUN, self.rows)
            with self._shard.lock:
                shard = self._shard.pages.arrays
                _copy(pages, shard.pages.records, first, stop)
                _copy(traces, shard.pages.traces, first, stop)
                _copy(leases, shard.pages.lease_until_s, first, stop)
                _copy(links, shard.seasonality.links, first, stop)
                if self._has_signals:
                    _copy(signals, shard.pages.signals, first, stop)
                found = _gather_schedules(shard, np.arange(first, stop), self._schedules, schedules)
                self._shard.pages.marks.copied(rows=stop)
            yield "pages", first, pages[: stop - first]
            yield "traces", first, traces[: stop - first]
            yield "lease_until_s", first, leases[: stop - first]
            yield "links", first, links[: stop - first]
            yield "signals", first, signals[: stop - first]
            yield "changed_schedules", 0, schedules[:found]

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
        for rows in _find_dirty(self._dirty.rows, self._dirty.known_rows):
            with self._shard.lock:
                _gather_rows(self._shard.pages.arrays, rows, out, signals)
                found = _gather_schedules(self._shard.pages.arrays, rows, self._schedules, schedules)
                self._shard.pages.marks.copied(rows=int(rows[-1]) + 1)
            yield "changed_rows", 0, out[: rows.size]
            yield "changed_schedules", 0, schedules[:found]
            yield "changed_signals", 0, signals[: rows.size]

    def _pick_groups(self) -> Iterator[Piece]:
        out = np.empty(_PICKED, OLD_GROUP)
        for groups in _find_dirty(self._dirty.groups, self._dirty.known_groups):
            with self._shard.lock:
                _gather_groups(self._shard.pages.arrays, groups, out)
                self._shard.pages.marks.copied(groups=int(groups[-1]) + 1)
            yield "changed_groups", 0, out[: groups.size]


def _copy_visits(shard: ShardArrays, before: int) -> Iterator[Piece]:
    """Yield the journal's visits from number `before` on that it still has, in runs that do not wrap."""
    ring, stop = shard.journal, int(shard.corpus["journaled"][0])
    start = max(before, stop - ring.size)
    while start < stop:
        place = start % ring.size
        size = min(stop - start, ring.size - place)
        yield "journal", start, ring[place : place + size].copy()
        start += size


def _copy_sources(shard: ShardArrays) -> list[Piece]:
    """Return the sources of change signals: 104 bytes each."""
    signals = shard.signals
    sources = signals.sources[: int(signals.state["sources"][0])].copy()
    return [
        ("signal_state", 0, signals.state.copy()),
        ("signal_kinds", 0, signals.kinds.copy()),
        ("signal_sources", 0, sources),
    ]


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
    below = numbers[~marked]
    marked[~marked] = (bits[below >> 6] >> (below & 63).astype(np.uint64)) & np.uint64(1) != 0
    kept: Records = old[marked]
    return kept


def _copy(out: npt.NDArray[Any], records: npt.NDArray[Any], first: int, stop: int) -> None:
    """Copy records as bytes, which is faster and releases the interpreter's lock."""
    np.copyto(out[: stop - first].view(np.uint8), records[first:stop].view(np.uint8))


@bare_kernel
def _gather_rows(shard: ShardArrays, rows: Ints, out: Records, signals: Records) -> None:
    for i in range(rows.size):
        record: Record = out[i]
        record.row = rows[i]
        record.page = shard.pages.records[rows[i]]
        record.trace = shard.pages.traces[rows[i]]
        record.lease_until_s = shard.pages.lease_until_s[rows[i]]
        record.link = shard.seasonality.links[rows[i]]
        if signals.size:
            signal: Record = signals[i]
            signal.row = rows[i]
            signal.signal = shard.pages.signals[rows[i]]


@bare_kernel
def _gather_schedules(shard: ShardArrays, rows: Ints, most: int, out: Records) -> int:
    """Write the schedules of the pages ``rows``: int64[m] to `out`; return how many there are.

    Schedules beyond number `most` were assigned after the instant; the old records of their pages are kept elsewhere.
    """
    count = 0
    for i in range(rows.size):
        link: Record = shard.seasonality.links[rows[i]]
        number = link.schedule
        if 0 < number <= most:
            record: Record = out[count]
            record.number = number
            record.schedule = shard.seasonality.schedules[number]
            count += 1
    return count


@bare_kernel
def _gather_groups(shard: ShardArrays, groups: Ints, out: Records) -> None:
    for i in range(groups.size):
        record: Record = out[i]
        record.number = groups[i]
        record.group = shard.groups.records[groups[i]]
