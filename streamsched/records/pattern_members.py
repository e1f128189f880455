"""Which pages a group has: chains through the rows, so that all whom a group's news concern are found at once.

A page is in the chain of its deepest group. Chains say nothing that the records do not; they are not saved, but made
anew when these are loaded.
"""

from __future__ import annotations

import numpy as np

from streamsched.numerics.arrays import Ints, Record
from streamsched.numerics.jit import bare_kernel, inlined
from streamsched.records.schema import Tables

__all__ = ["link_page", "list_rows", "rebuild_chains", "unlink_page"]


@inlined
def link_page(tables: Tables, row: int) -> None:
    """Put the page of `row` first into the chain of its group. O(1)."""
    group = np.int64(tables.pages[row].group)
    after = np.int64(tables.heads[group])
    chain: Record = tables.chains[row]
    chain.before = 0
    chain.after = after
    if after:
        tables.chains[after - 1].before = row + 1
    tables.heads[group] = row + 1


@inlined
def unlink_page(tables: Tables, row: int) -> None:
    """Take the page of `row` out of the chain of its group, before it gets another. O(1)."""
    chain: Record = tables.chains[row]
    if chain.before:
        tables.chains[np.int64(chain.before) - 1].after = chain.after
    else:
        tables.heads[np.int64(tables.pages[row].group)] = chain.after
    if chain.after:
        tables.chains[np.int64(chain.after) - 1].before = chain.before


@bare_kernel
def rebuild_chains(tables: Tables) -> None:
    """Make all chains anew. O(pages + groups)."""
    corpus = tables.corpus[0]
    for group in range(corpus.groups):
        tables.heads[group] = 0
    for row in range(corpus.sorted):
        link_page(tables, row)


@bare_kernel
def list_rows(tables: Tables, group: int, since_s: float, known: int, out: Ints, count: int) -> int:
    """Write to `out`, from place `count` on, the group's rows below `known` that were last visited before `since_s`.

    Returns how many `out` holds then; one more than there is room for where they are too many. O(pages of the group).
    """
    row = np.int64(tables.heads[group])
    while row and count <= out.size:
        if row - 1 < known and tables.pages[row - 1].last_visit_s < since_s:
            if count < out.size:
                out[count] = row - 1
            count += 1
        row = np.int64(tables.chains[row - 1].after)
    return count
