"""Where in a class's run of page numbers a stretch of the order of ties begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.numerics.jit import inlined_kernel

if TYPE_CHECKING:
    from streamsched.evolution.simulation.arena import Arena

__all__ = ["count_within", "cut_group", "find_number"]


@inlined_kernel
def find_number(arena: Arena, one: int, number: int) -> int:
    """Return how many of the pages of class `one` have numbers below `number`. O(log size)."""
    start = arena.starts[one]
    low, high = start, start + arena.sizes[one]
    while low < high:
        middle = (low + high) // 2
        if arena.members[middle] < number:
            low = middle + 1
        else:
            high = middle
    return int(low - start)


@inlined_kernel
def count_within(arena: Arena, one: int, offset: int, reach: int, pages: int) -> int:
    """Return how many pages of class `one` lie less than `reach` from `offset` on, round all `pages`. O(log size)."""
    begin = find_number(arena, one, offset)
    if offset + reach <= pages:
        return find_number(arena, one, offset + reach) - begin
    return int(arena.sizes[one]) - begin + find_number(arena, one, offset + reach - pages)


@inlined_kernel
def cut_group(arena: Arena, group: tuple[int, int], offset: int, taken: int, pages: int) -> int:
    """Return how far from `offset` on `taken` pages of the chosen classes `group` lie. O(classes · log² pages)."""
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
