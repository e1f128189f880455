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

from streamsched.evolution.simulation.arena import READS_SEASONALITY, SimulatedCrawl
from streamsched.evolution.simulation.choice import choose_classes
from streamsched.evolution.simulation.class_terminals import fill_class_terminal
from streamsched.evolution.simulation.page_classes import TieSegment, begin_cycle, end_cycle, visit_class
from streamsched.evolution.simulation.tie_order import add_tied_gains, is_unsorted, sort_class
from streamsched.evolution.simulation.tie_segments import find_reach
from streamsched.formula.evaluation.machine import ROWS, run_steps
from streamsched.numerics.arrays import Bytes
from streamsched.numerics.jit import bare_kernel, count_ones, inlined_kernel
from streamsched.numerics.topk_order import sort_key

__all__ = ["simulate"]


@bare_kernel
def simulate(crawl: SimulatedCrawl, stop: Bytes) -> bool:
    """Run the crawl and fill its trace; return False where ``stop``: uint8[1] was set before the end.

    O(cycles · (classes · steps + visits)), beside copying the opening.
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
    """Begin with the classes of the opening."""
    warm_state, program, arena = crawl.warm_state, crawl.program, crawl.arena
    classes = warm_state.starts.size - 1
    for i in range(warm_state.members.size):
        arena.members[i] = warm_state.members[i]
    for i in range(classes):
        arena.starts[i] = warm_state.starts[i]
        arena.sizes[i] = warm_state.starts[i + 1] - warm_state.starts[i]
        arena.pages[i] = warm_state.pages[i]
        arena.traces[i] = warm_state.traces[i]
    if program.reads & READS_SEASONALITY:
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
    """Mark the pages of which a visit in `cycle` reports a change; return how many. O(pages / 64)."""
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
    """Fill the sort keys of all classes, see `sort_keys`; False where `stop` is set."""
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
    """Visit the best pages, group by group of classes of equal score.

    A group that does not fit whole is cut at its place in the order of ties.
    """
    rules, arena = crawl.rules, crawl.arena
    count = arena.counts[0].classes
    for i in range(count):
        arena.chosen[i] = i
    chosen = choose_classes(arena.keys, arena.sizes, rules.visits, arena.chosen, count)
    begin_cycle(arena)
    offset = crawl.history.offsets[cycle]
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
        length = crawl.warm_state.members.size  # how far from the offset on pages are taken
        if taken < size:
            for j in range(first, last):
                if is_unsorted(arena, arena.chosen[j]):
                    sort_class(arena, arena.chosen[j])
            length = find_reach(arena, (first, last), offset, taken, length)
        mixed = last - first > 1 or is_unsorted(arena, arena.chosen[first])
        shared = mixed and (rules.positions_matter or crawl.trace.visited.shape[0] > 0)
        segment = TieSegment(cycle, offset, length, rules.visits - left, shared)
        before = (arena.counts[0].hits, arena.counts[0].misses)
        for j in range(first, last):
            visit_class(crawl, arena.chosen[j], segment)
        if shared:
            add_tied_gains(crawl, cycle - rules.warmup, offset, rules.visits - left, before)
        left -= taken
        first = last
    end_cycle(crawl)
