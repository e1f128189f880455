"""Whatever a stream does, rows that are not reported keep their records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.state.page_table import PageTable
from tests.support.cases import examples
from tests.support.outcome_streams import DAY, cut, streams

pytestmark = pytest.mark.usefixtures("small_tables")


def records(table: PageTable) -> list[bytes]:
    shard = table.arrays
    return [shard.pages.records[row].tobytes() + shard.pages.traces[row].tobytes() for row in range(len(table))]


@examples(ordinary=9, whole=30)
@given(streams(), st.lists(st.sampled_from([1, 2, 7, 30, 1000]), min_size=1, max_size=4), st.data())
def test_what_is_not_told_stays(outcomes: list[Outcome], sizes: list[int], data: st.DataObject) -> None:
    table = PageTable(DAY)
    touched = table.watch()
    before = records(table)
    for part in cut(outcomes, sizes):
        table.observe(OutcomeBatch.from_outcomes(part))
        urls = data.draw(st.lists(st.sampled_from(part).map(lambda outcome: outcome.url), max_size=3))
        table.weigh(PackedUrls.pack(urls), np.arange(2.0, 2.0 + len(urls)))
        if data.draw(st.booleans()):
            assert touched.known == len(before)
            rows = touched.take()
            after = records(table)
            moved = {row for row, record in enumerate(before) if after[row] != record}
            assert rows is None or moved <= set(rows.tolist()) <= set(range(len(before)))
            before = after
