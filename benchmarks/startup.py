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
from benchmarks.timing import Row, best_seconds
from streamsched import Scheduler

__all__ = ["first_program", "measure"]

_README: Final = Path(__file__).resolve().parents[1] / "README.md"
_PAGES: Final = 100_000
_NOW: Final = "200000"
_TRIVIAL: Final = "import numba, numpy\nnumba.njit(lambda values: values.sum())(numpy.ones(3))"


def measure(repeats: int) -> list[Row]:
    """Return the rows of the start-up benchmark. What compiles runs once."""
    imported = _seconds("-c", "import streamsched", repeats=repeats)
    rival = _seconds("-c", "import numpy, numba", repeats=repeats)
    trivial = _seconds("-c", _TRIVIAL, repeats=repeats)
    rows = [_row("import streamsched / numpy and numba", imported, rival, "≤ 0.5 s")]
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state"
        _save(state)
        commands = {
            "the README's first program": (("-c", first_program()), "≤ 1 s"),
            f"streamsched next, {_PAGES:,} saved pages": (
                ("-m", "streamsched", "next", "--state", str(state), "--now", _NOW, "--peek"),
                "≤ 1 s",
            ),
        }
        for number, (name, (command, goal)) in enumerate(commands.items()):
            cache = Path(directory) / f"kernels{number}"
            compiling = _seconds(*command, repeats=1, cache=cache)
            rows += [
                _row(f"{name}: nothing compiled", compiling, trivial, "≤ 15 s"),
                _row("... from the cache", _seconds(*command, repeats=repeats, cache=cache), trivial, goal),
            ]
            size = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
            rows.append(("... size of the cache", f"{size / 1e6:.0f} MB", "–", "–", ""))
    return rows


def first_program() -> str:
    """Return the first Python program of the README."""
    found = re.search(r"```python\n(.*?)```", _README.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise ValueError(f"{_README} has no Python program")
    return found[1]


def _save(state: Path) -> None:
    scheduler, rng = Scheduler(), np.random.default_rng(0)
    for day in range(2):
        scheduler.observe(visit_all(make_urls(_PAGES), day, rng))
    scheduler.save(state)


def _seconds(*arguments: str, repeats: int, cache: Path | None = None) -> float:
    """Return the best time of a Python process; `cache`: its directory for compiled kernels."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        environment |= {"NUMBA_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, *arguments]
    return best_seconds(lambda: subprocess.run(command, check=True, env=environment, capture_output=True), repeats)


def _row(name: str, ours: float, theirs: float, goal: str) -> Row:
    return name, f"{ours:.2f} s", f"{theirs:.2f} s", f"{theirs / ours:.2f}×", goal
