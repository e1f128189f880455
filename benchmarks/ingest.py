"""Ingest: outcomes a second from columns, lists, msgpack frames and JSON Lines, bytes of state per page, hostile
URLs.
"""

from __future__ import annotations

import itertools
import math
import string
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.report import Row, best_seconds, digits, durations, speeds
from streamsched import OutcomeBatch, PackedUrls, Scheduler
from streamsched.connectors import open_source, write_jsonl, write_msgpack

_BATCH = 100_000
_FRAME = 1_000
_RIVAL_EVENTS = 200_000
_SETTLING_DAYS = 20  # with a visit to each page a day: then rates are known and pages have schedules
_SHARE: Final = 4  # growth is measured from this part of the URLs
_K0: Final = 0xA0761D6478BD642F  # public constants of `hash_bytes`
_K1: Final = 0xE7037ED1A0B428DB
_WHOLE: Final = (1 << 64) - 1
_TAIL: Final = "-is-one-of-many."


class DictIngest:
    """One dict per page, updated one event at a time, as stream-learning libraries keep their models."""

    def __init__(self) -> None:
        self.pages: dict[str, dict[str, Any]] = {}

    def learn_one(self, url: str, fetched_at: float, changed: bool) -> None:
        """Update the counting estimators and the Gamma posterior of one page."""
        page = self.pages.get(url)
        if page is None:
            self.pages[url] = {"last": fetched_at, "n": 0, "X": 0, "S": 0.0, "g": 0.0, "a": 0.5, "b": 5.0}
            return
        if fetched_at <= page["last"]:
            return
        interval = (fetched_at - page["last"]) / 86_400.0
        page["last"] = fetched_at
        page["n"] += 1
        page["g"] = page["g"] / 2 + changed
        if not changed:
            page["b"] += interval
            return
        page["X"] += 1
        page["S"] += page["n"]
        a, b = page["a"], page["b"]
        growth = math.log1p(interval / b)
        d0, d1, d2 = (-math.expm1(-(a + j) * growth) for j in range(3))
        mean = a / b * d1 / d0
        variance = a * (a + 1) / b**2 * d2 / d0 - mean**2
        page["a"], page["b"] = mean**2 / variance, mean / variance


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
        rows.append(speeds(f"columns, {size:,} pages", _speed(_visited(part, rng), part, days, rng, repeats), rival))
    rows += [speeds(f"outcomes from columns, {pages:,} pages", whole, rival, headline=True), *stages]
    rows += [_rhythm_row(part, rng, repeats), speeds("columns, URLs as a list of str", listed, rival)]
    rows += [speeds("file of msgpack frames", frames, rival), speeds("file of JSON Lines", lines, rival)]
    sizes = {name: size / pages for name, size in scheduler.core.pages.state_bytes().items()}
    state, dicts = sum(sizes.values()), _rival_bytes(urls)
    rows.append(Row("bytes of state a page, without its URL", f"{state - sizes['url_text']:.0f}"))
    name = f"bytes of state a page, with a URL of 60 bytes, {pages:,} pages"
    return [*rows, Row(name, f"{state:.0f}", f"{dicts:.0f}", f"{digits(dicts / state, 2)}×", headline=True)]


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
    scheduled = int(both[0].core.pages.arrays.seasonality.state["schedules"][0]) / len(urls)
    name = f"... {len(urls):,} pages, {scheduled:.0%} with schedules; rival: no rhythms learned"
    return speeds(name, len(urls) / least[0], len(urls) / least[1])


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
    """Return the rows of the stages of a visit: the whole on one thread, its look-up, and packing a list of str."""
    pages = scheduler.core.pages
    threads, pages.threads = pages.threads, 1
    alone = 1 / _speed(scheduler, urls, days, rng, repeats)
    pages.threads = threads
    batch = next(_slices(_shuffled(urls, next(days), rng), _BATCH))
    texts = list(batch.urls)
    found = best_seconds(lambda: pages.find(batch.urls), repeats) / len(batch)
    packed = best_seconds(lambda: PackedUrls.pack(texts), repeats) / len(batch)
    named = (("on one thread", alone), ("its look-up alone", found), ("packing a list of str", packed))
    return [Row(f"... {name}, an outcome", f"{seconds * 1e9:.0f} ns") for name, seconds in named]


def _list_speed(
    scheduler: Scheduler, urls: PackedUrls, days: Iterator[int], rng: np.random.Generator, repeats: int
) -> float:
    count = min(len(urls), 1_000_000)
    seconds = []
    for _ in range(repeats):
        batch = _shuffled(urls, next(days), rng)
        texts = [batch.urls[i] for i in range(count)]
        parts = [
            (texts[rows], batch.fetched_at[rows], batch.changed[rows])
            for rows in (slice(start, start + _BATCH) for start in range(0, count, _BATCH))
        ]
        seconds.append(best_seconds(lambda parts=parts: _observe_lists(scheduler, parts), 1))  # type: ignore[misc]
    return count / min(seconds)


def _observe_lists(scheduler: Scheduler, parts: Iterable[tuple[list[str], Any, Any]]) -> None:
    for urls, fetched_at, changed in parts:
        scheduler.observe(OutcomeBatch(urls, fetched_at, changed=changed))


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


def measure_hostile(count: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark with `count` URLs, a tenth of that for long ones; the rival is `ordinary`.

    Rows of growth compare all of the URLs with a quarter of them.
    """
    ordinary = [f"https://a.co/abc{i:08}ordinary{_TAIL}" for i in range(count)]
    kinds: dict[str, Sequence[str]] = {
        "one hash without the key": _colliding(count),
        "a host each": [f"https://h{i:020}.example/" for i in range(count)],
        "a directory for 16 pages": [f"https://a.example/{i // 16:020}/{i % 16:010}" for i in range(count)],
        "8,000 bytes with one prefix": [f"https://a.example/{'x' * 7970}{i:010}" for i in range(count // 10)],
        "1,000 directories deep": [f"https://a.example/{'d/' * 1000}{i:010}" for i in range(count // 10)],
    }
    rows: list[Row] = []
    for verb, run in (("discover", _discover), ("observe twice", _observe)):
        usual = _hostile_seconds(run, ordinary, repeats) / count
        for name, urls in kinds.items():
            part = urls[: len(urls) // _SHARE]
            whole, less = (_hostile_seconds(run, some, repeats) / len(some) for some in (urls, part))
            rows.append(durations(f"{verb}, {len(urls):,} URLs: {name}", whole, usual, "µs"))
            rows.append(durations(f"... growth from {len(part):,} URLs", whole, less, "µs"))
    return rows


def _hostile_seconds(run: Callable[[PackedUrls], None], urls: Sequence[str], repeats: int) -> float:
    packed = PackedUrls.pack(urls)
    return best_seconds(lambda: run(packed), repeats)


def _discover(urls: PackedUrls) -> None:
    Scheduler().discover(urls, now=0.0)


def _observe(urls: PackedUrls) -> None:
    scheduler = Scheduler()
    for day in (1, 2):
        scheduler.observe(OutcomeBatch(urls, np.full(len(urls), day * 86_400.0)))


def _colliding(count: int) -> list[str]:
    """Return `count` URLs of one public hash: a block is multiplied by what the one before makes 0."""
    for letters in itertools.product(string.ascii_letters + string.digits, repeat=3):
        head = f"https://a.co/{''.join(letters)}"
        left = int.from_bytes(head[:8].encode(), "little") ^ _K1
        right = int.from_bytes(head[8:].encode(), "little") ^ _K0 ^ (16 + 8 + 8 + len(_TAIL))
        state = ((left * right >> 64) ^ (left * right & _WHOLE)).to_bytes(8, "little")
        if all(0x21 <= byte < 0x7F and byte not in b"/?#" for byte in state):
            return [f"{head}{free:08}{state.decode()}{_TAIL}" for free in range(count)]
    raise AssertionError
