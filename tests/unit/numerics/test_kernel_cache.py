from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

MODULE = """
import sys
from streamsched.numerics.jit import kernel

@kernel
def add(left, right):
    return left + right

@kernel
def double(value):
    return add(value, value)

if __name__ == "__main__":
    print(double(int(sys.argv[1])), sum(double.stats.cache_misses.values()), sum(add.stats.cache_misses.values()))
"""


def start(folder: Path, value: int) -> subprocess.Popen[str]:
    """Start a process that calls the kernels of the module in `folder`, with a cache beside it."""
    (folder / "kernels.py").write_text(MODULE) if not (folder / "kernels.py").exists() else None
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(folder / "kernels.py"), str(value)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[str]) -> list[int]:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return [int(word) for word in out.split()]


def test_processes_that_need_a_kernel_at_the_same_time_compile_it_once(tmp_path: Path) -> None:
    found = [finish(process) for process in [start(tmp_path, value) for value in range(3)]]
    assert [one[0] for one in found] == [0, 2, 4]
    assert [sum(one[1] for one in found), sum(one[2] for one in found)] == [1, 1]


def test_an_index_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    finish(start(tmp_path, 1))
    for index in (tmp_path / "cache").rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:20])
    assert finish(start(tmp_path, 3)) == [6, 1, 1]
    assert finish(start(tmp_path, 3)) == [6, 0, 0]


def test_a_process_killed_while_it_compiles_leaves_no_lock(tmp_path: Path) -> None:
    process = start(tmp_path, 1)
    while process.poll() is None and not list((tmp_path / "cache").rglob("*.lock")):
        pass
    process.kill()
    process.communicate()
    assert finish(start(tmp_path, 2))[0] == 4
