"""The index finds every URL's row, through growth, after collisions of whole hashes, and after a rebuild."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.numerics.packed_urls import MAX_URL_BYTES, PackedUrls
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.records import url_index
from streamsched.records.url_index import NOT_FOUND
from streamsched.records.url_store import url_text, url_texts
from streamsched.state.page_table import PageTable
from tests.reference.url_hash import hash_of
from tests.support.colliding_urls import colliding_urls
from tests.support.guarded_memory import fenced


def enter(table: PageTable, *texts: str) -> list[int]:
    """The rows of the URLs, entered if they are new."""
    table.discover(PackedUrls.pack(texts), 0.0)
    return find(table, *texts)


def find(table: PageTable, *texts: str) -> list[int]:
    rows: list[int] = table.find(PackedUrls.pack(texts)).tolist()
    return rows


def displacements(table: PageTable) -> list[int]:
    """How far each URL's slot is from the first that it could have."""
    slots = table._index.slots
    used = np.flatnonzero(slots)
    tags = slots[used] >> np.uint64(32)
    moved: list[int] = ((used - tags.astype(np.int64)) & (slots.size - 1)).tolist()
    return moved


def test_rows_come_in_the_order_of_first_sight() -> None:
    table = PageTable(86_400.0)
    assert enter(table, "b", "a", "b", "c", "a") == [0, 1, 0, 2, 1]
    assert find(table, "c", "d", "", "aa") == [2, NOT_FOUND, NOT_FOUND, NOT_FOUND]


def test_index_grows_while_it_is_moved() -> None:
    """A few slots for each new URL; at every step all URLs are found, moved or not."""
    table = PageTable(86_400.0)
    texts = [f"https://a.example/{i}" for i in range(4_000)]
    index, moving = table._index, set()
    for start in range(0, 4_000, 37):
        enter(table, *texts[start : start + 37])
        if index.old.size:
            moving.add((index.old.size, int(index.moved[0])))
        assert 4 * len(table) <= 3 * index.slots.size
        assert find(table, *texts[: start + 60])[: start + 37] == list(range(len(table)))
        assert table._index.nbytes() <= 24 * index.slots.size
    assert len({size for size, _ in moving}) == 3  # it doubled three times
    assert len(moving) > 10
    assert index.old.size == 0


def test_one_batch_may_double_the_index_many_times() -> None:
    table = PageTable(86_400.0)
    first = [f"https://a.example/{i}" for i in range(700)]
    more = [f"https://b.example/{i}" for i in range(30_000)]
    enter(table, *first)
    assert enter(table, *more) == list(range(700, 30_700))
    assert find(table, *first) == list(range(700))


def test_growth_before_the_last_move_is_over_loses_nothing() -> None:
    table = PageTable(86_400.0)
    texts = [f"https://a.example/{i}" for i in range(1_500)]
    enter(table, *texts[:760])
    enter(table, *texts[760:770])
    assert 0 < table._index.moved[0] < table._index.old.size == 1024
    table._index.ensure(20_000)
    assert enter(table, *texts) == list(range(1_500))


def test_urls_that_were_made_up_to_collide_are_spread_over_the_slots() -> None:
    """Their hashes without the key are equal; in the index they are as far apart as any other URLs."""
    texts = colliding_urls(6_000)
    assert len({hash_of(text.encode()) for text in texts}) == 1
    table = PageTable(86_400.0)
    assert enter(table, *texts[:400], *texts[:100]) == [*range(400), *range(100)]
    assert find(table, texts[400]) == [NOT_FOUND]
    assert enter(table, *texts) == list(range(6_000))  # across growths of the index
    assert max(displacements(table)) < 300  # 6,000 if they collided
    assert len(set(table.arrays.pages.records["url_hash"][:6_000].tolist())) == 1
    table.rebuild_index()
    assert find(table, *texts) == list(range(6_000))
    assert max(displacements(table)) < 300
    assert table.faults() == []


def test_every_index_has_a_key_of_its_own() -> None:
    texts = [f"https://a.example/{i}" for i in range(100)]
    first, second = PageTable(86_400.0), PageTable(86_400.0)
    assert enter(first, *texts) == enter(second, *texts)
    assert set(first._index.slots.tolist()) & set(second._index.slots.tolist()) == {0}


def test_urls_of_one_tag_are_told_apart_by_their_texts() -> None:
    """Slots hold half of the hash: among 200,000 URLs about five pairs agree in it."""
    table = PageTable(86_400.0, key=np.array([1, 2], np.uint64))
    texts = [f"https://a.example/{i}" for i in range(200_000)]
    assert enter(table, *texts) == list(range(200_000))
    slots = np.concatenate([table._index.slots, table._index.old[table._index.moved[0] :]])
    _tags, counts = np.unique(slots[slots != 0] >> np.uint64(32), return_counts=True)
    assert np.count_nonzero(counts > 1) > 0
    assert find(table, *texts) == list(range(200_000))


def test_equal_hash_and_another_length_or_text_is_another_url() -> None:
    table = PageTable(86_400.0)
    enter(table, "https://a.example/x")
    table.arrays.pages.text[:1] = ord("g")  # the same hash in the record, another text
    assert find(table, "https://a.example/x") == [NOT_FOUND]


@pytest.mark.parametrize("size", [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 8191, MAX_URL_BYTES])
def test_urls_of_every_length(size: int) -> None:
    with fenced():
        table = PageTable(86_400.0)
        texts = ["a" * size, "a" * (size - 1) + "b", "b" + "a" * (size - 1)]
        expected = [0, 1, 2] if size > 1 else [0, 1, 1]
        assert enter(table, *texts) == expected
        table.rebuild_index()
        assert find(table, *texts) == expected
        assert find(table, "a" * (size + 65_536)) == [NOT_FOUND]
        assert url_texts(table.arrays.pages, np.array(expected)) == texts


def test_texts_come_back_whatever_their_alphabet() -> None:
    table = PageTable(86_400.0)
    texts = ["https://a.example/ä", "https://日本.example/", "plain", "\U0001f577"]
    enter(table, *texts)
    assert [url_text(table.arrays.pages, row) for row in range(4)] == texts
    assert url_texts(table.arrays.pages, np.array([3, 0, 0])) == [texts[3], texts[0], texts[0]]
    assert url_texts(table.arrays.pages, np.empty(0, np.int64)) == []


def test_look_ups_of_more_urls_than_are_asked_for_at_once() -> None:
    table = PageTable(86_400.0)
    for count in (url_index._AT_ONCE - 1, url_index._AT_ONCE, url_index._AT_ONCE + 1):
        texts = [f"{count}/{i}" for i in range(count)]
        assert len(set(enter(table, *texts, *texts))) == count


@pytest.mark.parametrize("size", [*range(40), 63, 64, 65, 8192])
def test_hash_is_that_of_its_twin(size: int) -> None:
    raw = np.random.default_rng(size).bytes(size)
    blob = np.frombuffer(b"xyz" + raw + b"!", np.uint8)
    assert int(hash_bytes(blob, 3, 3 + size)) == hash_of(raw)
