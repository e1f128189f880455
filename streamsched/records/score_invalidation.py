"""Which pages' scores outcomes, the sweep and new weights may have moved: for a ranking that keeps bounds of them.

Between two askings a page's score moves by the clock alone, unless its row is told here: all that a score reads stands
in the page's own record, or in what its group shows of surges. Groups that show something else are noted by themselves,
and turned into rows before these are taken.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Floats, Ints, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.group_schema import GroupArrays
from streamsched.records.pattern_members import list_members

__all__ = ["CAPACITY", "UNWATCHED", "InvalidatedRows", "InvalidationBuffer", "invalidate_group", "invalidate_row"]

CAPACITY: Final = 1 << 16  # rows; where more outcomes came, bounds are better made anew
GROUP_CAPACITY: Final = 1 << 12  # groups; of so many the pages are hardly fewer than rows have room
_SWEPT_PER_ROW: Final = 4  # rows that the sweep passes for each interval: as many of these are told for one noted

# Positions in InvalidationBuffer.marks.
_COUNT: Final = 0  # rows noted, those for which there was no room too
_KNOWN: Final = 1  # rows given out at the last asking: whoever asked finds those from there on by itself
_GROUPS: Final = 2  # groups noted, those for which there was no room too


class InvalidationBuffer(NamedTuple):
    """The rows and groups noted since the last asking, as kernels take them."""

    rows: Ints  # int64[capacity]
    marks: Ints  # int64[3]
    groups: Ints  # int64[capacity of groups]
    since_s: Floats  # float64[capacity of groups]: concerned are a group's pages that were last visited before


UNWATCHED: Final = InvalidationBuffer(  # no row is known: none is ever noted, nor any group
    np.empty(0, np.int64), np.zeros(3, np.int64), np.empty(0, np.int64), np.empty(0)
)


@inlined_kernel
def invalidate_row(noted: InvalidationBuffer, row: int) -> None:
    """Note that the score of `row` may have moved. O(1)."""
    marks = noted.marks
    if row < marks[_KNOWN]:
        at = marks[_COUNT]
        if at < noted.rows.size:
            noted.rows[at] = row
        marks[_COUNT] = at + 1


@inlined_kernel
def invalidate_group(noted: InvalidationBuffer, group: int, since_s: float) -> None:
    """Note that the scores of the pages of `group` that were last visited before `since_s` may have moved. O(1)."""
    marks = noted.marks
    if marks[_KNOWN]:
        at = marks[_GROUPS]
        if at and at <= noted.groups.size and noted.groups[at - 1] == group:  # as while a surge comes to light
            noted.since_s[at - 1] = max(noted.since_s[at - 1], since_s)
            return
        if at < noted.groups.size:
            noted.groups[at] = group
            noted.since_s[at] = since_s
        marks[_GROUPS] = at + 1


class InvalidatedRows:
    """The rows of one shard whose scores may have moved since the last `take` or `forget`, or since it was made.

    ``corpus``: CORPUS[1], the shard's own. Pages that came since are not told: they are the rows from `known` on.
    """

    __slots__ = ("_corpus", "_sweep", "noted")

    def __init__(self, corpus: Records, capacity: int = CAPACITY) -> None:
        groups = min(capacity, GROUP_CAPACITY)
        self.noted = InvalidationBuffer(
            np.empty(capacity, np.int64), np.zeros(3, np.int64), np.empty(groups, np.int64), np.empty(groups)
        )
        self._corpus = corpus
        self.forget()

    @property
    def known(self) -> int:
        """How many rows there were at the last asking: those from there on are new."""
        return int(self.noted.marks[_KNOWN])

    def take(self) -> Ints | None:
        """Return the rows, int64[m], in no order and some perhaps twice, and forget them; None for all that are known.

        None where more than `capacity` were noted, or the sweep went all round. O(m).
        """
        swept = self._swept()
        count = int(self.noted.marks[_COUNT])
        rows = None if swept is None or count > self.noted.rows.size else np.append(self.noted.rows[:count], swept)
        self.forget()
        return rows

    def forget(self) -> None:
        """Forget what was noted, as after all bounds were made anew. O(1)."""
        self._sweep = self._place()
        self.noted.marks[:] = 0, self._corpus["sorted"][0], 0

    def add(self, rows: Ints) -> None:
        """Note ``rows``: int64[m]. O(m)."""
        rows = rows[(rows >= 0) & (rows < self.known)]
        count = int(self.noted.marks[_COUNT])
        room = self.noted.rows[count : count + rows.size]
        room[:] = rows[: room.size]
        self.noted.marks[_COUNT] = count + rows.size

    def spread(self, groups: GroupArrays, pages: Records) -> None:
        """Turn the groups that were noted into rows: before these are taken. O(pages of the groups)."""
        _spread(groups, pages, self.noted)

    def _place(self) -> tuple[int, int]:
        """Return how many sweeps are over, and where the present one stands."""
        return int(self._corpus["sweep"][0]), int(self._corpus["sweep_row"][0])

    def _swept(self) -> Ints | None:
        """Return the known rows that the sweep passed since the last asking, None where these are all or too many."""
        (sweep, row), (sweep_before, row_before) = self._place(), self._sweep
        known = self.known
        if sweep == sweep_before:
            spans = [(row_before, row)]
        elif sweep == sweep_before + 1 and row < row_before:
            spans = [(row_before, known), (0, row)]
        else:
            return None
        cut = [(min(start, known), min(stop, known)) for start, stop in spans]
        if sum(stop - start for start, stop in cut) > _SWEPT_PER_ROW * self.noted.rows.size:
            return None
        return np.concatenate([np.arange(start, stop) for start, stop in cut])


@bare_kernel
def _spread(groups: GroupArrays, pages: Records, noted: InvalidationBuffer) -> None:
    marks = noted.marks
    if marks[_GROUPS] > noted.groups.size:
        marks[_COUNT] = noted.rows.size + 1
    for i in range(min(marks[_GROUPS], noted.groups.size)):
        if marks[_COUNT] > noted.rows.size:
            break
        count = marks[_COUNT]
        since_s, known = noted.since_s[i], marks[_KNOWN]
        marks[_COUNT] = list_members(groups, pages, noted.groups[i], since_s, known, noted.rows, count)
    marks[_GROUPS] = 0
