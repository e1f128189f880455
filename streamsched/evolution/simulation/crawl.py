"""A simulated crawl under one score function, over classes of pages instead of single pages.

Pages that are equal in all state that a program reads have the same score, so they form a class that is scored once.
A class is an ascending run of page numbers; page numbers follow the tie order. Each cycle takes whole classes from the
top, cuts classes that tie at the end of the budget by page number, splits visited classes by the visits' results, and
merges parts that have become equal. The result is exact: the same visits as when every page is scored. In the worst
case each page is its own class, and the cost is that of scoring every page.

Equal scores are ordered by page number, cyclically from an offset drawn for each cycle. A single order for all cycles
would never visit the last of pages that tie permanently; a new order each cycle would require a sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamsched.evolution.simulation.arena import READS_LINK, SimulatedCrawl
from streamsched.evolution.simulation.choice import choose_classes
from streamsched.evolution.simulation.class_terminals import fill_class_terminal
from streamsched.evolution.simulation.page_classes import TieSegment, begin_cycle, end_cycle, visit_class
from streamsched.evolution.simulation.page_runs import find_reach
from streamsched.evolution.simulation.tie_order import (
    FEW_TIED,
    add_few_tied_gains,
    add_tied_gains,
    is_unsorted,
    sort_class,
)
from streamsched.formula.evaluation.machine import ROWS, run_steps
from streamsched.numerics.compilation.machine_operations import count_ones
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.topk_order import sort_key

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes

__all__ = ["simulate"]


@bare_kernel
def simulate(crawl: SimulatedCrawl, stop: Bytes) -> bool:
    """Run the crawl and fill its trace; return False if ``stop``: uint8[1] was set before the end.

    O(cycles · (classes · steps + visits)), besides copying the warm state.
    """
    rules, trace = crawl.rules, crawl.trace
    _copy_warm_state(crawl)
    for cycle in range(rules.warmup, rules.cycles):
        at = cycle - rules.warmup
        if not _score(crawl, cycle, stop):
            return False
        trace.relevant[at] = _mark_stale(crawl, cycle)
        trace.hits[at] = 0
        trace.gains[at] = 0.0
        _visit_best(crawl, cycle)
    return True


@inlined_kernel
def _copy_warm_state(crawl: SimulatedCrawl) -> None:
    """Copy the classes after the warm-up into the arena."""
    warm_state, program, arena = crawl.warm_state, crawl.program, crawl.arena
    classes = warm_state.starts.size - 1
    for i in range(warm_state.members.size):
        arena.members[i] = warm_state.members[i]
    for i in range(classes):
        arena.starts[i] = warm_state.starts[i]
        arena.sizes[i] = warm_state.starts[i + 1] - warm_state.starts[i]
        arena.pages[i] = warm_state.pages[i]
        arena.traces[i] = warm_state.traces[i]
    if program.reads & READS_LINK:
        arena.schedules[0] = warm_state.schedules[0]
        for i in range(classes):
            arena.links[i] = warm_state.links[i]
            if arena.links[i].schedule:
                arena.schedules[i + 1] = warm_state.schedules[i + 1]
    for i in range(arena.stale.size):
        arena.stale[i] = 0
    for i in range(program.constants.size):
        for lane in range(ROWS):
            arena.slots[program.terminals.size + i, lane] = program.constants[i]
    counts = arena.counts[0]
    counts.classes = classes
    counts.tail = warm_state.members.size


@inlined_kernel
def _mark_stale(crawl: SimulatedCrawl, cycle: int) -> int:
    """Mark the pages whose visit in `cycle` would find a change; return their number. O(pages / 64)."""
    changed, stale = crawl.history.changed, crawl.arena.stale
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
    """Compute the sort keys of all classes, see `sort_keys`; False if `stop` is set."""
    program, arena = crawl.program, crawl.arena
    count = arena.counts[0].classes
    for start in range(0, count, ROWS):
        if stop[0]:
            return False
        rows = min(ROWS, count - start)
        for i in range(program.terminals.size):
            code = program.terminals[i]
            if code >= 0:
                fill_class_terminal(code, start, crawl, cycle, arena.slots[i, :rows])
        run_steps(program.steps, arena.slots, rows)
        scores = arena.slots[program.result]
        for i in range(rows):
            arena.keys[start + i] = sort_key(scores[i])
    return True


@inlined_kernel
def _visit_best(crawl: SimulatedCrawl, cycle: int) -> None:
    """Visit the best pages, one group of classes with equal score at a time.

    A group that exceeds the remaining budget is cut by the tie order.
    """
    rules, arena = crawl.rules, crawl.arena
    count = arena.counts[0].classes
    for i in range(count):
        arena.chosen[i] = i
    chosen = choose_classes(arena.keys, arena.sizes, rules.visits, arena.chosen, count)
    begin_cycle(arena, chosen)
    offset = crawl.history.offsets[cycle]
    left = rules.visits
    first = 0
    while left > 0:
        key = arena.keys[first]
        last = first
        size = 0
        while last < chosen and arena.keys[last] == key:
            size += int(arena.sizes[arena.chosen[last]])
            last += 1
        taken = min(size, left)
        length = crawl.warm_state.members.size  # pages are taken up to this distance from the offset
        if taken < size:
            for j in range(first, last):
                if is_unsorted(arena, arena.chosen[j]):
                    sort_class(arena, arena.chosen[j])
            length = find_reach(arena, (first, last), offset, taken, length)
        mixed = last - first > 1 or is_unsorted(arena, arena.chosen[first])
        traced = crawl.trace.visited.shape[0] > 0
        shared = mixed and (rules.positions_matter or traced)
        marked = shared and (traced or taken > FEW_TIED)
        segment = TieSegment(cycle, offset, length, rules.visits - left, shared, marked)
        before = (arena.counts[0].hits, arena.counts[0].misses)
        for j in range(first, last):
            visit_class(crawl, arena.chosen[j], segment)
        if marked:
            add_tied_gains(crawl, cycle - rules.warmup, offset, rules.visits - left, before)
        elif shared:
            add_few_tied_gains(crawl, cycle - rules.warmup, offset, rules.visits - left, before)
        left -= taken
        first = last
    end_cycle(crawl)
