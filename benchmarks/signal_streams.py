"""Streams of signals: signals per second decoded from frames and JSON Lines, beside outcomes in the same forms.

CPU time, as the figures of decoders on a shared machine would otherwise be those of its other load.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.corpus import DAY_S, make_urls, visit_all
from benchmarks.timing import Row
from streamsched import PackedUrls, SignalBatch
from streamsched.connectors import open_signals, open_source, write_jsonl, write_msgpack

__all__ = ["measure"]

_FRAME: Final = 4_096
_NAMES: Final = ("sitemap", "feed", "indexnow")
_GOALS: Final = {"frames.msgpack": "≥ 1 M/s", "maps.msgpack": "–", "events.jsonl": "–"}


def measure(records: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark, with `records` signals and as many outcomes."""
    rng = np.random.default_rng(0)
    urls = make_urls(records)
    outcomes, signals = visit_all(urls, 1, rng), _announce(urls, rng)
    writers: dict[str, Callable[[Iterable[Any], Path], int]] = {
        "frames.msgpack": write_msgpack,
        "maps.msgpack": partial(write_msgpack, frames=False),
        "events.jsonl": write_jsonl,
    }
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in writers.items():
            path = Path(folder) / name
            speeds = []
            for batch, open_it in ((signals, open_signals), (outcomes, open_source)):
                write(_cut(batch), path)
                speeds.append(records / _best(partial(_read, open_it, path, records), repeats))
            own, theirs = speeds
            figures = f"{own / 1e6:.2f} M/s", f"outcomes {theirs / 1e6:.2f} M/s", f"{own / theirs:.1f}×"
            rows.append((f"signals decoded from {name}", *figures, _GOALS[name]))
    return rows


def _announce(urls: PackedUrls, rng: np.random.Generator) -> SignalBatch:
    """Return a signal of each page, a third of them with a significance."""
    count = len(urls)
    signals = SignalBatch(urls, DAY_S + rng.random(count), rng.integers(0, 3, count), rng.random(count), names=_NAMES)
    signals.given = rng.random(count) < 1 / 3
    return signals


def _cut(batch: Any) -> Iterable[Any]:
    return (batch.take(np.arange(at, min(at + _FRAME, len(batch)))) for at in range(0, len(batch), _FRAME))


def _read(open_it: Callable[[Path], Any], path: Path, count: int) -> None:
    with open_it(path) as source:
        found = sum(len(delivery.records) for delivery in source)
    assert found == count, f"{found} of {count} records"


def _best(work: Callable[[], None], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)
