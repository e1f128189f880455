"""Ingest: outcomes per second from columns, lists, msgpack frames and JSON Lines, and bytes of state per page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.rivals import DictIngest
from benchmarks.timing import Row, best_seconds
from streamsched import OutcomeBatch, PackedUrls, Scheduler
from streamsched.connectors import open_source, write_jsonl, write_msgpack

__all__ = ["measure"]

_BATCH = 100_000
_FRAME = 1_000
_RIVAL_EVENTS = 200_000
_SETTLING_DAYS = 20  # with a visit to each page a day: then rates are known and pages have schedules


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the ingest benchmark, with `pages` pages that were visited once before."""
    rng = np.random.default_rng(0)
    urls = make_urls(pages)
    days = iter(range(1, 1_000))
    scheduler = _visited(urls, rng)
    whole = _speed(scheduler, urls, days, rng, repeats)  # first, while the system still has large pages of memory
    listed = _list_speed(scheduler, urls, days, rng, repeats)
    stages = _stage_rows(scheduler, urls, days, rng, repeats)
    with tempfile.TemporaryDirectory() as directory:
        frames = _file_speed(scheduler, urls, Path(directory) / "frames.msgpack", pages, days, rng)
        lines = _file_speed(scheduler, urls, Path(directory) / "events.jsonl", min(pages, 1_000_000), days, rng)
    rival = _rival(urls, rng, repeats)
    rows: list[Row] = []
    for size in (pages // 125, pages // 25, pages // 5):
        part = PackedUrls(urls.blob, urls.offsets[: size + 1])
        speed = _speed(_visited(part, rng), part, days, rng, repeats)
        rows.append(_row(f"columns, blob and offsets, {size:,} pages", speed, rival, None))
    rows.append(_row(f"columns, blob and offsets, {pages:,} pages", whole, rival, 4e6))
    rows.extend(stages)
    rows.append(_rhythm_row(part, rng, repeats))
    rows.append(_row("columns, URLs as a list of str", listed, rival, 3e6))
    rows.append(_row("from a file, frames.msgpack", frames, rival, 2e6))
    rows.append(_row("from a file, events.jsonl", lines, rival, 4e5))
    sizes = scheduler.core.pages.state_bytes()
    text = sizes.pop("url_text") / pages
    state = sum(sizes.values()) / pages
    rival_bytes = _rival_bytes(urls)
    rows.append(("bytes per page without URL text", f"{state:.0f}", "–", "–", "≤ 180"))
    rows.append(
        (
            "bytes per page with URL text",
            f"{state + text:.0f}",
            f"{rival_bytes:.0f}",
            f"{rival_bytes / (state + text):.1f}×",
            "≤ 240",
        )
    )
    return rows


def _visited(urls: PackedUrls, rng: np.random.Generator) -> Scheduler:
    scheduler = Scheduler()
    scheduler.observe(visit_all(urls, 0, rng))
    return scheduler


def _rhythm_row(urls: PackedUrls, rng: np.random.Generator, repeats: int) -> Row:
    """Return the row of the cost of rhythms, after `_SETTLING_DAYS`; the rival learns no rhythms."""
    both = Scheduler(), Scheduler(regions=None)
    least = [float("inf"), float("inf")]
    for day in range(_SETTLING_DAYS + 2 * repeats):
        batches = list(_slices(_shuffled(urls, day, rng), _BATCH))
        for i in (0, 1) if day % 2 else (1, 0):
            seconds = best_seconds(lambda i=i, batches=batches: _observe_all(both[i], batches), 1)  # type: ignore[misc]
            if day >= _SETTLING_DAYS:
                least[i] = min(least[i], seconds)
    ours, without = (len(urls) / one / 1e6 for one in least)
    scheduled = int(both[0].core.pages.arrays.seasonality.state["schedules"][0]) / len(urls)
    name = f"... {len(urls):,} pages, {scheduled:.0%} with schedules; rival: no rhythms learned"
    return (name, f"{ours:.2f} M/s", f"{without:.2f} M/s", f"{ours / without:.2f}×", "≥ 0.7×")


def _row(name: str, speed: float, rival: float, goal: float | None) -> Row:
    wanted = "" if goal is None else f"≥ {goal / 1e6:g} M/s"
    return (name, f"{speed / 1e6:.2f} M/s", f"{rival / 1e6:.2f} M/s", f"{speed / rival:.0f}×", wanted)


def _slices(batch: OutcomeBatch, size: int) -> Iterator[OutcomeBatch]:
    for start in range(0, len(batch), size):
        urls = PackedUrls(batch.urls.blob, batch.urls.offsets[start : start + size + 1])
        rows = slice(start, start + size)
        yield OutcomeBatch(urls, batch.fetched_at[rows], changed=batch.changed[rows])


def _shuffled(urls: PackedUrls, day: int, rng: np.random.Generator) -> OutcomeBatch:
    return visit_all(urls.take(rng.permutation(len(urls))), day, rng)


def _observe_all(scheduler: Scheduler, batches: Iterable[OutcomeBatch]) -> None:
    for batch in batches:
        scheduler.observe(batch)


def _speed(
    scheduler: Scheduler, urls: PackedUrls, days: Iterator[int], rng: np.random.Generator, repeats: int
) -> float:
    """Return outcomes per second, pages in random order; each repeat is a new day, so that none is a duplicate."""
    seconds = []
    for _ in range(repeats):
        batches = list(_slices(_shuffled(urls, next(days), rng), _BATCH))
        seconds.append(best_seconds(lambda batches=batches: _observe_all(scheduler, batches), 1))  # type: ignore[misc]
    return len(urls) / min(seconds)


def _stage_rows(
    scheduler: Scheduler, urls: PackedUrls, days: Iterator[int], rng: np.random.Generator, repeats: int
) -> list[Row]:
    """Return what the stages of a visit cost: the whole on one thread, its look-up, and packing a list of str."""
    pages = scheduler.core.pages
    threads, pages.threads = pages.threads, 1
    alone = 1 / _speed(scheduler, urls, days, rng, repeats)
    pages.threads = threads
    batch = next(_slices(_shuffled(urls, next(days), rng), _BATCH))
    texts = list(batch.urls)
    found = best_seconds(lambda: pages.find(batch.urls), repeats) / len(batch)
    packed = best_seconds(lambda: PackedUrls.pack(texts), repeats) / len(batch)
    named = (("on one thread", alone), ("its look-up alone", found), ("packing a list of str", packed))
    return [(f"... {name}", f"{seconds * 1e9:.0f} ns", "–", "–", "") for name, seconds in named]


def _list_speed(
    scheduler: Scheduler, urls: PackedUrls, days: Iterator[int], rng: np.random.Generator, repeats: int
) -> float:
    count = min(len(urls), 1_000_000)
    seconds = []
    for _ in range(repeats):
        batch = _shuffled(urls, next(days), rng)
        chosen = [batch.urls[i] for i in range(count)]
        edges = list(range(0, count + 1, _BATCH))

        def observe(batch: OutcomeBatch = batch, chosen: list[str] = chosen, edges: list[int] = edges) -> None:
            for start, stop in pairwise(edges):
                rows = slice(start, stop)
                scheduler.observe(OutcomeBatch(chosen[rows], batch.fetched_at[rows], changed=batch.changed[rows]))

        seconds.append(best_seconds(observe, 1))
    return count / min(seconds)


def _file_speed(
    scheduler: Scheduler, urls: PackedUrls, path: Path, count: int, days: Iterator[int], rng: np.random.Generator
) -> float:
    batch = _shuffled(urls, next(days), rng)
    write = write_msgpack if path.suffix == ".msgpack" else write_jsonl
    write(_slices(next(_slices(batch, count)), _FRAME), path)

    def observe() -> None:
        with open_source(path) as source:
            _observe_all(scheduler, (delivery.records for delivery in source))

    return count / best_seconds(observe, 1)


def _rival(urls: PackedUrls, rng: np.random.Generator, repeats: int) -> float:
    events = min(_RIVAL_EVENTS, len(urls))
    texts = [urls[i] for i in range(events)]
    rival = DictIngest()
    for url in texts:
        rival.learn_one(url, 0.0, False)
    changed = (rng.random(events) < 0.1).tolist()

    def learn(day: list[float] = [0.0]) -> None:  # noqa: B006  counts its calls, so that each is a later day
        day[0] += DAY_S
        for url, flag in zip(texts, changed, strict=True):
            rival.learn_one(url, day[0], flag)

    return events / best_seconds(learn, repeats)


def _rival_bytes(urls: PackedUrls) -> float:
    """Return the bytes per page of the dict rival, as the allocator counts them."""
    import tracemalloc  # noqa: PLC0415  the import alone would slow the other measurements

    events = min(50_000, len(urls))
    tracemalloc.start()
    rival = DictIngest()
    for i in range(events):
        rival.learn_one(urls[i], float(i), False)
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return allocated / events
