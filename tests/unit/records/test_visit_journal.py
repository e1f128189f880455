"""The visit journal: which visits it keeps, and how it is read."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.records.schema import VISIT
from streamsched.records.visit_journal import (
    JOURNAL_VISITS,
    SAW_CHANGE,
    WAS_FIRST,
    copy_sample,
    find_sampled,
    number_sample,
    read_visits,
    sample_bar,
    sample_hashes,
)
from streamsched.state.page_table import PageTable
from tests.reference.shard import sample_hash

DAY = 86_400.0
URLS = [f"https://a.example/{i}" for i in range(3)]


def observed(*outcomes: Outcome) -> PageTable:
    table = PageTable(DAY)
    table.observe(OutcomeBatch.from_outcomes(outcomes))
    return table


def test_visit_takes_16_bytes() -> None:
    assert VISIT.itemsize == 16
    assert JOURNAL_VISITS & (JOURNAL_VISITS - 1) == 0


def test_visits_that_told_something_are_kept_in_their_order() -> None:
    table = observed(
        Outcome(URLS[1], DAY),
        Outcome(URLS[0], 2 * DAY),
        Outcome(URLS[1], 3 * DAY, 503),
        Outcome(URLS[1], 4 * DAY, changed=True),
        Outcome(URLS[1], 4 * DAY, changed=True),
        Outcome(URLS[1], 3.5 * DAY),
        Outcome(URLS[0], 5 * DAY, 304),
    )
    kept = table.arrays.journal[: int(table.arrays.corpus["journaled"][0])]
    assert kept["row"].tolist() == [0, 1, 0, 1]
    assert kept["at_s"].tolist() == [DAY, 2 * DAY, 4 * DAY, 5 * DAY]
    assert kept["flags"].tolist() == [WAS_FIRST, WAS_FIRST, SAW_CHANGE, 0]
    visits = read_visits(table.arrays.journal, table.arrays.corpus)
    assert visits.rows.tolist() == [0, 0, 1, 1]
    assert visits.at_s.tolist() == [DAY, 4 * DAY, 2 * DAY, 5 * DAY]
    assert visits.changed.tolist() == [False, True, False, False]
    assert visits.first.tolist() == [True, False, True, False]


def test_oldest_visits_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsched.state.state_arrays.JOURNAL_VISITS", 4)
    table = observed(*(Outcome(URLS[i % 3], float(i)) for i in range(10)))
    visits = read_visits(table.arrays.journal, table.arrays.corpus)
    assert visits.at_s.tolist() == [6.0, 9.0, 7.0, 8.0]
    assert table.state_bytes()["journal"] == 4 * 16
    assert table.faults() == []


def test_sampled_pages_are_those_up_to_a_bar() -> None:
    hashes = [sample_hash(row) for row in range(3)]
    assert sample_hashes(np.arange(3)).tolist() == hashes
    assert find_sampled(0, 3, max(hashes)).tolist() == [0, 1, 2]
    assert find_sampled(0, 3, min(hashes)).tolist() == [hashes.index(min(hashes))]
    assert find_sampled(1, 1, max(hashes)).tolist() == []


def test_rows_are_sampled_evenly() -> None:
    """A quarter of any thousand rows in a row, and of every tenth row, within six standard deviations."""
    for rows in (range(1_000), range(10**6, 10**6 + 1_000), range(0, 10_000, 10)):
        hashes = sample_hashes(np.array(rows))
        assert np.count_nonzero(hashes < 2**62) == pytest.approx(250, abs=6 * (1_000 * 0.25 * 0.75) ** 0.5)


@pytest.mark.parametrize("visits", [8, 11])
def test_a_copied_sample_tells_the_same_of_its_pages_and_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch, visits: int
) -> None:
    monkeypatch.setattr("streamsched.state.state_arrays.JOURNAL_VISITS", 8)
    table = observed(*(Outcome(URLS[i % 3], float(i), changed=i % 2 == 0) for i in range(visits)))
    rows = np.array([0, 2])
    whole = read_visits(table.arrays.journal, table.arrays.corpus)
    copied = copy_sample(table.arrays, rows)
    table.observe(OutcomeBatch.from_outcomes([Outcome(url, 100.0) for url in URLS]))
    sample = number_sample(copied, rows)
    sampled = read_visits(sample.journal, sample.corpus)
    kept = np.isin(whole.rows, rows)
    assert rows[sampled.rows].tolist() == whole.rows[kept].tolist()
    assert sampled.at_s.tolist() == whole.at_s[kept].tolist()
    assert sampled.changed.tolist() == whole.changed[kept].tolist()
    assert sampled.first.tolist() == whole.first[kept].tolist()
    assert sample.pages.records["url_hash"].tolist() == table.arrays.pages.records["url_hash"][rows].tolist()
    assert sample.pages.records["last_visit_s"].max() < 100.0
    assert find_sampled(0, 2, sample_bar(sample.corpus)).tolist() == [0, 1]
