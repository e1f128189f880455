"""Member lists: all pages of a group are found, after pages were added, moved or loaded."""

from __future__ import annotations

import numpy as np

from streamsched.outcomes import OutcomeBatch
from streamsched.records.url_patterns import list_members, rebuild_members
from streamsched.state.page_table import PageTable

DAY = 86_400.0


def crawled(days: int = 6) -> PageTable:
    """Pages of two hosts; those of a directory move into its group while sweeps go on."""
    table = PageTable(DAY)
    urls = [f"https://a.example/docs/{i}" for i in range(40)] + [f"https://b.example/{i}" for i in range(9)]
    for day in range(days):
        table.observe(OutcomeBatch(urls, np.full(len(urls), day * DAY), changed=np.zeros(len(urls), np.bool_)))
    return table


def members(table: PageTable, group: int, since_s: float = np.inf, known: int = 1_000, room: int = 100) -> list[int]:
    out = np.full(room, -1)
    count = list_members(table.arrays.groups, table.arrays.pages.records, group, since_s, known, out, 0)
    return sorted(out[:count].tolist()) if count <= room else [-count]


def test_every_page_is_listed_with_its_group() -> None:
    table = crawled()
    groups = table.arrays.pages.records["group"][: len(table)]
    assert np.unique(groups).size == 2  # the directory, and the other host
    for group in range(int(table.arrays.corpus["groups"][0])):
        assert members(table, group) == np.flatnonzero(groups == group).tolist()
    assert table.faults() == []


def test_rebuilt_chains_hold_the_same() -> None:
    table = crawled()
    before = [members(table, group) for group in range(3)]
    table.arrays.groups.member_links[:] = 0
    rebuild_members(table.arrays.groups, table.arrays.pages.records, table.arrays.corpus)
    assert [members(table, group) for group in range(3)] == before
    assert table.faults() == []


def test_only_known_rows_visited_before_are_listed() -> None:
    table = crawled()
    group = int(table.arrays.pages.records["group"][0])
    table.observe(OutcomeBatch(["https://a.example/docs/3"], np.array([99 * DAY])))
    assert 3 not in members(table, group, since_s=99 * DAY)
    assert len(members(table, group, since_s=99 * DAY)) == 39
    assert members(table, group, known=4) == [0, 1, 2, 3]


def test_too_many_rows_are_one_more_than_there_is_room_for() -> None:
    table = crawled()
    group = int(table.arrays.pages.records["group"][0])
    assert len(members(table, group, room=40)) == 40
    assert members(table, group, room=39) == [-40]
