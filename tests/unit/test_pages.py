"""The page table: what outcomes leave in its records, its counts, and the ends of its number ranges."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched import pages
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.packed import MAX_URL_BYTES, PackedUrls
from streamsched.pages import PageTable
from streamsched.tables import LEASED, LONGEST_INTERVAL, SHORTEST_INTERVAL, VISITED
from streamsched.urls import MAX_PAGES, url_text
from tests.fences import fenced

DAY = 86_400.0
URL = "https://a.example/docs/1"
COUNTS = ("applied", "changes", "first_visits", "failures", "duplicates", "late")


def observe(table: PageTable, *outcomes: Outcome) -> dict[str, int]:
    counts = table.observe(OutcomeBatch.from_outcomes(outcomes)).tolist()
    return dict(zip(COUNTS, counts[: len(COUNTS)], strict=True))


def make(*outcomes: Outcome) -> PageTable:
    table = PageTable(DAY, 6)
    observe(table, *outcomes)
    return table


def visits(times: list[float], changed: list[bool] | None = None) -> list[Outcome]:
    flags = changed or [False] * len(times)
    return [Outcome(URL, at, changed=flag) for at, flag in zip(times, flags, strict=True)]


def test_counts_tell_each_outcome_apart() -> None:
    table = PageTable(DAY, 6)
    told = observe(
        table,
        *visits([DAY]),
        Outcome(URL, 2 * DAY, 503),
        Outcome(URL, 2 * DAY),
        Outcome(URL, 1.5 * DAY),
        *visits([3 * DAY, 4 * DAY], [True, False]),
    )
    assert told == dict(zip(COUNTS, (4, 1, 1, 1, 1, 1), strict=True))


def test_new_page_weighs_and_costs_one() -> None:
    record = make(Outcome(URL, DAY)).tables.pages[0]
    assert (record["importance"], record["cost"]) == (1.0, 1.0)
    assert (record["last_visit_s"], record["last_outcome_s"]) == (DAY, DAY)
    assert (record["visits"], record["own_shape"], record["own_exposure"]) == (0, 0.0, 0.0)


def test_failed_visits_move_neither_counts_nor_the_interval() -> None:
    table = make(*visits([0.0]), Outcome(URL, DAY, 503), Outcome(URL, 2 * DAY, 0), *visits([4 * DAY]))
    record = table.tables.pages[0]
    assert (record["visits"], record["failures"], record["own_exposure"]) == (1, 0, 4.0)


def test_failures_before_the_first_visit_leave_the_page_known_since_the_first() -> None:
    table = make(Outcome(URL, DAY, 503), Outcome(URL, 2 * DAY, 429))
    record = table.tables.pages[0]
    assert (record["last_visit_s"], record["last_outcome_s"], record["failures"]) == (DAY, 2 * DAY, 2)
    assert not record["flags"] & VISITED
    assert observe(table, Outcome(URL, 5 * DAY, changed=True))["first_visits"] == 1
    record = table.tables.pages[0]
    assert (record["last_visit_s"], record["visits"], record["failures"]) == (5 * DAY, 0, 0)


def test_failed_visit_still_tells_importance_and_cost_and_frees_the_page() -> None:
    table = make(*visits([0.0]))
    table.tables.pages["flags"][0] |= LEASED
    observe(table, Outcome(URL, DAY, 503, importance=2.0, cost=3.0))
    record = table.tables.pages[0]
    assert (record["importance"], record["cost"], record["flags"] & LEASED) == (2.0, 3.0, 0)


def test_duplicate_changes_nothing_though_its_fields_differ() -> None:
    table = make(*visits([0.0, DAY]))
    table.tables.pages["flags"][0] |= LEASED
    before = table.tables.pages[:1].copy(), table.tables.traces[:1].copy(), table.tables.corpus.copy()
    observe(table, Outcome(URL, DAY, 404, 7, True, 9.0, 9.0), Outcome(URL, DAY - 1, 503, importance=9.0))
    after = table.tables.pages[:1], table.tables.traces[:1], table.tables.corpus
    assert [array.tobytes() for array in before] == [array.tobytes() for array in after]


def test_page_may_be_first_visited_before_it_was_discovered() -> None:
    table = PageTable(DAY, 6)
    table.discover(PackedUrls.pack([URL]), 10 * DAY)
    assert table.tables.pages["last_visit_s"][0] == 10 * DAY
    assert observe(table, *visits([DAY]))["first_visits"] == 1
    assert table.tables.pages["last_visit_s"][0] == DAY


def test_discovery_of_a_known_page_leaves_it_as_it_was() -> None:
    table = make(*visits([0.0, DAY]))
    before = table.tables.pages[:1].tobytes()
    assert table.discover(PackedUrls.pack([URL, URL]), 10 * DAY) == 0
    assert table.tables.pages[:1].tobytes() == before


def test_weights_are_those_of_each_url() -> None:
    table = make(*visits([0.0]))
    table.discover(PackedUrls.pack(["b", "c"]), 0.0)
    table.weigh(PackedUrls.pack(["c", URL]), np.array([3.0, 5.0]))
    assert table.tables.pages["importance"][:3].tolist() == [5.0, 1.0, 3.0]


def test_failures_stop_at_what_their_field_holds() -> None:
    table = make(Outcome(URL, 0.0, 503))
    table.tables.pages["failures"][0] = 65_534
    observe(table, Outcome(URL, 1.0, 503), Outcome(URL, 2.0, 503))
    assert table.tables.pages["failures"][0] == 65_535
    observe(table, Outcome(URL, 3.0))
    assert table.tables.pages["failures"][0] == 0


def test_visits_stop_at_what_their_field_holds() -> None:
    """Then X stops with n, so that X/n stays what it was."""
    table = make(*visits([0.0, 1.0]))
    table.tables.pages["visits"][0] = 2**32 - 2
    table.tables.pages["changes"][0] = 5
    observe(table, *visits([2.0, 3.0, 4.0], [True, True, False]))
    record = table.tables.pages[0]
    assert (record["visits"], record["changes"]) == (2**32 - 1, 6)


@pytest.mark.parametrize("changed", [False, True])
def test_intervals_beyond_all_reason_count_as_the_longest(changed: bool) -> None:
    table = make(*visits([-1e308, 1e308], [False, False]))
    assert table.tables.pages["own_exposure"][0] == LONGEST_INTERVAL
    observe(table, *visits([1.7e308], [changed]))
    record = table.tables.pages[0]
    assert np.isfinite(record["own_shape"])
    assert LONGEST_INTERVAL <= record["own_exposure"] <= 2 * LONGEST_INTERVAL


def test_clock_errors_of_one_page_do_not_spread() -> None:
    """One page's exposure became infinite, its next change NaN, and the next sweep every prior."""
    table = make(*visits([-1e308, 1e308, 1.7e308], [False, False, True]))
    other = [f"https://b.example/{i}" for i in range(40)]
    for day in range(8):
        table.observe(OutcomeBatch(other, np.full(40, day * DAY), changed=np.arange(40) % 3 == 0))
    assert int(table.tables.corpus["sweep"][0]) > 5
    assert table.faults() == []
    assert 0.1 < float(table.tables.groups["mean"][1]) < 10.0


def test_changes_within_no_time_do_not_raise_rates_without_end() -> None:
    """Twenty pages that changed within the smallest of floats each time, whose rates each sweep would double."""
    table = PageTable(DAY, 6)
    urls = [f"https://a.example/{i}" for i in range(20)]
    for tick in range(2_000):
        table.observe(OutcomeBatch(urls, np.full(20, tick * 5e-324), changed=np.ones(20, np.bool_)))
    assert int(table.tables.corpus["sweep"][0]) > 1_000
    assert table.faults() == []
    assert float(table.tables.corpus["mean"][0]) <= 10.0 / SHORTEST_INTERVAL


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [
        Outcome(f"https://a.example/{i % 7}/{i % 31}", float(i // 3 * DAY), changed=i % 2 == 0) for i in range(300)
    ]
    whole = make(*outcomes)
    monkeypatch.setattr(pages, "_CHUNK", 7)
    parts = make(*outcomes)
    assert parts.tables.pages[:31].tobytes() == whole.tables.pages[:31].tobytes()
    assert parts.tables.groups[:99].tobytes() == whole.tables.groups[:99].tobytes()


def test_table_grows_beyond_its_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_RESERVED_PAGES", 8)
    monkeypatch.setattr(pages, "_RESERVED_TEXT", 8)
    table = PageTable(DAY, 6)
    for i in range(200):
        observe(table, Outcome(f"https://h{i}.example/{'x' * i}/", float(i)))
    assert [url_text(table.tables, row) for row in (0, 199)] == [
        "https://h0.example//",
        f"https://h199.example/{'x' * 199}/",
    ]
    assert table.faults() == []


def test_nothing_is_written_beyond_its_place() -> None:
    rng = np.random.default_rng(5)
    with fenced():
        table = PageTable(DAY, 6)
        region = pages.Region(np.uint8, 0)
        region.ensure(MAX_URL_BYTES)
        table._scratch = region.array
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
    """As frames read from a file are."""
    batch = OutcomeBatch(
        PackedUrls(b"ab", [0, 1, 2]), np.frombuffer(np.arange(2.0).tobytes()), changed=np.frombuffer(b"\0\1", np.bool_)
    )
    assert not batch.fetched_at.flags.writeable
    table = PageTable(DAY, 6)
    assert table.observe(batch)[0] == 2


def test_pages_entered_before_an_interrupt_are_sorted_with_the_next() -> None:
    """An interrupt of `discover` between entering URLs and sorting them leaves pages that no group has."""
    table = make(*visits([0.0]))
    urls = PackedUrls.pack(["https://b.example/1", "https://b.example/2", "https://b.example/3"])
    table._make_room(urls, 0, 2)
    table._index.enter(table.tables, PackedUrls(urls.blob, urls.offsets[:3]))
    observe(table, Outcome("https://b.example/3", 5 * DAY))
    assert table.faults() == []
    assert table.tables.pages["last_visit_s"][:4].tolist() == [0.0, 5 * DAY, 5 * DAY, 5 * DAY]


def test_more_pages_than_a_shard_holds_are_refused_before_anything_is_taken() -> None:
    with pytest.raises(MemoryError, match="use more shards"):
        PageTable(DAY, 6).reserve(MAX_PAGES + 1, 0, 0, 0)


def test_bytes_of_state_name_every_part() -> None:
    table = make(*visits([0.0]))
    assert table.state_bytes() == {
        "pages": 96,
        "leases": 8,
        "url_index": 8 * 1024,
        "groups": 80 + len("a.example") + 8 * 1024,
        "sketch": 1 << 16,
        "url_text": len(URL),
    }
