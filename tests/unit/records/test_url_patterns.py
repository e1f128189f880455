"""Groups: the host of a URL, when a path prefix becomes a group, and which pages move into it."""

from __future__ import annotations

import numpy as np
import pytest

from streamsched.estimation import hierarchical_prior
from streamsched.numerics.packed_urls import MAX_URL_BYTES, PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.records.page_schema import PageBounds
from streamsched.records.url_patterns import (
    GROUP_PAGES,
    MAX_DEPTH,
    assign_deeper_group,
    candidate_space,
    group_name,
    group_names,
    renew_candidates,
)
from streamsched.state.page_table import PageTable
from streamsched.state.state_arrays import Room
from tests.reference.url_hash import hash_of
from tests.support.cases import grouped
from tests.support.colliding_urls import colliding_hosts
from tests.support.guarded_memory import fenced


def discover(table: PageTable, *urls: str) -> None:
    table.discover(PackedUrls.pack(urls), 0.0)


def host_of(url: str) -> str:
    table = PageTable(86_400.0)
    discover(table, url)
    return group_name(table.arrays.groups, int(table.arrays.pages.records["group"][0]))


def patterns(table: PageTable) -> list[str]:
    """The pattern of each page."""
    return [group_name(table.arrays.groups, int(group)) for group in table.arrays.pages.records["group"][: len(table)]]


@grouped(
    ("host", "url"),
    {
        "a.example": [
            *["https://a.example/x", "HTTPS://A.Example/X", "https://a.example", "https://a.example?q=/x/"],
            *["https://a.example#/x/", "http://a.example:80/", "HTTP://a.example:80", "https://a.example:443/"],
            *["https://user@a.example/", "https://user:p@ss@a.example:443/", "https://a.example/@b.example/"],
            *["a.example", "a.example/x", "a.example/go?to=http://b.example/", "a.example/http://b.example/"],
            *["a.example?to=http://b.example/", "://a.example"],
        ],
        "a.example:443": ["http://a.example:443/"],
        "a.example:80": ["https://a.example:80/", "a.example:80/x"],
        "a.example:8080": ["http://a.example:8080/"],
        "a.example:180": ["http://a.example:180/"],
        "[2001:db8::1]": ["http://[2001:DB8::1]:80/x"],
        "[2001:db8::443]": ["https://[2001:db8::443]/x"],
        "": ["//a.example/x", "/x/y", "?", "file:///x/y", "http://"],
        "http:": ["http:/"],
        "h": ["h"],
        "münchen.example": ["https://münchen.example/ä"],
        "mÜnchen.example": ["https://MÜNCHEN.example/ä"],
    },
)
def test_host(url: str, host: str) -> None:
    assert host_of(url) == host


def test_host_of_the_longest_url() -> None:
    longest = "A" * MAX_URL_BYTES
    with fenced():
        assert host_of(longest) == longest.lower()
        assert host_of("https://" + longest[8:]) == longest[8:].lower()


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ("https://a.example/docs/{}", "a.example/docs/"),
        ("https://a.example:443/docs/{}?/x/", "a.example/docs/"),
        ("https://a.example/docs/{}#/x/", "a.example/docs/"),
        ("https://a.example//{}", "a.example//"),
        ("https://a.example/{}", "a.example"),
        ("https://a.example/?docs/{}", "a.example"),
        ("https://a.example/{}/", "a.example"),
        ("https://a.example/ä/{}", "a.example/ä/"),
        ("/docs/{}", "/docs/"),
    ],
)
def test_prefix_becomes_a_group_at_its_sixteenth_page(form: str, pattern: str) -> None:
    table = PageTable(86_400.0)
    discover(table, *(form.format(i) for i in range(GROUP_PAGES - 1)))
    assert set(patterns(table)) == {pattern.split("/", maxsplit=1)[0]}
    discover(table, form.format(0), form.format(0))  # known pages do not count again
    assert set(patterns(table)) == {pattern.split("/", maxsplit=1)[0]}
    discover(table, form.format("last"))
    assert patterns(table)[-1] == pattern
    assert table.faults() == []


def test_no_prefix_deeper_than_the_limit() -> None:
    table = PageTable(86_400.0)
    path = "/".join("abcdefghijkl")
    discover(table, *(f"https://a.example/{path}/{i}" for i in range(GROUP_PAGES * (MAX_DEPTH + 3))))
    assert patterns(table)[-1] == "a.example/" + "/".join("abcdefgh") + "/"
    assert int(table.arrays.corpus["groups"][0]) == 1 + MAX_DEPTH
    assert table.arrays.groups.records["depth"][: 1 + MAX_DEPTH].tolist() == list(range(1 + MAX_DEPTH))


def test_group_knows_its_parent_and_host_and_begins_with_its_parents_mean() -> None:
    table = PageTable(86_400.0)
    discover(table, "https://b.example/", *(f"https://a.example/x/y/{i}" for i in range(2 * GROUP_PAGES)))
    groups = table.arrays.groups.records[:4]
    assert group_names(table.arrays.groups, np.arange(4)) == ["b.example", "a.example", "a.example/x", "a.example/x/y"]
    assert groups["parent"].tolist() == [0, 1, 1, 2]
    assert groups["host"].tolist() == [0, 1, 1, 1]
    assert set(groups["mean"]) == {hierarchical_prior.FIRST_MEAN_PER_DAY}


def test_page_moves_to_the_deepest_group_and_only_down() -> None:
    table = PageTable(86_400.0)
    discover(table, *(f"https://a.example/x/y/{i}" for i in range(2 * GROUP_PAGES)), "https://a.example/x/z/0")
    assert patterns(table)[:: 2 * GROUP_PAGES] == ["a.example", "a.example/x/"]
    for row in range(len(table)):
        assign_deeper_group(table.arrays.groups, table.arrays.pages, table.arrays.dirty, row)
    assert patterns(table) == ["a.example/x/y/"] * (2 * GROUP_PAGES) + ["a.example/x/"]
    assert table.faults() == []  # which counts the pages of each group


def test_sweep_moves_pages_that_came_before_their_group() -> None:
    table = PageTable(86_400.0)
    urls = [f"https://a.example/x/{i}" for i in range(GROUP_PAGES)]
    table.observe(OutcomeBatch(urls, np.zeros(GROUP_PAGES)))
    assert patterns(table)[0] == "a.example"
    table.observe(
        OutcomeBatch(urls, np.ones(GROUP_PAGES), changed=np.zeros(GROUP_PAGES, np.bool_))
    )  # as many intervals as make a step
    assert set(patterns(table)) == {"a.example/x/"}


def test_group_opened_behind_the_sweep_is_met_by_the_next() -> None:
    """The first step passes 64 pages of a directory that becomes a group only then, with the pages after them."""
    table = PageTable(86_400.0)
    others = [f"https://b.example/{i}" for i in range(100)]
    before = [f"https://a.example/x/{i}" for i in range(GROUP_PAGES - 1)]
    table.observe(OutcomeBatch([*before, *others], np.zeros(100 + len(before))))
    table.observe(OutcomeBatch(others[:16], np.ones(16), changed=np.zeros(16, np.bool_)))
    assert int(table.arrays.corpus["sweep_row"][0]) == hierarchical_prior.SWEEP_ROWS
    discover(table, "https://a.example/x/last")
    table.observe(OutcomeBatch(others[:16], np.full(16, 2.0), changed=np.zeros(16, np.bool_)))
    assert (patterns(table)[0], int(table.arrays.corpus["sweep"][0])) == ("a.example", 1)
    table.observe(OutcomeBatch(others[:16], np.full(16, 3.0), changed=np.zeros(16, np.bool_)))
    assert patterns(table)[0] == "a.example/x/"


def test_page_opens_two_groups_at_most_whatever_the_sketch_says() -> None:
    """Prefixes that collide, by chance or by design, seem due; and no name overwrites what follows."""
    with fenced():
        table = PageTable(86_400.0)
        discover(table, "https://a.example/")
        table.arrays.groups.candidates[:] = 255
        deep = "https://b.example/" + "x/" * ((MAX_URL_BYTES - 18) // 2)
        discover(table, deep)
        assert group_names(table.arrays.groups, np.arange(3)) == ["a.example", "b.example", "b.example/x"]
        assert int(table.arrays.corpus["groups"][0]) == 3
        for i in range(2 * MAX_DEPTH):
            discover(table, deep[:-2] + f"{i:02}")
        assert patterns(table)[-1] == "b.example" + "/x" * MAX_DEPTH + "/"
        assert table.faults() == []


def test_room_for_names_of_the_longest_urls() -> None:
    """Each page adds a host, and a prefix nearly as long as its URL: twice its bytes in names."""
    with fenced():
        table = PageTable(86_400.0)
        discover(table, "https://a.example/")
        table.arrays.groups.candidates[:] = 255
        urls = [f"{i:03}/" + "x" * (MAX_URL_BYTES - 6) + "/" for i in range(50)]
        discover(table, *(f"{url}a" for url in urls))
        assert int(table.arrays.corpus["groups"][0]) == 101
        assert patterns(table)[1:] == urls
        assert table.faults() == []


def test_space_of_the_sketch_follows_the_pages() -> None:
    assert [candidate_space(pages) for pages in (0, 1 << 17, (1 << 17) + 2, 1 << 20)] == [
        1 << 16,
        1 << 16,
        1 << 17,
        1 << 19,
    ]


def test_growth_of_the_sketch_forgets_its_counts() -> None:
    table = PageTable(86_400.0)
    table.reserve(Room(1 << 18))
    table.arrays.groups.candidates[:8] = 3
    for pages in (1 << 17, (1 << 17) + 1, (1 << 17) + 3):
        renew_candidates(table.arrays.groups.candidates, pages)
        assert np.all(table.arrays.groups.candidates[:8] == 3)
    renew_candidates(table.arrays.groups.candidates, (1 << 17) + 2)
    assert not np.any(table.arrays.groups.candidates[: 1 << 17])


def test_hosts_that_were_made_up_to_collide_are_spread_over_the_slots() -> None:
    hosts = colliding_hosts(2_000)
    assert len({hash_of(host.encode()) for host in hosts}) == 1
    table = PageTable(86_400.0)
    discover(table, *(f"https://{host}/" for host in hosts))
    assert patterns(table) == hosts
    for _ in range(2):
        slots = table.arrays.groups.slots
        used = np.flatnonzero(slots)
        moved = (used - (slots[used] >> np.uint64(32)).astype(np.int64)) & (slots.size - 1)
        assert used.size == 2_000
        assert moved.max() < 200
        table.rebuild_index()
    assert table.faults() == []


def test_url_patterns_beyond_the_bound_leave_pages_in_the_group_above() -> None:
    table = PageTable(86_400.0, bounds=PageBounds(max_patterns_per_host=1))
    for name in ("a", "b"):
        discover(table, *(f"https://a.example/{name}/{i}" for i in range(GROUP_PAGES + 2)))
    discover(table, *(f"https://b.example/b/{i}" for i in range(GROUP_PAGES)))
    assert patterns(table)[GROUP_PAGES - 1 : GROUP_PAGES + 2] == ["a.example/a/"] * 3
    assert set(patterns(table)[GROUP_PAGES + 2 : 2 * GROUP_PAGES + 4]) == {"a.example"}
    assert patterns(table)[-1] == "b.example/b/"  # each host has its own
    assert table.arrays.corpus["refused_patterns"][0] == 3  # the 16th page below /b/ and the two after it
    assert table.faults() == []
