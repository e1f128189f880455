"""The maintained top k: batches from millions of pages while time advances and outcomes arrive, beside rescoring."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

import numpy as np

from benchmarks.corpus import DAY_S, make_urls
from benchmarks.timing import Row, best_seconds
from streamsched import OutcomeBatch, PackedUrls, Scheduler
from streamsched.evolution.gp.genomes import ramped_trees, to_formula
from streamsched.evolution.gp.symbols import TERMINAL_SETS, SymbolSet
from streamsched.formula import Formula
from streamsched.formula.terminals import MOVING
from streamsched.numerics.arrays import Floats, Ints
from streamsched.ranking.full_scan import FullScan, Query
from streamsched.scheduler.scheduler import DEFAULT_FORMULA

__all__ = ["measure"]

_K: Final = 1_000
_MANY: Final = 100_000
_THREADS: Final = 2
_SHARE: Final = 0.05  # of the pages visited a day
_WARM, _TIMED = 300, 1_000  # queries
_FORMULAS: Final = 100
_SETTLED: Final = 8  # queries before measuring a new formula


@dataclass
class _Crawl:
    """A scheduler whose batches are visited at once: 5 % of its pages a day."""

    scheduler: Scheduler
    urls: PackedUrls
    rates: Floats
    now: float
    rng: np.random.Generator

    def step(self, k: int = _K) -> tuple[float, float]:
        """Take one batch and apply its outcomes; return the seconds of both."""
        begin = time.perf_counter()
        batch = self.scheduler.next_batch(k, now=self.now)
        served = time.perf_counter()
        outcomes = self.visit(batch.rows, self.now)
        fed = time.perf_counter()
        self.scheduler.observe(outcomes)
        done = time.perf_counter()
        self.now += k * DAY_S / (_SHARE * len(self.scheduler))
        return served - begin, done - fed

    def query(self, k: int) -> Query:
        """Return the query for the best `k` pages at the present time."""
        return Query(k, self.now, DAY_S, 0)

    def visit(self, rows: Ints, now: float) -> OutcomeBatch:
        """Return visits to the pages of `rows` at about `now`."""
        offsets = self.urls.offsets
        width = int(offsets[1] - offsets[0])
        blob = self.urls.blob.reshape(-1, width)[rows].ravel()
        urls = PackedUrls(blob, np.arange(rows.size + 1) * width)
        ages = now - self.scheduler.core.pages.arrays.pages.records["last_visit_s"][rows]
        changed = self.rng.random(rows.size) < -np.expm1(-self.rates[rows] * ages / DAY_S)
        return OutcomeBatch(urls, now + self.rng.random(rows.size), changed=changed)


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the top-k benchmark at a tenth, three tenths, one and three times `pages` pages."""
    rows: list[Row] = []
    for size in (pages // 10, 3 * pages // 10, pages, 3 * pages):
        crawl = _begin(size)
        rows += _serve(crawl, repeats, goals=size == pages)
        if size == pages // 10:
            rows += _evolved(crawl, repeats)
        if size == pages:
            rows += _many(crawl, repeats)
            rows += _ingest(crawl, repeats)
            rows += _swap(crawl)
        del crawl
    return rows


def _begin(pages: int) -> _Crawl:
    """Return a crawl that has run for weeks: last visits are up to 20 days old."""
    rng = np.random.default_rng(0)
    urls, rates = make_urls(pages), rng.gamma(0.5, 0.2, pages)
    crawl = _Crawl(Scheduler(threads=_THREADS), urls, rates, 40 * DAY_S, rng)
    for begin in (0.0, 1.0, 20.0):
        times = (begin + rng.random(pages) * (1.0 if begin == 0.0 else 20.0 if begin > 1.0 else 19.0)) * DAY_S
        ages = times - (crawl.scheduler.core.pages.arrays.pages.records["last_visit_s"][:pages] if begin else times)
        changed = rng.random(pages) < -np.expm1(-rates * ages / DAY_S)
        crawl.scheduler.observe(OutcomeBatch(urls, times, changed=changed))
    return crawl


def _serve(crawl: _Crawl, repeats: int, *, goals: bool) -> list[Row]:
    size = f"{len(crawl.scheduler):,}"
    for _ in range(_WARM):
        crawl.step()
    served, fed = np.array([crawl.step() for _ in range(_TIMED)]).T
    scan = FullScan(crawl.scheduler.formula.compile(), _THREADS)
    brute = best_seconds(lambda: scan.rank(crawl.scheduler.core.pages.arrays, crawl.query(_K)), repeats)
    p50, p99 = np.quantile(served, [0.5, 0.99])
    state = crawl.scheduler.state_bytes()["ranking"] / len(crawl.scheduler)
    return [
        _row(f"next_batch({_K:,}) of {size}, p50", p50, brute, "≤ 2 ms, ≥ 20×" if goals else ""),
        _row(f"next_batch({_K:,}) of {size}, p99", p99, brute, "≤ 5 ms" if goals else ""),
        (
            f"outcomes applied between batches, {size}",
            f"{_K / np.median(fed) / 1e3:.0f} k/s",
            "–",
            "–",
            "≥ 200 k/s",
        ),
        (f"state of the ranking, bytes per page, {size}", f"{state:.1f}", "–", "–", "≤ 8"),
    ]


def _many(crawl: _Crawl, repeats: int) -> list[Row]:
    scan = FullScan(crawl.scheduler.formula.compile(), _THREADS)
    brute = best_seconds(lambda: scan.rank(crawl.scheduler.core.pages.arrays, crawl.query(_MANY)), repeats)
    crawl.scheduler.rank(_MANY, now=crawl.now)  # the first such call allocates memory
    return [
        _row(
            "the top 100,000",
            best_seconds(lambda: crawl.scheduler.rank(_MANY, now=crawl.now), repeats),
            brute,
            "≤ 150 ms",
        )
    ]


def _ingest(crawl: _Crawl, repeats: int) -> list[Row]:
    """Return the row of outcomes of random pages, in columns of 100,000, with a batch after each."""
    speeds = []
    for _ in range(4 * repeats):
        rows = crawl.rng.integers(len(crawl.scheduler), size=100_000)
        outcomes = crawl.visit(rows, crawl.now)
        begin = time.perf_counter()
        crawl.scheduler.observe(outcomes)
        speeds.append(rows.size / (time.perf_counter() - begin))
        crawl.step()
    return [("outcomes of random pages, columns of 100,000", f"{max(speeds) / 1e6:.2f} M/s", "–", "–", "≥ 0.5 M/s")]


def _swap(crawl: _Crawl) -> list[Row]:
    """Return the rows of a formula change: the time until it ranks, and the longest call meanwhile."""
    waits: list[float] = []
    begin = time.perf_counter()
    swap = threading.Thread(target=lambda: crawl.scheduler.use("posterior * t", wait=True))
    swap.start()
    while swap.is_alive():
        waits += crawl.step()
    seconds = time.perf_counter() - begin
    longest = max(waits, default=0.0)
    crawl.scheduler.use(DEFAULT_FORMULA, wait=True)
    return [
        ("another formula: until it ranks", f"{seconds:.2f} s", "–", "–", "≤ 2 s"),
        ("... longest call meanwhile", f"{1e3 * longest:.0f} ms", "–", "–", "≤ 100 ms"),
    ]


def _evolved(crawl: _Crawl, repeats: int) -> list[Row]:
    """Return the row of formulas from genetic programming, beside rescoring by the same formulas."""
    ratios = []
    for formula in _formulas():
        crawl.scheduler.use(formula, wait=True)
        for _ in range(_SETTLED):
            crawl.step()
        ours = min(crawl.step()[0] for _ in range(2 * repeats))
        scan = FullScan(formula.compile(), _THREADS)
        brute = best_seconds(partial(scan.rank, crawl.scheduler.core.pages.arrays, crawl.query(_K)), repeats)
        ratios.append(brute / ours)
    crawl.scheduler.use(DEFAULT_FORMULA, wait=True)
    slow, middle = min(ratios), float(np.median(ratios))
    return [
        (
            f"{_FORMULAS} evolved formulas, of {len(crawl.scheduler):,}, the slowest / the median",
            "–",
            "–",
            f"{slow:.2f}× / {middle:.0f}×",
            "≥ 0.9×",
        )
    ]


def _formulas() -> list[Formula]:
    """Return formulas of a first generation of genetic programming whose scores depend on time."""
    symbol_set = SymbolSet(TERMINAL_SETS["full"])
    formulas = (
        to_formula(genome, symbol_set).simplify() for genome in ramped_trees(900, (2, 6), symbol_set, Random(0))
    )
    moving = [formula for formula in formulas if not MOVING.isdisjoint(formula.terminals)]
    return moving[-_FORMULAS:]


def _row(name: str, ours: float, brute: float, goal: str) -> Row:
    return name, f"{1e3 * ours:.2f} ms", f"{1e3 * brute:.0f} ms", f"{brute / ours:.1f}×", goal
