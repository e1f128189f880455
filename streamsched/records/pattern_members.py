"""Linked lists of each group's pages, to find all pages that a group update affects.

A page is in the list of its deepest group. The lists follow from the page records; they are not saved but rebuilt after
loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.page_schema import FORGOTTEN

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes, Ints, Record, Records
    from streamsched.records.group_schema import GroupArrays

__all__ = ["add_member", "find_host_pages", "list_members", "rebuild_members", "remove_member"]


@inlined_kernel
def add_member(groups: GroupArrays, group: int, row: int) -> None:
    """Insert the page of `row` at the head of the list of `group`. O(1)."""
    after = np.int64(groups.first_members[group])
    link: Record = groups.member_links[row]
    link.before = 0
    link.after = after
    if after:
        groups.member_links[after - 1].before = row + 1
    groups.first_members[group] = row + 1


@inlined_kernel
def remove_member(groups: GroupArrays, group: int, row: int) -> None:
    """Remove the page of `row` from the list of `group`. O(1)."""
    link: Record = groups.member_links[row]
    if link.before:
        groups.member_links[np.int64(link.before) - 1].after = link.after
    else:
        groups.first_members[group] = link.after
    if link.after:
        groups.member_links[np.int64(link.after) - 1].before = link.before


@bare_kernel
def rebuild_members(groups: GroupArrays, pages: Records, corpus: Records) -> None:
    """Rebuild all lists. O(pages + groups)."""
    for group in range(corpus[0].groups):
        groups.first_members[group] = 0
    for row in range(corpus[0].pages):
        page: Record = pages[row]
        if page.rule != FORGOTTEN:
            add_member(groups, np.int64(page.group), row)


def find_host_pages(groups: GroupArrays, corpus: Records, hosts: Ints) -> Ints:
    """Return the rows of all pages of ``hosts``: int64[m], their groups, as int64[n], ascending.

    O(groups + n log n).
    """
    wanted = np.zeros(int(corpus["groups"][0]), np.uint8)
    wanted[hosts] = 1
    rows = np.empty(int(groups.records["host_pages"][hosts].sum(dtype=np.int64)), np.int64)
    return np.sort(rows[: _list_host_pages(groups, corpus, wanted, rows)]) if hosts.size else rows


@bare_kernel
def list_members(  # noqa: PLR0913, PLR0917  a kernel
    groups: GroupArrays, pages: Records, group: int, since_s: float, known: int, out: Ints, count: int
) -> int:
    """Append to `out`, from position `count` on, the group's rows below `known` last visited before `since_s`.

    Returns the number of rows in `out`, or ``out.size + 1`` if there are more than fit. O(pages of the group).
    """
    row = np.int64(groups.first_members[group])
    while row and count <= out.size:
        if row - 1 < known and pages[row - 1].last_visit_s < since_s:
            if count < out.size:
                out[count] = row - 1
            count += 1
        row = np.int64(groups.member_links[row - 1].after)
    return count


@bare_kernel
def _list_host_pages(groups: GroupArrays, corpus: Records, wanted: Bytes, out: Ints) -> int:
    """Write the rows of the pages of the hosts that are `wanted`: uint8[groups] to `out`; return their number."""
    count = 0
    for group in range(corpus[0].groups):
        if wanted[np.int64(groups.records[group].host)]:
            row = np.int64(groups.first_members[group])
            while row:
                out[count] = row - 1
                count += 1
                row = np.int64(groups.member_links[row - 1].after)
    return count
