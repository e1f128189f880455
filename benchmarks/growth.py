"""Growth with size: batches by the default formula and memory, from 100,000 to 30 M pages on their first day."""

from __future__ import annotations

import resource
from typing import Final

from benchmarks.crawl import Crawl, compile_kernels
from benchmarks.ranking import batch_rows, state_rows
from benchmarks.timing import Row

__all__ = ["measure"]

_SIZES: Final = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
_K: Final = 1_000
_FIRST: Final = 6  # batches


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of this benchmark at all sizes up to `pages`."""
    compile_kernels()
    return [row for size in sorted({*_SIZES, pages}) if size <= pages for row in _grow(size, repeats)]


def _grow(pages: int, repeats: int) -> list[Row]:
    crawl = Crawl(pages)
    scan_s = crawl.scan_seconds(_K, repeats)
    for _ in range(_FIRST):
        crawl.step(_K)
    rows = batch_rows(f"{pages:,} pages: next_batch({_K:,})", crawl, scan_s, _K, ("", ""))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return [*rows, *state_rows(crawl), ("... memory of the process at its peak", f"{peak:.1f} GB", "–", "–", "")]
