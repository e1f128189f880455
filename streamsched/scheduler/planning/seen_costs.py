"""What visits observed of the costs of stale copies: pairs of a visit before a page was due, and one after.

MirrorSync (Kolobov, Bubeck and Zimmert, 2020) synchronises a page every 1/rate, and rarely probes its cost in between.
A crawler sees a page's cost by visiting it, which synchronises it too. So a visit before the page is due is a probe,
and the next one, if the page is due by then, is the sync. Probes come from pages that batches draw at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamsched.records.visit_journal import read_visits

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Ints
    from streamsched.records.visit_journal import Visits
    from streamsched.scheduler.core import SchedulerCore

__all__ = ["NOTHING_SEEN", "SeenCosts", "pair_visits", "read_costs"]


class SeenCosts(NamedTuple):
    """Pairs of a probe and a sync: the row of the page, and what each of the two visits observed, per importance."""

    rows: Ints  # int64[p]
    probed: Floats  # float64[p]: 1 if the probe found a change, else 0
    synced: Floats  # float64[p]


NOTHING_SEEN = SeenCosts(np.empty(0, np.int64), np.empty(0), np.empty(0))


def read_costs(core: SchedulerCore, since_s: float, crawl_rate: Floats) -> SeenCosts:
    """Return the pairs whose syncs came at `since_s` or later, of pages that the journal samples. O(pages + visits).

    ``crawl_rate``: float64[n], visits per cycle by which pages were due. The lock is held to copy the journal.
    """
    with core.lock:
        shard = core.pages.arrays
        corpus = shard.corpus.copy()
        journal = shard.journal[: min(int(corpus["journaled"][0]), shard.journal.size)].copy()
    return pair_visits(read_visits(journal, corpus), since_s, crawl_rate, core.pages.cycle_s)


def pair_visits(visits: Visits, since_s: float, crawl_rate: Floats, cycle_s: float) -> SeenCosts:
    """Return the pairs among ``visits`` whose syncs came at `since_s`, that of the last plan, or later. O(visits)."""
    rows = visits.rows
    known = rows < crawl_rate.size
    planned = np.where(known, crawl_rate[np.where(known, rows, 0)], 0.0) if crawl_rate.size else np.zeros(rows.size)
    follows = np.zeros(rows.size, np.bool_)  # the visit before is of the same page
    follows[1:] = (rows[1:] == rows[:-1]) & ~visits.first[1:]
    elapsed = np.zeros(rows.size)
    elapsed[1:] = np.diff(visits.at_s) / cycle_s * planned[1:]
    is_probe = follows & (planned > 0.0) & (elapsed < 1.0)
    is_sync = follows & (elapsed >= 1.0) & (visits.at_s >= since_s)
    synced = np.flatnonzero(is_sync[1:] & is_probe[:-1]) + 1
    changed = visits.changed.astype(np.float64)
    return SeenCosts(rows[synced], changed[synced - 1], changed[synced])
