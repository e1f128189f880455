"""A simulated crawl under one score function, over classes of pages instead of single pages.

Pages that are equal in all state that a program reads have the same score, so they form a class that is scored once. A
class is an ascending run of page numbers; page numbers follow the tie order. Each cycle takes whole classes from the
top, cuts classes that tie at the end of the budget by page number, splits visited classes by the visits' results, and
merges parts that have become equal. The result is exact: the same visits as when every page is scored. In the worst
case each page is its own class, and the cost is that of scoring every page.

Equal scores are ordered by page number, cyclically from an offset drawn for each cycle. A single order for all cycles
would never visit the last of pages that tie permanently; a new order each cycle would require a sort.
"""

from __future__ import annotations

import numpy as np

from streamsched.evolution.simulation.arena import READS_LINK, SimulatedCrawl
from streamsched.evolution.simulation.class_terminals import fill_class_terminal
from streamsched.evolution.simulation.page_classes import TieSegment, begin_cycle, end_cycle, visit_class
from streamsched.evolution.simulation.tie_order import (
    FEW_TIED,
    add_few_tied_gains,
    add_tied_gains,
    find_reach,
    is_unsorted,
    sort_class,
)
from streamsched.formula.evaluation.machine import ROWS, run_steps
from streamsched.numerics.arrays import Bytes, Hashes, Ints
from streamsched.numerics.compilation.machine_operations import count_ones
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.topk_order import sort_key

_INSERTION_SORT_MAX = 24  # elements; insertion sort is fastest up to here


@bare_kernel
def choose_classes(keys: Hashes, sizes: Ints, wanted: int, chosen: Ints, count: int) -> int:
    """Move the classes whose pages can be among the best `wanted` to the front of `chosen`; return their number.

    ``chosen``: int64[count], the classes 0 to count - 1 in any order; ``keys``: uint64[count], the key of each class in
    `chosen`, moved along with it; ``sizes``: int64, by class. The selected classes are sorted by key, descending: all
    above the key at which `wanted` pages are reached, and all with that key. O(count + m log m), m of them selected.
    """
    low, high = 0, count
    while high - low > _INSERTION_SORT_MAX:
        pivot = _median(keys[low], keys[(low + high) // 2], keys[high - 1])
        above, level, better, equal = _partition(keys, sizes, chosen, (low, high), pivot)
        if better >= wanted:
            high = above
        elif better + equal >= wanted:
            low = high = level
        else:
            wanted -= better + equal
            low = level
    _sort_descending(keys, chosen, 0, high)
    while low < high and wanted > 0:  # the rest after quickselect: whole runs of equal keys until enough
        key = keys[low]
        while low < high and keys[low] == key:
            wanted -= int(sizes[chosen[low]])
            low += 1
    return low


@inlined_kernel
def _median(first: int, second: int, third: int) -> int:
    """Return the median of three."""
    if first > second:
        first, second = second, first
    second = min(second, third)
    return max(first, second)


@inlined_kernel
def _partition(keys: Hashes, sizes: Ints, chosen: Ints, span: tuple[int, int], pivot: int) -> tuple[int, int, int, int]:
    """Partition the classes of `span` into above, at, below `pivot`; return ends and page counts of the first two."""
    above = i = span[0]
    below = span[1]
    better = equal = 0
    while i < below:
        if keys[i] > pivot:
            better += int(sizes[chosen[i]])
            _exchange(keys, chosen, i, above)
            above += 1
            i += 1
        elif keys[i] == pivot:
            equal += int(sizes[chosen[i]])
            i += 1
        else:
            below -= 1
            _exchange(keys, chosen, i, below)
    return above, below, better, equal


@inlined_kernel
def _exchange(keys: Hashes, chosen: Ints, first: int | np.uint64, second: int | np.uint64) -> None:
    keys[first], keys[second] = keys[second], keys[first]
    chosen[first], chosen[second] = chosen[second], chosen[first]


@bare_kernel
def _sort_descending(keys: Hashes, chosen: Ints, low: int, high: int) -> None:
    """Sort `keys[low:high]`, greatest first, in place, and `chosen[low:high]` along with it. O(m log m)."""
    if high - low <= _INSERTION_SORT_MAX:
        for i in range(low + 1, high):
            class_id, key = chosen[i], keys[i]
            j = i
            while j > low and keys[j - 1] < key:
                chosen[j], keys[j] = chosen[j - 1], keys[j - 1]
                j -= 1
            chosen[j], keys[j] = class_id, key
        return
    first, one = np.uint64(low), np.uint64(1)  # signed ones could index from the end
    end = np.uint64(high - low)
    root = end >> one
    while root:
        root -= one
        _sift_down(keys, chosen, first, root, end)
    while end > one:
        end -= one
        _exchange(keys, chosen, first, first + end)
        _sift_down(keys, chosen, first, np.uint64(0), end)


@inlined_kernel
def _sift_down(keys: Hashes, chosen: Ints, first: np.uint64, root: np.uint64, size: np.uint64) -> None:
    """Restore the heap of `size` elements from `first` on, smallest on top, below `root`."""
    one = np.uint64(1)
    class_id, key = chosen[first + root], keys[first + root]
    child = (root << one) + one
    while child < size:
        smaller = keys[first + child]
        if child + one < size:
            right = keys[first + child + one]
            child += np.uint64(right < smaller)  # no branch: which child is smaller could not be predicted
            smaller = min(smaller, right)
        if smaller >= key:
            break
        chosen[first + root], keys[first + root] = chosen[first + child], smaller
        root = child
        child = (root << one) + one
    chosen[first + root], keys[first + root] = class_id, key


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
