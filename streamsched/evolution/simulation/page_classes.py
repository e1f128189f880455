"""Updates of page classes by a cycle's visits: each class splits into pages not visited, changed and not changed.

The last two get a new state. Parts with equal new state, from whatever classes, become one class. Its pages are
collected at the end of the cycle, and sorted when their order matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamsched.estimation.gamma_posterior import count_visit
from streamsched.evolution.simulation.arena import (
    READS_CHANGES,
    READS_GROUP,
    READS_HISTORY,
    READS_LAST,
    READS_LINK,
    READS_OWN,
    READS_RATE,
    READS_SEASONALITY,
    READS_SIGNIFICANCE,
    READS_VISITS,
    READS_WEIGHTED,
    UNSORTED,
    VISITED_AGAIN,
    Arena,
    SimulatedCrawl,
)
from streamsched.evolution.simulation.simulated_events import SeasonalityInputs, update_class_seasonality, update_rate
from streamsched.evolution.simulation.tie_order import close_gap, copy_pages, count_within, lower_bound, mark_run
from streamsched.numerics.arrays import Hashes, Record
from streamsched.numerics.jit import inlined_kernel, mix

_NEW = 2  # in Trace.visited


class TieSegment(NamedTuple):
    """The pages to visit of classes with equal score, and their position in the batch."""

    cycle: int
    offset: int  # the page number that ranks first
    length: int  # distance from it up to which pages are visited
    position: int  # of the first page in the batch
    shared: bool  # several classes or an unsorted one: positions are known after all visits
    marked: bool  # shared, and the positions need the bitmap


class _ClassVisit(NamedTuple):
    """Common data of the visits to one class."""

    at: int  # index of the ranked cycle
    cycle: int
    is_new: int  # 2 if the class was not visited since the warm-up
    shared: bool
    marked: bool


@inlined_kernel
def begin_cycle(arena: Arena, chosen: int) -> None:
    """Reset the counts of a cycle's visits to `chosen` classes; a class has two parts at most."""
    counts = arena.counts[0]
    counts.before = counts.classes
    counts.hits = counts.misses = counts.parts = counts.vacant = 0
    counts.table = 1
    while counts.table < min(4 * chosen, arena.table.size):
        counts.table *= 2


@inlined_kernel
def visit_class(crawl: SimulatedCrawl, class_id: int, segment: TieSegment) -> None:
    """Visit the pages of class `class_id` within the segment. O(log size + pages moved)."""
    arena = crawl.arena
    pages = crawl.warm_state.members.size
    start, size = arena.starts[class_id], arena.sizes[class_id]
    page: Record = arena.pages[class_id]
    begin = 0 if page.flags & UNSORTED else lower_bound(arena, class_id, segment.offset)
    taken = size if segment.length == pages else count_within(arena, class_id, segment.offset, segment.length, pages)
    if taken == 0:
        return
    visit = _ClassVisit(
        at=segment.cycle - crawl.rules.warmup,
        cycle=segment.cycle,
        is_new=0 if page.flags & VISITED_AGAIN else _NEW,
        shared=segment.shared,
        marked=segment.marked,
    )
    position = segment.position
    counts = arena.counts[0]
    hits, misses = counts.hits, counts.misses
    end = begin + taken
    if end <= size:
        _visit_run(crawl, visit, (start + begin, start + end), position)
        close_gap(arena, class_id, begin, end)
    else:  # from the offset to the end, then from the start; processed by ascending number
        wrapped = end - size
        _visit_run(crawl, visit, (start, start + wrapped), position + size - begin)
        _visit_run(crawl, visit, (start + begin, start + size), position)
        arena.starts[class_id] = start + wrapped
    arena.sizes[class_id] = size - taken
    if size == taken:
        arena.vacant[counts.vacant] = class_id
        counts.vacant += 1
    if counts.hits > hits:
        _add_part(crawl, class_id, segment.cycle, True, (hits, counts.hits - hits))
    if counts.misses > misses:
        _add_part(crawl, class_id, segment.cycle, False, (~misses, counts.misses - misses))
    crawl.trace.hits[visit.at] = counts.hits


@inlined_kernel
def _visit_run(crawl: SimulatedCrawl, visit: _ClassVisit, run: tuple[int, int], position: int) -> None:
    """Visit consecutive members of a class, the first at `position`; append them to hits and misses.

    Without branches on the results, because they are unpredictable for the processor too.
    """
    members, hits, misses, stale = crawl.arena.members, crawl.arena.hits, crawl.arena.misses, crawl.arena.stale
    counts = crawl.arena.counts[0]
    found, missed = np.uint64(counts.hits), np.uint64(counts.misses)  # signed ones could index from the end
    for i in range(np.uint64(run[0]), np.uint64(run[1])):
        hit = _bit(stale, np.uint64(members[i]))
        hits[found] = members[i]
        misses[missed] = members[i]
        found += hit
        missed += np.uint64(1) - hit
    counts.hits, counts.misses = found, missed
    if visit.marked:
        mark_run(crawl.arena, run[0], run[1])
    elif crawl.rules.positions_matter and not visit.shared:
        _add_gains(crawl, visit.at, run, position)
    if crawl.trace.visited.shape[0] > 0:
        _trace_run(crawl, visit, run, position)


@inlined_kernel
def _add_gains(crawl: SimulatedCrawl, at: int, run: tuple[int, int], position: int) -> None:
    """Add the gains of visits to consecutive members of a class, the first at `position`.

    Four sums, because a single one would be a dependency chain.
    """
    members, stale, discounts = crawl.arena.members, crawl.arena.stale, crawl.history.discounts
    first = second = third = fourth = 0.0
    i, stop = np.uint64(run[0]), np.uint64(run[1])  # signed ones could index from the end
    place = np.uint64(position)
    while i + np.uint64(4) <= stop:
        first += discounts[place] * _bit(stale, np.uint64(members[i]))
        second += discounts[place + np.uint64(1)] * _bit(stale, np.uint64(members[i + np.uint64(1)]))
        third += discounts[place + np.uint64(2)] * _bit(stale, np.uint64(members[i + np.uint64(2)]))
        fourth += discounts[place + np.uint64(3)] * _bit(stale, np.uint64(members[i + np.uint64(3)]))
        i += np.uint64(4)
        place += np.uint64(4)
    while i < stop:
        first += discounts[place] * _bit(stale, np.uint64(members[i]))
        i += np.uint64(1)
        place += np.uint64(1)
    crawl.trace.gains[at] += (first + second) + (third + fourth)


@inlined_kernel
def _bit(bits: Hashes, page: np.uint64) -> np.uint64:
    """Return the page's bit, 0 or 1."""
    return np.uint64(bits[page >> np.uint64(6)] >> (page & np.uint64(63)) & np.uint64(1))


@inlined_kernel
def _trace_run(crawl: SimulatedCrawl, visit: _ClassVisit, run: tuple[int, int], position: int) -> None:
    """Write visits to consecutive members of a class to the trace, or mark the new ones among them for it."""
    arena, trace = crawl.arena, crawl.trace
    for i in range(run[0], run[1]):
        page = arena.members[i]
        if not visit.shared:
            hit = np.int64(_bit(arena.stale, np.uint64(page)))
            trace.visited[visit.at, position + i - run[0]] = page << 2 | visit.is_new | hit
        elif visit.is_new:
            arena.new_bits[page >> 6] |= np.uint64(1) << np.uint64(page & 63)


@inlined_kernel
def _add_part(crawl: SimulatedCrawl, class_id: int, cycle: int, changed: bool, run: tuple[int, int]) -> None:
    """Add a part of class `class_id`, visited in `cycle`, to the class of its new state; create that if needed."""
    program, arena = crawl.program, crawl.arena
    counts = arena.counts[0]
    made = counts.classes
    arena.pages[made] = arena.pages[class_id]
    arena.traces[made] = arena.traces[class_id]
    page: Record = arena.pages[made]
    trace: Record = arena.traces[made]
    if program.reads & READS_LINK:
        _copy_link(arena, class_id, made)
    if program.reads & READS_SEASONALITY:
        update_class_seasonality(
            SeasonalityInputs(arena.links, arena.schedules, crawl.history.clock), made, page, cycle, changed
        )
    if program.reads & READS_RATE:
        update_rate(page, trace, cycle, changed, crawl.history)
    else:
        count_visit(page, trace, changed)
    page.last_visit_s = cycle
    page.flags |= VISITED_AGAIN
    target = _find_class(arena, program.reads, made)
    at = target - counts.before
    if target == made:
        counts.classes += 1
        arena.sizes[made] = 0
        arena.first_part[at] = -1
    else:
        arena.pages[target].flags |= UNSORTED
    arena.sizes[target] += run[1]
    part = counts.parts
    counts.parts += 1
    arena.part_starts[part] = run[0]
    arena.part_sizes[part] = run[1]
    arena.next_part[part] = arena.first_part[at]
    arena.first_part[at] = part


@inlined_kernel
def _copy_link(arena: Arena, class_id: int, other_id: int) -> None:
    """Copy the link and the schedule of class `class_id` to class `other_id`."""
    arena.links[other_id] = arena.links[class_id]
    link: Record = arena.links[other_id]
    if link.schedule:
        link.schedule = other_id + 1
        arena.schedules[other_id + 1] = arena.schedules[class_id + 1]


@inlined_kernel
def _find_class(arena: Arena, reads: int, made: int) -> int:  # noqa: C901  a case for each part of the state
    """Return the class created in this cycle that equals `made` in all state that is read, or `made` itself."""
    page: Record = arena.pages[made]
    trace: Record = arena.traces[made]
    before = arena.counts[0].before
    key = np.uint64(0)
    if reads & READS_VISITS:
        key = mix(key ^ np.uint64(page.visits))
    if reads & READS_CHANGES:
        key = mix(key ^ np.uint64(page.changes))
    if reads & READS_HISTORY:
        key = mix(key ^ np.uint64(trace.history))
    elif reads & READS_LAST:
        key = mix(key ^ np.uint64(trace.history & np.uint64(1)))
    if reads & READS_WEIGHTED:
        key = mix(key ^ np.uint64(trace.weighted_changes))
    if reads & READS_GROUP:
        key = mix(key ^ np.uint64(page.group))
    if reads & READS_RATE:
        key = mix(key ^ np.uint64(page.prior_exposure * 1e3))
        key = mix(key ^ np.uint64(min(page.own_exposure, 1e12) * 1e6))
    if reads & READS_SEASONALITY:
        key = mix(key ^ np.uint64(arena.links[made].profile))
    if reads & READS_SIGNIFICANCE:
        key = mix(key ^ np.uint64(arena.links[made].significance))
    if reads & READS_OWN:
        key = mix(key ^ np.uint64(page.url_hash))
    mask = np.int64(arena.counts[0].table - 1)
    slot = np.int64(key) & mask
    while arena.table[slot]:
        other_id = arena.table[slot] - 1
        if _same_state(arena, reads, made, other_id):
            return int(other_id)
        slot = (slot + 1) & mask
    arena.table[slot] = made + 1
    arena.table_slots[made - before] = slot
    return made


@inlined_kernel
def _same_state(arena: Arena, reads: int, class_id: int, other_id: int) -> bool:
    """Return whether two classes created in this cycle are equal in all state that is read."""
    page: Record = arena.pages[class_id]
    trace: Record = arena.traces[class_id]
    other_page: Record = arena.pages[other_id]
    other_trace: Record = arena.traces[other_id]
    if reads & READS_VISITS and page.visits != other_page.visits:
        return False
    if reads & READS_CHANGES and page.changes != other_page.changes:
        return False
    if reads & READS_HISTORY and trace.history != other_trace.history:
        return False
    if reads & READS_LAST and (trace.history ^ other_trace.history) & np.uint64(1):
        return False
    if reads & READS_WEIGHTED and trace.weighted_changes != other_trace.weighted_changes:
        return False
    if reads & READS_RATE and (
        page.prior_shape != other_page.prior_shape
        or page.prior_exposure != other_page.prior_exposure
        or page.own_shape != other_page.own_shape
        or page.own_exposure != other_page.own_exposure
    ):
        return False
    if reads & READS_LINK and not _same_link(reads, arena.links[class_id], arena.links[other_id]):
        return False
    own_differs = reads & READS_OWN and page.url_hash != other_page.url_hash
    return not own_differs and not (reads & READS_GROUP and page.group != other_page.group)


@inlined_kernel
def _same_link(reads: int, link: Record, other_link: Record) -> bool:
    """Return whether two classes have the same profile, no schedules of their own, and the same significance."""
    seasonality_differs = link.profile != other_link.profile or link.schedule != 0 or other_link.schedule != 0
    if reads & READS_SEASONALITY and seasonality_differs:
        return False
    return not reads & READS_SIGNIFICANCE or bool(link.significance == other_link.significance)


@inlined_kernel
def end_cycle(crawl: SimulatedCrawl) -> None:
    """Collect the pages of the classes created in the cycle, and remove those it emptied."""
    rules, arena = crawl.rules, crawl.arena
    counts = arena.counts[0]
    if rules.since_visit:
        _clear_stale(arena)
    if counts.tail + rules.visits > arena.members.size:
        _compact(arena)
    for made in range(counts.before, counts.classes):
        at = made - counts.before
        arena.table[arena.table_slots[at]] = 0
        arena.starts[made] = counts.tail
        _write_members(arena, arena.first_part[at], counts.tail)
        counts.tail += arena.sizes[made]
    for i in range(counts.vacant):
        while counts.classes > 0 and arena.sizes[counts.classes - 1] == 0:
            counts.classes -= 1
        freed = arena.vacant[i]
        if freed < counts.classes:
            counts.classes -= 1
            moved = counts.classes
            arena.starts[freed] = arena.starts[moved]
            arena.sizes[freed] = arena.sizes[moved]
            arena.pages[freed] = arena.pages[moved]
            arena.traces[freed] = arena.traces[moved]
            if crawl.program.reads & READS_LINK:
                _copy_link(arena, moved, freed)


@inlined_kernel
def _write_members(arena: Arena, part: int, start: int) -> None:
    """Write the pages of a class's parts, one after another, to `members` from `start` on."""
    while part >= 0:
        begin = arena.part_starts[part]
        size = arena.part_sizes[part]
        if begin >= 0:
            copy_pages(arena.hits, begin, arena.members, start, size)
        else:
            copy_pages(arena.misses, ~begin, arena.members, start, size)
        start += size
        part = arena.next_part[part]


@inlined_kernel
def _compact(arena: Arena) -> None:
    """Close the gaps between the runs of the classes that existed before the cycle."""
    counts = arena.counts[0]
    tail = 0
    for class_id in range(counts.before):
        start = arena.starts[class_id]
        arena.starts[class_id] = tail
        copy_pages(arena.members, start, arena.buffer, tail, arena.sizes[class_id])
        tail += int(arena.sizes[class_id])
    copy_pages(arena.buffer, 0, arena.members, 0, tail)
    counts.tail = tail


@inlined_kernel
def _clear_stale(arena: Arena) -> None:
    """Mark the pages found changed in this cycle as up to date."""
    for i in range(arena.counts[0].hits):
        page = np.uint64(arena.hits[i])
        arena.stale[page >> np.uint64(6)] &= ~(np.uint64(1) << (page & np.uint64(63)))
