"""Formulas other than the default: a change while batches are served, and formulas as evolution begins with."""

from __future__ import annotations

import threading
import time
from functools import partial
from random import Random
from typing import Final

import numpy as np

from benchmarks.corpus import DAY_S
from benchmarks.crawl import THREADS, Crawl, compile_kernels
from benchmarks.timing import Row, best_seconds
from streamsched.evolution.gp.genomes import ramped_trees, to_formula
from streamsched.evolution.gp.symbols import TERMINAL_SETS, SymbolSet
from streamsched.formula import Formula
from streamsched.formula.objectives import OBJECTIVES
from streamsched.formula.terminals import MOVING
from streamsched.ranking.full_scan import FullScan, Query

__all__ = ["measure"]

_K: Final = 1_000
_SETTLED: Final = 8  # batches before any is timed
_FORMULAS: Final = 100


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of this benchmark at `pages` pages, of evolved formulas at a tenth of them."""
    compile_kernels()
    return [*_change(Crawl(pages)), *_evolved(Crawl(pages // 10), repeats)]


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
    name = f"objective `freshness`, {len(crawl.scheduler):,} pages: until it ranks"
    return [
        (name, f"{seconds:.2f} s", "–", "–", "≤ 2 s"),
        ("... longest next_batch meanwhile", f"{1e3 * longest_s:.0f} ms", f"{1e3 * scan_s:.0f} ms", "", "≤ 100 ms"),
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
    return [(name, "–", "–", f"{min(ratios):.2f}× / {np.median(ratios):.0f}×", "≥ 0.83×")]


def _formulas() -> list[Formula]:
    """Return formulas of a first generation of genetic programming whose scores depend on time."""
    symbol_set = SymbolSet(TERMINAL_SETS["full"])
    formulas = (
        to_formula(genome, symbol_set).simplify() for genome in ramped_trees(900, (2, 6), symbol_set, Random(0))
    )
    moving = [formula for formula in formulas if not MOVING.isdisjoint(formula.terminals)]
    return moving[-_FORMULAS:]
