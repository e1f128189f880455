"""Batches by the default formula beside scoring all pages in the same run: from the first day on, through surges, leaps
of the clock, and with large hosts that want a second between two visits.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from benchmarks.corpus import DAY_S
from benchmarks.timing import Row, best_seconds
from streamsched import HostRule, OutcomeBatch, PackedUrls, Scheduler
from streamsched.numerics.arrays import Floats, Ints
from streamsched.ranking.full_scan import FullScan, Query

__all__ = ["measure"]

_K: Final = 1_000
_THREADS: Final = 2
_BEGIN_S: Final = 1.7e9 // DAY_S * DAY_S
_HOST_PAGES: Final = 2_000
_SETTLED, _TIMED = 5, 300  # batches
_PART: Final = 250_000  # outcomes applied at a time
_LARGE_HOSTS: Final = 50
_WIDTH: Final = 60  # bytes of a URL
_TEMPLATE: Final = b"https://www.host0000000.example/section00/page-0000000000.htm"[:_WIDTH]


class _Crawl:
    """A scheduler whose batches are visited at once, one a second; pages change at rates of their own."""

    def __init__(self, hosts: Ints, days: int, rng: np.random.Generator) -> None:
        """Visit the pages of ``hosts``: int64[pages], host numbers by page, once on each of `days` days."""
        self.scheduler = Scheduler(threads=_THREADS)
        self.now = _BEGIN_S + days * DAY_S
        self._rng = rng
        self._text = _make_text(hosts)
        self._rates = rng.gamma(0.5, 0.4, hosts.size)
        for day in range(days):
            times = _BEGIN_S + (day + 0.9 * np.sort(rng.random(hosts.size))) * DAY_S
            changed = rng.random(hosts.size) < -np.expm1(-self._rates)
            for start in range(0, hosts.size, _PART):
                rows = np.arange(start, min(start + _PART, hosts.size))
                part = OutcomeBatch(self._urls(rows), times[rows], changed=changed[rows] if day else None)
                self.scheduler.observe(part)

    def step(self, k: int = _K) -> float:
        """Take a batch and apply its outcomes; return the seconds that the batch took."""
        begin = time.perf_counter()
        batch = self.scheduler.next_batch(k, now=self.now)
        seconds = time.perf_counter() - begin
        self.visit(batch.rows)
        self.now += 1.0
        return seconds

    def visit(self, rows: Ints, *, changed: bool | None = None) -> None:
        """Visit the pages of `rows`; they have changed by chance, or as `changed` says."""
        ages = self.now - self.scheduler.core.pages.arrays.pages.records["last_visit_s"][rows]
        seen = self._rng.random(rows.size) < -np.expm1(-self._rates[rows] * ages / DAY_S)
        seen = seen if changed is None else np.full(rows.size, changed)
        self.scheduler.observe(OutcomeBatch(self._urls(rows), np.full(rows.size, self.now + 0.5), changed=seen))

    def edit(self, share: float) -> None:
        """Change all pages of a share of the groups, and visit ten of each."""
        core = self.scheduler.core
        groups = core.pages.arrays.pages.records["group"][: len(self.scheduler)]
        sizes = np.bincount(groups)
        large = np.flatnonzero(sizes >= 64)
        hit = self._rng.permutation(large)[: max(int(share * large.size), 1)]
        rows = np.flatnonzero(np.isin(groups, hit))
        rows = rows[self._rng.permutation(rows.size)]
        order = np.argsort(groups[rows], kind="stable")
        nth = np.arange(rows.size) - np.searchsorted(groups[rows][order], groups[rows][order])
        self.visit(rows[order][nth < 10], changed=True)

    def scan_seconds(self, repeats: int) -> float:
        """Return the seconds of scoring and ranking all pages."""
        scan = FullScan(self.scheduler.formula.compile(), _THREADS)
        query = Query(_K, self.now, DAY_S, 0)
        return best_seconds(lambda: scan.rank(self.scheduler.core.pages.arrays, query), repeats)

    def _urls(self, rows: Ints) -> PackedUrls:
        return PackedUrls(self._text[rows].ravel(), np.arange(rows.size + 1) * _WIDTH)


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of this benchmark at a third of, and at `pages` pages."""
    rows: list[Row] = []
    for size in (pages // 3, pages):
        rows += _days(size, repeats)
    return rows + _polite(pages // 3, repeats)


def _days(pages: int, repeats: int) -> list[Row]:
    crawl = _Crawl(np.arange(pages) % max(pages // _HOST_PAGES, 1), 1, np.random.default_rng(1))
    brute = crawl.scan_seconds(repeats)
    first = [crawl.step() for _ in range(_SETTLED)]
    rows = _rows(f"{pages:,} pages on the first day", _time(crawl), brute)
    crawl.edit(0.01)
    rows += _rows("... 1 % of the groups in a surge", _time(crawl), brute)
    crawl.now += DAY_S
    leap = [crawl.step() for _ in range(_SETTLED)]
    rows += _rows("... after a leap of a day", _time(crawl), brute)
    rows += _rows("... batches of 100", _time(crawl, 100), brute)
    for name, seconds in (("first batches", first), ("after the leap", leap)):
        times = ", ".join(f"{1e3 * one:.0f}" for one in seconds)
        rows.append((f"... {name}, ms", times, f"{1e3 * brute:.0f} ms", f"{brute / max(seconds):.1f}×", "≥ 0.8×"))
    state = crawl.scheduler.state_bytes()["ranking"] / pages
    return [*rows, ("... state of the ranking, bytes per page", f"{state:.1f}", "–", "–", "≤ 8")]


def _polite(pages: int, repeats: int) -> list[Row]:
    """A third of the pages is on large hosts with a delay of a second, the others on hosts without."""
    numbers = np.arange(pages)
    hosts = np.where(numbers % 3, _LARGE_HOSTS + numbers // 3 // _HOST_PAGES, numbers // 3 % _LARGE_HOSTS)
    crawl = _Crawl(hosts, 1, np.random.default_rng(2))
    for host in range(_LARGE_HOSTS):
        crawl.scheduler.set_rule(f"www.host{host:07d}.example", HostRule(delay=1.0, in_flight=1))
    brute = crawl.scan_seconds(repeats)
    for _ in range(_SETTLED):
        crawl.step()
    return _rows(f"{pages:,} pages, a third on {_LARGE_HOSTS} polite hosts", _time(crawl), brute)


def _time(crawl: _Crawl, k: int = _K) -> Floats:
    return np.array([crawl.step(k) for _ in range(_TIMED)])


def _rows(name: str, seconds: Floats, brute: float) -> list[Row]:
    """Return the rows of the median and of the 99th percentile."""
    return [
        (f"{name}, {part}", f"{1e3 * value:.2f} ms", f"{1e3 * brute:.0f} ms", f"{brute / value:.1f}×", goal)
        for part, value, goal in zip(
            ("p50", "p99"), np.quantile(seconds, [0.5, 0.99]), ("≤ 5 ms", "≤ 20 ms"), strict=True
        )
    ]


def _make_text(hosts: Ints) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Return the URLs of the pages of ``hosts``: int64[pages] as uint8[pages, _WIDTH]."""
    text = np.tile(np.frombuffer(_TEMPLATE, np.uint8), (hosts.size, 1))
    for column, digits, number in (
        (16, 7, hosts),
        (39, 2, np.arange(hosts.size) // 50_000),
        (47, 10, np.arange(hosts.size)),
    ):
        left = number.copy()
        for place in range(digits):
            text[:, column + digits - 1 - place] = 48 + left % 10
            left //= 10
    return text
