"""What an outcome does to its page: the counts, the record, and the limits of its number ranges."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.estimation.forgetting import FIRST_HALF_LIFE_DAYS
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.records.page_schema import LEASED, SHORTEST_INTERVAL, VISITED
from streamsched.state.page_table import PageTable

DAY = 86_400.0
URL = "https://a.example/docs/1"
NAMES = (
    *("applied", "changes", "first_visits", "failures", "duplicates", "late", "unchanged", "served", "hits"),
    *("refused", "robots_denied", "not_attempted", "moved", "unproven", "wrong"),
)


def observe(table: PageTable, *outcomes: Outcome) -> dict[str, int]:
    counts = table.observe(OutcomeBatch.from_outcomes(outcomes)).tolist()
    return dict(zip(NAMES, counts, strict=True))


def make(*outcomes: Outcome) -> PageTable:
    table = PageTable(DAY)
    observe(table, *outcomes)
    return table


def visits(times: list[float], changed: list[bool] | None = None) -> list[Outcome]:
    flags = changed or [False] * len(times)
    return [Outcome(URL, at, changed=flag) for at, flag in zip(times, flags, strict=True)]


def test_counts_tell_each_outcome_apart() -> None:
    table = PageTable(DAY)
    counts = observe(
        table,
        *visits([DAY]),
        Outcome(URL, 2 * DAY, 503),
        Outcome(URL, 2 * DAY),
        Outcome(URL, 1.5 * DAY),
        *visits([3 * DAY, 4 * DAY], [True, False]),
        Outcome(URL, 5 * DAY, "robots_denied"),
        Outcome(URL, 6 * DAY, "not_attempted", moved_to="https://b.example/"),
        Outcome(URL, 6 * DAY, moved_to="https://c.example/"),
    )
    assert counts == dict(zip(NAMES, (6, 1, 1, 1, 2, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0), strict=True))
    assert len(table) == 2


def test_new_page_weighs_and_costs_one() -> None:
    shard = make(Outcome(URL, DAY)).arrays
    record = shard.pages.records[0]
    assert (record["importance"], record["cost"]) == (1.0, 1.0)
    assert (record["last_visit_s"], shard.pages.traces["last_outcome_s"][0]) == (DAY, DAY)
    assert (record["visits"], record["own_shape"], record["own_exposure"]) == (0, 0.0, 0.0)


def test_failed_visits_move_neither_counts_nor_the_interval() -> None:
    table = make(*visits([0.0]), Outcome(URL, DAY, 503), Outcome(URL, 2 * DAY, 0), *visits([4 * DAY]))
    record = table.arrays.pages.records[0]
    assert (record["visits"], record["failures"]) == (1, 0)
    assert record["own_exposure"] == pytest.approx(4.0, rel=0.01)  # as it fades while it lasts


def test_failures_before_the_first_visit_leave_the_page_known_since_the_first() -> None:
    table = make(Outcome(URL, DAY, 503), Outcome(URL, 2 * DAY, 429))
    record = table.arrays.pages.records[0]
    assert (record["last_visit_s"], record["failures"]) == (DAY, 2)
    assert table.arrays.pages.traces["last_outcome_s"][0] == 2 * DAY
    assert not record["flags"] & VISITED
    assert observe(table, Outcome(URL, 5 * DAY, changed=True))["first_visits"] == 1
    record = table.arrays.pages.records[0]
    assert (record["last_visit_s"], record["visits"], record["failures"]) == (5 * DAY, 0, 0)


def test_failed_visit_still_tells_importance_and_cost_and_frees_the_page() -> None:
    table = make(*visits([0.0]))
    table.arrays.pages.records["flags"][0] |= LEASED
    observe(table, Outcome(URL, DAY, 503, importance=2.0, cost=3.0))
    record = table.arrays.pages.records[0]
    assert (record["importance"], record["cost"], record["flags"] & LEASED) == (2.0, 3.0, 0)


def test_duplicate_changes_nothing_though_its_fields_differ() -> None:
    table = make(*visits([0.0, DAY]))
    table.arrays.pages.records["flags"][0] |= LEASED
    before = table.arrays.pages.records[:1].copy(), table.arrays.pages.traces[:1].copy(), table.arrays.corpus.copy()
    observe(table, Outcome(URL, DAY, 404, 7, True, 9.0, 9.0), Outcome(URL, DAY - 1, 503, importance=9.0))
    after = table.arrays.pages.records[:1], table.arrays.pages.traces[:1], table.arrays.corpus
    assert [array.tobytes() for array in before] == [array.tobytes() for array in after]


def test_page_may_be_first_visited_before_it_was_discovered() -> None:
    table = PageTable(DAY)
    table.discover(PackedUrls.pack([URL]), 10 * DAY)
    assert table.arrays.pages.records["last_visit_s"][0] == 10 * DAY
    assert observe(table, *visits([DAY]))["first_visits"] == 1
    assert table.arrays.pages.records["last_visit_s"][0] == DAY


def test_failures_stop_at_what_their_field_holds() -> None:
    table = make(Outcome(URL, 0.0, 503))
    table.arrays.pages.records["failures"][0] = 254
    observe(table, Outcome(URL, 1.0, 503), Outcome(URL, 2.0, 503))
    assert table.arrays.pages.records["failures"][0] == 255
    observe(table, Outcome(URL, 3.0))
    assert table.arrays.pages.records["failures"][0] == 0


def test_answers_that_a_page_is_gone_are_counted_in_a_row() -> None:
    """A failure does not count; any other answer resets the count."""
    table = make(Outcome(URL, 0.0, 404))
    gone = []
    for at, status in enumerate((410, 503, 404, 403, 404, 200, 410, 304), 1):
        observe(table, Outcome(URL, float(at), status))
        gone.append(int(table.arrays.pages.records["gone"][0]))
    assert gone == [2, 2, 3, 0, 1, 0, 1, 0]
    table.arrays.pages.records["gone"][0] = 254
    observe(table, Outcome(URL, 20.0, 404), Outcome(URL, 21.0, 404))
    assert table.arrays.pages.records["gone"][0] == 255


def test_visits_stop_at_what_their_field_holds() -> None:
    """Then X stops with n, so that X/n does not change."""
    table = make(*visits([0.0, 1.0]))
    table.arrays.pages.records["visits"][0] = 2**32 - 2
    table.arrays.pages.records["changes"][0] = 5
    observe(table, *visits([2.0, 3.0, 4.0], [True, True, False]))
    record = table.arrays.pages.records[0]
    assert (record["visits"], record["changes"]) == (2**32 - 1, 6)


@pytest.mark.parametrize("changed", [False, True])
def test_intervals_beyond_all_reason_count_as_the_longest(changed: bool) -> None:
    table = PageTable(DAY)
    table.observe(OutcomeBatch([URL] * 2, [-1e308, 1e308], changed=[False, False]))  # no check of their times
    endless = FIRST_HALF_LIFE_DAYS / np.log(2.0)  # cycles that all of the past counts as
    assert table.arrays.pages.records["own_exposure"][0] == pytest.approx(endless)
    table.observe(OutcomeBatch([URL], [1.7e308], changed=[changed]))
    record = table.arrays.pages.records[0]
    assert np.isfinite(record["own_shape"])
    assert 0.0 <= record["own_exposure"] <= endless * 1.01


def test_clock_errors_of_one_page_do_not_spread() -> None:
    """One page's exposure became infinite, its next change NaN, and with the next sweep every prior."""
    table = PageTable(DAY)
    table.observe(OutcomeBatch([URL] * 3, [-1e308, 1e308, 1.7e308], changed=[False, False, True]))
    other = [f"https://b.example/{i}" for i in range(40)]
    for day in range(8):
        table.observe(OutcomeBatch(other, np.full(40, day * DAY), changed=np.arange(40) % 3 == 0))
    assert int(table.arrays.corpus["sweep"][0]) > 5
    assert table.faults() == []
    assert 0.1 < float(table.arrays.groups.records["mean"][1]) < 10.0


def test_changes_within_no_time_do_not_raise_rates_without_end() -> None:
    """Twenty pages that changed within the smallest of floats each time, whose rates each sweep would double."""
    table = PageTable(DAY)
    urls = [f"https://a.example/{i}" for i in range(20)]
    for tick in range(2_000):
        table.observe(OutcomeBatch(urls, np.full(20, tick * 5e-324), changed=np.ones(20, np.bool_)))
    assert int(table.arrays.corpus["sweep"][0]) > 1_000
    assert table.faults() == []
    assert float(table.arrays.corpus["mean"][0]) <= 10.0 / SHORTEST_INTERVAL
