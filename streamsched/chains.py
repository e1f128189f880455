"""Which pages a group has: chains through the rows, so that all that a group's news concern are found at once.

A page is in the chain of its deepest group, a URL pattern in that of its host. Chains say nothing that the records do
not; they are not saved, but made anew when these are loaded.
"""

from __future__ import annotations

import numpy as np

from streamsched.arrays import Ints, Record
from streamsched.jit import bare_kernel, inlined
from streamsched.tables import Tables

__all__ = ["link_page", "link_pattern", "list_rows", "rebuild_chains", "unlink_page"]


@inlined
def link_page(tables: Tables, row: int) -> None:
    """Put the page of `row` first into the chain of its group. O(1)."""
    page: Record = tables.pages[row]
    kin: Record = tables.kin[page.group]
    chain: Record = tables.chains[row]
    chain.before = 0
    chain.after = kin.first_row
    if kin.first_row:
        tables.chains[np.int64(kin.first_row) - 1].before = row + 1
    kin.first_row = row + 1


@inlined
def unlink_page(tables: Tables, row: int) -> None:
    """Take the page of `row` out of the chain of its group, before it gets another. O(1)."""
    page: Record = tables.pages[row]
    chain: Record = tables.chains[row]
    if chain.before:
        tables.chains[np.int64(chain.before) - 1].after = chain.after
    else:
        tables.kin[page.group].first_row = chain.after
    if chain.after:
        tables.chains[np.int64(chain.after) - 1].before = chain.before


@inlined
def link_pattern(tables: Tables, group: int) -> None:
    """Put a new group that is no host first into the chain of its host. O(1)."""
    host: Record = tables.kin[tables.groups[group].host]
    tables.kin[group].next_pattern = host.first_pattern
    host.first_pattern = group + 1


@bare_kernel
def rebuild_chains(tables: Tables) -> None:
    """Make all chains anew. O(pages + groups)."""
    corpus = tables.corpus[0]
    for group in range(corpus.groups):
        tables.kin[group].first_row = 0
        tables.kin[group].first_pattern = 0
        tables.kin[group].next_pattern = 0
    for group in range(corpus.groups):
        if tables.groups[group].depth > 0:
            link_pattern(tables, group)
    for row in range(corpus.sorted):
        link_page(tables, row)


@bare_kernel
def list_rows(tables: Tables, group: int, since_s: float, known: int, out: Ints, count: int) -> int:
    """Append to `out` the rows below `known` whose page reads `group` and was last visited before `since_s`.

    Of a URL pattern its own pages, of a host those of its patterns, too. Returns how many `out` holds then, were
    there room: counts on past its end. O(pages of the group).
    """
    count = _list_own(tables, group, since_s, known, out, count)
    if tables.groups[group].depth == 0:
        pattern = np.int64(tables.kin[group].first_pattern)
        while pattern and count <= out.size:
            count = _list_own(tables, pattern - 1, since_s, known, out, count)
            pattern = np.int64(tables.kin[pattern - 1].next_pattern)
    return count


@bare_kernel
def _list_own(tables: Tables, group: int, since_s: float, known: int, out: Ints, count: int) -> int:
    row = np.int64(tables.kin[group].first_row)
    while row and count <= out.size:
        if row - 1 < known and tables.pages[row - 1].last_visit_s < since_s:
            if count < out.size:
                out[count] = row - 1
            count += 1
        row = np.int64(tables.chains[row - 1].after)
    return count
