"""Score invalidation: the pages whose scores outcomes, the sweep and new weights may have changed.

For a ranking that keeps certificates of scores. Between two queries a page's score changes with the clock alone,
unless its row is invalidated here: a score depends only on the page's own records and on its group's published surges.
Groups whose surges change are recorded by themselves, and expanded to rows before these are taken.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.group_schema import GroupArrays
from streamsched.records.url_patterns import list_members

CAPACITY: Final = 1 << 20  # rows; beyond that, certifying all pages again is faster
GROUP_CAPACITY: Final = 1 << 16  # groups; the pages of more hardly fit into CAPACITY
_SWEPT_PER_ROW: Final = 4  # rows that the sweep passes per interval: that many count as one recorded row

# Positions in InvalidationBuffer.marks.
_COUNT: Final = 0  # rows recorded, including those that did not fit
_KNOWN: Final = 1  # rows at the last query: the reader finds later ones by itself
_GROUPS: Final = 2  # groups recorded, including those that did not fit


class InvalidationBuffer(NamedTuple):
    """The rows and groups invalidated since the last query."""

    rows: Ints  # int64[capacity]
    marks: Ints  # int64[3]
    groups: Ints  # int64[capacity of groups]
    since_s: Floats  # float64[capacity of groups]: only pages last visited before are affected


UNWATCHED: Final = InvalidationBuffer(  # knows no rows, so nothing is ever recorded
    np.empty(0, np.int64), np.zeros(3, np.int64), np.empty(0, np.int64), np.empty(0)
)


@inlined_kernel
def invalidate_row(buffer: InvalidationBuffer, row: int) -> None:
    """Record that the score of `row` may have changed. O(1)."""
    marks = buffer.marks
    if row < marks[_KNOWN]:
        at = marks[_COUNT]
        if at < buffer.rows.size:
            buffer.rows[at] = row
        marks[_COUNT] = at + 1


@inlined_kernel
def invalidate_group(buffer: InvalidationBuffer, group: int, since_s: float) -> None:
    """Record that the scores of the pages of `group` last visited before `since_s` may have changed. O(1)."""
    marks = buffer.marks
    if marks[_KNOWN]:
        at = marks[_GROUPS]
        if at and at <= buffer.groups.size and buffer.groups[at - 1] == group:  # often so while a surge is detected
            buffer.since_s[at - 1] = max(buffer.since_s[at - 1], since_s)
            return
        if at < buffer.groups.size:
            buffer.groups[at] = group
            buffer.since_s[at] = since_s
        marks[_GROUPS] = at + 1


class InvalidatedRows:
    """The rows of one shard whose scores may have changed since the last `take` or `forget`.

    ``corpus``: CORPUS[1] of the shard. Pages added since are not recorded: they are the rows from `known` on.
    """

    __slots__ = ("_corpus", "_sweep", "buffer")

    def __init__(self, corpus: Records, capacity: int = CAPACITY) -> None:
        groups = min(capacity, GROUP_CAPACITY)
        self.buffer = InvalidationBuffer(
            np.empty(capacity, np.int64), np.zeros(3, np.int64), np.empty(groups, np.int64), np.empty(groups)
        )
        self._corpus = corpus
        self.forget()

    @property
    def known(self) -> int:
        """The number of rows at the last query; later ones are new."""
        return int(self.buffer.marks[_KNOWN])

    def take(self) -> Ints | None:
        """Return the invalidated rows and forget them: int64[m], unordered, perhaps with duplicates; None for all.

        None if more than `capacity` were recorded, or the sweep passed all rows. O(m).
        """
        swept = self._swept()
        count = int(self.buffer.marks[_COUNT])
        rows = None if swept is None or count > self.buffer.rows.size else np.append(self.buffer.rows[:count], swept)
        self.forget()
        return rows

    def forget(self) -> None:
        """Forget all records, as after all pages were certified. O(1)."""
        self._sweep = self._place()
        self.buffer.marks[:] = 0, self._corpus["pages"][0], 0

    def add(self, rows: Ints) -> None:
        """Record ``rows``: int64[m]. O(m)."""
        rows = rows[(rows >= 0) & (rows < self.known)]
        count = int(self.buffer.marks[_COUNT])
        free = self.buffer.rows[count : count + rows.size]
        free[:] = rows[: free.size]
        self.buffer.marks[_COUNT] = count + rows.size

    def spread(self, groups: GroupArrays, pages: Records) -> None:
        """Expand the recorded groups to rows, before these are taken. O(pages of the groups), O(pages) at most."""
        _spread(groups, pages, self.buffer)

    def _place(self) -> tuple[int, int]:
        """Return the number of completed sweeps, and the next row of the current one."""
        return int(self._corpus["sweep"][0]), int(self._corpus["sweep_row"][0])

    def _swept(self) -> Ints | None:
        """Return the known rows that the sweep passed since the last query; None if these are all or too many."""
        (sweep, row), (sweep_before, row_before) = self._place(), self._sweep
        known = self.known
        if sweep == sweep_before:
            spans = [(row_before, row)]
        elif sweep == sweep_before + 1 and row < row_before:
            spans = [(row_before, known), (0, row)]
        else:
            return None
        cut = [(min(start, known), min(stop, known)) for start, stop in spans]
        if sum(stop - start for start, stop in cut) > _SWEPT_PER_ROW * self.buffer.rows.size:
            return None
        return np.concatenate([np.arange(start, stop) for start, stop in cut])


@bare_kernel
def _spread(groups: GroupArrays, pages: Records, buffer: InvalidationBuffer) -> None:
    marks = buffer.marks
    listed = 0  # rows passed: a group may be recorded many times, and have pages that none of its surges affects
    for i in range(min(marks[_GROUPS], buffer.groups.size)):
        group: Record = groups.records[buffer.groups[i]]
        listed += group.pages
    if marks[_GROUPS] > buffer.groups.size or listed > max(marks[_KNOWN], _SWEPT_PER_ROW * buffer.rows.size):
        marks[_COUNT] = buffer.rows.size + 1
    for i in range(min(marks[_GROUPS], buffer.groups.size)):
        if marks[_COUNT] > buffer.rows.size:
            break
        count = marks[_COUNT]
        since_s, known = buffer.since_s[i], marks[_KNOWN]
        marks[_COUNT] = list_members(groups, pages, buffer.groups[i], since_s, known, buffer.rows, count)
    marks[_GROUPS] = 0
