"""The order in which a ranking stores pages: blocks of eight, of a single host if the host is large enough.

Rows are assigned in the order in which pages are first seen, hosts mixed. A segment is a run of rows. Within a full
segment the pages are sorted by host, so that most blocks of a large host hold no other host and are skipped as a whole
while that host rests. A page stays in its segment, so that two bytes hold its place. Until the last segment is full,
each full sub-segment of it, a shorter run, is sorted by host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.growable_array import GrowableArray
from streamsched.numerics.jit import bare_kernel, inlined_kernel

if TYPE_CHECKING:
    from streamsched.records.schema import ShardArrays

__all__ = ["BLOCK_ROWS", "MIXED", "SEGMENT_BITS", "BlockLayout", "Order", "block_of", "row_at"]

BLOCK_ROWS: Final = 8  # pages of a block: half a KiB of records
SEGMENT_BITS: Final = 16  # log2 of the rows of a segment
_SUBSEGMENTS_BITS: Final = 4  # log2 of the sub-segments of a segment
MIXED: Final = 0xFFFFFFFF  # as a block's host: several hosts
_RESERVED_PAGES: Final = 1 << 27  # address space only


class Order(NamedTuple):
    """The order as kernels read it. A place is a page's position in it; place // BLOCK_ROWS is its block."""

    rows: npt.NDArray[np.uint16]  # uint16[places]: the row at each place, within the segment
    places: npt.NDArray[np.uint16]  # uint16[rows]: the place of each row, within the segment
    hosts: npt.NDArray[np.uint32]  # uint32[blocks]: the group of the host of all of the block's pages, or MIXED
    bits: int  # log2 of the rows of a segment


class BlockLayout:
    """The order of one shard's pages. 4 bytes a page and 4 a block."""

    def __init__(self, bits: int = SEGMENT_BITS) -> None:
        self.pages = 0  # in the layout
        self._bits = bits
        self._sorted = 0  # segments
        self._subsegment_rows = max(1 << bits >> _SUBSEGMENTS_BITS, BLOCK_ROWS)
        self._subsegments = 0  # sorted ones of the last segment
        self._rows = GrowableArray(np.uint16, _RESERVED_PAGES)
        self._places = GrowableArray(np.uint16, _RESERVED_PAGES)
        self._hosts = GrowableArray(np.uint32, _RESERVED_PAGES // BLOCK_ROWS)

    @property
    def order(self) -> Order:
        """The order as kernels read it, valid until the next `add_pages`."""
        return Order(self._rows.array, self._places.array, self._hosts.array, self._bits)

    @property
    def blocks(self) -> int:
        """The number of blocks, the last one perhaps partly filled."""
        return -(-self.pages // BLOCK_ROWS)

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        arrays = ((self._rows, self.pages), (self._places, self.pages), (self._hosts, self.blocks))
        return sum(array.resident_bytes(rows) for array, rows in arrays)

    def first_changed(self, pages: int) -> int:
        """Return the first block that has changed since the layout had `pages` pages. O(1)."""
        full = self._sorted << self._bits
        if pages < full:
            return (pages >> self._bits << self._bits) // BLOCK_ROWS
        subsegment = full + (pages - full) // self._subsegment_rows * self._subsegment_rows
        return (subsegment if subsegment < full + self._subsegments * self._subsegment_rows else pages) // BLOCK_ROWS

    def add_pages(self, shard: ShardArrays) -> None:
        """Add the pages that are new since the last call. O(new pages)."""
        pages = int(shard.corpus["pages"][0])
        if pages == self.pages:
            return
        for region, size in ((self._rows, pages), (self._places, pages), (self._hosts, pages // BLOCK_ROWS + 1)):
            region.ensure(size)
        _place_in_rows_order(self.order, self.pages, pages)
        self.pages = pages
        while (self._sorted + 1) << self._bits <= pages:
            self._sort(shard, self._sorted << self._bits, 1 << self._bits)
            self._sorted, self._subsegments = self._sorted + 1, 0
        start = self._sorted << self._bits
        while start + (self._subsegments + 1) * self._subsegment_rows <= pages:
            self._sort(shard, start + self._subsegments * self._subsegment_rows, self._subsegment_rows)
            self._subsegments += 1

    def _sort(self, shard: ShardArrays, start: int, size: int) -> None:
        """Sort the `size` pages from row `start` on by host, then by row."""
        hosts = shard.groups.records["host"][shard.pages.records["group"][start : start + size]]
        keys = hosts.astype(np.uint64) << np.uint64(self._bits) | np.arange(size, dtype=np.uint64)
        keys.sort()
        rows = (keys & np.uint64(size - 1)).astype(np.int64)
        before = start & ((1 << self._bits) - 1)  # rows of the segment
        self._rows.array[start : start + size] = before + rows
        self._places.array[start + rows] = before + np.arange(size)
        by_block = (keys >> np.uint64(self._bits)).astype(np.uint32).reshape(-1, BLOCK_ROWS)
        block = start // BLOCK_ROWS
        same = by_block[:, 0] == by_block[:, -1]
        self._hosts.array[block : block + by_block.shape[0]] = np.where(same, by_block[:, 0], np.uint32(MIXED))


@bare_kernel
def _place_in_rows_order(order: Order, start: int, stop: int) -> None:
    """Place new rows in row order, until their segment is full."""
    mask = (1 << order.bits) - 1
    for row in range(start, stop):
        order.rows[row] = row & mask
        order.places[row] = row & mask
        if row % BLOCK_ROWS == 0:
            order.hosts[row // BLOCK_ROWS] = MIXED


@inlined_kernel
def row_at(order: Order, place: int) -> int:
    """Return the row of the page at `place`. O(1)."""
    mask = (1 << order.bits) - 1
    return int((place & ~mask) | np.int64(order.rows[place]))


@inlined_kernel
def block_of(order: Order, row: int) -> int:
    """Return the block of the page of `row`. O(1)."""
    mask = (1 << order.bits) - 1
    return int(((row & ~mask) | np.int64(order.places[row])) // BLOCK_ROWS)
