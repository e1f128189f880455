"""A scheduler of any number of pages beside a sort of all their scores, and the counts of what its queries cost."""

from __future__ import annotations

from collections import Counter

import numpy as np

from streamsched import OutcomeBatch, PackedUrls, Politeness, Scheduler
from streamsched.numerics.arrays import Ints
from tests.support.outcome_streams import DAY

FREE = Politeness(delay=0.0, in_flight=None, backoff=1.0, min_revisit=0.0, max_revisit=None, retire_after=None)
START_S = 1_000 * DAY
LEASE_S = 600.0
LAYOUTS = {  # the URLs of all pages: where page number `i` of a corpus is
    "one group": "https://a.example/docs/{0}",
    "one host": "https://a.example/{1}/{0}",
    "hosts": "https://h{1}.example/{0}",
}


class SortedCorpus:
    """A scheduler without politeness, whose batches must be the first pages of all pages sorted.

    ``met``: how many queries there were, how many of them searched and how many scored all pages, and how many pages a
    query examined at most.
    """

    def __init__(self, pages: int, formula: str, layout: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.now = START_S
        self.met: Counter[str] = Counter()
        self.scheduler = Scheduler(
            formula=formula, politeness=FREE, seed=seed, new_share=0.0, host_share=None, max_ahead=None, threads=2
        )
        self.urls = [LAYOUTS[layout].format(i, i % 97) for i in range(pages)]
        self.leased_until_s = np.full(pages, -np.inf)
        self.last_visit_s = np.full(pages, -np.inf)

    def visit(self, rows: Ints, times_s: float | np.ndarray[tuple[int], np.dtype[np.float64]], changed: float) -> None:
        """Visit pages of ``rows``: int64[m]; a share of them, `changed`, have changed. At first, all in order."""
        times = np.broadcast_to(times_s, rows.shape).astype(np.float64)
        outcomes = OutcomeBatch(
            PackedUrls.pack([self.urls[row] for row in rows.tolist()]),
            times,
            changed=self.rng.random(rows.size) < changed,
            importance=1.0 + rows % 13,
            cost=1.0 + rows % 5,
        )
        self.scheduler.observe(outcomes)
        applied = times > self.last_visit_s[rows]  # others are late
        self.leased_until_s[rows[applied]] = -np.inf
        self.last_visit_s[rows[applied]] = times[applied]

    def take(self, k: int, *, lease: bool = True) -> Ints:
        """Take a batch, or ask for one, and compare it with the sort; return its rows."""
        expected, scores = self.sort(k)
        ranking = self.scheduler.core.formula_switch.current
        scans, ranking.examined = ranking.scans, 0
        query = self.scheduler.next_batch if lease else self.scheduler.rank
        if lease:  # handed out by the probability of a change
            order = np.argsort(
                -self.scheduler.core.batch_builder.change_probabilities(self.now, expected), kind="stable"
            )
            expected, scores = expected[order], scores[order]
        batch = query(k, now=self.now)
        assert batch.rows.tolist() == expected.tolist()
        assert batch.scores.tobytes() == scores.tobytes()
        self._count(ranking.scans - scans, ranking.examined)
        if lease:
            self.leased_until_s[expected] = self.now + LEASE_S
        return expected

    def sort(self, k: int) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.float64]]]:
        """Return the first `k` of all pages by score, NaN last, then by tie: int64[m], and their scores."""
        rows = np.flatnonzero(self.leased_until_s <= self.now)
        scores = self.scheduler.scores(now=self.now)[rows]
        ties = self.scheduler.core.tie_keys(now=self.now)[rows]
        best = np.lexsort((ties, np.where(np.isnan(scores), 0.0, -scores), np.isnan(scores)))[:k]
        return rows[best], scores[best]

    def check(self) -> None:
        """The invariants of the tables and of the ranking hold."""
        core = self.scheduler.core
        assert core.pages.faults() == []
        core.formula_switch.keep_up(core.politeness_policy.leases.expire(core.pages.arrays, self.now))
        assert core.formula_switch.current.check(core.pages.arrays) == []

    def _count(self, scans: int, examined: int) -> None:
        """Note what a query cost: it scores all pages once at most."""
        assert scans <= 1
        self.met["queries"] += 1
        self.met["scans"] += scans
        self.met["searches"] += examined > 0
        name = "most examined before a scan" if scans else "most examined"
        self.met[name] = max(self.met[name], examined)
