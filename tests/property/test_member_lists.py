"""Packed lists of rows hold the same rows as Python's lists, and records that are free again are used again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamsched.estimation.related_members import append_row, clear_rows, list_rows, remove_row
from streamsched.records.related_schema import MOST_MEMBERS, RelatedArrays
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import Room

KEYS = 3

rows = st.integers(0, 300) | st.integers(0, 2**32 - 2)
actions = st.tuples(st.sampled_from(["append", "append", "append", "remove", "clear"]), st.integers(0, KEYS - 1), rows)


def listed(related: RelatedArrays, key: int) -> list[int]:
    out = np.zeros(MOST_MEMBERS, np.int64)
    found: list[int] = out[: list_rows(related, key, out)].tolist()
    return found


@given(st.lists(actions, max_size=200))
def test_lists_hold_what_was_appended_and_not_removed(steps: list[tuple[str, int, int]]) -> None:
    table = PageTable(86_400.0)
    table.reserve(Room(1000))
    related = table.arrays.related
    twins: list[list[int]] = [[] for _ in range(KEYS)]
    most = 0
    for action, key, row in steps:
        twin = twins[key]
        if action == "append" and row not in twin and len(twin) < MOST_MEMBERS:
            append_row(related, key, row)
            twin.insert(0, row)
        elif action == "remove" and twin:
            remove_row(related, key, twin.pop(row % len(twin)))
        elif action == "clear":
            clear_rows(related, key)
            twin.clear()
        assert listed(related, key) == twin
        most = max(most, sum(map(len, twins)))
    assert [listed(related, key) for key in range(KEYS)] == twins
    assert int(related.state["lists"][0]) <= most // 2
