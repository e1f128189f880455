"""A simulated crawl under one score function, over classes of pages instead of pages (SPEC 5 "Experiment").

Pages that are alike in all that a program reads of them have the same score, so they form a class that is scored once.
A class is a run of page numbers, ascending; pages are numbered by the order that breaks ties. Each cycle takes whole
classes from the top, cuts those that tie at the end of the budget by page number, splits what was visited by what the
visits found, and unites the parts that have become alike. It is exact: the same visits as scoring every page gives.
Where every page is unlike the others there are as many classes as pages, and it costs what scoring every page costs.

Equal scores are ordered by page number from a cycle's own offset on, round to where it began: one random order for all
cycles would never visit the last of those that tie for ever, and a new order each cycle would have to be sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.evolution.simulation.arena import READS_RHYTHM, SimulatedCrawl
from streamsched.evolution.simulation.choice import choose_classes
from streamsched.evolution.simulation.class_terminals import fill_then
from streamsched.evolution.simulation.page_classes import PageRun, begin_cycle, settle_cycle, visit_class
from streamsched.evolution.simulation.tie_order import is_unsorted, place_tied, sort_class
from streamsched.evolution.simulation.tie_segments import cut_group
from streamsched.formula.evaluation.machine import ROWS, run_steps
from streamsched.numerics.jit import bare_kernel, count_ones, inlined_kernel
from streamsched.numerics.topk_order import sort_key

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes

__all__ = ["simulate"]


@bare_kernel
def simulate(crawl: SimulatedCrawl, stop: Bytes) -> bool:
    """Run the crawl and fill its trace; return False where ``stop``: uint8[1] was set before the end.

    O(cycles · (classes · steps + visits)), beside copying the opening.
    """
    rules, trace = crawl.rules, crawl.trace
    _open(crawl)
    for cycle in range(rules.warmup, rules.cycles):
        at = cycle - rules.warmup
        if not _score(crawl, cycle, stop):
            return False
        trace.relevant[at] = _turn_stale(crawl, cycle)
        trace.hits[at] = 0
        trace.gains[at] = 0.0
        _visit_best(crawl, cycle)
    return True


@inlined_kernel
def _open(crawl: SimulatedCrawl) -> None:
    """Begin with the classes of the opening."""
    opening, routine, arena = crawl.opening, crawl.routine, crawl.arena
    classes = opening.starts.size - 1
    for i in range(opening.members.size):
        arena.members[i] = opening.members[i]
    for i in range(classes):
        arena.starts[i] = opening.starts[i]
        arena.sizes[i] = opening.starts[i + 1] - opening.starts[i]
        arena.pages[i] = opening.pages[i]
        arena.traces[i] = opening.traces[i]
    if routine.reads & READS_RHYTHM:
        arena.schedules[0] = opening.schedules[0]
        for i in range(classes):
            arena.links[i] = opening.links[i]
            if arena.links[i].schedule:
                arena.schedules[i + 1] = opening.schedules[i + 1]
    for i in range(arena.stale.size):
        arena.stale[i] = 0
    for i in range(routine.constants.size):
        for lane in range(ROWS):
            arena.slots[routine.terminals.size + i, lane] = routine.constants[i]
    counts = arena.counts[0]
    counts.classes = classes
    counts.tail = opening.members.size


@inlined_kernel
def _turn_stale(crawl: SimulatedCrawl, cycle: int) -> int:
    """Mark the pages of which a visit in `cycle` reports a change; return how many. O(pages / 64)."""
    changed, stale = crawl.ground.changed, crawl.arena.stale
    relevant = 0
    for i in range(changed.shape[1]):
        word = changed[cycle, i]
        if crawl.rules.since_visit:
            word |= stale[i]
        stale[i] = word
        relevant += count_ones(word)
    return relevant


@inlined_kernel
def _score(crawl: SimulatedCrawl, cycle: int, stop: Bytes) -> bool:
    """Fill the sort keys of all classes, see `sort_keys`; False where `stop` is set."""
    routine, arena = crawl.routine, crawl.arena
    count = arena.counts[0].classes
    for start in range(0, count, ROWS):
        if stop[0]:
            return False
        rows = min(ROWS, count - start)
        for i in range(routine.terminals.size):
            code = routine.terminals[i]
            if code >= 0:
                fill_then(code, start, crawl, cycle, arena.slots[i, :rows])
        run_steps(routine.steps, arena.slots, rows)
        scores = arena.slots[routine.result]
        for i in range(rows):
            arena.keys[start + i] = sort_key(scores[i])
    return True


@inlined_kernel
def _visit_best(crawl: SimulatedCrawl, cycle: int) -> None:
    """Visit the best pages, group by group of classes of equal score.

    A group that does not fit whole is cut at its place in the order of ties.
    """
    rules, arena = crawl.rules, crawl.arena
    count = arena.counts[0].classes
    for i in range(count):
        arena.chosen[i] = i
    chosen = choose_classes(arena.keys, arena.sizes, rules.visits, arena.chosen, count)
    begin_cycle(arena)
    offset = crawl.ground.offsets[cycle]
    left = rules.visits
    first = 0
    while left > 0:
        key = arena.keys[arena.chosen[first]]
        last = first
        size = 0
        while last < chosen and arena.keys[arena.chosen[last]] == key:
            size += int(arena.sizes[arena.chosen[last]])
            last += 1
        taken = min(size, left)
        reach = crawl.opening.members.size  # how far from the offset on pages are taken
        if taken < size:
            for j in range(first, last):
                if is_unsorted(arena, arena.chosen[j]):
                    sort_class(arena, arena.chosen[j])
            reach = cut_group(arena, (first, last), offset, taken, reach)
        mixed = last - first > 1 or is_unsorted(arena, arena.chosen[first])
        shared = mixed and (rules.placed or crawl.trace.visited.shape[0] > 0)
        stretch = PageRun(cycle, offset, reach, rules.visits - left, shared)
        before = (arena.counts[0].hits, arena.counts[0].misses)
        for j in range(first, last):
            visit_class(crawl, arena.chosen[j], stretch)
        if shared:
            place_tied(crawl, cycle - rules.warmup, offset, rules.visits - left, before)
        left -= taken
        first = last
    settle_cycle(crawl)
