"""Processes that no signal leaves behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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
