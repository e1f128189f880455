"""Runs of page numbers, one for each class, and the order of tied pages of several classes.

Tied pages are ordered by comparison or by bitmaps: O(pages / 4096 + words marked).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.evolution.simulation.arena import PADDING, UNSORTED, Arena, PageNumbers, SimulatedCrawl
from streamsched.numerics.arrays import Record
from streamsched.numerics.compilation.machine_operations import count_ones, trailing_zeros
from streamsched.numerics.jit import inlined_kernel

_BLOCK: Final = 2048  # members moved at a time: 8 KiB
FEW_TIED: Final = 256  # pages: up to here, comparisons of all pairs, 16 at a time, are faster than bitmaps
_ALL: Final = np.uint64(2**64 - 1)  # such a group of 64 words is processed word by word, without a search
_WORDS_PER_PAGE = 4  # of the bitmap: with fewer per marked page, scanning all words is cheaper


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


@inlined_kernel
def mark_run(arena: Arena, start: int, stop: int) -> None:
    """Mark the pages ``members[start:stop]`` in the bitmap. O(pages marked), or pages / 4096 if that is more."""
    members, bits, touched = arena.members, arena.member_bits, arena.touched
    if (stop - start) * _WORDS_PER_PAGE > bits.size:  # most words will be touched: mark all of them
        for i in range(touched.size):
            touched[i] = _ALL
    else:
        for i in range(start, stop):
            touched[members[i] >> 12] |= np.uint64(1) << np.uint64((members[i] >> 6) & 63)
    for i in range(start, stop):
        bits[members[i] >> 6] |= np.uint64(1) << np.uint64(members[i] & 63)


@inlined_kernel
def is_unsorted(arena: Arena, class_id: int) -> bool:
    """Return whether the page numbers of class `class_id` are unsorted. O(1)."""
    page: Record = arena.pages[class_id]
    return bool(page.flags & UNSORTED)


@inlined_kernel
def sort_class(arena: Arena, class_id: int) -> None:
    """Sort the page numbers of class `class_id`, ascending. O(size + pages / 4096)."""
    start = arena.starts[class_id]
    mark_run(arena, start, start + arena.sizes[class_id])
    for group in range(arena.touched.size):
        touched = arena.touched[group]
        arena.touched[group] = 0
        if touched == _ALL:
            for word in range(group << 6, min((group + 1) << 6, arena.member_bits.size)):
                start = _unmark_word(arena, word, start)
        else:
            while touched:
                start = _unmark_word(arena, (group << 6) + trailing_zeros(touched), start)
                touched &= touched - np.uint64(1)
    page: Record = arena.pages[class_id]
    page.flags &= ~UNSORTED


@inlined_kernel
def _unmark_word(arena: Arena, word: int, start: int) -> int:
    """Write the pages marked in `word` to `members` from `start` on and unmark them; return where they end."""
    members = arena.member_bits[word]
    arena.member_bits[word] = 0
    place, first = np.uint64(start), word << 6
    while members:
        arena.members[place] = first + trailing_zeros(members)
        members &= members - np.uint64(1)
        place += np.uint64(1)
    return int(np.int64(place))


@inlined_kernel
def add_tied_gains(crawl: SimulatedCrawl, at: int, offset: int, position: int, before: tuple[int, int]) -> None:
    """Add the gains of the marked pages, at positions from `position` on in the tie order from `offset` on; unmark
    them.

    `at`: index of the ranked cycle. `before`: its hits and misses before these pages were visited. A page's rank is the
    number of marked pages with lower numbers: those in earlier words, counted once, plus those in its own.
    O(pages visited), or pages / 4096 if that is more.
    """
    arena, discounts = crawl.arena, crawl.history.discounts
    arena.touched[offset >> 12] |= np.uint64(1) << np.uint64((offset >> 6) & 63)
    total = _count_words(arena)
    first_rank = _count_below(arena, offset)
    hits = arena.hits
    first = second = 0.0
    i = before[0]
    while i + 2 <= arena.counts[0].hits:  # two sums: a single one would be a dependency chain
        first += discounts[position + _rotated_rank(_count_below(arena, hits[i]), first_rank, total)]
        second += discounts[position + _rotated_rank(_count_below(arena, hits[i + 1]), first_rank, total)]
        i += 2
    if i < arena.counts[0].hits:
        first += discounts[position + _rotated_rank(_count_below(arena, hits[i]), first_rank, total)]
    crawl.trace.gains[at] += first + second
    if crawl.trace.visited.shape[0] > 0:
        _trace_tied(crawl, at, position, before, (first_rank, total))
    for group in range(arena.touched.size):
        touched = arena.touched[group]
        arena.touched[group] = 0
        if touched == _ALL:
            for word in range(group << 6, min((group + 1) << 6, arena.member_bits.size)):
                arena.member_bits[word] = 0
        else:
            while touched:
                arena.member_bits[(group << 6) + trailing_zeros(touched)] = 0
                touched &= touched - np.uint64(1)


@inlined_kernel
def add_few_tied_gains(crawl: SimulatedCrawl, at: int, offset: int, position: int, before: tuple[int, int]) -> None:
    """Add the gains of pages visited at positions from `position` on in the tie order from `offset` on.

    As `add_tied_gains`, to the last bit, but without marks. The pages are those after `before`, hits and
    misses, in the arena. O(hits · pages).
    """
    arena, discounts, pages = crawl.arena, crawl.history.discounts, crawl.warm_state.members.size
    counts, distances = arena.counts[0], arena.buffer
    size = 0
    for i in range(before[0], counts.hits):
        distances[size] = _distance(arena.hits[i], offset, pages)
        size += 1
    hits = size
    for i in range(before[1], counts.misses):
        distances[size] = _distance(arena.misses[i], offset, pages)
        size += 1
    for i in range(PADDING):
        distances[size + i] = pages  # farther than any
    sums = (0.0, 0.0)
    for i in range(hits):
        sums = (sums[1], sums[0] + discounts[position + _count_below_distance(distances, size, distances[i])])
    crawl.trace.gains[at] += sums[0] + sums[1]


@inlined_kernel
def _distance(page: int, offset: int, pages: int) -> int:
    """Return a page's distance from `offset`, cyclically over `pages`."""
    distance = page - offset
    return distance if distance >= 0 else distance + pages


@inlined_kernel
def _count_below_distance(distances: PageNumbers, size: int, limit: int) -> int:
    """Return how many of ``distances[:size]`` are below `limit`; PADDING more elements are not."""
    blocks = (size + PADDING - 1) // PADDING
    count = 0
    for i in range(np.uint64(blocks * PADDING)):
        count += distances[i] < limit
    return count


@inlined_kernel
def _count_words(arena: Arena) -> int:
    """Store for each touched word the number of marked pages in the words before it; return the total."""
    total = 0
    for group in range(arena.touched.size):
        touched = arena.touched[group]
        if touched == _ALL:
            for word in range(group << 6, min((group + 1) << 6, arena.member_bits.size)):
                arena.below[word] = total
                total += count_ones(arena.member_bits[word])
        else:
            while touched:
                word = (group << 6) + trailing_zeros(touched)
                touched &= touched - np.uint64(1)
                arena.below[word] = total
                total += count_ones(arena.member_bits[word])
    return total


@inlined_kernel
def _count_below(arena: Arena, page: int) -> int:
    """Return the number of marked pages with numbers below that of a page in a touched word."""
    lower = (np.uint64(1) << np.uint64(page & 63)) - np.uint64(1)
    return int(arena.below[page >> 6]) + count_ones(arena.member_bits[page >> 6] & lower)


@inlined_kernel
def _rotated_rank(below: int, first_rank: int, total: int) -> int:
    """Return a page's rank in the tie order, which starts after `first_rank` of `total` marked pages."""
    return below - first_rank if below >= first_rank else below - first_rank + total


@inlined_kernel
def _trace_tied(
    crawl: SimulatedCrawl, at: int, position: int, before: tuple[int, int], rotation: tuple[int, int]
) -> None:
    """Write the marked pages to the trace."""
    arena, counts = crawl.arena, crawl.arena.counts[0]
    for hit in range(2):
        visited = arena.hits if hit else arena.misses
        for i in range(before[0] if hit else before[1], counts.hits if hit else counts.misses):
            page = visited[i]
            is_new = np.int64(arena.new_bits[page >> 6] >> np.uint64(page & 63) & np.uint64(1))
            arena.new_bits[page >> 6] &= ~(np.uint64(1) << np.uint64(page & 63))
            rank = _rotated_rank(_count_below(arena, page), rotation[0], rotation[1])
            crawl.trace.visited[at, position + rank] = page << 2 | is_new << 1 | hit
