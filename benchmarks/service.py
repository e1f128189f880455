"""The HTTP service: batches beside a stream of outcomes, and outcomes on disk when they are acknowledged.

The service runs in a process of its own, its clients in this one, all on this machine's cores. The rival is the library
without HTTP, called by the same threads in this process: what the service adds is the difference.
"""

from __future__ import annotations

import json
import os
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
from urllib.parse import quote

import msgspec
import numpy as np

from benchmarks.corpus import DAY_S, make_urls
from benchmarks.report import Row, digits, durations
from streamsched import DurableScheduler, OutcomeBatch, PackedUrls
from streamsched.cli.options import current_time
from streamsched.frames import decode_frame, encode_frame
from streamsched.http.protocol.bodies import FRAMES

_FRAME: Final = 1_000  # outcomes
_FEED: Final = 100  # frames a second beside batches
_SENDERS: Final = 8  # connections that send frames as fast as they are acknowledged
_SENT: Final = 3_000  # frames of that measurement
_WARM_S: Final = 6.0  # before latencies count: the first two batches scan all pages
_CASES: Final = ((1_000, 10), (100, 50))  # pages of a batch, batches a second
_CLICKS: Final = 10  # pages a second that a user of the console opens
_MEASURED_S: Final = 5.0  # of latencies, for each repeat
_CHROMIUM: Final = "/usr/bin/chromium"
_SETTLE_S: Final = 10.0  # before processor time counts: the first answers compute what later ones reuse
_WATCHED_S: Final = 12.0  # of processor time, for each repeat
_TICKS: Final = os.sysconf("SC_CLK_TCK")  # of processor time in a second


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
        self._send("POST", "/v1/next", json.dumps({"k": k, "lease": "10m"}).encode(), "application/json")

    def observe(self, frame: bytes) -> None:
        self._send("POST", "/v1/outcomes", frame, FRAMES)

    def open_page(self, url: str) -> None:
        """Ask for what the console asks for when a user opens a page."""
        self._send("GET", f"/v1/pages/{quote(url, safe='')}")
        self._send("GET", f"/v1/explain?url={quote(url, safe='')}")

    def _send(self, method: str, path: str, body: bytes = b"", media_type: str = "") -> None:
        if not hasattr(self._local, "connection"):
            self._local.connection = HTTPConnection(self._address)
        connection: HTTPConnection = self._local.connection
        connection.request(method, path, body or None, {"content-type": media_type} if media_type else {})
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


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the benchmark of the service at `pages` pages."""
    seconds = repeats * _MEASURED_S
    folder = Path(tempfile.mkdtemp(prefix="streamsched-"))
    try:
        _build(folder / "state", pages)
        shutil.copytree(folder / "state", folder / "copy")
        os.sync()  # a log's writes would wait for those of the 4 GB
        with _serving(folder / "state", "--set", "http.rate=1000000") as (_, address):
            own = _measure(_OverHttp(address), pages, seconds)
            clicked = _measure_clicks(_OverHttp(address), pages, seconds)
        with DurableScheduler.open(folder / "copy") as scheduler:
            rival = _measure(_InProcess(scheduler), pages, seconds)
            scheduler.close(save=False)
    finally:
        shutil.rmtree(folder)
    return [*_rows(own, rival, pages), clicked]


def _rows(own: Sequence[float], rival: Sequence[float], pages: int) -> list[Row]:
    """Return the rows of what `_measure` returned of both."""
    rows: list[Row] = []
    for number, (k, per_s) in enumerate(_CASES):
        for place, part in ((1 + 2 * number, "p50"), (2 + 2 * number, "p99")):
            what = f"next of {k:,}, {per_s} a second, {pages:,} pages, {part}"
            rows.append(durations(what, own[place], rival[place]))
    what = f"outcomes over HTTP in frames of {_FRAME:,}, on disk when acknowledged, {pages:,} pages"
    figures = f"{digits(own[0], 3)}/s", f"{digits(rival[0], 3)}/s, library"
    return [*rows, Row(what, *figures, f"{digits(own[0] / rival[0], 2)}×", headline=True)]


def _build(directory: Path, pages: int) -> None:
    """Save a state of `pages` pages, each visited twice in the last 40 days."""
    rng, urls, now = np.random.default_rng(0), make_urls(pages), current_time(None)
    with DurableScheduler.open(directory) as scheduler:
        for begin_day, days in ((-40.0, 20.0), (-20.0, 19.9)):
            times = now + (begin_day + rng.random(pages) * days) * DAY_S
            scheduler.take(OutcomeBatch(urls, times, changed=rng.random(pages) < 0.1), "visits", begin_day)


@contextmanager
def _serving(state: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Run the service in a process of its own within the block; yield its number and address."""
    words = ["serve", "--state", str(state), "--http", "127.0.0.1:0", "--log-format", "json", *options]
    command = [sys.executable, "-m", "streamsched", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        events = (json.loads(line) for line in process.stderr)
        address = next(event["address"] for event in events if event["event"] == "serving http")
        reader = threading.Thread(target=lambda: list(events))  # so that it can always write
        reader.start()
        try:
            yield process.pid, address
        finally:
            process.terminate()
            process.wait()
            reader.join()


def _measure(caller: _Caller, pages: int, seconds: float) -> list[float]:
    """Return the outcomes a second, then p50 and p99 of each case in seconds."""
    urls, figures = make_urls(pages), []
    numbers = count()
    for k, per_s in _CASES:
        frames = _make_frames(urls, int((seconds + _WARM_S) * _FEED), numbers)
        taken = _at_intervals(caller, k, per_s, seconds, frames)
        figures += [float(np.quantile(taken, 0.5)), float(np.quantile(taken, 0.99))]
    frames = _make_frames(urls, _SENT, numbers)
    with ThreadPoolExecutor(_SENDERS) as pool:
        begin = time.perf_counter()
        list(pool.map(caller.observe, frames))
        return [_SENT * _FRAME / (time.perf_counter() - begin), *figures]


def _measure_clicks(caller: _OverHttp, pages: int, seconds: float) -> Row:
    """Return the row of batches while a user opens pages, beside the same service without the user."""
    urls, numbers, rng = make_urls(pages), count(pages), np.random.default_rng(0)
    k, per_s = _CASES[-1]
    opened = [urls[int(row)] for row in rng.integers(0, pages, int((seconds + _WARM_S) * _CLICKS))]
    clicks = [lambda _, url=url: caller.open_page(url) for url in opened]
    worst = []
    for calls in ([], clicks):
        frames = _make_frames(urls, int((seconds + _WARM_S) * _FEED), numbers)
        with ThreadPoolExecutor(1) as user, ThreadPoolExecutor(1) as beside:
            clicking = beside.submit(_pace, time.perf_counter() + 0.1, 1 / _CLICKS, calls, user)
            taken = _at_intervals(caller, k, per_s, seconds, frames)
            clicking.result()
        worst.append(float(np.quantile(taken, 0.99)))
    what = f"next of {k:,}, {per_s} a second, while a user opens {_CLICKS} pages a second, {pages:,} pages, p99"
    return durations(f"{what}; rival: without the user", worst[1], worst[0])


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


def measure_console(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the console beside a service of `pages` pages that no crawler calls.

    The rivals are the service without the console, and the same browser with an empty page. Needs Debian's
    Chromium and playwright.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  of the tests

    seconds, folder = repeats * _WATCHED_S, Path(tempfile.mkdtemp(prefix="streamsched-"))
    try:
        with DurableScheduler.open(folder / "state") as scheduler:
            scheduler.discover(make_urls(pages), now=current_time(None))
        with _serving(folder / "state") as (service, address), sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            alone = _shares(service, seconds)
            begin = time.perf_counter()
            page.goto(f"http://{address}/")
            page.wait_for_selector(".figure .value")
            first_s = time.perf_counter() - begin
            watched = _shares(service, seconds)
            browser.close()
    finally:
        shutil.rmtree(folder)
    rows = [Row(f"first view, {pages:,} pages", f"{first_s:.2f} s")]
    for what, own, rival in zip(("service", "browser"), watched, alone, strict=True):
        added = f"{own - rival:+.2%} of a core"
        rows.append(Row(f"processor time of the {what}, console open", f"{own:.2%}", f"{rival:.2%}", added))
    return rows


def _shares(service: int, seconds: float) -> list[float]:
    """Return the share of a core that the service and the browser, a child of this process, take for `seconds`."""
    time.sleep(_SETTLE_S)
    before = [_processor_s([service]), _processor_s(_descendants(service))]
    time.sleep(seconds)
    after = [_processor_s([service]), _processor_s(_descendants(service))]
    return [(end - begin) / seconds for begin, end in zip(before, after, strict=True)]


def _processor_s(processes: list[int]) -> float:
    """Return the seconds of processor time that these processes have taken."""
    return sum(sum(map(int, _fields(one)[11:13])) for one in processes) / _TICKS


def _descendants(but: int) -> list[int]:
    """Return the children of this process and theirs, but for those of `but` and itself."""
    parents = {int(one.name): int(_fields(int(one.name))[1]) for one in Path("/proc").iterdir() if one.name.isdigit()}
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one and child != but]
    return found[1:]


def _fields(process: int) -> list[str]:
    """Return what the kernel knows of a process, from its state on."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
