"""Processes that no signal leaves behind, and processes to be killed, which begin with every kernel at hand."""

from __future__ import annotations

import multiprocessing
import resource
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext
from typing import Any

import pytest

from streamsched.numerics.compilation.code_libraries import signals_deferred


@contextmanager
def child_process(words: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a command within the block; it is killed if it runs at the end of the block. `settings`: those of Popen.

    A signal that comes while the process starts waits until it has: else nobody would know the process.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with signals_deferred():
            process = subprocess.Popen(words, text=True, **settings)
        yield process
    finally:
        if process is not None:
            with process:
                process.kill()


def run_to_end(words: Sequence[str], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command, and return how it ended and what it printed. Raises TimeoutExpired after `timeout` seconds."""
    with child_process(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(words, process.returncode, out, err)


@contextmanager
def warm_forkserver(module: str) -> Iterator[ForkServerContext]:
    """Yield a context whose processes are forked from one that has imported `module` with STREAMSCHED_WARM_UP set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMSCHED_WARM_UP", "1")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([module])
        process = context.Process(target=len, args=("",))
        process.start()
        process.join()
        yield context


@contextmanager
def no_file_beyond(nbytes: int) -> Iterator[None]:
    """The system refuses to let files grow beyond a number of bytes, as a full disk would. A limit of this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
