"""Set up what every test relies on: a cache of compiled kernels that cannot lie, and settings that repeat."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import shutil
from pathlib import Path
from typing import IO

from hypothesis import settings

ROOT = Path(__file__).resolve().parent
KERNEL_FOLDERS = ("streamsched", "connectors", "replay", "tests")

# Kernels compile for a second at their first call, which is no reason to fail; and a run that fails in CI must fail
# at the same example everywhere.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def kernel_sources() -> list[Path]:
    """Return the files that define kernels or machine operations, each once, sorted."""
    found = (path for folder in KERNEL_FOLDERS for path in (ROOT / folder).glob("**/*.py"))
    return sorted(
        {path.resolve() for path in found if path.name == "jit.py" or b"streamsched.numerics.jit" in path.read_bytes()}
    )


def claim_cache(base: Path) -> IO[str]:
    """Point Numba at a cache directory below `base` that no other running process uses; returns the lock, held.

    The directory's name carries a digest of the kernels' sources: Numba looks only at the file that a kernel stands
    in, so a change to one that it calls would go unnoticed. One process a directory, because two that save different
    signatures of a kernel at once can leave the index of one beside the code of the other.
    """
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in kernel_sources())).hexdigest()[:16]
    base.mkdir(parents=True, exist_ok=True)
    for slot in itertools.count():
        lock = (base / f"{slot}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        directory = base / f"{slot}-{digest}"
        for stale in set(base.glob(f"{slot}-*")) - {directory}:
            shutil.rmtree(stale)
        os.environ["NUMBA_CACHE_DIR"] = str(directory)
        return lock
    raise AssertionError("itertools.count ends")


# Before any test module imports numba, which reads the variable then.
CACHE_LOCK = claim_cache(ROOT / "build" / "kernels")
