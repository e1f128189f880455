"""Start-up: the README's first program and one command on a saved state, with no kernel compiled and from the cache.

The rival imports numba and compiles one trivial kernel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.corpus import make_urls, visit_all
from benchmarks.report import README, Row, best_seconds, durations
from streamsched import Scheduler

_NOW: Final = "200000"
_TRIVIAL: Final = "import numba, numpy\nnumba.njit(lambda values: values.sum())(numpy.ones(3))"


def measure(pages: int, repeats: int) -> list[Row]:
    """Return the rows of the start-up benchmark. What compiles runs once."""
    imported = _seconds("-c", "import streamsched", repeats=repeats)
    rival = _seconds("-c", "import numpy, numba", repeats=repeats)
    trivial = _seconds("-c", _TRIVIAL, repeats=repeats)
    rows = [durations("import streamsched; rival: numpy and numba", imported, rival, "s")]
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state"
        _save(state, pages)
        commands = {
            "the README's first program": ("-c", first_program()),
            f"streamsched next, {pages:,} saved pages": (
                *("-m", "streamsched", "next", "--state", str(state)),
                *("--now", _NOW, "--peek"),
            ),
        }
        for number, (name, command) in enumerate(commands.items()):
            cache = Path(directory) / f"kernels{number}"
            compiling = _seconds(*command, repeats=1, cache=cache)
            cached = _seconds(*command, repeats=repeats, cache=cache)
            size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
            rows.append(durations(f"{name}: nothing compiled", compiling, trivial, "s"))
            rows.append(durations(f"... from the cache of {size / 1e6:.0f} MB", cached, trivial, "s"))
    return rows


def first_program() -> str:
    """Return the first Python program of the README."""
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise ValueError(f"{README} has no Python program")
    return found[1]


def _save(state: Path, pages: int) -> None:
    scheduler, rng = Scheduler(), np.random.default_rng(0)
    for day in range(2):
        scheduler.observe(visit_all(make_urls(pages), day, rng))
    scheduler.save(state)


def _seconds(*arguments: str, repeats: int, cache: Path | None = None) -> float:
    """Return the best time of a Python process; `cache`: its directory for compiled kernels."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        environment |= {"NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, *arguments]
    return best_seconds(lambda: subprocess.run(command, check=True, env=environment, capture_output=True), repeats)
