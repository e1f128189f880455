"""Batches by the default formula, beside scoring all pages in the same run: on the first day of a corpus and after
weeks, with surges, a leap of the clock, and large hosts that want a second between two visits.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from benchmarks.corpus import DAY_S
from benchmarks.crawl import HISTORY_DAYS, LARGE_HOSTS, Crawl, compile_kernels
from benchmarks.rivals import rank_columns
from benchmarks.timing import Row, best_seconds
from streamsched import HostRule

__all__ = ["batch_rows", "measure", "state_rows"]

_K: Final = 1_000
_FEW: Final = 100
_MANY: Final = 100_000
_FIRST, _TIMED = 6, 300  # batches
_OUTCOMES: Final = 100_000  # of random pages
_SURGE: Final = 0.01  # of the groups
_GOALS: Final = ("≤ 5 ms", "≤ 20 ms")
_GOALS_IN_SURGE: Final = ("≤ 5 ms", "≤ 40 ms")
_GOALS_OF_FEW: Final = ("≤ 2 ms", "")
_MOST_OF_A_SCAN: Final = 1.2  # times a scan that any batch may take


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of this benchmark at `pages` pages."""
    compile_kernels()
    rows: list[Row] = []
    for name, days in (("first day", 1), ("settled", HISTORY_DAYS)):
        rows += _days(f"{name}, {pages:,} pages", Crawl(pages, days=days), repeats)
    return rows + _polite(pages, repeats)


def batch_rows(name: str, crawl: Crawl, brute_s: float, k: int, goals: tuple[str, str]) -> list[Row]:
    """Return the rows of the median and of the 99th percentile of batches of `k` pages, beside a scan in `brute_s`."""
    seconds = np.array([crawl.step(k) for _ in range(_TIMED)])
    return [
        (f"{name}, {part}", f"{1e3 * value:.2f} ms", f"{1e3 * brute_s:.0f} ms", f"{brute_s / value:.1f}×", goal)
        for part, value, goal in zip(("p50", "p99"), np.quantile(seconds, [0.5, 0.99]), goals, strict=True)
    ]


def state_rows(crawl: Crawl) -> list[Row]:
    """Return the rows of the memory of the state. The URLs of this corpus have 60 bytes."""
    parts = {name: size / len(crawl.scheduler) for name, size in crawl.scheduler.state_bytes().items()}
    own = sum(parts.values()) - parts["url_text"]
    return [
        ("... state of the ranking, bytes a page", f"{parts['ranking']:.1f}", "–", "–", "≤ 8"),
        ("... all state, bytes a page", f"{own:.0f}", "–", "–", "≤ 180"),
        ("... and URLs, bytes a page", f"{parts['url_text']:.0f}", "–", "–", ""),
    ]


def _days(name: str, crawl: Crawl, repeats: int) -> list[Row]:
    scan_s = crawl.scan_seconds(_K, repeats)
    rows = [_scan_row(name, crawl, scan_s, repeats), *_first_rows(f"... next_batch({_K:,}), first", crawl, scan_s)]
    rows += batch_rows(f"... next_batch({_K:,})", crawl, scan_s, _K, _GOALS)
    rows += batch_rows(f"... next_batch({_FEW})", crawl, crawl.scan_seconds(_FEW, repeats), _FEW, _GOALS_OF_FEW)
    crawl.edit(_SURGE)
    scan_s = crawl.scan_seconds(_K, repeats)
    rows += _first_rows("... 1 % of the groups in a surge, first", crawl, scan_s)
    rows += batch_rows("... 1 % of the groups in a surge", crawl, scan_s, _K, _GOALS_IN_SURGE)
    crawl.now += DAY_S
    scan_s = crawl.scan_seconds(_K, repeats)
    rows += _first_rows("... a leap of a day, first", crawl, scan_s)
    rows += batch_rows("... after a leap of a day", crawl, scan_s, _K, _GOALS)
    return [*rows, *state_rows(crawl), _many_row(crawl, repeats), _ingest_row(crawl, repeats)]


def _scan_row(name: str, crawl: Crawl, scan_s: float, repeats: int) -> Row:
    """Return the row of a full scan; the rival does it with NumPy, without profiles, schedules and surges."""
    pages = crawl.records
    columns = [pages[field].astype(np.float64) for field in ("last_visit_s", "prior_shape", "prior_exposure")]
    shape, exposure = columns[1] + pages["own_shape"], columns[2] + pages["own_exposure"]
    theirs = best_seconds(lambda: rank_columns(columns[0], shape, exposure, crawl.now, _K), repeats)
    ours, theirs = 1e9 * scan_s / pages.size, 1e9 * theirs / pages.size
    return f"{name}: scoring all, a page", f"{ours:.1f} ns", f"{theirs:.1f} ns", f"{theirs / ours:.1f}×", "≤ 25 ns"


def _first_rows(name: str, crawl: Crawl, scan_s: float) -> list[Row]:
    """Return the row of each of the next batches."""
    seconds = [crawl.step(_K) for _ in range(_FIRST)]
    times = ", ".join(f"{1e3 * one:.0f}" for one in seconds)
    ratio = f"{scan_s / max(seconds):.2f}×"
    return [(f"{name} {_FIRST}", f"{times} ms", f"{1e3 * scan_s:.0f} ms", ratio, f"≥ {1 / _MOST_OF_A_SCAN:.2f}×")]


def _many_row(crawl: Crawl, repeats: int) -> Row:
    """Return the row of the best 100,000 pages, which no batch is fed back from."""
    k = min(_MANY, len(crawl.scheduler))
    scan_s = crawl.scan_seconds(k, repeats)
    crawl.scheduler.rank(k, now=crawl.now)  # the first such call allocates memory
    ours = best_seconds(lambda: crawl.scheduler.rank(k, now=crawl.now), repeats)
    return f"... rank({k:,})", f"{1e3 * ours:.0f} ms", f"{1e3 * scan_s:.0f} ms", f"{scan_s / ours:.1f}×", ""


def _ingest_row(crawl: Crawl, repeats: int) -> Row:
    """Return the row of outcomes of random pages in columns, with a batch after each."""
    speeds = []
    for _ in range(2 * repeats):
        outcomes = crawl.visit(crawl.rng.integers(len(crawl.scheduler), size=_OUTCOMES))
        begin = time.perf_counter()
        crawl.scheduler.observe(outcomes)
        speeds.append(_OUTCOMES / (time.perf_counter() - begin))
        crawl.step(_K)
    return f"... outcomes applied, a batch every {_OUTCOMES:,}", f"{max(speeds) / 1e6:.2f} M/s", "–", "–", ""


def _polite(pages: int, repeats: int) -> list[Row]:
    crawl = Crawl(pages, large=True)
    for host in range(LARGE_HOSTS):
        crawl.scheduler.set_rule(f"www.host{host:07d}.example", HostRule(delay=1.0, in_flight=1))
    scan_s = crawl.scan_seconds(_K, repeats)
    name = f"first day, a third of {pages:,} pages on {LARGE_HOSTS} hosts with a delay of 1 s"
    return [*_first_rows(f"{name}, first", crawl, scan_s), *batch_rows("...", crawl, scan_s, _K, _GOALS)]
