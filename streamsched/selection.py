"""Which pages go into a batch: the ranking's best, behind pages that come first, and so many of a host at the most."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from streamsched.arrays import Ints
from streamsched.ranking import FullScan, Query, Ranked
from streamsched.tables import Tables

__all__ = ["fit_hosts", "select_pages"]


def select_pages(ranking: FullScan, tables: Tables, query: Query, per_host: int | None, first: Ints) -> Ranked:
    """Return `query.k` eligible pages: ``first``: int64[m], then the best others that their hosts have room for.

    O(pages), again for each time that full hosts leave too few. The rows `first` must fit theirs.
    """
    wanted = query.k
    while True:
        best = ranking.rank(tables, replace(query, k=wanted))
        others = np.flatnonzero(~np.isin(best.rows, first)) if first.size else np.arange(best.rows.size)
        rows = np.concatenate([first, best.rows[others]])
        keep = fit_hosts(tables, rows, per_host)[: query.k]
        if keep.size == query.k or best.rows.size < wanted or per_host is None:
            scores = np.concatenate([ranking.score(tables, query.now, query.cycle_s, first), best.scores[others]])
            return Ranked(rows[keep], scores[keep])
        wanted *= 4


def fit_hosts(tables: Tables, rows: Ints, per_host: int | None) -> Ints:
    """Return which places of ``rows``: int64[n] are left if each host's first `per_host` pages stay. O(n log n)."""
    if per_host is None:
        return np.arange(rows.size)
    return np.flatnonzero(_place_in_host(tables.groups["host"][tables.pages["group"][rows]]) < per_host)


def _place_in_host(hosts: npt.NDArray[np.uint32]) -> Ints:
    """Return how many of the same host stand before each place: int64[n]. O(n log n)."""
    order = np.argsort(hosts, kind="stable")
    sorted_hosts = hosts[order]
    starts = np.flatnonzero(np.r_[True, sorted_hosts[1:] != sorted_hosts[:-1]])
    run = np.arange(hosts.size) - np.repeat(starts, np.diff(np.r_[starts, hosts.size]))
    places = np.empty(hosts.size, np.int64)
    places[order] = run
    return places
