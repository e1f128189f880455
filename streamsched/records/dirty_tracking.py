"""Dirty tracking: the rows and groups written to since the last save, and their records as they were at its instant.

A save is a snapshot of one instant, written while the shard changes. Every writer marks a row or group before it writes
to it. At the first mark since that instant, the record is copied if the save has not copied it yet. So a save takes
each record once, as of its instant, however often it is written to meanwhile, and the marks are what the next increment
must hold. Rows and groups added after the instant are known by their numbers and need no marks.

Visits of other pages adjust a page: its prior, and its SEASONAL_LINK with the claims of related pages. If nothing else
of a row was written to, it has a mark of another kind, and an increment holds no more of it than that.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Hashes, Ints, Record, Records
from streamsched.numerics.compilation.machine_operations import trailing_zeros
from streamsched.numerics.growable_array import reserve_rows
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.page_schema import PageArrays
from streamsched.records.schema import (
    OLD_ADJUSTED,
    OLD_CONTENT,
    OLD_GROUP,
    OLD_ROW,
    OLD_SCHEDULE,
    OLD_SIGNAL,
    OLD_TEXT,
    DirtyArrays,
)
from streamsched.records.seasonality_schema import SeasonalityArrays
from streamsched.records.validators import chain_length

# Positions in DirtyArrays.counts.
_ROWS: Final = 0  # rows at the instant; 0 while nothing is marked
_GROUPS: Final = 1
_ROWS_COPIED: Final = 2  # rows that the save in progress has copied; `_ALL` if none is in progress
_GROUPS_COPIED: Final = 3
_OLD_ROWS: Final = 4  # records kept
_OLD_GROUPS: Final = 5
_OLD_SCHEDULES: Final = 6
_OLD_TEXTS: Final = 7
_OLD_ADJUSTED: Final = 8

_ALL: Final = 1 << 62


@inlined_kernel
def mark_dirty_row(dirty: DirtyArrays, pages: PageArrays, seasonality: SeasonalityArrays, row: int) -> None:
    """Mark that what the arrays hold of the page of `row` is about to be written to. O(1)."""
    if row < dirty.counts[_ROWS]:
        bit = np.uint64(1) << np.uint64(row & 63)
        if dirty.rows[row >> 6] & bit == np.uint64(0):
            dirty.rows[row >> 6] |= bit
            if row >= dirty.counts[_ROWS_COPIED]:
                _keep_row(dirty, pages, seasonality, row)


@inlined_kernel
def mark_adjusted_row(dirty: DirtyArrays, pages: PageArrays, seasonality: SeasonalityArrays, row: int) -> None:
    """Mark that the prior or the SEASONAL_LINK of the page of `row` is about to be written to, and no more. O(1)."""
    if row < dirty.counts[_ROWS]:
        bit = np.uint64(1) << np.uint64(row & 63)
        if (dirty.rows[row >> 6] | dirty.adjusted[row >> 6]) & bit == np.uint64(0):
            dirty.adjusted[row >> 6] |= bit
            if row >= dirty.counts[_ROWS_COPIED]:
                _keep_adjusted(dirty, pages, seasonality, row)


@inlined_kernel
def mark_dirty_group(dirty: DirtyArrays, groups: Records, group: int) -> None:
    """Mark that the record of `group` is about to be written to. O(1)."""
    if group < dirty.counts[_GROUPS]:
        bit = np.uint64(1) << np.uint64(group & 63)
        if dirty.groups[group >> 6] & bit == np.uint64(0):
            dirty.groups[group >> 6] |= bit
            if group >= dirty.counts[_GROUPS_COPIED]:
                _keep_group(dirty, groups, group)


@bare_kernel
def _keep_row(dirty: DirtyArrays, pages: PageArrays, seasonality: SeasonalityArrays, row: int) -> None:
    at = dirty.counts[_OLD_ROWS]
    old: Record = dirty.old_rows[at]
    old.row = row
    old.pages = pages.records[row]
    old.traces = pages.traces[row]
    old.lease_until_s = pages.lease_until_s[row]
    old.lease_s = pages.lease_s[row]
    old.links = seasonality.links[row]
    number = seasonality.links[row].schedule
    if number:
        kept: Record = dirty.old_schedules[dirty.counts[_OLD_SCHEDULES]]
        kept.number = number
        kept.schedules = seasonality.schedules[number]
        dirty.counts[_OLD_SCHEDULES] += 1
    if dirty.old_signals.size:
        signal: Record = dirty.old_signals[at]
        signal.row = row
        signal.signals = pages.signals[row]
    if dirty.old_contents.size:
        content: Record = dirty.old_contents[at]
        content.row = row
        content.contents = pages.contents[row]
    old.validators = pages.validators[row]
    if old.validators and dirty.old_texts.size:
        _keep_texts(dirty, pages, np.int64(old.validators))
    dirty.counts[_OLD_ROWS] = at + 1


@bare_kernel
def _keep_adjusted(dirty: DirtyArrays, pages: PageArrays, seasonality: SeasonalityArrays, row: int) -> None:
    at = dirty.counts[_OLD_ADJUSTED]
    old: Record = dirty.old_adjusted[at]
    page: Record = pages.records[row]
    old.row = row
    old.links = seasonality.links[row]
    old.pages.prior_shape = page.prior_shape
    old.pages.prior_exposure = page.prior_exposure
    dirty.counts[_OLD_ADJUSTED] = at + 1


@bare_kernel
def _keep_texts(dirty: DirtyArrays, pages: PageArrays, head: int) -> None:
    number: Any = head
    for _ in range(chain_length(pages.validator_texts, number)):
        kept: Record = dirty.old_texts[dirty.counts[_OLD_TEXTS]]
        kept.number = number - 1
        kept.validator_texts = pages.validator_texts[number - 1]
        dirty.counts[_OLD_TEXTS] += 1
        block: Record = pages.validator_texts[number - 1]
        number = np.int64(block.next)


@bare_kernel
def _keep_group(dirty: DirtyArrays, groups: Records, group: int) -> None:
    at = dirty.counts[_OLD_GROUPS]
    old: Record = dirty.old_groups[at]
    old.number = group
    old.groups = groups[group]
    dirty.counts[_OLD_GROUPS] = at + 1


@bare_kernel
def mark_dirty_rows(dirty: DirtyArrays, pages: PageArrays, seasonality: SeasonalityArrays, rows: Ints) -> None:
    """Mark that ``rows``: int64[m] are about to be written to. O(m)."""
    for i in range(rows.size):
        mark_dirty_row(dirty, pages, seasonality, rows[i])


@bare_kernel
def mark_dirty_groups(dirty: DirtyArrays, groups: Records, numbers: Ints) -> None:
    """Mark that the groups ``numbers``: int64[m] are about to be written to. O(m)."""
    for i in range(numbers.size):
        mark_dirty_group(dirty, groups, numbers[i])


@dataclass(frozen=True, slots=True)
class DirtySet:
    """The rows and groups written to between two instants, as bits, and how many there were at the first instant.

    ``rows``, ``adjusted``, ``groups``: uint64[words], as of `DirtyArrays`; rows from ``known_rows`` on, groups from
    ``known_groups`` on are new.
    """

    rows: Hashes
    adjusted: Hashes
    groups: Hashes
    known_rows: int
    known_groups: int


class OldRecords(NamedTuple):
    """Records as they were at the instant of a save, which had not copied them when they were written to."""

    rows: Records  # OLD_ROW[m]
    adjusted: Records  # OLD_ADJUSTED[a]
    schedules: Records  # OLD_SCHEDULE[s]
    signals: Records  # OLD_SIGNAL[m or 0]
    contents: Records  # OLD_CONTENT[m or 0]
    texts: Records  # OLD_TEXT[t]
    groups: Records  # OLD_GROUP[k]


class DirtyTracker:
    """The dirty marks of one shard. Not thread-safe: call it under the shard's lock.

    ``turn``: lock held while a save is in progress, one at a time; ``marking``: whether writes are marked.
    """

    def __init__(self) -> None:
        self.arrays = _no_marks()
        self.marking = False
        self.turn = threading.Lock()

    def begin(
        self, rows: int, groups: int, *, signals: bool = False, contents: bool = False, texts: int = 0
    ) -> DirtySet:
        """Begin a save now, of that many rows and groups; return what was marked before. O(rows / 64).

        `signals`, `contents`: whether pages have records of signals, and a `content`; `texts`: how many blocks of
        validators there are.
        """
        before, self.marking = self.arrays, True
        counts = np.array([rows, groups, 0, 0, 0, 0, 0, 0, 0], np.int64)
        old = _no_marks()._replace(
            old_rows=_allocate_lazily(OLD_ROW, rows),
            old_adjusted=_allocate_lazily(OLD_ADJUSTED, rows),
            old_schedules=_allocate_lazily(OLD_SCHEDULE, rows),
            old_signals=_allocate_lazily(OLD_SIGNAL, rows if signals else 0),
            old_contents=_allocate_lazily(OLD_CONTENT, rows if contents else 0),
            old_texts=_allocate_lazily(OLD_TEXT, texts),
            old_groups=_allocate_lazily(OLD_GROUP, groups),
        )
        self.arrays = old._replace(rows=_bits(rows), adjusted=_bits(rows), groups=_bits(groups), counts=counts)
        known_rows, known_groups = int(before.counts[_ROWS]), int(before.counts[_GROUPS])
        return DirtySet(before.rows, before.adjusted, before.groups, known_rows, known_groups)

    def copied(self, *, rows: int | None = None, groups: int | None = None) -> None:
        """Note that the save has copied all rows before `rows`, all groups before `groups`. O(1)."""
        if rows is not None:
            self.arrays.counts[_ROWS_COPIED] = rows
        if groups is not None:
            self.arrays.counts[_GROUPS_COPIED] = groups

    def end(self) -> OldRecords:
        """Stop keeping records; return those kept. Marking continues. O(1)."""
        counts = self.arrays.counts
        old = OldRecords(
            rows=self.arrays.old_rows[: counts[_OLD_ROWS]],
            adjusted=self.arrays.old_adjusted[: counts[_OLD_ADJUSTED]],
            schedules=self.arrays.old_schedules[: counts[_OLD_SCHEDULES]],
            signals=self.arrays.old_signals[: counts[_OLD_ROWS]],
            contents=self.arrays.old_contents[: counts[_OLD_ROWS]],
            texts=self.arrays.old_texts[: counts[_OLD_TEXTS]],
            groups=self.arrays.old_groups[: counts[_OLD_GROUPS]],
        )
        counts[_ROWS_COPIED:] = _ALL, _ALL, 0, 0, 0, 0, 0
        empty = _no_marks()
        self.arrays = self.arrays._replace(
            old_rows=empty.old_rows,
            old_adjusted=empty.old_adjusted,
            old_schedules=empty.old_schedules,
            old_signals=empty.old_signals,
            old_contents=empty.old_contents,
            old_texts=empty.old_texts,
            old_groups=empty.old_groups,
        )
        return old

    def take_back(self, dirty: DirtySet) -> None:
        """Mark again what `begin` returned, after a save that failed. O(rows / 64)."""
        counts = self.arrays.counts
        _unite(self.arrays.rows, dirty.rows, dirty.known_rows, int(counts[_ROWS]))
        self.arrays.adjusted[: dirty.adjusted.size] |= dirty.adjusted
        _unite(self.arrays.groups, dirty.groups, dirty.known_groups, int(counts[_GROUPS]))

    def stop(self) -> None:
        """Stop marking. O(1)."""
        self.arrays, self.marking = _no_marks(), False


def find_dirty(bits: Hashes, start: int, stop: int) -> Ints:
    """Return the numbers from `start`, a multiple of 64, up to `stop` whose bits are set: int64[m], ascending.

    O(stop - start) / 64, and O(m).

    >>> find_dirty(np.array([0b1001, 1], np.uint64), 0, 65).tolist()
    [0, 3, 64]
    """
    words = bits[start >> 6 : -(-stop // 64)]
    found = np.empty(int(np.bitwise_count(words).sum()), np.int64)
    _list_bits(words, start, found)
    return found[: int(np.searchsorted(found, stop))]


@bare_kernel
def _list_bits(words: Hashes, start: int, out: Ints) -> None:
    count = 0
    for i in range(words.size):
        word = words[i]
        while word != np.uint64(0):
            out[count] = start + 64 * i + trailing_zeros(word)
            count += 1
            word &= word - np.uint64(1)


def _bits(count: int) -> Hashes:
    return np.zeros(-(-count // 64), np.uint64)


def _unite(bits: Hashes, before: Hashes, known: int, count: int) -> None:
    """Set the bits that are set in `before`, and those of numbers from `known` up to `count`, which were new then."""
    bits[: before.size] |= before
    numbers = np.arange(known, min(count, -(-known // 64) * 64))
    np.bitwise_or.at(bits, numbers >> 6, np.uint64(1) << (numbers & 63).astype(np.uint64))
    bits[-(-known // 64) :] = ~np.uint64(0)


def _allocate_lazily(dtype: np.dtype[Any], count: int) -> Records:
    """Return an array of `count` records for sparse use: memory is committed on use."""
    records = reserve_rows(dtype, count, large_pages=False)
    return records if records.size == count else np.zeros(count, dtype)


def _no_marks() -> DirtyArrays:
    counts = np.array([0, 0, _ALL, _ALL, 0, 0, 0, 0, 0], np.int64)
    none = np.empty(0, np.uint64)
    no_rows, no_schedules, no_signals = np.empty(0, OLD_ROW), np.empty(0, OLD_SCHEDULE), np.empty(0, OLD_SIGNAL)
    no_contents, no_texts, no_groups = np.empty(0, OLD_CONTENT), np.empty(0, OLD_TEXT), np.empty(0, OLD_GROUP)
    no_adjusted = np.empty(0, OLD_ADJUSTED)
    return DirtyArrays(
        none, none, none, no_rows, no_adjusted, no_schedules, no_signals, no_contents, no_texts, no_groups, counts
    )
