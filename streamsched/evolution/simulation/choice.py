"""Selection of page classes by score: the best classes whose pages fill a batch, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes, Ints

__all__ = ["choose_classes"]

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
