"""Selection of page classes by score: the best classes whose pages fill a batch, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from streamsched.numerics.jit import bare_kernel, inlined_kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Hashes, Ints

__all__ = ["choose_classes", "sort_descending"]

_INSERTION_SORT_MAX = 24  # elements; insertion sort is fastest up to here


@bare_kernel
def choose_classes(keys: Hashes, sizes: Ints, wanted: int, chosen: Ints, count: int) -> int:
    """Move the classes whose pages can be among the best `wanted` to the front of `chosen`; return their number.

    ``keys``: uint64 and ``sizes``: int64, by class; ``chosen``: int64[count], the classes 0 to count - 1 in any order.
    The selected classes are sorted by key, descending: all above the key at which `wanted` pages are reached, and all
    with that key. O(count + m log m), m of them selected.
    """
    low, high = 0, count
    while high - low > _INSERTION_SORT_MAX:
        pivot = _median(keys[chosen[low]], keys[chosen[(low + high) // 2]], keys[chosen[high - 1]])
        above, level, better, equal = _partition(keys, sizes, chosen, low, high, pivot)
        if better >= wanted:
            high = above
        elif better + equal >= wanted:
            low = high = level
        else:
            wanted -= better + equal
            low = level
    sort_descending(keys, chosen, 0, high)
    while low < high and wanted > 0:  # the rest after quickselect: whole runs of equal keys until enough
        key = keys[chosen[low]]
        while low < high and keys[chosen[low]] == key:
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
def _partition(keys: Hashes, sizes: Ints, chosen: Ints, low: int, high: int, pivot: int) -> tuple[int, int, int, int]:
    """Partition `chosen[low:high]` into above, at, below `pivot`; return the ends of the first two and page counts."""
    above = i = low
    below = high
    better = equal = 0
    while i < below:
        class_id = chosen[i]
        if keys[class_id] > pivot:
            better += int(sizes[class_id])
            chosen[i] = chosen[above]
            chosen[above] = class_id
            above += 1
            i += 1
        elif keys[class_id] == pivot:
            equal += int(sizes[class_id])
            i += 1
        else:
            below -= 1
            chosen[i] = chosen[below]
            chosen[below] = class_id
    return above, below, better, equal


@bare_kernel
def sort_descending(keys: Hashes, chosen: npt.NDArray[Any], low: int, high: int) -> None:
    """Sort `chosen[low:high]` by ``keys[chosen[i]]``, greatest first, in place. O(m log m)."""
    if high - low <= _INSERTION_SORT_MAX:
        for i in range(low + 1, high):
            class_id = chosen[i]
            key = keys[class_id]
            j = i
            while j > low and keys[chosen[j - 1]] < key:
                chosen[j] = chosen[j - 1]
                j -= 1
            chosen[j] = class_id
        return
    size = high - low
    for root in range(size // 2 - 1, -1, -1):
        _sift_down(keys, chosen, low, root, size)
    for end in range(size - 1, 0, -1):
        chosen[low], chosen[low + end] = chosen[low + end], chosen[low]
        _sift_down(keys, chosen, low, 0, end)


@inlined_kernel
def _sift_down(keys: Hashes, chosen: npt.NDArray[Any], low: int, root: int, size: int) -> None:
    """Restore the heap, smallest on top, below `root`."""
    class_id = chosen[low + root]
    key = keys[class_id]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and keys[chosen[low + child + 1]] < keys[chosen[low + child]]:
            child += 1
        if keys[chosen[low + child]] >= key:
            break
        chosen[low + root] = chosen[low + child]
        root = child
    chosen[low + root] = class_id
