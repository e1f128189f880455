"""Lists of the rows of a key's members, packed: rows next to each other take one byte each, others up to five.

A key's record holds its newest members: the first of them, and the steps from each to the next. A step is the
difference of two rows, its sign in the lowest bit, in bytes of 7 bits, the lowest first; bit 7 is set if another byte
follows. No step is 0, so a 0 ends them. When the steps have no room for another, the rows move to a record of their
own, which follows the key's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.related.related_schema import MOST_MEMBERS, ROW_STEPS, RelatedArrays

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Ints, Record

__all__ = ["append_row", "clear_rows", "list_rows", "remove_row"]

_BITS: Final = 7  # of a step in a byte
_MORE: Final = 1 << _BITS


@bare_kernel
def list_rows(related: RelatedArrays, key: int, out: Ints) -> int:
    """Write the rows of a key's members to ``out``: int64[MOST_MEMBERS], the newest first; return their number.

    O(members).
    """
    record: Record = related.keys[key]
    count = _unpack(record, out, 0)
    after = np.int64(record.after)
    while after:
        rows: Record = related.lists[after - 1]
        count = _unpack(rows, out, count)
        after = np.int64(rows.after)
    return count


@bare_kernel
def append_row(related: RelatedArrays, key: int, row: int) -> None:
    """Add a row to the members of a key. O(1). There must be room for one more record of rows."""
    record: Record = related.keys[key]
    last = np.int64(record.row)
    if last == 0:
        record.row = row + 1
        return
    at = 0
    while at < ROW_STEPS and record.steps[at] != 0:
        step, at = _read_step(record, at)
        last += step
    difference = row + 1 - last
    left = 2 * abs(difference) + (difference < 0)
    if at + _step_size(left) > ROW_STEPS:
        _move_rows(related, record)
        record.row = row + 1
        return
    while left >= _MORE:
        record.steps[at] = _MORE | (left & (_MORE - 1))
        left >>= _BITS
        at += 1
    record.steps[at] = left


@bare_kernel
def remove_row(related: RelatedArrays, key: int, row: int) -> None:
    """Remove a row from the members of a key. O(members)."""
    rows = related.work[MOST_MEMBERS:]
    count = list_rows(related, key, rows)
    clear_rows(related, key)
    for i in range(count - 1, -1, -1):
        if rows[i] != row:
            append_row(related, key, rows[i])


@bare_kernel
def clear_rows(related: RelatedArrays, key: int) -> None:
    """Remove all rows from the members of a key. O(members)."""
    state, record = related.state[0], related.keys[key]
    after = np.int64(record.after)
    while after:
        rows: Record = related.lists[after - 1]
        following = np.int64(rows.after)
        rows.after = state.free
        state.free = after
        after = following
    record.row = record.after = 0
    for i in range(ROW_STEPS):
        record.steps[i] = 0


@inlined_kernel
def _unpack(rows: Record, out: Ints, count: int) -> int:
    """Write the rows of one record to `out` from `count` on, the last one first; return their end. O(rows)."""
    row = np.int64(rows.row)
    if row == 0:
        return count
    out[count] = row - 1
    end = count + 1
    at = 0
    while at < ROW_STEPS and rows.steps[at] != 0:
        step, at = _read_step(rows, at)
        row += step
        out[end] = row - 1
        end += 1
    for i in range((end - count) // 2):
        out[count + i], out[end - 1 - i] = out[end - 1 - i], out[count + i]
    return end


@inlined_kernel
def _read_step(rows: Record, at: int) -> tuple[int, int]:
    """Return the step that begins at byte `at`, and where the next begins. O(1)."""
    value = shift = 0
    more = True
    while more:
        byte = int(np.int64(rows.steps[at]))
        value |= (byte & (_MORE - 1)) << shift
        shift += _BITS
        more = byte >= _MORE
        at += 1
    return -(value >> 1) if value & 1 else value >> 1, at


@inlined_kernel
def _step_size(value: int) -> int:
    """Return the bytes of a step. O(1)."""
    size = 1
    while value >= _MORE:
        value >>= _BITS
        size += 1
    return size


@inlined_kernel
def _move_rows(related: RelatedArrays, record: Record) -> None:
    """Move the rows in a key's record to a record of their own. O(1)."""
    state = related.state[0]
    number = np.int64(state.free)
    if number:
        state.free = related.lists[number - 1].after
    else:
        state.lists += 1
        number = np.int64(state.lists)
    rows: Record = related.lists[number - 1]
    rows.row = record.row
    rows.after = record.after
    for i in range(ROW_STEPS):
        rows.steps[i] = record.steps[i]
        record.steps[i] = 0
    record.after = number
