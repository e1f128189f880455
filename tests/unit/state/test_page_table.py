"""The page table: it grows, stays within its memory, and reports what it holds."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from streamsched.estimation.seasonality.regions import REGIONS
from streamsched.numerics.packed_urls import MAX_URL_BYTES, PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.records.page_schema import MAX_PAGES
from streamsched.records.seasonality_schema import POOLED, PROFILE
from streamsched.records.url_store import url_text
from streamsched.state import page_table, state_memory
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import Room
from tests.support.guarded_memory import fence, fenced

DAY = 86_400.0
URL = "https://a.example/docs/1"


def make(*outcomes: Outcome) -> PageTable:
    table = PageTable(DAY)
    table.observe(OutcomeBatch.from_outcomes(outcomes))
    return table


def test_discovery_of_a_known_page_leaves_it_as_it_was() -> None:
    table = make(Outcome(URL, 0.0), Outcome(URL, DAY))
    before = table.arrays.pages.records[:1].tobytes()
    assert table.discover(PackedUrls.pack([URL, URL]), 10 * DAY) == 0
    assert table.arrays.pages.records[:1].tobytes() == before


def test_weights_are_those_of_each_url() -> None:
    table = make(Outcome(URL, 0.0))
    table.discover(PackedUrls.pack(["b", "c"]), 0.0)
    table.weigh(PackedUrls.pack(["c", URL]), np.array([3.0, 5.0]))
    assert table.arrays.pages.records["importance"][:3].tolist() == [5.0, 1.0, 3.0]


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [
        Outcome(f"https://a.example/{i % 7}/{i % 31}", float(i // 3 * DAY), changed=i % 2 == 0) for i in range(300)
    ]
    whole = make(*outcomes)
    monkeypatch.setattr(page_table, "_CHUNK", 7)
    parts = make(*outcomes)
    assert parts.arrays.pages.records[:31].tobytes() == whole.arrays.pages.records[:31].tobytes()
    assert parts.arrays.groups.records[:99].tobytes() == whole.arrays.groups.records[:99].tobytes()


def test_table_grows_beyond_its_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_memory, "_RESERVED", Room(8, 1, 8, 1))
    table = PageTable(DAY)
    for i in range(200):
        table.observe(OutcomeBatch([f"https://h{i}.example/{'x' * i}/"], [float(i)]))
    assert [url_text(table.arrays.pages, row) for row in (0, 199)] == [
        "https://h0.example//",
        f"https://h199.example/{'x' * 199}/",
    ]
    assert table.faults() == []


def test_nothing_is_written_beyond_its_place() -> None:
    rng = np.random.default_rng(5)
    with fenced():
        table = PageTable(DAY)
        table._memory._scratch, table._memory._arrays = fence(np.dtype(np.uint8), MAX_URL_BYTES), None
        for step in range(30):
            size = int(rng.integers(1, 40))
            lengths = rng.integers(1, MAX_URL_BYTES + 1, size) if step % 5 == 0 else rng.integers(1, 60, size)
            urls = ["".join(rng.choice(list("ab/:?#@."), n)) for n in lengths.tolist()]
            table.observe(OutcomeBatch(urls, rng.random(size) + step, changed=rng.random(size) < 0.5))
            assert table.faults() == []


def test_batch_of_nothing() -> None:
    table = make()
    assert len(table) == 0
    assert table.discover(PackedUrls.pack([]), 0.0) == 0
    assert table.find(PackedUrls.pack([])).tolist() == []
    assert table.find(PackedUrls.pack([URL])).tolist() == [-1]
    assert table.faults() == []


def test_columns_that_may_not_be_written_to() -> None:
    """Frames read from a file are read-only."""
    batch = OutcomeBatch(
        PackedUrls(b"ab", [0, 1, 2]), np.frombuffer(np.arange(2.0).tobytes()), changed=np.frombuffer(b"\0\1", np.bool_)
    )
    assert not batch.fetched_at.flags.writeable
    table = PageTable(DAY)
    assert table.observe(batch)[0] == 2


def test_more_pages_than_a_shard_holds_are_refused_before_anything_is_taken() -> None:
    with pytest.raises(MemoryError, match="use more shards"):
        PageTable(DAY).reserve(Room(MAX_PAGES + 1))


def test_bytes_of_state_name_every_part() -> None:
    table = make(Outcome(URL, 0.0))
    page = mmap.PAGESIZE
    profiles = (1 + len(REGIONS)) * np.array([PROFILE.itemsize, POOLED.itemsize])
    assert table.state_bytes() == {
        "pages": 2 * page,
        "leases": 2 * page,
        "member_lists": 2 * page,
        "url_index": 8 * 1024,
        "seasonality": int((-(-profiles // page) * page).sum()) + 3 * page,
        "related_pages": (1 << 18) + 4 * 1024,
        "signals": 0,
        "contents": 0,
        "validators": page,
        "groups": 2 * page + 8 * 1024,
        "domains": 2 * page,
        "pattern_sketch": 1 << 16,
        "journal": page,
        "shadows": page,
        "url_text": 2 * page,
    }
