"""Set up what every test relies on: a cache of compiled kernels for all workers, and settings that repeat."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

pytest_plugins = ["tests.support.cases"]

ROOT = Path(__file__).resolve().parent
LONGEST = ("conformance", "property", "test_evolver.py", "integration")

# Compilers and Hypothesis keep millions of objects: at Python's own threshold a tenth of the time goes to collections.
gc.set_threshold(100_000, 20, 20)

# Memory of a large array goes back to the system when it is freed. By default glibc keeps some for the next one, and
# arrays of changing sizes then fill gigabytes.
M_MMAP_THRESHOLD = -3
if sys.platform == "linux":
    getattr(ctypes.CDLL(None), "mallopt", lambda *_: 0)(M_MMAP_THRESHOLD, 1 << 20)

# Whichever test compiles first would find the notice of it among its records.
logging.getLogger("streamsched.compile").setLevel(logging.ERROR)

# Kernels compile for a second at their first call, which is no reason to fail; and a run that fails in CI must fail
# at the same example everywhere. Only a developer's machine looks for a smaller one, which takes minutes and memory.
# An ordinary run draws a few examples; make soak draws Hypothesis' own number, from another seed each time if told so.
NO_SHRINKING = [Phase.explicit, Phase.generate]
settings.register_profile("local", deadline=None, max_examples=20)
settings.register_profile("ci", deadline=None, max_examples=20, derandomize=True, phases=NO_SHRINKING)
settings.register_profile("soak", deadline=None, max_examples=100, database=None, phases=NO_SHRINKING)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A run in the background of a script ignores SIGINT, and processes inherit that: tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before any test module imports numba, which reads the variable then.
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / "build" / "kernels"))
os.environ["STREAMSCHED_COMPILE_PROCESSES"] = "1"  # the workers of a run compile beside each other


@pytest.fixture(scope="module")
def small_tables() -> Iterator[None]:
    """Tables that start small and move as they grow."""
    from tests.support.guarded_memory import small_reserve  # noqa: PLC0415  it imports numba

    with small_reserve():
        yield


@pytest.fixture(scope="module")
def no_surge_probes() -> Iterator[None]:
    """Batches without surge probes, which are then the best pages by the formula, as twins that know no probes rank."""
    from streamsched.scheduler.batches.surge_probes import SurgeProbes  # noqa: PLC0415  it imports numba

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SurgeProbes, "adjust", lambda _, shard, query, batch, stays, score: (batch, batch.rows[:0]))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the folders with the longest tests first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: next((i for i, name in enumerate(LONGEST) if name in item.path.parts), len(LONGEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two workers more than cores: half of the time tests wait, for brokers, processes and clocks."""
    return (os.cpu_count() or 1) + 2
