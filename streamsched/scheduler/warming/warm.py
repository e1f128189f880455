"""Compile ahead: for images, for CI, and for services that must answer at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamsched.errors import SettingsError
from streamsched.numerics.compilation.dispatcher import cache_folders
from streamsched.numerics.compilation.helper import allowed_processes, end_of, start_helper
from streamsched.numerics.compilation.notices import Compilation, on_compile
from streamsched.scheduler.warming.workloads import WORKLOADS

__all__ = ["WarmProgress", "Warmed", "warm"]


@dataclass(frozen=True, slots=True)
class WarmProgress:
    """How far `warm` is: the workload that runs, its number of all, and the kernels that this process has compiled."""

    workload: str
    number: int
    workloads: int
    compiled: int
    kernel: str | None  # which is compiled now


@dataclass(frozen=True, slots=True)
class Warmed:
    """What `warm` has done: kernels compiled, wall seconds, and the size and the folders of the cache afterwards."""

    compiled: int
    seconds: float
    cache_bytes: int
    folders: tuple[str, ...]


def warm(progress: Callable[[WarmProgress], object] | None = None) -> Warmed:
    """Compile the kernels of common programs into the cache, so that later programs start at once.

    Small schedulers run through the public methods; they leave nothing behind. What is compiled already is loaded: a
    second call takes a second. `progress` is called as it goes on. A second process takes the same workloads from
    their other end, if there is a second core. Raises SettingsError if `progress` cannot be called.
    """
    if progress is not None and not callable(progress):
        raise SettingsError("progress", progress, "a function of a WarmProgress, or None")
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


def _cache_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.nb[ci]"))
