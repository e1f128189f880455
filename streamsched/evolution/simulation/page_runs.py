"""Runs of page numbers, one for each class: bounds of segments of the tie order within them, copies and gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import inlined_kernel

if TYPE_CHECKING:
    from streamsched.evolution.simulation.arena import Arena, PageNumbers

__all__ = ["close_gap", "copy_pages", "count_within", "find_reach", "lower_bound"]

_BLOCK: Final = 2048  # members moved at a time: 8 KiB


@inlined_kernel
def lower_bound(arena: Arena, class_id: int, number: int) -> int:
    """Return the number of pages of class `class_id` with numbers below `number`. O(log size)."""
    start = arena.starts[class_id]
    low, high = start, start + arena.sizes[class_id]
    while low < high:
        middle = (low + high) // 2
        if arena.members[middle] < number:
            low = middle + 1
        else:
            high = middle
    return int(low - start)


@inlined_kernel
def count_within(arena: Arena, class_id: int, offset: int, length: int, pages: int) -> int:
    """Return the number of pages of class `class_id` less than `length` after `offset`, cyclically over `pages`.

    O(log size).
    """
    begin = lower_bound(arena, class_id, offset)
    if offset + length <= pages:
        return lower_bound(arena, class_id, offset + length) - begin
    return int(arena.sizes[class_id]) - begin + lower_bound(arena, class_id, offset + length - pages)


@inlined_kernel
def find_reach(arena: Arena, group: tuple[int, int], offset: int, taken: int, pages: int) -> int:
    """Return the distance from `offset` within which the chosen classes `group` have `taken` pages.

    O(classes · log² pages), O(log size) for one class.
    """
    if group[1] - group[0] == 1:
        return _find_reach_within(arena, arena.chosen[group[0]], offset, taken, pages)
    low, high = 1, pages
    while low < high:
        middle = (low + high) // 2
        within = 0
        for j in range(group[0], group[1]):
            within += count_within(arena, arena.chosen[j], offset, middle, pages)
        if within >= taken:
            high = middle
        else:
            low = middle + 1
    return low


@inlined_kernel
def _find_reach_within(arena: Arena, class_id: int, offset: int, taken: int, pages: int) -> int:
    """Return the distance from `offset` within which class `class_id` has `taken` pages, at least 1. O(log size)."""
    last = lower_bound(arena, class_id, offset) + taken - 1
    if last >= arena.sizes[class_id]:
        last -= int(arena.sizes[class_id])
    distance = int(arena.members[arena.starts[class_id] + last]) - offset
    return distance + 1 if distance >= 0 else distance + pages + 1


@inlined_kernel
def close_gap(arena: Arena, class_id: int, begin: int, end: int) -> None:
    """Remove the members from `begin` to `end` of class `class_id`; move those before or after, whichever are fewer."""
    start, size = arena.starts[class_id], arena.sizes[class_id]
    if begin < size - end:
        _move_members(arena, start, start + end - begin, begin)
        arena.starts[class_id] = start + end - begin
    else:
        _move_members(arena, start + end, start + begin, size - end)


@inlined_kernel
def _move_members(arena: Arena, source: int, target: int, count: int) -> None:
    """Move `count` members to a place that may overlap theirs, through the buffer. O(count).

    Copies between two arrays use vectors, whatever the distance; in blocks, so that the buffer stays in a close cache.
    """
    for done in range(0, count, _BLOCK):
        size = min(_BLOCK, count - done)
        at = done if target < source else count - done - size  # start at the end that is overwritten first
        copy_pages(arena.members, source + at, arena.buffer, 0, size)
        copy_pages(arena.buffer, 0, arena.members, target + at, size)


@inlined_kernel
def copy_pages(source: PageNumbers, first: int, target: PageNumbers, to: int, count: int) -> None:
    """Copy ``source[first:first + count]`` to `target` from `to` on; two arrays. O(count)."""
    begin, place = np.uint64(first), np.uint64(to)  # signed ones could index from the end
    for i in range(np.uint64(count)):
        target[place + i] = source[begin + i]
