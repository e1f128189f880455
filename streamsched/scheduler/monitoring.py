"""Measures a scheduler at work: what its calls did, how fetches ended, whether forecasts were true, freshness.

Calibration compares predicted change probabilities with observed changes: `CalibrationWatch` keeps the forecast of each
page that is handed out until a visit shows whether the page changed, and `Reliability` counts both by probability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from streamsched.api.views import Noticed, Observed
from streamsched.fields import MAX_STATUS
from streamsched.numerics.arrays import Bools, Floats, Ints, Records, Rows
from streamsched.outcomes import ROBOTS_DENIED, STATUS, OutcomeBatch
from streamsched.records.page_schema import FORGOTTEN, VISITED
from streamsched.scheduler.core import SchedulerCore
from streamsched.scheduler.results import Batch

BINS: Final = 20
BIN_EDGES: Final[Floats] = (np.arange(BINS + 1) / BINS) ** 2
"""float64[21]: equal steps of the square root, so that the small probabilities of short cycles can be distinguished."""


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Visits by predicted probability.

    ``visits``: int64[20], those in each bin of `BIN_EDGES`; ``predicted``: float64[20], the sums of their
    probabilities; ``observed``: int64[20], how many of them found a change.
    """

    visits: Ints
    predicted: Floats
    observed: Ints

    @classmethod
    def of(cls, probabilities: Floats, changed: Bools) -> Reliability:
        """Return the counts of k visits, ``probabilities``: float64[k] from 0 to 1, ``changed``: bool[k]. O(k)."""
        bins = np.clip(np.searchsorted(BIN_EDGES, probabilities, "right") - 1, 0, BINS - 1)
        return cls(
            np.bincount(bins, minlength=BINS),
            np.bincount(bins, probabilities, BINS).astype(np.float64),  # of no visits they are whole numbers
            np.bincount(bins[changed], minlength=BINS),
        )

    @classmethod
    def empty(cls) -> Reliability:
        """Return the counts of no visits."""
        return cls.of(np.empty(0), np.empty(0, np.bool_))

    def __add__(self, other: Reliability) -> Reliability:
        """Return the counts of both."""
        return Reliability(self.visits + other.visits, self.predicted + other.predicted, self.observed + other.observed)

    @property
    def total(self) -> int:
        """Number of visits."""
        return int(self.visits.sum())

    @property
    def mean_predicted(self) -> float | None:
        """Mean probability; None without visits."""
        return float(self.predicted.sum() / self.total) if self.total else None

    @property
    def share_observed(self) -> float | None:
        """Share of the visits that found a change; None without visits."""
        return float(self.observed.sum() / self.total) if self.total else None

    @property
    def error(self) -> float | None:
        """Calibration error: mean of |predicted - observed| over the bins, weighted by visits; None without visits."""
        return float(np.abs(self.predicted - self.observed).sum() / self.total) if self.total else None


WINDOW: Final = 10_000  # visits; with that many, chance alone moves the calibration error by 1 to 2 points
PENDING_MOST: Final = 1 << 16  # forecasts that wait for a visit


class _Forecasts(NamedTuple):
    """Forecasts for m pages, and what was known of the pages at that moment."""

    rows: Ints
    probabilities: Floats
    visits: Ints
    changes: Ints
    until_s: Floats

    def take(self, which: Bools) -> _Forecasts:
        return _Forecasts(
            self.rows[which], self.probabilities[which], self.visits[which], self.changes[which], self.until_s[which]
        )


class CalibrationWatch:
    """Compares each forecast with the next visit to its page that could show a change. For one call at a time.

    A forecast is dropped if the page's lease expires before such a visit, or if more than one visit lies between two
    calls of `settle`, because it is not known which of them found the change. `window`: how many of the newest compared
    forecasts count; `most`: further forecasts are ignored while that many wait. Nothing is saved with the state.
    """

    def __init__(self, window: int = WINDOW, most: int = PENDING_MOST) -> None:
        self._window = window
        self._most = most
        self._pending: list[_Forecasts] = []
        self._waiting = 0
        self._probabilities: Floats = np.empty(0)
        self._changed: Bools = np.empty(0, np.bool_)

    def __len__(self) -> int:
        """Return how many forecasts wait for a visit."""
        return self._waiting

    def note(self, pages: Records, rows: Rows, probabilities: Floats, until_s: float) -> None:
        """Keep forecasts for ``rows``: int64[m], each once, whose leases expire at `until_s`. O(m).

        ``pages``: PAGE[n], the records of all pages; ``probabilities``: float64[m].
        """
        if self._waiting + rows.size > self._most:
            return
        known = pages[rows]
        counts = known["visits"].astype(np.int64), known["changes"].astype(np.int64)
        forecasts = _Forecasts(rows.astype(np.int64), probabilities, *counts, np.full(rows.size, until_s))
        self._pending.append(forecasts)
        self._waiting += rows.size

    def settle(self, pages: Records, now: float) -> None:
        """Compare the forecasts whose pages have been visited, and drop those whose leases have expired by `now`.

        O(waiting log waiting).
        """
        if not self._pending:
            return
        waiting = _Forecasts(*map(np.concatenate, zip(*self._pending, strict=True)))
        visits, changes, is_last = _find_following(waiting, pages)
        compared = visits - waiting.visits == 1
        stays = (visits == waiting.visits) & is_last & (waiting.until_s > now)
        found = (changes - waiting.changes)[compared] == 1
        self._probabilities = np.concatenate([self._probabilities, waiting.probabilities[compared]])[-self._window :]
        self._changed = np.concatenate([self._changed, found])[-self._window :]
        self._pending = [waiting.take(stays)]
        self._waiting = int(np.count_nonzero(stays))

    @property
    def reliability(self) -> Reliability:
        """The compared forecasts of the window. O(window)."""
        return Reliability.of(self._probabilities, self._changed)


def _find_following(waiting: _Forecasts, pages: Records) -> tuple[Ints, Ints, Bools]:
    """Return the counts of visits and changes at the next forecast for the same page, or now: int64[m] each.

    Also returns which forecasts are the last of their pages: bool[m].
    """
    known = pages[waiting.rows]
    visits, changes = known["visits"].astype(np.int64), known["changes"].astype(np.int64)
    order = np.argsort(waiting.rows, kind="stable")
    is_repeated = waiting.rows[order[1:]] == waiting.rows[order[:-1]]
    earlier, later = order[:-1][is_repeated], order[1:][is_repeated]
    visits[earlier], changes[earlier] = waiting.visits[later], waiting.changes[later]
    is_last = np.ones(waiting.rows.size, np.bool_)
    is_last[earlier] = False
    return visits, changes, is_last


FETCHED: Final = "fetched"
FETCHES: Final[Mapping[str, tuple[tuple[int, int], ...]]] = MappingProxyType(
    {
        FETCHED: ((1, 400),),
        "gone": ((404, 405), (410, 411)),
        "client_error": ((400, 404), (405, 410), (411, 429), (430, 500)),
        "too_many_requests": ((429, 430),),
        "server_error": ((500, MAX_STATUS + 1),),
        "no_response": ((0, 1),),
        "robots_denied": ((ROBOTS_DENIED, ROBOTS_DENIED + 1),),
    }
)
"""Results of fetches by status, as spans without their ends; `not_attempted` is none.

All but `FETCHED` are failures to who looks after a crawl, although the scheduler learns from a 404 that a page is gone.
"""


def count_fetches(batch: OutcomeBatch) -> Counter[str]:
    """Count the valid outcomes of `batch` by the kinds of `FETCHES`; one without a status is fetched. O(n).

    >>> count_fetches(OutcomeBatch(["a", "b", "c"], [1.0, 2.0, 3.0], status=[200, None, 404]))
    Counter({'fetched': 2, 'gone': 1})
    """
    counts = Counter({FETCHED: len(batch)})
    rows = np.flatnonzero(batch.status != 200)
    unusual = batch.status[rows[(batch.given[rows] & STATUS) != 0]]
    if unusual.size:
        counts[FETCHED] -= unusual.size
        for code, number in zip(*map(np.ndarray.tolist, np.unique(unusual, return_counts=True)), strict=True):
            counts.update({kind: number for kind, spans in FETCHES.items() if _lies_in(code, spans)})
    return +counts


def _lies_in(code: int, spans: tuple[tuple[int, int], ...]) -> bool:
    return any(start <= code < stop for start, stop in spans)


SAMPLED_PAGES: Final = 1 << 14  # of all, for the freshness: a standard error of 0.4 points at most
_FORECASTS_MOST: Final = 1_000  # of a batch


class SchedulerWatch:
    """Watches the calls of one scheduler from its making on. Methods may be called from several threads.

    ``observed``, ``noticed``: sums of what outcomes and signals did, from whichever source; ``fetches``: valid outcomes
    by the kinds of `FETCHES`, also those that are duplicates or late; ``batches``, ``handed_out``:
    batches and pages that were leased.
    """

    def __init__(self, core: SchedulerCore) -> None:
        self.observed = Observed()
        self.noticed = Noticed()
        self.fetches: Counter[str] = Counter(dict.fromkeys(FETCHES, 0))
        self.batches = 0
        self.handed_out = 0
        self._core = core
        self._calibration = CalibrationWatch()
        core.listeners.append(self._note)

    def calibration(self, *, now: float) -> Reliability:
        """Return forecasts and visits of the newest `WINDOW` pages that were handed out and visited.

        The forecast of a page is the probability of a change when it was leased. O(forecasts that wait for a visit).
        """
        with self._core.lock:
            self._calibration.settle(self._core.pages.arrays.pages.records, now)
            return self._calibration.reliability

    def freshness(self, *, now: float, sample: int = SAMPLED_PAGES) -> float | None:
        """Return `estimate_freshness` of the scheduler. O(sample)."""
        with self._core.lock:
            return estimate_freshness(self._core, now, sample)

    def leased(self, *, now: float) -> int:
        """Return how many pages are leased at `now`. O(groups)."""
        core = self._core
        with core.lock, core.batch_builder.leases_as_of(now):
            shard = core.pages.arrays
            return int(shard.groups.records["out"][: int(shard.corpus["groups"][0])].sum(dtype=np.int64))

    def _note(self, result: OutcomeBatch | Observed | Noticed | Batch) -> None:
        if isinstance(result, OutcomeBatch):
            self.fetches.update(count_fetches(result))
        elif isinstance(result, Observed):
            self.observed += result
        elif isinstance(result, Noticed):
            self.noticed += result
        else:
            self._note_batch(result)

    def _note_batch(self, batch: Batch) -> None:
        """Count a batch that is being leased, and keep forecasts for a part of its pages spread over its order."""
        self.batches += 1
        self.handed_out += len(batch)
        some = _spread(len(batch), _FORECASTS_MOST)
        until_s = batch.now if batch.lease_until_s is None else batch.lease_until_s
        pages = self._core.pages.arrays.pages.records
        self._calibration.note(pages, batch.rows[some], batch.probabilities[some], until_s)


def estimate_freshness(core: SchedulerCore, now: float, sample: int = SAMPLED_PAGES) -> float | None:
    """Return the share of known pages whose copy is current at `now`, as expected; None without pages. O(sample).

    It is the mean of 1 − P(changed since the last visit), 0 for a page that was never visited, over at most `sample`
    rows at equal distances. It is as true as P is calibrated. Under the lock.
    """
    rows = _spread(len(core.pages), sample)
    rows = rows[core.pages.arrays.pages.records["rule"][rows] != FORGOTTEN]
    if rows.size == 0:
        return None
    changed = core.batch_builder.change_probabilities(now, rows)
    is_visited = (core.pages.arrays.pages.records["flags"][rows] & VISITED) != 0
    return float(np.where(is_visited, 1.0 - changed, 0.0).mean())


def _spread(count: int, most: int) -> Rows:
    """Return at most `most` of the numbers below `count`, at equal distances: intp[m]. O(m)."""
    size = min(count, most)
    return np.arange(size) * count // max(size, 1)
