"""A second process that compiles into the same cache while this one compiles something else.

It is started at the first kernel that the cache lacks, if there is a second core, and ends with this process at the
latest. ``STREAMSCHED_COMPILE_PROCESSES=1`` in the environment forbids it.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

VARIABLE: Final = "STREAMSCHED_COMPILE_PROCESSES"

_ROOT: Final = Path(__file__).resolve().parents[3]
_MODULE: Final = "streamsched.scheduler.warm_helper"
# A first kernel of these rooms says that a scheduler is about to be used; evolution and replay need other kernels.
_ROOMS: Final = ("outcomes", "politeness", "ranking", "records", "scheduler", "state")


def allowed_processes() -> int:
    """Return how many processes may compile: those of the setting, or two if two cores are ours."""
    try:
        return max(int(os.environ[VARIABLE]), 1)
    except (KeyError, ValueError):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, 2)


def start_once(module: str) -> None:
    """Start a helper for a kernel of `module` that the cache lacks, unless one was started before. O(1) afterwards."""
    room = module.removeprefix("streamsched.").partition(".")[0]
    if _started or room not in _ROOMS or multiprocessing.parent_process() is not None or allowed_processes() < 2:
        return
    _started.append(True)
    start_helper(())


def compile_aside(workloads: Sequence[str]) -> None:
    """Let a helper compile what the cache lacks, and wait for it: compiling takes 200 MB, which stay with a process."""
    if allowed_processes() > 1:
        aside[:] = workloads


def await_helper() -> None:
    """Run what `compile_aside` has named in a helper, now that the cache lacks a kernel."""
    workloads = aside.copy()
    aside.clear()
    if (process := start_helper(workloads)) is not None:
        end_of(process)


def start_helper(workloads: Sequence[str]) -> subprocess.Popen[str] | None:
    """Start a process that runs `workloads`, or those of a first program; None if the system refuses.

    It prints how many kernels it has compiled. It ends when its standard input is closed, which the end of this process
    does too.
    """
    inherited = os.environ.get("PYTHONPATH")
    python_path = f"{_ROOT}{os.pathsep}{inherited}" if inherited else str(_ROOT)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE, str(os.getpid()), *workloads],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, VARIABLE: "1", "PYTHONPATH": python_path},
        )
    except OSError:
        return None
    atexit.register(_end, process)
    if not workloads:
        threading.Thread(target=end_of, args=(process,), name="streamsched helper", daemon=True).start()
    return process


def end_of(process: subprocess.Popen[str]) -> int:
    """Wait until a helper has done its workloads; return how many kernels it has compiled."""
    assert process.stdin is not None
    assert process.stdout is not None
    compiled = process.stdout.read().strip()
    process.stdin.close()
    process.stdout.close()
    process.wait()
    return int(compiled) if compiled.isdigit() else 0


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


_started: Final[list[bool]] = []
aside: Final[list[str]] = []
"""What `await_helper` will run."""
