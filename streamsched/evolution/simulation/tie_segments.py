"""Segments of the tie order: their bounds within a class's run of page numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.numerics.jit import inlined_kernel

if TYPE_CHECKING:
    from streamsched.evolution.simulation.arena import Arena

__all__ = ["count_within", "find_reach", "lower_bound"]


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

    O(classes · log² pages).
    """
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
