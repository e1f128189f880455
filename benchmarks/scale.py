"""How far one process goes: memory, batches, outcomes, images and starts, by the number of pages."""

from __future__ import annotations

import gc
import gzip
import mmap
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.corpus import HISTORY_DAYS, Crawl, compile_kernels
from benchmarks.report import ROOT, Row, digits, durations
from streamsched import PackedUrls
from streamsched.state.page_table import PageTable

_SIZES: Final = (1_000_000, 10_000_000, 30_000_000, 100_000_000)
_K: Final = 1_000
_FIRST: Final = 20  # batches before any is timed: the first ones make the ranking
_TIMED: Final = 300
_PAUSE_S: Final = 0.04  # between two batches while an image is saved: a crawl of 20,000 pages a second
_PAGE_BYTES: Final = 235  # of memory that a size must find: the state, an image, and the simulated crawl
_CRAWL_BYTES: Final = 4  # of a page that the simulated crawl keeps
_START: Final = """
import sys, time
begin = time.perf_counter()
from streamsched import Scheduler
scheduler = Scheduler.load(sys.argv[1])
scheduler.next_batch(1000, now=float(sys.argv[2]))
print(time.perf_counter() - begin)
"""


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of all sizes up to `pages`; the last one says what is missing if memory does not suffice."""
    compile_kernels()
    rows = [_texts(path) for path in sorted((ROOT / "data").glob("*.tsv.gz"))]
    for size in sorted({*_SIZES, pages}):
        if size > pages:
            break
        needed, free = size * _PAGE_BYTES, _available_bytes()
        if needed > free:
            row = f"{size:,} pages: not measured, of {needed / 1e9:.0f} GB of memory {free / 1e9:.0f} GB were free"
            return [*rows, Row(row, "–")]
        rows += _measure_size(size, repeats)
        gc.collect()
    return rows


def _texts(path: Path) -> Row:
    """Return the row of the bytes that URLs of a log of changes are kept in."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        urls = PackedUrls.pack(list(dict.fromkeys(line.rstrip("\n").split("\t")[2] for line in lines)))
    table = PageTable(86_400.0)
    table.discover(urls, 1.0)
    ours, whole = (size / len(urls) for size in (int(table.arrays.corpus["text_end"][0]), urls.blob.size))
    name = f"bytes of a URL of data/{path.name}, kept; rival: whole"
    return Row(name, f"{ours:.1f}", f"{whole:.1f}", f"{digits(whole / ours, 2)}×")


def _measure_size(pages: int, repeats: int) -> list[Row]:
    before = _resident_bytes()
    crawl = Crawl(pages)
    rows = _batches(f"{pages:,} pages, first day", crawl, repeats)
    rows.append(_memory(crawl, before))
    crawl.visits, crawl.observing_s = 0, 0.0
    crawl.live(1, HISTORY_DAYS)
    rows += _batches(f"{pages:,} pages, settled", crawl, repeats)
    rows.append(_memory(crawl, before))
    with tempfile.TemporaryDirectory(prefix="streamsched-") as folder:
        path = Path(folder) / "image"
        rows += _image(crawl, path)
        now = crawl.now
        del crawl
        gc.collect()
        command = [sys.executable, "-c", _START, str(path), str(now)]
        found = [float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(2)]
        rows.append(Row("... start from it, to the first batch", f"{digits(min(found))} s"))
    return rows


def _batches(name: str, crawl: Crawl, repeats: int) -> list[Row]:
    """Return the rows of outcomes so far, and of batches from now on."""
    speed = crawl.visits / crawl.observing_s / 1e6
    scan_s = crawl.scan_seconds(_K, repeats)
    for _ in range(_FIRST):
        crawl.step(_K)
    seconds = np.quantile([crawl.step(_K) for _ in range(_TIMED)], [0.5, 0.99])
    return [
        durations(f"{name}: next_batch({_K:,}), p50", float(seconds[0]), scan_s),
        durations("... p99", float(seconds[1]), scan_s),
        Row("... outcomes applied", f"{digits(speed)} M/s"),
    ]


def _memory(crawl: Crawl, before: int) -> Row:
    """Return the row of the memory that the process has more than `before`, the simulated crawl's aside."""
    gc.collect()
    count = len(crawl.scheduler)
    found = crawl.scheduler.state_bytes()
    parts = f"URLs {found['url_text'] / count:.1f}, index {found['url_index'] / count:.1f}"
    resident = (_resident_bytes() - before) / count - _CRAWL_BYTES
    return Row(f"... resident, bytes a page ({parts}, ranking {found['ranking'] / count:.1f})", f"{resident:.0f}")


def _image(crawl: Crawl, path: Path) -> list[Row]:
    """Save an image while the crawl continues; return the rows of it."""
    saved: list[Path] = []
    saving = threading.Thread(target=lambda: saved.append(crawl.scheduler.save(path)))
    pauses = []
    begin = time.perf_counter()
    saving.start()
    while saving.is_alive():
        step = time.perf_counter()
        crawl.step(_K)
        pauses.append(time.perf_counter() - step)
        time.sleep(_PAUSE_S)
    saving.join()
    seconds = time.perf_counter() - begin
    size = saved[0].stat().st_size
    return [
        Row(f"... image of {digits(size / 1e9)} GB", f"{digits(seconds)} s, {digits(size / seconds / 1e9)} GB/s"),
        Row("... longest batch meanwhile, with its outcomes", f"{digits(max(pauses) * 1e3)} ms"),
    ]


def _resident_bytes() -> int:
    """Return the memory of the process that is in use."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * mmap.PAGESIZE


def _available_bytes() -> int:
    """Return the memory that programs may take without swapping."""
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
