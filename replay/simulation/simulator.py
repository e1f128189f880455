"""The simulated crawl: a policy ranks pages, visits observe the true changes, and metrics are recorded.

Two readings of "changed". `since_visit`: the page changed since its last visit, as a live crawler sees it. `that_day`:
the page changed within the cycle of the visit, as in GP4C's experiment. The reading determines what visits report to
the estimators, what ChangeRate and NDCG count, and what the oracle knows. Under `that_day` a visit that finds an older
change reports none, although the estimators receive the whole time since the last visit, as in the paper.

If the log says how much of a page each change concerns, visits report it, and NDCG weighs what they find by it: by
1 - ∏ (1 - s) of the changes that a visit finds.

Freshness and detection delay do not depend on the reading: a visit updates the copy and ends the delay of the first
change that the copy missed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np

from streamsched.evolution.records import EvolutionRecord
from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import OutcomeBatch
from streamsched.replay.ground_truth import Window
from streamsched.replay.simulation.metrics import (
    DECILES,
    WAITS_DAYS,
    Calibration,
    Forecast,
    change_rate,
    freshness,
    ndcg,
    weighted_ndcg,
)
from streamsched.replay.simulation.signal_stream import LearnedSource
from streamsched.signals import SignalBatch


@dataclass(frozen=True, slots=True)
class Evolution:
    """One evolution. ``cycle``: the first one ranked after its decision, counted from 0 over the replay; ``start_s``:
    UTC epoch seconds. ``gain`` and ``noise``: shares of the champion's fitness, or of what it found in a trial that has
    ended; None without a contest. ``decision``: see `streamsched.evolution.records.EvolutionRecord`.
    """

    cycle: int
    start_s: float
    champion: str
    challenger: str | None
    gain: float | None
    noise: float | None
    metric: str | None
    decision: str
    why: str

    @property
    def promoted(self) -> bool:
        """Whether the challenger became the champion."""
        return self.decision == "promoted"

    @classmethod
    def of(cls, record: EvolutionRecord, cycle: int) -> Evolution:
        """Return the summary of `record`, of an evolution before `cycle`. O(1)."""
        verdict, trial = record.verdict, record.trial
        gain = None if verdict is None else verdict.relative_gain
        noise = None if verdict is None else verdict.noise
        level = None if verdict is None else verdict.champion
        return cls(
            cycle,
            record.when_s,
            record.champion_before.formula.text,
            record.challenger,
            gain if trial is None else trial.evidence.gain,
            (noise / level if noise is not None and level else None) if trial is None else trial.evidence.noise,
            record.metric if trial is None else "trial",
            record.decision,
            record.why,
        )


DAY_S: Final = 86_400.0
_ROUNDING: Final = 1e-9  # of a page: 0.29 * 100 is 28.999999999999996 and means 29

Reading: TypeAlias = Literal["since_visit", "that_day"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Pages visited per cycle, warm-up cycles that visit all pages, and the reading of "changed".

    ``budget``: a share up to 1, a number of pages above 1; ``learned``: the first cycles, warm-up included, which are
    crawled and learned from but not measured; ``pages``: all of the replay, for `share` only.
    """

    budget: float
    warmup: int
    reading: Reading
    learned: int = 0
    pages: int = 1

    @property
    def share(self) -> float:
        """The budget as a share of all pages, at most 1."""
        return self.budget if self.budget <= 1 else min(1.0, self.budget / self.pages)

    @property
    def unmeasured(self) -> int:
        """Number of cycles before the measured ones."""
        return max(self.warmup, self.learned)

    def visits(self, pages: int) -> int:
        """Return the visits of a cycle with `pages` pages, at most all: the budget, or max(1, ⌊share · pages⌋).

        >>> Schedule(0.29, 2, "since_visit").visits(100), Schedule(29, 2, "since_visit").visits(100)
        (29, 29)
        """
        wanted = self.budget if self.budget > 1 else max(1.0, self.budget * pages + _ROUNDING)
        return min(pages, math.floor(wanted))


@dataclass(frozen=True, slots=True, eq=False)
class PolicyQuery:
    """A query to a policy: the best `k` of the first `known` pages at `now`, the end of cycle number `cycle`.

    ``changed``: bool[known], the truth, for the oracle only.
    """

    k: int
    known: int
    cycle: int
    now: float
    changed: Bools


class Policy(Protocol):
    """Decides which pages to visit; page i of the window is row i.

    In each cycle a replay calls `discover` if there are new pages, then `rank`, then `observe` with the outcomes of the
    visits. In the warm-up cycles it visits all pages without asking.
    """

    def discover(self, urls: PackedUrls, now: float) -> None:
        """Add pages, which get the next rows."""
        ...

    def rank(self, query: PolicyQuery) -> Rows:
        """Return the rows to visit, best first: intp[k], or fewer but one at least, without duplicates."""
        ...

    def observe(self, outcomes: OutcomeBatch) -> None:
        """Learn from completed visits."""
        ...


class SupportsSignals(Policy, Protocol):
    """A policy that takes change signals."""

    def notice(self, signals: SignalBatch) -> None:
        """Learn of signals, in time order."""
        ...


Foretell: TypeAlias = Callable[["Rows", float], Forecast]
"""Returns a policy's forecast for rows: intp[k] at a time, in epoch seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Record of one run of one policy over c measured cycles, those after the warm-up and the learning.

    - ``counted``: bool[c], whether some page had changed;
    - ``change_rate`` and ``ndcg``: float64[c], 0 if not counted;
    - ``freshness``: float64[c];
    - ``visits``: int64[c];
    - ``delays_days``: float64[d] and ``delay_cycles``: int64[d], for each visit that found a change: days since the
      first change that the copy missed, and the measured cycle;
    - ``seen``: int64[161], changes seen within each of `WAITS_DAYS`; a visit may see several;
    - ``undetected``: changes not seen by the end, on ``stale_pages`` pages;
    - ``decile_visits``: int64[10], visits by decile of the true change rate;
    - ``evolutions``: those of the policy, all cycles;
    - ``calibration``: its forecasts against what was observed, pages visited for the first time left out; None if they
      were not asked for, or the policy makes none;
    - ``sources``: what it learned of the sources of its signals, if that was asked for.
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
    calibration: Calibration | None = None
    evolutions: tuple[Evolution, ...] = ()
    sources: tuple[LearnedSource, ...] = ()

    @property
    def changes(self) -> int:
        """Changes of pages that had been visited, seen in a measured cycle or unseen at the end."""
        return int(self.seen[-1]) + self.undetected


def simulate(
    window: Window,
    policy: Policy,
    schedule: Schedule,
    deciles: Ints,
    tick: Callable[[], None] | None = None,
    predict: Foretell | None = None,
) -> Trace:
    """Run `policy` through `window` and return its trace; `tick` is called after each cycle.

    ``deciles``: int64[pages], each page's decile by true change rate; `predict`: asked for the forecast of each
    measured visit before the policy learns its outcome. A cycle costs O(pages · log changes) plus the policy's ranking;
    memory is O(pages + detections).
    """
    crawl = _Crawl(window, schedule.reading)
    trace = _TraceBuilder(window.cycles - schedule.unmeasured, deciles, predict)
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
            if cycle >= schedule.unmeasured:
                trace.add_cycle(cycle - schedule.unmeasured, rows, crawl)
        policy.observe(crawl.outcomes(rows))
        crawl.visit(rows)
        if tick is not None:
            tick()
    return trace.build(crawl)


class _Crawl:
    """State of the copies: the last visit of each page and the changes since.

    All arrays cover the pages known in the current cycle: ``first_unseen_s`` is the first change after the last visit
    (inf: none before the window's end; -inf: never visited), ``missed`` whether it lies before now, ``changed`` what a
    visit now would report under the reading.
    """

    def __init__(self, window: Window, reading: Reading) -> None:
        self.window = window
        self.reading = reading
        self.known = 0
        self.now = window.start_s
        self._seen = window.offsets[:-1].copy()  # index of each page's first change not in its copy
        self._visited = np.zeros(window.pages, np.bool_)
        self._passed = window.before(window.start_s)  # index of each page's first change not before now
        self._began = self._passed  # ... not before the cycle

    def enter(self, cycle: int, known: int) -> None:
        """Advance to the end of `cycle`, in which the first `known` pages are known."""
        self.known = known
        self.begin, self.now = self.window.edge(cycle), self.window.edge(cycle + 1)
        self._began, self._passed = self._passed, self.window.before(self.now)
        visited = self._visited[:known]
        self.missed = visited & (self._passed > self._seen)[:known]
        if self.reading == "since_visit":
            self.changed = self.missed
        else:
            self.changed = visited & (self._passed > self._began)[:known]
        self.first_unseen_s = np.where(visited, self.window.change_at(self._seen)[:known], -np.inf)

    def freshness(self) -> float:
        """Return the share of known pages with a current copy in this cycle, weighted by importance if given."""
        weights = None if self.window.importance is None else self.window.importance[: self.known]
        if weights is not None and not weights.any():
            weights = None  # if all weights are 0, pages are weighted equally
        return freshness(self.first_unseen_s, self.begin, self.now, weights)

    def outcomes(self, rows: Rows) -> OutcomeBatch:
        """Return the outcomes of visits to ``rows``: intp[k] at the end of the cycle."""
        weights = None if self.window.importance is None else self.window.importance[rows]
        fetched_at = np.full(rows.size, self.now)
        known = {} if self.window.significance is None else {"significance": self.significance(rows)}
        urls, changed = self.window.urls.take(rows), self.changed[rows]
        return OutcomeBatch(urls, fetched_at, changed=changed, importance=weights, **known)

    def ndcg(self, rows: Rows, relevant: int) -> float:
        """Return NDCG of visits to ``rows``: intp[k], best first, if `relevant` pages had changed, 1 or more."""
        if self.window.significance is not None:
            weights = self.significance(np.flatnonzero(self.changed))
            if weights.any():  # if all weights are 0, changes are weighted equally
                return weighted_ndcg(self.significance(rows), weights)
        return ndcg(self.changed[rows], relevant)

    def significance(self, rows: Rows) -> Floats:
        """Return how much of each of ``rows``: intp[k] changed, as a visit now would report: float64[k]."""
        if self.window.significance is None:
            raise ValueError("significance: expected a log that says how much of a page each change concerns")
        index, counts = self._between(self._seen if self.reading == "since_visit" else self._began, rows)
        some, starts = counts > 0, np.cumsum(counts) - counts
        changed = np.zeros(rows.size)
        changed[some] = 1.0 - np.multiply.reduceat(1.0 - self.window.significance[index], starts[some])
        return np.where(self.changed[rows], changed, 0.0)

    def visit(self, rows: Rows) -> None:
        """Update the copies of ``rows``: intp[k]."""
        self._seen[rows] = self._passed[rows]
        self._visited[rows] = True

    def ages_days(self, rows: Rows) -> Floats:
        """Return the age in days of each change that visits to ``rows``: intp[k] find: float64[changes]."""
        index, _ = self._between(self._seen, rows)
        return np.asarray((self.now - self.window.times_s[index]) / DAY_S)

    def _between(self, first: Ints, rows: Rows) -> tuple[Ints, Ints]:
        """Return the indices of the changes of ``rows``: intp[k] from `first` up to now, and how many each has."""
        counts = self._passed[rows] - first[rows]
        ends = np.cumsum(counts)
        return np.arange(ends[-1] if ends.size else 0) + np.repeat(self._passed[rows] - ends, counts), counts

    def unseen(self) -> Ints:
        """Return the changes up to now that each visited page's copy misses: int64[pages]."""
        return np.where(self._visited, self._passed - self._seen, 0)


class _TraceBuilder:
    """Collects the metrics of each measured cycle into a `Trace`."""

    def __init__(self, cycles: int, deciles: Ints, predict: Foretell | None) -> None:
        self.deciles = deciles
        self.predict = predict
        self.calibration = None if predict is None else Calibration.empty()
        self.counted = np.zeros(cycles, np.bool_)
        self.change_rate, self.ndcg, self.freshness = np.zeros(cycles), np.zeros(cycles), np.zeros(cycles)
        self.visits = np.zeros(cycles, np.int64)
        self.delays: list[Floats] = []
        self.seen = np.zeros(WAITS_DAYS.size, np.int64)
        self.decile_visits = np.zeros(DECILES, np.int64)

    def add_cycle(self, at: int, rows: Rows, crawl: _Crawl) -> None:
        """Record measured cycle number `at`, in which ``rows``: intp[k] are about to be visited."""
        relevant = int(np.count_nonzero(crawl.changed))
        if relevant:
            self.counted[at] = True
            self.change_rate[at] = change_rate(crawl.changed[rows])
            self.ndcg[at] = crawl.ndcg(rows, relevant)
        self.freshness[at] = crawl.freshness()
        self.visits[at] = rows.size
        found = rows[crawl.missed[rows]]
        self.delays.append((crawl.now - crawl.first_unseen_s[found]) / DAY_S)
        self.seen += np.searchsorted(np.sort(crawl.ages_days(found)), WAITS_DAYS, "right")
        self.decile_visits += np.bincount(self.deciles[rows], minlength=DECILES)
        if self.predict is not None and self.calibration is not None:
            again = rows[crawl.first_unseen_s[rows] > -np.inf]  # a first visit shows no change
            self.calibration += Calibration.of(self.predict(again, crawl.now), crawl.changed[again])

    def build(self, crawl: _Crawl) -> Trace:
        """Return the trace, with the changes that `crawl` has not seen."""
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
            self.calibration,
        )
