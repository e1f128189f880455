"""Which pages a group has: chains through the rows, so that all whom a group's news concern are found at once.

A page is in the chain of its deepest group. Chains say nothing that the records do not; they are not saved, but made
anew when these are loaded.
"""

from __future__ import annotations

import numpy as np

from streamsched.numerics.arrays import Ints, Record
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.records.schema import ShardArrays

__all__ = ["add_member", "list_members", "rebuild_members", "remove_member"]


@inlined_kernel
def add_member(shard: ShardArrays, row: int) -> None:
    """Put the page of `row` first into the chain of its group. O(1)."""
    group = np.int64(shard.pages.records[row].group)
    after = np.int64(shard.groups.first_members[group])
    chain: Record = shard.groups.member_links[row]
    chain.before = 0
    chain.after = after
    if after:
        shard.groups.member_links[after - 1].before = row + 1
    shard.groups.first_members[group] = row + 1


@inlined_kernel
def remove_member(shard: ShardArrays, row: int) -> None:
    """Take the page of `row` out of the chain of its group, before it gets another. O(1)."""
    chain: Record = shard.groups.member_links[row]
    if chain.before:
        shard.groups.member_links[np.int64(chain.before) - 1].after = chain.after
    else:
        shard.groups.first_members[np.int64(shard.pages.records[row].group)] = chain.after
    if chain.after:
        shard.groups.member_links[np.int64(chain.after) - 1].before = chain.before


@bare_kernel
def rebuild_members(shard: ShardArrays) -> None:
    """Make all chains anew. O(pages + groups)."""
    corpus = shard.corpus[0]
    for group in range(corpus.groups):
        shard.groups.first_members[group] = 0
    for row in range(corpus.sorted):
        add_member(shard, row)


@bare_kernel
def list_members(shard: ShardArrays, group: int, since_s: float, known: int, out: Ints, count: int) -> int:
    """Write to `out`, from place `count` on, the group's rows below `known` that were last visited before `since_s`.

    Returns how many `out` holds then; one more than there is room for where they are too many. O(pages of the group).
    """
    row = np.int64(shard.groups.first_members[group])
    while row and count <= out.size:
        if row - 1 < known and shard.pages.records[row - 1].last_visit_s < since_s:
            if count < out.size:
                out[count] = row - 1
            count += 1
        row = np.int64(shard.groups.member_links[row - 1].after)
    return count
