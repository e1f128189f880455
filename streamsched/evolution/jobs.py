"""One evolution in a process of its own, as its parent sees it: begun, looked at now and then, ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from streamsched.errors import StreamschedError
from streamsched.evolution.findings import Breeding, DataSpan
from streamsched.evolution.history import ChangeHistory
from streamsched.evolution.parcels import read_json, write_parcel
from streamsched.evolution.worker import RESULT_NAME

__all__ = ["Gather", "Job", "sweep_jobs"]

Gather: TypeAlias = Callable[[], tuple[Sequence[ChangeHistory], DataSpan]]

_PREFIX: Final = ".evolution-"
_ERRORS: Final = "errors.txt"
_ROOT: Final = Path(__file__).resolve().parents[2]  # where the package stands, installed or not
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class Job:
    """An evolution under way. What it learns from is gathered and written on a thread: whoever begins it waits for
    nothing. `meta`: what the worker is to know besides; `breed`: the function it calls, as ``module:function``;
    `limit_s`: seconds by `clock` until the process is killed.
    """

    def __init__(
        self,
        directory: Path,
        gather: Gather,
        meta: Mapping[str, Any],
        breed: str,
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin. Raises OSError where `directory` cannot be written."""
        directory.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
        self.data: DataSpan | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._breed = breed
        self._limit_s = limit_s
        self._clock = clock
        self._begun = clock()
        self._fault: str | None = None
        self._writer = threading.Thread(target=self._write, args=(gather, dict(meta)), daemon=True)
        self._writer.start()

    @property
    def seconds(self) -> float:
        """How long it has been under way."""
        return self._clock() - self._begun

    def poll(self) -> Breeding | str | None:
        """Return what came of it: None while it is under way, one sentence where it failed. Milliseconds at most.

        Once there is an answer, call `end`.
        """
        if self._writer.is_alive():
            return None  # reading and writing a bounded amount: it ends, or the machine does
        if self._fault is not None:
            return self._fault
        if self.process is None:
            try:
                self.process = self._spawn()
            except OSError as error:
                return f"its process could not be started: {error.strerror or error}"
        code = self.process.poll()
        if code is None:
            return f"stopped after {self._limit_s:g} s, its time limit" if self.seconds > self._limit_s else None
        return self._read_result() if code == 0 else self._tell(code)

    def end(self) -> None:
        """Leave nothing behind: neither the process, which is killed if it still runs, nor its files."""
        self._writer.join()
        if self.process is not None:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, gather: Gather, meta: dict[str, Any]) -> None:
        try:
            draws, self.data = gather()
            write_parcel(self.folder, draws, self.data, meta)
        except Exception as error:  # noqa: BLE001  on a thread of its own: nobody above could be told
            self._fault = f"could not gather what to learn from: {type(error).__name__}: {_line(str(error))}"

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "streamsched.evolution.worker"]
        known = os.environ.get("PYTHONPATH")
        path = f"{_ROOT}{os.pathsep}{known}" if known else str(_ROOT)
        with (self.folder / _ERRORS).open("wb") as errors:
            return subprocess.Popen(
                [*command, str(self.folder), str(os.getpid()), self._breed],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            )

    def _read_result(self) -> Breeding | str:
        try:
            return Breeding.from_json(read_json(self.folder / RESULT_NAME))
        except (StreamschedError, ValueError, TypeError) as error:
            return f"left no result that can be read: {_line(str(error))}"

    def _tell(self, code: int) -> str:
        if code < 0:
            return f"its process was killed by signal {-code}"
        lines = (self.folder / _ERRORS).read_bytes().decode(errors="replace").strip().splitlines()
        return f"its process ended with code {code}" + (f": {_line(lines[-1])}" if lines else "")


def sweep_jobs(directory: Path) -> None:
    """Remove what jobs of a process that was killed left in `directory`. O(files)."""
    for folder in directory.glob(f"{_PREFIX}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _line(text: str, limit: int = 300) -> str:
    return " ".join(text.split())[:limit]
