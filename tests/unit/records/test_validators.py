"""Validators in blocks: what is kept is what a dict would keep, in memory that is used again."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched.numerics.arrays import frozen
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import ETAG, LAST_MODIFIED
from streamsched.records.validators import (
    BLOCK,
    BLOCK_BYTES,
    FREE_BLOCKS,
    VALIDATOR_STATE,
    WORK_BYTES,
    ValidatorArrays,
    ValidatorColumns,
    are_sound,
    count_blocks,
    drop_validators,
    find_free,
    keep_validators,
    list_blocks,
    read_validators,
)
from tests.support.cases import examples

PAGES = 4
Pair = tuple[str | None, str | None]


class Store:
    """The arrays of a few pages, with just the blocks that `count_blocks` asks for."""

    def __init__(self) -> None:
        self.heads = np.zeros(PAGES, np.uint32)
        self.blocks = np.zeros(0, BLOCK)
        work = np.zeros(WORK_BYTES, np.uint8)
        self.arrays = ValidatorArrays(np.zeros(1, VALIDATOR_STATE), np.zeros(1, FREE_BLOCKS), work)

    def keep(self, row: int, etag: str | None, modified: str | None, *, keeps: bool) -> None:
        texts = [PackedUrls.pack(["x", text or ""]) for text in (etag, modified)]
        parts: list[Any] = [frozen(part) for text in texts for part in (text.blob, text.offsets)]
        columns = ValidatorColumns(*parts)
        given = ETAG * (etag is not None) + LAST_MODIFIED * (modified is not None)
        more = count_blocks(columns, np.array([0, given], np.uint16), 1, 2)
        needed = int(self.arrays.state["blocks"][0]) + max(more - int(self.arrays.free["count"][0]), 0)
        if needed > self.blocks.size:
            self.blocks = np.concatenate([self.blocks, np.zeros(needed - self.blocks.size, BLOCK)])
        keep_validators(self.heads, self.blocks, self.arrays, row, columns, 1, given, keeps)

    def read(self) -> list[Pair]:
        return list(zip(*read_validators(self.heads, self.blocks, np.arange(PAGES)), strict=True))

    def is_sound(self) -> bool:
        used = np.zeros(int(self.arrays.state["blocks"][0]), np.uint8)
        return bool(are_sound(self.heads, self.blocks, self.arrays, used))


def kept(text: str | None, before: str | None, most: int, *, keeps: bool) -> str | None:
    """The slow twin, for one of the two texts."""
    if text is None:
        return before if keeps else None
    fits = len(text) <= most and text.isascii() and text.isprintable()
    return text if text and fits else None


sizes = st.sampled_from([0, 1, 24, 25, 26, 27, 28, 29, 54, 55, 56, 64, 65, 255, 256])
texts = st.none() | sizes.map(lambda size: "e" * size) | st.text(max_size=30)


@examples(ordinary=30, whole=100)
@given(st.lists(st.tuples(st.integers(0, PAGES - 1), texts, texts, st.booleans(), st.integers(0, 9)), max_size=12))
def test_any_texts_are_kept_as_by_the_twin(steps: list[tuple[int, str | None, str | None, bool, int]]) -> None:
    store = Store()
    twin: list[Pair] = [(None, None)] * PAGES
    for row, etag, modified, keeps, then in steps:
        store.keep(row, etag, modified, keeps=keeps)
        before = twin[row]
        twin[row] = kept(etag, before[0], 255, keeps=keeps), kept(modified, before[1], 64, keeps=keeps)
        if then == 0:
            drop_validators(store.heads, store.blocks, store.arrays, np.array([row]))
            twin[row] = None, None
        if then == 1:  # as after loading
            find_free(store.heads, store.blocks, store.arrays, np.zeros(int(store.arrays.state["blocks"][0]), np.uint8))
        assert store.read() == twin
        assert store.is_sound()
        assert store.arrays.state["pages"][0] == sum(pair != (None, None) for pair in twin)


def test_validators_that_differ_each_time_take_the_memory_of_one_visit() -> None:
    store = Store()
    for visit in range(500):
        for row in range(PAGES):
            store.keep(row, f'"{visit}-{row}"' * (1 + visit % 7), "Wed, 21 Oct 2015 07:28:00 GMT", keeps=visit % 2 == 0)
    assert store.arrays.state["blocks"][0] <= 6 * PAGES
    assert store.is_sound()


def test_blocks_of_pages_are_listed_in_order() -> None:
    store = Store()
    store.keep(0, "a" * 100, None, keeps=False)
    store.keep(2, "b", None, keeps=False)
    rows = np.array([2, 1, 0])
    count = list_blocks(store.heads, store.blocks, rows, np.empty(0, np.int64))
    numbers = np.empty(count, np.int64)
    assert list_blocks(store.heads, store.blocks, rows, numbers) == count == 1 + -(-102 // BLOCK_BYTES)
    assert sorted(numbers.tolist()) == list(range(count))
    assert numbers[0] == store.heads[2] - 1


def test_broken_chains_are_found() -> None:
    for wrong in range(4):
        store = Store()
        store.keep(0, "a" * 60, None, keeps=False)
        store.keep(1, "b", None, keeps=False)
        drop_validators(store.heads, store.blocks, store.arrays, np.array([1]))
        assert store.is_sound()
        if wrong == 0:
            store.heads[2] = store.heads[0]  # the blocks of another page
        elif wrong == 1:
            store.heads[2] = 99
        elif wrong == 2:
            store.arrays.free["count"] += 1
        else:
            store.blocks["next"][store.heads[0] - 1] = 0
        assert not store.is_sound()
