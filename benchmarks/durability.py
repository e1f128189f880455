"""Saved state: images written during a crawl, increments, restarts, and calls that are on disk when they return."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.corpus import DAY_S, make_urls
from benchmarks.report import Row, digits, durations
from streamsched import OutcomeBatch
from streamsched.numerics.arrays import Floats, Ints
from streamsched.persistence.image_writer import SavePlan
from streamsched.records.url_patterns import candidate_space
from streamsched.records.url_store import pack_urls
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.scheduler import Scheduler

_K: Final = 1_000
_PAUSE_S: Final = 0.04  # between two calls of a thread: a crawl of about 40,000 pages a second
_CALLS: Final = 200
_THREADS: Final = 16
_WARM: Final = 300  # batches before measuring: then the ranking is in its steady state
_RESTART: Final = """
import sys, time
begin = time.perf_counter()
from streamsched.scheduler.durable import DurableScheduler
imported = time.perf_counter()
with DurableScheduler.open(sys.argv[1], threads=2) as scheduler:
    opened = time.perf_counter()
    scheduler.next_batch(1000, now=float(sys.argv[2]))
    print(imported - begin, opened - imported, time.perf_counter() - opened, time.perf_counter() - begin)
    scheduler.close(save=False)
"""


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the durability benchmark at `pages` pages."""
    folder = Path(tempfile.mkdtemp(prefix="streamsched-"))
    try:
        scheduler = _open(folder / "state", pages)
        rows = _images(scheduler, folder, repeats)
        rows += _increments(scheduler, repeats)
        scheduler.close()
        rows += _restarts(folder, pages, repeats)
        del scheduler
        rows += _calls(folder)
    finally:
        shutil.rmtree(folder)
    return rows


def _open(directory: Path, pages: int) -> DurableScheduler:
    """Return the scheduler of a crawl that has run for weeks: last visits are up to 20 days old."""
    rng = np.random.default_rng(0)
    scheduler = DurableScheduler.open(directory, {"threads": 2}, plan=SavePlan(every=1e9))
    urls, rates = make_urls(pages), _rates(np.arange(pages))
    before = np.zeros(pages)
    for begin, days in ((0.0, 1.0), (1.0, 19.0), (20.0, 20.0)):
        times = (begin + rng.random(pages) * days) * DAY_S
        changed = rng.random(pages) < -np.expm1(-rates * (times - before) / DAY_S)
        scheduler.take(OutcomeBatch(urls, times, changed=changed), "visits", begin)
        before = times
    for _ in range(_WARM):
        batch = scheduler.next_batch(_K, now=_now(scheduler))
        _visit(scheduler, batch.rows, _now(scheduler), rng)
    return scheduler


def _rates(rows: Ints) -> Floats:
    """Return the changes of each page per day: few for most pages, many for some."""
    quantiles = np.fmod(rows * 0.6180339887498949, 1.0)
    rates: Floats = np.square(np.square(quantiles)) * 2.0
    return rates


def _now(scheduler: Scheduler) -> float:
    """Return the simulated time, which advances with the outcomes: 5 % of the pages are visited a day."""
    applied = int(scheduler.core.pages.arrays.corpus["applied"][0])
    return (40 + (applied / len(scheduler) - 3) / 0.05) * DAY_S


def _visit(scheduler: DurableScheduler, rows: Ints, now: float, rng: np.random.Generator) -> None:
    shard = scheduler.core.pages.arrays
    urls = pack_urls(shard.pages.text, shard.pages.traces["url_span"][rows])
    ages = now - shard.pages.records["last_visit_s"][rows]
    changed = rng.random(rows.size) < -np.expm1(-_rates(rows) * ages / DAY_S)
    scheduler.take(OutcomeBatch(urls, now + rng.random(rows.size), changed=changed), "visits", now)


class _Crawl:
    """Applies outcomes and takes batches in two threads. ``served``, ``fed``: the seconds of each call."""

    def __init__(self, scheduler: DurableScheduler) -> None:
        self.served: list[float] = []
        self.fed: list[float] = []
        self._scheduler = scheduler
        self._stop = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Crawl during this block."""
        threads = [threading.Thread(target=work) for work in (self._serve, self._feed)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        self.served.clear()
        self.fed.clear()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def _serve(self) -> None:
        rng = np.random.default_rng(1)
        while not self._stop.is_set():
            now = _now(self._scheduler)
            begin = time.perf_counter()
            batch = self._scheduler.next_batch(_K, now=now)
            self.served.append(time.perf_counter() - begin)
            _visit(self._scheduler, batch.rows, now, rng)
            time.sleep(_PAUSE_S)

    def _feed(self) -> None:
        rng = np.random.default_rng(2)
        while not self._stop.is_set():
            rows = rng.integers(len(self._scheduler), size=_K)
            begin = time.perf_counter()
            _visit(self._scheduler, rows, _now(self._scheduler), rng)
            self.fed.append(time.perf_counter() - begin)
            time.sleep(_PAUSE_S)


def _images(scheduler: DurableScheduler, folder: Path, repeats: int) -> list[Row]:
    best: tuple[float, Floats, Floats] | None = None
    alone = _Crawl(scheduler)
    with alone.running():
        time.sleep(2.0)
    path = folder
    for _ in range(repeats):
        crawl = _Crawl(scheduler)
        with crawl.running():
            begin = time.perf_counter()
            path = scheduler.snapshot(full=True)
            seconds = time.perf_counter() - begin
            served, fed = np.array(crawl.served), np.array(crawl.fed)
        if best is None or seconds < best[0]:
            best = seconds, served, fed
    assert best is not None
    rival = min(_seconds(lambda: _save_arrays(scheduler, folder / "rival.npz")) for _ in range(2))
    size = f"{len(scheduler):,} pages"
    p99, usual = (float(np.quantile(times, 0.99)) for times in (best[1], np.array(alone.served)))
    gigabytes = path.stat().st_size / 1e9
    waits = float(best[2].max())
    name = f"image of {size}, {gigabytes:.2f} GB, while crawling"
    return [
        durations(name, best[0], rival, "s"),
        durations(f"longest wait of outcomes while an image of {size} is saved", waits, rival, headline=True),
        durations(f"... next_batch({_K:,}) on disk meanwhile, p99; rival: with no image", p99, usual),
    ]


def _increments(scheduler: DurableScheduler, repeats: int) -> list[Row]:
    rng = np.random.default_rng(3)
    seconds, sizes = [], []
    for _ in range(repeats):
        scheduler.snapshot()
        _visit(scheduler, rng.choice(len(scheduler), len(scheduler) // 100, replace=False), _now(scheduler), rng)
        begin = time.perf_counter()
        path = scheduler.snapshot()
        seconds.append(time.perf_counter() - begin)
        sizes.append(path.stat().st_size)
    name = f"increment, 1 % of the pages visited, {max(sizes) / 1e6:.0f} MB"
    return [Row(name, f"{min(seconds):.2f} s")]


def _restarts(folder: Path, pages: int, repeats: int) -> list[Row]:
    command = [sys.executable, "-c", _RESTART, str(folder / "state"), str(1e3 * DAY_S)]
    found = []
    for _ in range(repeats + 1):
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append([float(seconds) for seconds in output.split()])
    imported, opened, served, total = min(found[1:], key=lambda run: run[3])
    rival = min(_seconds(lambda: _load_arrays(folder / "rival.npz")) for _ in range(2))
    parts = f"import {imported:.1f} s, state {opened:.1f} s, batch {served:.1f} s"
    return [durations(f"restart of {pages:,} pages: {parts}; rival: to read its arrays", total, rival, "s")]


def _calls(folder: Path) -> list[Row]:
    """Return the rows of calls that are on disk when they return, beside rows committed by SQLite."""
    rows: list[Row] = []
    with DurableScheduler.open(folder / "calls", plan=SavePlan(every=1e9)) as scheduler:
        scheduler.discover([f"https://a.example/{i}" for i in range(_THREADS)], now=0.0)
        for threads in (1, _THREADS):
            ours = _per_second(threads, lambda: lambda i: scheduler.release([f"https://a.example/{i}"]))
            rival = _per_second(threads, lambda: _sqlite(folder / "rival.sqlite"))
            name = f"calls on disk, {threads} thread{'s' * (threads > 1)}"
            rows.append(Row(name, f"{ours:,.0f}/s", f"{rival:,.0f}/s", f"{digits(ours / rival, 2)}×"))
    return rows


def _per_second(threads: int, make: Callable[[], Callable[[int], object]]) -> float:
    def work(number: int) -> None:
        call = make()
        for _ in range(_CALLS):
            call(number)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    return threads * _CALLS / _seconds(lambda: _run_all(workers))


def _run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _sqlite(path: Path) -> Callable[[int], object]:
    database = sqlite3.connect(path, timeout=60, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE IF NOT EXISTS calls (url TEXT)")
    return lambda i: database.execute("INSERT INTO calls VALUES (?)", (f"https://a.example/{i}",))


def _save_arrays(scheduler: Scheduler, path: Path) -> None:
    """Save with `np.savez` under the lock, while all calls wait."""
    shard = scheduler.core.pages.arrays
    corpus = shard.corpus[0]
    count = int(corpus["pages"])
    with scheduler.core.lock, path.open("wb") as file:
        np.savez(
            file, corpus=shard.corpus, pages=shard.pages.records[:count], traces=shard.pages.traces[:count],
            leases=shard.pages.lease_until_s[:count], text=shard.pages.text[: int(corpus["text_end"])],
            groups=shard.groups.records[: int(corpus["groups"])], names=shard.groups.names[: int(corpus["names_end"])],
            candidates=shard.groups.candidates[: candidate_space(count)],
        )  # fmt: skip


def _load_arrays(path: Path) -> Any:
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
