"""Which pages a group has: chains through the rows, so that all whom a group's news concern are found at once.

A page is in the chain of its deepest group. Chains say nothing that the records do not; they are not saved, but made
anew when these are loaded.
"""

from __future__ import annotations

import numpy as np

from streamsched.numerics.arrays import Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.group_schema import GroupArrays

__all__ = ["add_member", "list_members", "rebuild_members", "remove_member"]


@inlined_kernel
def add_member(groups: GroupArrays, group: int, row: int) -> None:
    """Put the page of `row` first into the chain of its group. O(1)."""
    after = np.int64(groups.first_members[group])
    chain: Record = groups.member_links[row]
    chain.before = 0
    chain.after = after
    if after:
        groups.member_links[after - 1].before = row + 1
    groups.first_members[group] = row + 1


@inlined_kernel
def remove_member(groups: GroupArrays, group: int, row: int) -> None:
    """Take the page of `row` out of the chain of its group, before it gets another. O(1)."""
    chain: Record = groups.member_links[row]
    if chain.before:
        groups.member_links[np.int64(chain.before) - 1].after = chain.after
    else:
        groups.first_members[group] = chain.after
    if chain.after:
        groups.member_links[np.int64(chain.after) - 1].before = chain.before


@bare_kernel
def rebuild_members(groups: GroupArrays, pages: Records, corpus: Records) -> None:
    """Make all chains anew. O(pages + groups)."""
    for group in range(corpus[0].groups):
        groups.first_members[group] = 0
    for row in range(corpus[0].sorted):
        page: Record = pages[row]
        add_member(groups, np.int64(page.group), row)


@bare_kernel
def list_members(  # noqa: PLR0913, PLR0917  a kernel
    groups: GroupArrays, pages: Records, group: int, since_s: float, known: int, out: Ints, count: int
) -> int:
    """Write to `out`, from place `count` on, the group's rows below `known` that were last visited before `since_s`.

    Returns how many `out` holds then; one more than there is room for where they are too many. O(pages of the group).
    """
    row = np.int64(groups.first_members[group])
    while row and count <= out.size:
        if row - 1 < known and pages[row - 1].last_visit_s < since_s:
            if count < out.size:
                out[count] = row - 1
            count += 1
        row = np.int64(groups.member_links[row - 1].after)
    return count
