"""Why a page is in the next batch or not, in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamsched.groups import group_name
from streamsched.politeness import host_room
from streamsched.ranking import Query, Ranked
from streamsched.tables import VISITED, Tables

__all__ = ["Chosen", "say_membership"]


class Chosen(NamedTuple):
    """A batch and how it came about."""

    query: Query
    best: Ranked  # the panel's pages and the best as far as hosts have room
    batch: Ranked  # these with the shares of pages never visited and of pages drawn by lot
    panel: int  # how many are the panel's
    new_share: float


def say_membership(tables: Tables, chosen: Chosen, row: int, *, eligible: bool) -> list[str]:
    """Return why the page of `row` is in the batch or not, if that is not plain from its not being eligible. O(k)."""
    batch = f"the next batch of {chosen.query.k:,}"
    if np.isin(row, chosen.batch.rows):
        return [f"in {batch}: {_say_why(tables, chosen, row)}"]
    if not eligible:
        return []
    return [f"not in {batch}: {_say_why_not(tables, chosen, row)}"]


def _say_why(tables: Tables, chosen: Chosen, row: int) -> str:
    place = int(np.flatnonzero(chosen.batch.rows == row)[0]) + 1
    if place <= chosen.panel:
        return "as a member of the panel"
    if np.isin(row, chosen.best.rows):
        return f"by its score, at place {place:,}"
    if chosen.new_share and not tables.pages["flags"][row] & VISITED:
        return "in the share of pages never visited"
    return "drawn by lot, in the share for exploration"


def _say_why_not(tables: Tables, chosen: Chosen, row: int) -> str:
    if chosen.query.k == 0:
        return "it has no places"
    if np.isin(row, chosen.best.rows):
        return "its score would do, but its place goes to the shares of pages never visited or drawn by lot"
    host = int(tables.groups["host"][tables.pages["group"][row]])
    hosts = tables.groups["host"][tables.pages["group"][chosen.best.rows]]
    taken = int(np.count_nonzero(hosts == host))
    query = chosen.query
    if taken and taken >= host_room(tables.groups[host], query.limits, query.now, query.lease_s):
        pages = "1 better page" if taken == 1 else f"{taken:,} better pages"
        return f"{group_name(tables, host)} gives no more than {pages} to it"
    return f"it scores less than the last page of it, {chosen.best.scores[-1]:.6g}"
