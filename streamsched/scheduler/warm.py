"""Compile ahead: for images, for CI, and for services that must answer at once.

Small workloads call every kernel of a common program with the types that it really uses.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from streamsched.errors import SettingsError
from streamsched.evolution.evolution_settings import REEVOLUTION_SETTINGS
from streamsched.evolution.pipeline import run_evolution
from streamsched.formula.formula import Formula
from streamsched.formula.terminals import TerminalColumns, context_of
from streamsched.numerics.compilation.helper import allowed_processes, end_of, start_helper
from streamsched.numerics.compilation.kernel_cache import forbid_shipped
from streamsched.numerics.compilation.notices import Compilation, on_compile
from streamsched.numerics.jit import cache_folders
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.outcomes import Outcome, OutcomeBatch
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.records.url_patterns import hosts_of
from streamsched.scheduler.durable import DurableScheduler
from streamsched.scheduler.planning.optimiser import Optimiser
from streamsched.scheduler.scheduler import Scheduler
from streamsched.signals import Signal

_START_S: Final = 1_700_000_000.0
_DAY_S: Final = 86_400.0
_URLS: Final = [f"https://host{i % 3}.example/part{i % 2}/page{i}" for i in range(24)]


def _fill_terminals() -> None:
    pages = Scheduler().core.pages
    shard, none = pages.arrays, slice(0, 0)
    context = context_of(shard, none)
    columns = TerminalColumns(("t",), 0)
    columns.fill(shard.pages.records[none], shard.pages.traces[none], context, _START_S, pages.cycle_s)


def _ingest() -> None:
    Scheduler().observe(OutcomeBatch([], fetched_at=[], fingerprint=[]))


def _rank() -> None:
    scheduler = Scheduler(cycle="1d")
    scheduler.discover(_URLS, now=_START_S)
    scheduler.next_batch(k=2, now=_START_S + _DAY_S, lease="10m")
    scheduler.explain(_URLS[0], now=_START_S + _DAY_S)


def _observe() -> None:
    scheduler = Scheduler(cycle="1d")
    times = _START_S + np.arange(len(_URLS))
    scheduler.observe(OutcomeBatch(_URLS, fetched_at=times, fingerprint=np.arange(len(_URLS), dtype=np.uint64)))


def _observe_columns() -> None:
    scheduler = Scheduler()
    urls = PackedUrls.pack(_URLS)
    for day in range(3):
        times = _START_S + _DAY_S * day + np.arange(len(_URLS))
        scheduler.observe(OutcomeBatch(urls, times, changed=np.arange(len(_URLS)) % 2 == 0, status=[200] * len(_URLS)))
    late = _START_S + 4 * _DAY_S
    moved = Outcome(_URLS[0], late, moved_to="https://host9.example/ä")
    scheduler.observe([moved, Outcome(_URLS[1], late, status=503)])
    scheduler.observe([Outcome(_URLS[2], late, etag='"1"')])
    scheduler.next_batch(1, now=late + 1.0)


def _serve() -> None:
    scheduler = Scheduler(politeness=Politeness())
    scheduler.set_rule("host1.example", HostRule(delay="1s"))
    scheduler.set_rule(_URLS[0], Rule(min_revisit="1h"))
    scheduler.set_rule("host1.example/part1/*", Rule(min_revisit="1h"))
    scheduler.observe(OutcomeBatch(_URLS, _START_S + np.arange(len(_URLS)), changed=[True] * len(_URLS)))
    for formula in ("t * X", "posterior"):
        scheduler.use(formula)
        scheduler.next_batch(k=4, now=_START_S + _DAY_S)
        scheduler.rank(k=4, now=_START_S + _DAY_S)
    scheduler.scores(now=_START_S + _DAY_S)
    scheduler.score(_URLS[:2], now=_START_S + _DAY_S)
    for url in _URLS:  # most of them are not in a batch of one page, though they may be visited
        scheduler.explain(url, now=_START_S + _DAY_S, k=1)
    scheduler.ask(_URLS[:1], now=_START_S + _DAY_S)
    scheduler.release(_URLS[:1])
    scheduler.block("host2.example", until=_START_S + 2 * _DAY_S)
    scheduler.set_rule("*.example", HostRule(per_batch=2))
    scheduler.next_batch(k=4, now=_START_S + 3 * _DAY_S)  # leases have expired
    scheduler.week(now=_START_S)
    scheduler.week(now=_START_S, url=_URLS[0])
    scheduler.begin_trial("t * X", now=_START_S + 4 * _DAY_S)
    scheduler.next_batch(k=4, now=_START_S + 4 * _DAY_S)
    scheduler.end_trial()
    hosts_of(PackedUrls.pack(_URLS).take(np.array([1])))  # as answers with changes have them


def _serve_many() -> None:
    scheduler = Scheduler()
    urls = PackedUrls.pack([f"https://host{i % 100}.example/{i}" for i in range(70_000)])
    for day in range(2):  # visits all day long, so that scores differ and certificates are of use
        times = _START_S + _DAY_S * (day + np.arange(len(urls)) / len(urls))
        scheduler.observe(OutcomeBatch(urls, times, changed=np.arange(len(urls)) % 7 == day))
    scheduler.discover([f"https://host{i % 100}.example/new/{i}" for i in range(20_000)], now=_START_S + _DAY_S)
    for second in range(6):
        now = _START_S + 2 * _DAY_S + second
        batch = scheduler.next_batch(k=100, now=now)
        scheduler.observe(OutcomeBatch(batch.urls, np.full(len(batch), now), changed=[False] * len(batch)))


def _keep() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scheduler = Scheduler()
        scheduler.discover(_URLS, now=_START_S)
        scheduler.save(Path(folder, "saved"))
        Scheduler.load(Path(folder, "saved")).next_batch(k=2, now=_START_S)
        with DurableScheduler.open(Path(folder, "kept"), keep_changes="1d") as durable:
            durable.observe(OutcomeBatch(_URLS, _START_S + np.arange(len(_URLS)), changed=[False] * len(_URLS)))
            durable.observe([Outcome(_URLS[0], _START_S + 10.0, changed=False, etag='"1"')])
            durable.snapshot()
            durable.next_batch(k=2, now=_START_S + _DAY_S)
            durable.digest()
            durable.notice([Signal(url, _START_S + _DAY_S, "sitemap") for url in _URLS])
            durable.changes()
            durable.forget(_URLS[:1])
            durable.discover(_URLS[:1], now=_START_S + _DAY_S)
            durable.close(save=False)  # so that the next start applies the calls in the log
        with DurableScheduler.open(Path(folder, "kept")) as again:
            again.core.pages.faults()  # as `state verify` looks for


def _evolve() -> None:
    """Evolve as the process of a re-evolution does, with the least that it accepts."""
    scheduler = Scheduler()
    urls = PackedUrls.pack([f"https://host{i % 3}.example/{i}" for i in range(200)])
    for day in range(20):
        times = np.full(len(urls), _START_S + _DAY_S * day)
        scheduler.observe(OutcomeBatch(urls, times, changed=(np.arange(len(urls)) + day) % 7 < 2))
    training = next(scheduler.core.trainings(16, now=_START_S + 20 * _DAY_S, seeds=[1]))
    settings = replace(REEVOLUTION_SETTINGS, population=10, generations=2, elites=2, workers=1)
    run_evolution([training.history], Formula.parse("n"), settings=settings, seed=1)


def _plan() -> None:
    scheduler = Scheduler()
    scheduler.observe(OutcomeBatch(_URLS, _START_S + np.arange(len(_URLS)), changed=[False] * len(_URLS)))
    Optimiser(scheduler).plan_now(_START_S + _DAY_S)
    scheduler.next_batch(k=2, now=_START_S + _DAY_S)


WORKLOADS: Final[Mapping[str, Callable[[], None]]] = {
    "rank": _rank,
    "serve": _serve,
    "serve many pages": _serve_many,
    "keep on disk": _keep,
    "evolve": _evolve,
    "plan": _plan,
    "observe columns": _observe_columns,
    "observe": _observe,
    "ingest": _ingest,
    "fill terminals": _fill_terminals,
}


@dataclass(frozen=True, slots=True)
class WarmProgress:
    """Progress of `warm`: the workload that runs, its number of all, and the kernels that this process has compiled."""

    workload: str
    number: int
    workloads: int
    compiled: int
    kernel: str | None  # which is compiled now


@dataclass(frozen=True, slots=True)
class Warmed:
    """The result of `warm`: kernels compiled, wall seconds, and the size and the folders of the cache afterwards."""

    compiled: int
    seconds: float
    cache_bytes: int
    folders: tuple[str, ...]


def warm(progress: Callable[[WarmProgress], object] | None = None, *, native: bool = False) -> Warmed:
    """Compile the kernels of common programs into the cache, so that later programs start at once.

    Small schedulers run through the public methods; they leave nothing behind. What is compiled already is loaded: a
    second call takes seconds. `progress` is called for each step. A second process takes the same workloads from
    their other end, if there is a second core. A wheel with machine code has these kernels, compiled for a common level
    of the processor; `native` compiles them for this very processor. Raises SettingsError if `progress` cannot be
    called, or if NUMBA_CACHE_DIR names no folder that can be written.
    """
    if progress is not None and not callable(progress):
        raise SettingsError("progress", progress, "a function of a WarmProgress, or None")
    if not isinstance(native, bool):
        raise SettingsError("native", native, "true or false")
    if native:
        forbid_shipped()
    _check_folder()
    began = time.perf_counter()
    names = list(WORKLOADS)
    helper = start_helper(names[::-1]) if allowed_processes() > 1 else None
    compiled = 0
    state = WarmProgress(names[0], 1, len(names), 0, None)

    def count(compilation: Compilation) -> None:
        nonlocal compiled
        compiled += compilation.done
        tell(None if compilation.done else compilation.kernel)

    def tell(kernel: str | None) -> None:
        if progress is not None:
            progress(WarmProgress(state.workload, state.number, state.workloads, compiled, kernel))

    with on_compile(count):
        for number, (name, run) in enumerate(WORKLOADS.items(), 1):
            state = WarmProgress(name, number, len(names), compiled, None)
            tell(None)
            run()
    if helper is not None:  # it has nothing left to do: all is compiled
        compiled += end_of(helper)
    folders = cache_folders()
    return Warmed(compiled, time.perf_counter() - began, sum(map(_cache_bytes, folders)), tuple(map(str, folders)))


def _check_folder() -> None:
    """Raise SettingsError if nothing can be kept in the folder that the environment names."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if not named:
        return
    try:
        folder = Path(named)
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError("NUMBA_CACHE_DIR", named, "a folder that can be written") from error


def _cache_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.nb[ci]"))
