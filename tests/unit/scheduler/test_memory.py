"""Memory of small schedulers: what few pages take, by the system's account."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from streamsched import Outcome, Scheduler

ROLLUP = Path("/proc/self/smaps_rollup")


def resident_bytes() -> int:
    """Bytes of the process's own pages in memory."""
    gc.collect()
    found = [line.split() for line in ROLLUP.read_text().splitlines()]
    return 1024 * next(int(words[1]) for words in found if words[0] == "Anonymous:")


def make() -> Scheduler:
    scheduler = Scheduler(threads=1)
    scheduler.observe([Outcome("https://a.example/", 1.0)])
    scheduler.next_batch(1, now=1e6)
    return scheduler


@pytest.mark.skipif(sys.platform != "linux" or not ROLLUP.exists(), reason="the system does not say")
def test_scheduler_of_one_page_takes_little() -> None:
    kept = [make()]  # loads the kernels
    before = resident_bytes()
    kept += [make() for _ in range(10)]
    each = (resident_bytes() - before) / 10
    assert each <= 2 << 20
    assert 0 < sum(kept[0].state_bytes().values()) <= 2 << 20
