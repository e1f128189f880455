"""Start-up: time to import the library, and to run one command on a saved state of 100,000 pages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.corpus import make_urls, visit_all
from benchmarks.timing import Row, best_seconds
from streamsched import Scheduler

__all__ = ["measure"]

_PAGES = 100_000


def measure(repeats: int) -> list[Row]:
    """Return the rows of the start-up benchmark; the rival imports NumPy and Numba alone."""
    ours = best_seconds(lambda: _python("-c", "import streamsched"), repeats)
    theirs = best_seconds(lambda: _python("-c", "import numpy, numba"), repeats)
    rows: list[Row] = [("import streamsched", f"{ours:.2f} s", f"{theirs:.2f} s", f"{theirs / ours:.2f}×", "≤ 0.5 s")]
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory) / "state"
        scheduler = Scheduler()
        rng = np.random.default_rng(0)
        for day in range(2):
            scheduler.observe(visit_all(make_urls(_PAGES), day, rng))
        scheduler.save(state)
        command = ("-m", "streamsched", "next", "--state", str(state), "--now", "200000", "--peek")
        _python(*command)
        warm = best_seconds(lambda: _python(*command), repeats)
        rows.append((f"streamsched next, {_PAGES:,} pages, warm", f"{warm:.2f} s", "–", "–", "≤ 1.5 s"))
        cold = best_seconds(lambda: _python(*command, cache=Path(directory) / "kernels"), 1)
        rows.append(("the same, without compiled kernels", f"{cold:.1f} s", "–", "–", ""))
    return rows


def _python(*arguments: str, cache: Path | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    subprocess.run([sys.executable, *arguments], check=True, env=environment, capture_output=True)
