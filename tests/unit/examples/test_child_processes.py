"""No signal leaves a process behind."""

from __future__ import annotations

import os
import signal
import subprocess
from types import FrameType
from typing import Any

import pytest

from tests.support.child_processes import child_process, run_to_end

SLEEP = ("sleep", "60")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_signal_while_a_process_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *words: Any, **settings: Any) -> None:
            super().__init__(*words, **settings)
            started.append(self.pid)
            signal.raise_signal(signal.SIGTERM)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_to_end(SLEEP)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(started) == 1
    assert not is_running(started[0])


def test_a_process_ends_with_its_block() -> None:
    with child_process(SLEEP) as process:
        assert is_running(process.pid)
    assert process.returncode == -signal.SIGKILL


def test_what_ends_by_itself_keeps_its_code() -> None:
    done = run_to_end(("sh", "-c", "echo out; echo err >&2; exit 3"))
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_too_long() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_to_end(SLEEP, timeout=0.05)
