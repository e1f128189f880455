"""The replay itself: a policy ranks, the truth answers its visits, the metrics watch (SPEC 6).

Two readings of "changed". `since_visit`: the page changed since its last visit; it is what a live crawler sees.
`that_day`: the page changed within the cycle of the visit, the letter of GP4C's experiment. The reading is what visits
report to the estimators, what ChangeRate and NDCG count and what the oracle knows. Under `that_day` a visit that meets
an older change reports none, and the estimators are still told the whole time since the last visit, as in the paper.

Freshness and detection delay are about the copy, not the report: under either reading a visit brings the copy up to
date and ends the delay of the first change it had missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.replay.simulation.metrics import DECILES, WAITS_DAYS, change_rate, freshness, ndcg
from streamsched.replay.simulation.promotions import Evolution
from streamsched.replay.truth.ground_truth import Window

__all__ = ["DAY_S", "Policy", "PolicyQuery", "Reading", "Schedule", "Trace", "simulate"]

DAY_S: Final = 86_400.0
_ROUNDING: Final = 1e-9  # of a page: 0.29 * 100 is 28.999999999999996 and means 29

Reading: TypeAlias = Literal["since_visit", "that_day"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rules of one replay: the share of pages visited a cycle, the cycles that visit all, the reading."""

    budget: float
    warmup: int
    reading: Reading

    def visits(self, pages: int) -> int:
        """Return how many of `pages` pages a cycle visits: max(1, ⌊budget · pages⌋), at most all.

        >>> Schedule(0.29, 2, "since_visit").visits(100)
        29
        """
        return min(pages, max(1, math.floor(self.budget * pages + _ROUNDING)))


@dataclass(frozen=True, slots=True, eq=False)
class PolicyQuery:
    """What a policy is asked: its best `k` of the first `known` pages at `now`, the end of cycle number `cycle`.

    ``changed``: bool[known] is the answer itself, there for the oracle and nobody else.
    """

    k: int
    known: int
    cycle: int
    now: float
    changed: Bools


class Policy(Protocol):
    """Whoever decides what to visit; page i of the window is row i."""

    def discover(self, urls: PackedUrls, now: float) -> None:
        """Take note of further pages, which get the next rows."""
        ...

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows to visit, best first: intp[k], each once."""
        ...

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Learn from finished visits."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What one run of one policy did in its c ranked cycles, those after the warm-up.

    ``counted``: bool[c], where some page had changed; ``change_rate`` and ``ndcg``: float64[c], 0 where not counted;
    ``freshness``: float64[c]; ``visits``: int64[c]. ``delays_days``: float64[d] and ``delay_cycles``: int64[d], one for
    each visit that found something: days since the first change it had missed, and in which ranked cycle. ``seen``:
    int64[161], of all changes (several that one visit found count each) how many were seen within each of `WAITS_DAYS`.
    ``undetected``: changes that no visit had seen by the end, on ``stale_pages`` pages. ``decile_visits``: int64[10],
    visits by decile of the true change rate. ``evolutions``: those that the policy went through.
    """

    counted: Bools
    change_rate: Floats
    ndcg: Floats
    freshness: Floats
    visits: Ints
    delays_days: Floats
    delay_cycles: Ints
    seen: Ints
    undetected: int
    stale_pages: int
    decile_visits: Ints
    evolutions: tuple[Evolution, ...] = ()

    @property
    def changes(self) -> int:
        """All changes after the warm-up, seen or not, of pages that had been visited."""
        return int(self.seen[-1]) + self.undetected


def simulate(
    window: Window, policy: Policy, schedule: Schedule, deciles: Ints, tick: Callable[[], None] | None = None
) -> Trace:
    """Run `policy` through `window` and return what it did; `tick` is called after each cycle.

    ``deciles``: int64[pages], each page's decile by true change rate. Each cycle costs O(pages · log changes) beside the
    policy's own ranking; memory is O(pages + detections).
    """
    crawl = _Crawl(window, schedule.reading)
    trace = _TraceBuilder(window.cycles - schedule.warmup, deciles)
    for cycle in range(window.cycles):
        known = window.known(cycle)
        if known > crawl.known:
            policy.discover(window.urls.take(np.arange(crawl.known, known)), window.edge(cycle))
        crawl.enter(cycle, known)
        if cycle < schedule.warmup:
            rows = np.arange(known)
        else:
            query = PolicyQuery(schedule.visits(known), known, cycle, crawl.now, crawl.changed)
            rows = policy.rank(query)
            trace.write(cycle - schedule.warmup, rows, crawl)
        policy.observe(crawl.outcomes(rows))
        crawl.visit(rows)
        if tick is not None:
            tick()
    return trace.close(crawl)


class _Crawl:
    """The state of the copies: what each page's last visit saw, and what has happened since.

    All arrays are of the pages known in the present cycle: ``first_unseen_s`` is when a page first changed after its
    last visit (inf: not by the window's end; -inf: never visited), ``missed`` whether that was before now,
    ``changed`` what a visit now reports under the reading.
    """

    def __init__(self, window: Window, reading: Reading) -> None:
        self.window = window
        self.reading = reading
        self.known = 0
        self.now = window.start_s
        self._seen = window.offsets[:-1].copy()  # index of each page's first change not in its copy
        self._visited = np.zeros(window.pages, np.bool_)
        self._passed = window.before(window.start_s)  # index of each page's first change not before now

    def enter(self, cycle: int, known: int) -> None:
        """Move on to the end of `cycle`, in which the first `known` pages are known."""
        self.known = known
        self.begin, self.now = self.window.edge(cycle), self.window.edge(cycle + 1)
        at_begin, self._passed = self._passed, self.window.before(self.now)
        visited = self._visited[:known]
        self.missed = visited & (self._passed > self._seen)[:known]
        if self.reading == "since_visit":
            self.changed = self.missed
        else:
            self.changed = visited & (self._passed > at_begin)[:known]
        self.first_unseen_s = np.where(visited, self.window.change_at(self._seen)[:known], -np.inf)

    def freshness(self) -> float:
        """Return the share of known pages whose copy was current in this cycle, by importance where there is any."""
        weights = None if self.window.importance is None else self.window.importance[: self.known]
        if weights is not None and not weights.any():
            weights = None  # pages of no importance at all are alike
        return freshness(self.first_unseen_s, self.begin, self.now, weights)

    def outcomes(self, rows: Rows) -> OutcomeBatch:
        """Return what visits to ``rows``: intp[k] at the end of the cycle report."""
        weights = None if self.window.importance is None else self.window.importance[rows]
        fetched_at = np.full(rows.size, self.now)
        return OutcomeBatch(self.window.urls.take(rows), fetched_at, changed=self.changed[rows], importance=weights)

    def visit(self, rows: Rows) -> None:
        """Bring the copies of ``rows``: intp[k] up to date."""
        self._seen[rows] = self._passed[rows]
        self._visited[rows] = True

    def waits_days(self, rows: Rows) -> Floats:
        """Return how long each change that visits to ``rows``: intp[k] find has waited: float64[changes]."""
        counts = self._passed[rows] - self._seen[rows]
        ends = np.cumsum(counts)
        index = np.arange(ends[-1] if ends.size else 0) + np.repeat(self._passed[rows] - ends, counts)
        return np.asarray((self.now - self.window.times_s[index]) / DAY_S)

    def unseen(self) -> Ints:
        """Return how many changes up to now each visited page's copy lacks: int64[pages]."""
        return np.where(self._visited, self._passed - self._seen, 0)


class _TraceBuilder:
    """What the metrics say of each ranked cycle, collected to a `CrawlTrace`."""

    def __init__(self, cycles: int, deciles: Ints) -> None:
        self.deciles = deciles
        self.counted = np.zeros(cycles, np.bool_)
        self.change_rate, self.ndcg, self.freshness = np.zeros(cycles), np.zeros(cycles), np.zeros(cycles)
        self.visits = np.zeros(cycles, np.int64)
        self.delays: list[Floats] = []
        self.seen = np.zeros(WAITS_DAYS.size, np.int64)
        self.decile_visits = np.zeros(DECILES, np.int64)

    def write(self, at: int, rows: Rows, crawl: _Crawl) -> None:
        """Enter ranked cycle number `at`, in which ``rows``: intp[k] are about to be visited."""
        relevant = int(np.count_nonzero(crawl.changed))
        if relevant:
            self.counted[at] = True
            self.change_rate[at] = change_rate(crawl.changed[rows])
            self.ndcg[at] = ndcg(crawl.changed[rows], relevant)
        self.freshness[at] = crawl.freshness()
        self.visits[at] = rows.size
        found = rows[crawl.missed[rows]]
        self.delays.append((crawl.now - crawl.first_unseen_s[found]) / DAY_S)
        self.seen += np.searchsorted(np.sort(crawl.waits_days(found)), WAITS_DAYS, "right")
        self.decile_visits += np.bincount(self.deciles[rows], minlength=DECILES)

    def close(self, crawl: _Crawl) -> Trace:
        """Return the trace, with what `crawl` has left unseen."""
        unseen = crawl.unseen()
        return Trace(
            self.counted,
            self.change_rate,
            self.ndcg,
            self.freshness,
            self.visits,
            np.concatenate([np.empty(0), *self.delays]),
            np.repeat(np.arange(len(self.delays)), [delays.size for delays in self.delays]),
            self.seen,
            int(unseen.sum()),
            int(np.count_nonzero(unseen)),
            self.decile_visits,
        )
