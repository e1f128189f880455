"""BlockLayout: every row has one place, full layout stand in the order of hosts, and blocks tell theirs."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.numerics.arrays import Ints
from streamsched.numerics.jit import bare_kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.ranking.block_layout import BLOCK_ROWS, MIXED, BlockLayout, Order, block_of, row_at
from streamsched.ranking.invariants import find_layout_faults
from streamsched.state.page_table import PageTable
from tests.support.guarded_memory import fenced, small_rankings, small_reserve

BITS = 8
SIZE = 1 << BITS
SUBSEGMENT = SIZE // 16


@bare_kernel
def read_order(order: Order, rows: Ints, blocks: Ints) -> None:
    for number in range(rows.size):
        rows[number] = row_at(order, number)
        blocks[number] = block_of(order, number)


def add(table: PageTable, hosts: list[int]) -> None:
    first = len(table)
    table.discover(PackedUrls.pack([f"https://h{host}.example/{first + i}" for i, host in enumerate(hosts)]), 0.0)


def hosts_of(table: PageTable) -> list[int]:
    shard = table.arrays
    return [int(host) for host in shard.groups.records["host"][shard.pages.records["group"][: len(table)]]]


def order_of(hosts: list[int]) -> list[int]:
    """The rows by place: of each full segment sorted by host, then by row; of the last by its full sub-segments."""
    order: list[int] = []
    for start in range(0, len(hosts), SIZE):
        rows = list(range(start, min(start + SIZE, len(hosts))))
        size = SIZE if len(rows) == SIZE else SUBSEGMENT
        for first in range(0, len(rows), size):
            piece = rows[first : first + size]
            order += sorted(piece, key=lambda row: (hosts[row], row)) if len(piece) == size else piece
    return order


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 3), max_size=200), min_size=1, max_size=6))
def test_order_is_that_of_sorted_lists(parts: list[list[int]]) -> None:
    with small_reserve(), small_rankings(BITS), fenced():
        table, layout = PageTable(86_400.0, 6), BlockLayout(BITS)
        for part in parts:
            before = layout.pages
            kept = layout.order.rows[:before].copy()
            add(table, part)
            layout.add_pages(table.arrays)
            first = layout.first_changed(before) * BLOCK_ROWS
            assert layout.order.rows[: min(first, before)].tolist() == kept[: min(first, before)].tolist()
            check(table, layout)


def check(table: PageTable, layout: BlockLayout) -> None:
    hosts = hosts_of(table)
    order = order_of(hosts)
    assert (layout.pages, layout.blocks) == (len(table), -(-len(table) // BLOCK_ROWS))
    rows, blocks = np.empty(len(table), np.int64), np.empty(len(table), np.int64)
    read_order(layout.order, rows, blocks)
    assert rows.tolist() == order
    assert [order.index(row) // BLOCK_ROWS for row in range(len(table))] == blocks.tolist()
    for block in range(layout.blocks):
        of_block = {hosts[row] for row in order[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS]}
        full = (block * BLOCK_ROWS // SUBSEGMENT + 1) * SUBSEGMENT <= len(table)
        expected = of_block.pop() if full and len(of_block) == 1 else MIXED
        assert int(layout.order.hosts[block]) == expected
    assert find_layout_faults(table.arrays, layout.order, layout.pages) == []


@pytest.fixture(name="full_segments")
def two_full_segments_and_a_bit() -> tuple[PageTable, BlockLayout]:
    with small_reserve(), small_rankings(BITS):
        table, layout = PageTable(86_400.0, 6), BlockLayout(BITS)
        add(table, [i % 2 for i in range(2 * SIZE + 3)])
        layout.add_pages(table.arrays)
        return table, layout


def test_first_block_that_changed(full_segments: tuple[PageTable, BlockLayout]) -> None:
    """From inside a segment or a subsegment that is full now from its beginning on, else from the last block on."""
    table, layout = full_segments
    found = [layout.first_changed(pages) for pages in (0, 5, SIZE - 1, SIZE, SIZE + 9, 2 * SIZE, 2 * SIZE + 3)]
    assert found == [0, 0, 0, SIZE // 8, SIZE // 8, 2 * SIZE // 8, 2 * SIZE // 8]
    add(table, [1] * SUBSEGMENT)
    layout.add_pages(table.arrays)
    found = [layout.first_changed(2 * SIZE + more) for more in (0, SUBSEGMENT - 1, SUBSEGMENT, SUBSEGMENT + 3)]
    assert found == [2 * SIZE // 8, 2 * SIZE // 8, (2 * SIZE + SUBSEGMENT) // 8, (2 * SIZE + SUBSEGMENT) // 8]


def test_memory_in_use(full_segments: tuple[PageTable, BlockLayout]) -> None:
    assert 0 <= full_segments[1].nbytes() - 4 * (2 * SIZE + 3) - 4 * (2 * SIZE // 8 + 1) < 3 * mmap.PAGESIZE
    assert BlockLayout().nbytes() == 0


@pytest.mark.parametrize(
    ("array", "place", "fault"),
    [
        ("rows", 3, "layout has each row of a segment once"),
        ("places", 3, "layout has each row of a segment once"),
        ("hosts", 1, "blocks name their hosts"),
        ("hosts", 2 * SIZE // 8, "blocks name their hosts"),
    ],
)
def test_layout_faults_are_found(
    full_segments: tuple[PageTable, BlockLayout], array: str, place: int, fault: str
) -> None:
    table, layout = full_segments
    column = getattr(layout.order, array)
    column[place] ^= column.dtype.type(1)
    assert find_layout_faults(table.arrays, layout.order, layout.pages) == [fault]
