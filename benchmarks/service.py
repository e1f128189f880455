"""The HTTP service: batches beside a stream of outcomes, and outcomes on disk when they are acknowledged.

The service runs in a process of its own, its clients in this one, all on this machine's cores. The rival is the library
without HTTP, called by the same threads in this process: what the service adds is the difference.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Final, Protocol

import msgspec
import numpy as np

from benchmarks.corpus import DAY_S, make_urls
from benchmarks.timing import Row
from streamsched import DurableScheduler, OutcomeBatch, PackedUrls
from streamsched.cli.options import current_time
from streamsched.connectors.records.outcome_frames import decode_frame, encode_frame
from streamsched.http.protocol.media_types import FRAMES

__all__ = ["measure"]

_FRAME: Final = 1_000  # outcomes
_FEED: Final = 100  # frames a second beside batches
_SENDERS: Final = 8  # connections that send frames as fast as they are acknowledged
_SENT: Final = 3_000  # frames of that measurement
_WARM_S: Final = 6.0  # before latencies count: the first two batches scan all pages
_CASES: Final = ((1_000, 10, 50.0), (100, 50, 25.0))  # pages of a batch, batches a second, goal in ms


class _Caller(Protocol):
    """Calls a scheduler, over HTTP or not."""

    def next_batch(self, k: int) -> None: ...

    def observe(self, frame: bytes) -> None: ...


class _OverHttp:
    """Calls the service at `address`; each thread has a connection of its own."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._local = threading.local()

    def next_batch(self, k: int) -> None:
        self._post("/v1/next", json.dumps({"k": k, "lease": "10m"}).encode(), "application/json")

    def observe(self, frame: bytes) -> None:
        self._post("/v1/outcomes", frame, FRAMES)

    def _post(self, path: str, body: bytes, media_type: str) -> None:
        if not hasattr(self._local, "connection"):
            self._local.connection = HTTPConnection(self._address)
        connection: HTTPConnection = self._local.connection
        connection.request("POST", path, body, {"content-type": media_type})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise RuntimeError(content.decode())


@dataclass(frozen=True)
class _InProcess:
    """Calls the library. Its calls are on disk when they return, too."""

    scheduler: DurableScheduler

    def next_batch(self, k: int) -> None:
        batch = self.scheduler.next_batch(k, now=current_time(None), lease="10m")
        assert len(batch.urls) == len(batch.hosts) == len(batch.reasons)

    def observe(self, frame: bytes) -> None:
        self.scheduler.observe(decode_frame(msgspec.msgpack.decode(frame)))


def measure(pages: int, seconds: float = 20.0) -> list[Row]:
    """Return the rows of the benchmark of the service at `pages` pages; latencies are of `seconds` each."""
    folder = Path(tempfile.mkdtemp(prefix="streamsched-"))
    try:
        _build(folder / "state", pages)
        shutil.copytree(folder / "state", folder / "copy")
        with _serving(folder / "state") as service:
            own = _measure(service, pages, seconds)
        with DurableScheduler.open(folder / "copy") as scheduler:
            rival = _measure(_InProcess(scheduler), pages, seconds)
            scheduler.close(save=False)
    finally:
        shutil.rmtree(folder)
    return _rows(own, rival)


def _rows(own: Sequence[float], rival: Sequence[float]) -> list[Row]:
    """Return the rows of what `_measure` returned of both."""
    rows: list[Row] = []
    for number, (k, per_s, goal_ms) in enumerate(_CASES):
        p50, p99 = 1 + 2 * number, 2 + 2 * number
        ours, theirs = (f"{1e3 * one[p50]:.1f}, {1e3 * one[p99]:.1f} ms" for one in (own, rival))
        what = f"next of {k:,}, {per_s} a second, beside {_FEED * _FRAME:,} outcomes/s: p50, p99"
        rows.append((what, ours, theirs, f"{own[p99] / rival[p99]:.2f}", f"p99 ≤ {goal_ms:g} ms"))
    what = f"outcomes in frames of {_FRAME:,}, on disk when acknowledged"
    rows.append((what, f"{own[0]:,.0f}/s", f"{rival[0]:,.0f}/s", f"{own[0] / rival[0]:.2f}", "≥ 300,000/s"))
    return rows


def _build(directory: Path, pages: int) -> None:
    """Save a state of `pages` pages, each visited twice in the last 40 days."""
    rng, urls, now = np.random.default_rng(0), make_urls(pages), current_time(None)
    with DurableScheduler.open(directory) as scheduler:
        for begin_day, days in ((-40.0, 20.0), (-20.0, 19.9)):
            times = now + (begin_day + rng.random(pages) * days) * DAY_S
            scheduler.take(OutcomeBatch(urls, times, changed=rng.random(pages) < 0.1), "visits", begin_day)


@contextmanager
def _serving(state: Path) -> Iterator[_OverHttp]:
    """Run the service in a process of its own within the block."""
    words = ["serve", "--state", str(state), "--http", "127.0.0.1:0", "--log-format", "json"]
    command = [sys.executable, "-m", "streamsched", *words, "--set", "http.rate=1000000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        address = next(event["address"] for event in events if event["event"] == "serving http")
        reader = threading.Thread(target=lambda: list(events))  # so that it can always write
        reader.start()
        try:
            yield _OverHttp(address)
        finally:
            process.terminate()
            process.wait()
            reader.join()


def _measure(caller: _Caller, pages: int, seconds: float) -> list[float]:
    """Return the outcomes a second, then p50 and p99 of each case in seconds."""
    urls, figures = make_urls(pages), []
    numbers = count()
    for k, per_s, _ in _CASES:
        frames = _make_frames(urls, int((seconds + _WARM_S) * _FEED), numbers)
        taken = _at_intervals(caller, k, per_s, seconds, frames)
        figures += [float(np.quantile(taken, 0.5)), float(np.quantile(taken, 0.99))]
    frames = _make_frames(urls, _SENT, numbers)
    with ThreadPoolExecutor(_SENDERS) as pool:
        begin = time.perf_counter()
        list(pool.map(caller.observe, frames))
        return [_SENT * _FRAME / (time.perf_counter() - begin), *figures]


def _at_intervals(caller: _Caller, k: int, per_s: int, seconds: float, frames: Sequence[bytes]) -> list[float]:
    """Return the seconds that each batch took, counted from when it was due, while `frames` are sent."""
    taken: list[float] = []

    def lease(due: float) -> None:
        caller.next_batch(k)
        if due >= begin + _WARM_S:
            taken.append(time.perf_counter() - due)

    with ExitStack() as stack:
        senders, askers = (stack.enter_context(ThreadPoolExecutor(workers)) for workers in (4, 4))
        begin = time.perf_counter() + 0.1
        sending = threading.Thread(
            target=_pace, args=(begin, 1 / _FEED, [lambda _, f=f: caller.observe(f) for f in frames], senders)
        )
        sending.start()
        _pace(begin, 1 / per_s, [lease] * int((seconds + _WARM_S) * per_s), askers)
        sending.join()
    return taken


def _pace(begin: float, every: float, calls: Sequence[Callable[[float], None]], pool: ThreadPoolExecutor) -> None:
    """Start the `calls`, which take the time when they are due, one each `every` seconds. Raises what they raise."""
    futures = []
    for number, call in enumerate(calls):
        due = begin + number * every
        time.sleep(max(0.0, due - time.perf_counter()))
        futures.append(pool.submit(call, due))
    for future in futures:
        future.result()


def _make_frames(urls: PackedUrls, frames: int, numbers: Iterator[int]) -> list[bytes]:
    """Return `frames` frames of visits to random pages, each later than those of earlier frames."""
    rng, now, made = np.random.default_rng(next(numbers)), current_time(None), []
    for frame in range(frames):
        rows = rng.integers(0, len(urls), _FRAME)
        times = np.full(_FRAME, now + 1e-3 * frame)
        columns = {"status": np.full(_FRAME, 200), "changed": rng.random(_FRAME) < 0.1}
        made.append(encode_frame(OutcomeBatch(urls.take(rows), times, **columns)))
    return made
