"""Putting pages of several classes in order, by bitmaps over page numbers: O(pages / 4096 + words marked)."""

from __future__ import annotations

import numpy as np

from streamsched.evolution.arena import Arena, Crawl
from streamsched.jit import count_ones, inlined, trailing_zeros

__all__ = ["mark", "place_tied", "write_marked"]


@inlined
def mark(arena: Arena, page: int) -> None:
    """Mark a page in the bitmap. O(1)."""
    arena.touched[page >> 12] |= np.uint64(1) << np.uint64((page >> 6) & 63)
    arena.member_bits[page >> 6] |= np.uint64(1) << np.uint64(page & 63)


@inlined
def write_marked(arena: Arena, start: int) -> None:
    """Write the marked pages, ascending, to `members` from `start` on, and unmark them."""
    for group in range(arena.touched.size):
        touched = arena.touched[group]
        arena.touched[group] = 0
        while touched:
            word = (group << 6) + trailing_zeros(touched)
            touched &= touched - np.uint64(1)
            members = arena.member_bits[word]
            arena.member_bits[word] = 0
            while members:
                arena.members[start] = (word << 6) + trailing_zeros(members)
                members &= members - np.uint64(1)
                start += 1


@inlined
def place_tied(crawl: Crawl, at: int, offset: int, place: int) -> None:
    """Put the marked pages into their places from `place` on, in the order of ties from `offset` on; unmark them.

    `at`: the number of the ranked cycle.
    """
    arena = crawl.arena
    begin = offset >> 6
    low = ~np.uint64(0) << np.uint64(offset & 63)
    words = arena.member_bits.size
    place = _place_words(crawl, at, place, (begin, begin + 1), low)
    place = _place_words(crawl, at, place, (begin + 1, words), ~np.uint64(0))
    place = _place_words(crawl, at, place, (0, begin), ~np.uint64(0))
    _place_words(crawl, at, place, (begin, begin + 1), ~low)
    for i in range(arena.touched.size):
        arena.touched[i] = 0


@inlined
def _place_words(crawl: Crawl, at: int, place: int, run: tuple[int, int], mask: int) -> int:
    """Put the pages of a run of the bitmap's words into their places, those in `mask`; return the next place."""
    first, last = run
    arena = crawl.arena
    for group in range(first >> 6, (last + 63) >> 6):
        touched = arena.touched[group]
        while touched:
            word = (group << 6) + trailing_zeros(touched)
            touched &= touched - np.uint64(1)
            if first <= word < last:
                members = arena.member_bits[word] & mask
                _place_word(crawl, at, place, word, members)
                place += count_ones(members)
                arena.member_bits[word] &= ~members
                arena.hit_bits[word] &= ~members
                arena.fresh_bits[word] &= ~members
    return place


@inlined
def _place_word(crawl: Crawl, at: int, place: int, word: int, members: np.uint64) -> None:
    """Enter the pages `members` of one word of the bitmap from `place` on."""
    ground, arena, trace = crawl.ground, crawl.arena, crawl.trace
    hits = arena.hit_bits[word] & members
    while hits:
        lowest = hits & (~hits + np.uint64(1))
        trace.gains[at] += ground.discounts[place + count_ones(members & (lowest - np.uint64(1)))]
        hits ^= lowest
    if trace.visited.shape[0] > 0:
        while members:
            lowest = members & (~members + np.uint64(1))
            flags = 1 if arena.hit_bits[word] & lowest else 0
            if arena.fresh_bits[word] & lowest:
                flags |= 2
            trace.visited[at, place] = ((word << 6) + trailing_zeros(lowest)) << 2 | flags
            place += 1
            members ^= lowest
