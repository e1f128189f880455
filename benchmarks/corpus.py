"""Synthetic pages: URLs of 60 characters on many hosts, visits to them, and a simulated crawl by the default formula.

Pages of the crawl change at rates of their own, more often in office hours; one in 20 is updated at a fixed time of
the day or week. In the weeks before, each page was visited about when it had probably changed, as rankings do.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.report import best_seconds
from streamsched import OutcomeBatch, PackedUrls, Scheduler
from streamsched.numerics.arrays import Bools, Floats, Ints
from streamsched.ranking.full_scan import FullScan, Query

DAY_S = 86_400.0
_TEMPLATE: Final = b"https://www.host0000000.example/section00/page-0000000000.htm"[:60]
_PAGES_PER_HOST: Final = 200
_PLACES: Final = ((16, 7), (39, 2), (47, 10))  # column and digits of the numbers of host, section and page
THREADS: Final = 2
HISTORY_DAYS: Final = 21  # three cycles of the weekly profiles
LARGE_HOSTS: Final = 50
_BEGIN_S: Final = 1_699_833_600.0  # a Monday, 00:00 UTC
_WEEK_S: Final = 7 * DAY_S
_HOST_PAGES: Final = 2_000
_SECTION_PAGES: Final = 200
_PART: Final = 250_000  # outcomes applied at a time
_DRAWN: Final = 16 * _PART  # pages whose visits of a day are drawn at a time
_SCHEDULED: Final = 20  # one page in this many has a schedule
_DUE: Final = 0.7  # expected changes after which a page was visited again
_COMPILED_PAGES: Final = 70_000  # enough for certificates
_COMPILED_BATCHES: Final = 6
_EDITED_VISITS: Final = 10  # of each group in which all pages change
_FEWEST_EDITED: Final = 64  # pages of such a group


def make_urls(pages: int) -> PackedUrls:
    """Return `pages` distinct URLs of 60 characters: 200 on a host, in sections of 20."""
    numbers = np.arange(pages)
    return name_pages(numbers, numbers // _PAGES_PER_HOST, numbers // 20)


def name_pages(pages: Ints, hosts: Ints, sections: Ints) -> PackedUrls:
    """Return URLs of 60 characters from the numbers of ``pages``, ``hosts``, ``sections``: int64[m]."""
    text = np.tile(np.frombuffer(_TEMPLATE, np.uint8), (pages.size, 1))
    for (column, digits), numbers in zip(_PLACES, (hosts, sections, pages), strict=True):
        left = numbers.copy()
        for place in range(digits):
            text[:, column + digits - 1 - place] = 48 + left % 10
            left //= 10
    return PackedUrls(text.ravel(), np.arange(pages.size + 1) * len(_TEMPLATE))


def visit_all(urls: PackedUrls, day: int, rng: np.random.Generator) -> OutcomeBatch:
    """Return one visit to each of `urls` at a random time of `day`; a tenth of the visits see a change."""
    times = (day + rng.random(len(urls))) * DAY_S
    return OutcomeBatch(urls, times, changed=rng.random(len(urls)) < 0.1)


class Crawl:
    """A scheduler with default settings whose batches are visited at once, one a second. 100 M pages take 21 GB.

    ``now``: the time of the next batch; ``visits``: outcomes of the days before, applied in ``observing_s`` seconds.
    """

    def __init__(self, pages: int, *, days: int = 1, large: bool = False) -> None:
        """Visit `pages` pages on the first of `days` days, and on the others those that are due; 0: only discover them.

        `large`: a third of the pages are on 50 hosts, the others on hosts of 2,000. O(pages * visits).
        """
        self.scheduler = Scheduler(threads=THREADS)
        self.now = _BEGIN_S + days * DAY_S
        self.rng = np.random.default_rng(1)
        self.visits, self.observing_s = 0, 0.0
        self._large = large
        self._small_hosts = max((pages * 2 // 3 if large else pages) // _HOST_PAGES, 1)
        self._rates = self.rng.gamma(0.5, 0.4, pages).astype(np.float32)
        if days:
            for rows in self._parts():
                self._visit_day(rows, 0)
            self.live(1, days)
        else:
            for start in range(0, pages, _PART):
                self.scheduler.discover(self._urls(np.arange(start, min(start + _PART, pages))), now=_BEGIN_S)

    @property
    def records(self) -> np.ndarray[tuple[int], np.dtype[np.void]]:
        """The records of the pages: PAGE[pages]."""
        return self.scheduler.core.pages.arrays.pages.records[: len(self.scheduler)]

    def step(self, k: int) -> float:
        """Take a batch of `k` pages and apply its outcomes; return the seconds that the batch took."""
        begin = time.perf_counter()
        batch = self.scheduler.next_batch(k, now=self.now)
        seconds = time.perf_counter() - begin
        self.scheduler.observe(self.visit(batch.rows))
        self.now += 1.0
        return seconds

    def visit(self, rows: Ints, *, changed: bool | None = None) -> OutcomeBatch:
        """Return visits to ``rows``: int64[m] half a second from now that see changes as they come, or as `changed`."""
        times = np.full(rows.size, self.now + 0.5)
        seen = self._has_changed(rows, times) if changed is None else np.full(rows.size, changed)
        return OutcomeBatch(self._urls(rows), times, changed=seen)

    def edit(self, share: float) -> None:
        """Change all pages of a share of the groups, and visit ten of each: a surge."""
        groups = self.records["group"]
        sizes = np.bincount(groups)
        large = np.flatnonzero(sizes >= _FEWEST_EDITED)
        hit = np.zeros(sizes.size, np.bool_)
        hit[self.rng.permutation(large)[: max(int(share * large.size), 1)]] = True
        rows = self.rng.permutation(np.flatnonzero(hit[groups]))
        rows = rows[np.argsort(groups[rows], kind="stable")]
        nth = np.arange(rows.size) - np.searchsorted(groups[rows], groups[rows])
        self.scheduler.observe(self.visit(rows[nth < _EDITED_VISITS], changed=True))

    def scan_seconds(self, k: int, repeats: int) -> float:
        """Return the seconds of scoring all pages and selecting the best `k`."""
        scan = FullScan(self.scheduler.formula.compile(), THREADS)
        query = Query(k, self.now, DAY_S, 0)
        return best_seconds(lambda: scan.rank(self.scheduler.core.pages.arrays, query), repeats)

    def live(self, first: int, days: int) -> None:
        """Visit pages on the days from `first` up to `days`, each after as many days as bring it about as many changes.

        Batches come after that.
        """
        self.now = max(self.now, _BEGIN_S + days * DAY_S)
        for day in range(first, days):
            for rows in self._parts():
                self._visit_day(rows[self._are_due(rows, day, days)], day)

    def _parts(self) -> Iterator[Ints]:
        """Yield the rows of all pages, some at a time: temporary arrays of all pages would take memory."""
        pages = self._rates.size
        for start in range(0, pages, _DRAWN):
            yield np.arange(start, min(start + _DRAWN, pages))

    def _are_due(self, rows: Ints, day: int, days: int) -> Bools:
        """Return which of ``rows``: int64[m] are visited on `day`: each has an interval of 1 to `days` days."""
        every = np.clip(np.rint(_DUE / np.maximum(self._rates[rows], 1e-3)), 1, days).astype(np.int64)
        every = np.where(rows % _SCHEDULED, every, np.rint(_period_s(rows) / DAY_S).astype(np.int64))
        due: Bools = (rows * 7_919 % every + day) % every == 0  # spreads pages over the days
        return due

    def _visit_day(self, rows: Ints, day: int) -> None:
        for start in range(0, rows.size, _PART):
            part = rows[start : start + _PART]
            times = _BEGIN_S + (day + self.rng.random(part.size)) * DAY_S
            changed = self._has_changed(part, times) if day else None
            batch = OutcomeBatch(self._urls(part), times, changed=changed)
            begin = time.perf_counter()
            self.scheduler.observe(batch)
            self.observing_s += time.perf_counter() - begin
            self.visits += part.size

    def _has_changed(self, rows: Ints, times: Floats) -> Bools:
        """Return whether pages of ``rows``: int64[m] change between their last visit and ``times``: float64[m]."""
        last = self.records["last_visit_s"][rows]
        expected = self._rates[rows] * (_activity(times) - _activity(last))
        by_chance = self.rng.random(rows.size) < -np.expm1(-expected)
        period, offset = _period_s(rows), rows % 1_440 * 60.0
        on_time = np.floor((times - offset) / period) > np.floor((last - offset) / period)
        changed: Bools = np.where(rows % _SCHEDULED, by_chance, on_time)
        return changed

    def _urls(self, rows: Ints) -> PackedUrls:
        hosts = rows % self._small_hosts
        place = rows // self._small_hosts
        if self._large:
            hosts = np.where(rows % 3, LARGE_HOSTS + hosts, rows // 3 % LARGE_HOSTS)
        return name_pages(rows, hosts, place // _SECTION_PAGES)


def compile_kernels() -> None:
    """Compile what the crawls need, so that no figure contains it."""
    crawl = Crawl(_COMPILED_PAGES, days=2)
    for _ in range(_COMPILED_BATCHES):
        crawl.step(_COMPILED_PAGES // 64)
    crawl.scan_seconds(1, 1)


def _period_s(pages: Ints) -> Floats:
    """Return after how many seconds each of ``pages``: int64[m] is updated if it has a schedule: daily or weekly."""
    return np.where(pages // _SCHEDULED % 2, DAY_S, _WEEK_S)


def _activity(times: Floats) -> Floats:
    """Return expected changes since the beginning of a page that changes once a day, mostly in office hours."""
    hours = np.arange(168)
    weights = np.where((hours % 24 >= 8) & (hours % 24 < 18) & (hours < 120), 4.0, 1.0)
    sums = np.append(0.0, np.cumsum(weights)) * 7.0 / weights.sum()
    weeks, part = np.divmod(times - _BEGIN_S, _WEEK_S)
    changes: Floats = 7.0 * weeks + np.interp(part, np.arange(169) * 3_600.0, sums)
    return changes
