"""Batches by the default formula, beside scoring all pages in the same run: of pages that were all discovered at one
time, on the first day of a crawl and after weeks, with surges, a leap of the clock, and large hosts that want a second
between two visits; by size, and by other formulas.
"""

from __future__ import annotations

import resource
import threading
import time
from functools import partial
from random import Random
from typing import Final

import numpy as np

from benchmarks.corpus import DAY_S, HISTORY_DAYS, LARGE_HOSTS, THREADS, Crawl, compile_kernels
from benchmarks.report import Row, best_seconds, digits, durations
from streamsched import HostRule
from streamsched.evolution.genomes import ramped_trees, to_formula
from streamsched.evolution.symbols import TERMINAL_SETS, SymbolSet
from streamsched.formula import Formula
from streamsched.formula.objectives import OBJECTIVES
from streamsched.formula.terminal_table import MOVING
from streamsched.numerics.arrays import Floats, Rows
from streamsched.ranking.full_scan import FullScan, Query

_K: Final = 1_000
_FEW: Final = 100
_MANY: Final = 100_000
_FIRST, _TIMED = 6, 300  # batches
_OUTCOMES: Final = 100_000  # of random pages
_SURGE: Final = 0.01  # of the groups
_SETTLED: Final = 8  # batches before any is timed with another formula
_FORMULAS: Final = 20
_SIZES: Final = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of this benchmark at `pages` pages."""
    compile_kernels()
    rows = _new(pages, repeats)
    for name, days in (("first day", 1), ("settled", HISTORY_DAYS)):
        rows += _days(f"{pages:,} pages, {name}", Crawl(pages, days=days), repeats)
    return rows + _polite(pages, repeats)


def measure_growth(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the first day at all sizes up to `pages`."""
    compile_kernels()
    rows: list[Row] = []
    for size in sorted({*_SIZES, pages}):
        if size <= pages:
            crawl = Crawl(size)
            scan_s = crawl.scan_seconds(_K, repeats)
            for _ in range(_FIRST):
                crawl.step(_K)
            rows += [*_batch_rows(f"next_batch({_K:,}) of {size:,} pages", crawl, scan_s, _K), *_state_rows(crawl)]
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            rows.append(Row("... memory of the process at its peak", f"{peak:.1f} GB"))
    return rows


def measure_formulas(pages: int, repeats: int) -> list[Row]:
    """Return the rows of formulas other than the default at `pages` pages, of evolved formulas at a tenth of them."""
    compile_kernels()
    return [*_change(Crawl(pages)), *_evolved(Crawl(pages // 10), repeats)]


def _batch_rows(name: str, crawl: Crawl, scan_s: float, k: int, *, headline: bool = False) -> list[Row]:
    """Return the rows of the median and of the 99th percentile of batches of `k` pages, beside a scan in `scan_s`."""
    seconds = np.array([crawl.step(k) for _ in range(_TIMED)])
    return [
        durations(f"{name}, {part}", float(value), scan_s, headline=headline)
        for part, value in zip(("p50", "p99"), np.quantile(seconds, [0.5, 0.99]), strict=True)
    ]


def _state_rows(crawl: Crawl) -> list[Row]:
    """Return the rows of the memory of the state. The URLs of this corpus have 60 bytes."""
    parts = {name: size / len(crawl.scheduler) for name, size in crawl.scheduler.state_bytes().items()}
    return [
        Row("... state of the ranking, bytes a page", f"{parts['ranking']:.1f}"),
        Row("... all state but URLs, bytes a page", f"{sum(parts.values()) - parts['url_text']:.0f}"),
    ]


def _new(pages: int, repeats: int) -> list[Row]:
    """Return the rows of a corpus whose pages were all discovered at one time, and not yet visited."""
    crawl = Crawl(pages, days=0)
    scan_s = crawl.scan_seconds(_K, repeats)
    name = f"{pages:,} pages, new"
    rows = [_first_row(f"{name}: next_batch({_K:,}), first", crawl, scan_s)]
    return rows + _batch_rows(f"next_batch({_K:,}) of {name}", crawl, scan_s, _K)


def _days(name: str, crawl: Crawl, repeats: int) -> list[Row]:
    scan_s = crawl.scan_seconds(_K, repeats)
    batches = f"next_batch({_K:,}) of {name}"
    rows = [_scan_row(name, crawl, scan_s, repeats), _first_row(f"... next_batch({_K:,}), first", crawl, scan_s)]
    rows += _batch_rows(batches, crawl, scan_s, _K, headline=name.endswith("settled"))
    rows += _batch_rows(f"... next_batch({_FEW})", crawl, crawl.scan_seconds(_FEW, repeats), _FEW)
    for event in ("1 % of the groups in a surge", "a leap of a day"):
        if "surge" in event:
            crawl.edit(_SURGE)
        else:
            crawl.now += DAY_S
        scan_s = crawl.scan_seconds(_K, repeats)
        rows += [_first_row(f"... {event}, first", crawl, scan_s), *_batch_rows(f"... {event}", crawl, scan_s, _K)]
    return [*rows, *_state_rows(crawl), _many_row(crawl, repeats), _ingest_row(crawl, repeats)]


def _scan_row(name: str, crawl: Crawl, scan_s: float, repeats: int) -> Row:
    """Return the row of a full scan; the rival does it with NumPy, without profiles, schedules and surges."""
    pages = crawl.records
    columns = [pages[field].astype(np.float64) for field in ("last_visit_s", "prior_shape", "prior_exposure")]
    shape, exposure = columns[1] + pages["own_shape"], columns[2] + pages["own_exposure"]
    theirs = best_seconds(lambda: _rank_columns(columns[0], shape, exposure, crawl.now, _K), repeats)
    return durations(f"{name}: scoring all, a page", scan_s / pages.size, theirs / pages.size, "ns")


def _rank_columns(last: Floats, shape: Floats, exposure: Floats, now: float, k: int) -> Rows:
    """Return the top `k` by the probability of a change, from whole columns: float64[pages]."""
    elapsed = (now - last) / 86_400.0
    scores = 1.0 - (exposure / (exposure + elapsed)) ** shape
    top = np.argpartition(scores, scores.size - k)[scores.size - k :]
    return top[np.argsort(-scores[top])]


def _first_row(name: str, crawl: Crawl, scan_s: float) -> Row:
    """Return the row of each of the next batches; the ratio is of the slowest."""
    seconds = [crawl.step(_K) for _ in range(_FIRST)]
    times = ", ".join(f"{1e3 * one:.0f}" for one in seconds)
    return Row(f"{name} {_FIRST}", f"{times} ms", f"{1e3 * scan_s:.0f} ms", f"{digits(scan_s / max(seconds), 2)}×")


def _many_row(crawl: Crawl, repeats: int) -> Row:
    """Return the row of the best 100,000 pages, which no batch is fed back from."""
    k = min(_MANY, len(crawl.scheduler))
    scan_s = crawl.scan_seconds(k, repeats)
    crawl.scheduler.rank(k, now=crawl.now)  # the first such call allocates memory
    ours = best_seconds(lambda: crawl.scheduler.rank(k, now=crawl.now), repeats)
    return durations(f"... rank({k:,})", ours, scan_s)


def _ingest_row(crawl: Crawl, repeats: int) -> Row:
    """Return the row of outcomes of random pages in columns, with a batch after each."""
    speeds = []
    for _ in range(2 * repeats):
        outcomes = crawl.visit(crawl.rng.integers(len(crawl.scheduler), size=_OUTCOMES))
        begin = time.perf_counter()
        crawl.scheduler.observe(outcomes)
        speeds.append(_OUTCOMES / (time.perf_counter() - begin))
        crawl.step(_K)
    return Row(f"... outcomes applied, a batch every {_OUTCOMES:,}", f"{max(speeds) / 1e6:.2f} M/s")


def _polite(pages: int, repeats: int) -> list[Row]:
    crawl = Crawl(pages, large=True)
    for host in range(LARGE_HOSTS):
        crawl.scheduler.set_rule(f"www.host{host:07d}.example", HostRule(delay=1.0, in_flight=1))
    scan_s = crawl.scan_seconds(_K, repeats)
    name = f"first day, a third of {pages:,} pages on {LARGE_HOSTS} hosts with a delay of 1 s"
    return [_first_row(f"{name}, first", crawl, scan_s), *_batch_rows("... next_batch(1,000)", crawl, scan_s, _K)]


def _change(crawl: Crawl) -> list[Row]:
    """Return the rows of a change of objective: the time until its formula ranks, and the longest call meanwhile."""
    for _ in range(_SETTLED):
        crawl.step(_K)
    scan_s, longest_s = crawl.scan_seconds(_K, 1), 0.0
    begin = time.perf_counter()
    change = threading.Thread(target=lambda: crawl.scheduler.use(OBJECTIVES["freshness"], wait=True))
    change.start()
    while change.is_alive():
        longest_s = max(longest_s, crawl.step(_K))
    seconds = time.perf_counter() - begin
    return [
        Row(f"objective `freshness`, {len(crawl.scheduler):,} pages: until it ranks", f"{seconds:.2f} s"),
        durations("... longest next_batch meanwhile", longest_s, scan_s),
    ]


def _evolved(crawl: Crawl, repeats: int) -> list[Row]:
    """Return the row of formulas from genetic programming, beside scoring all pages by the same formulas."""
    ratios = []
    for formula in _formulas():
        crawl.scheduler.use(formula, wait=True)
        for _ in range(_SETTLED):
            crawl.step(_K)
        ours = min(crawl.step(_K) for _ in range(2 * repeats))
        scan = FullScan(formula.compile(), THREADS)
        shard, query = crawl.scheduler.core.pages.arrays, Query(_K, crawl.now, DAY_S, 0)
        ratios.append(best_seconds(partial(scan.rank, shard, query), repeats) / ours)
    name = f"{_FORMULAS} formulas as evolution begins with, {len(crawl.scheduler):,} pages: the slowest / the median"
    return [Row(name, "–", "–", f"{min(ratios):.2f}× / {np.median(ratios):.0f}×")]


def _formulas() -> list[Formula]:
    """Return formulas of a first generation of genetic programming whose scores depend on time."""
    symbol_set = SymbolSet(TERMINAL_SETS["full"])
    formulas = (
        to_formula(genome, symbol_set).simplify() for genome in ramped_trees(900, (2, 6), symbol_set, Random(0))
    )
    moving = [formula for formula in formulas if not MOVING.isdisjoint(formula.terminals)]
    return moving[-_FORMULAS:]
