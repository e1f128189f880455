"""One evolution in a separate process, seen from its parent: start, poll, end."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from streamsched.errors import StreamschedError
from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.exchange_files import read_json, write_exchange
from streamsched.evolution.records import DataSpan, EvolutionResult
from streamsched.evolution.worker import RESULT_NAME
from streamsched.numerics.compilation.helper import VARIABLE

GatherTraining: TypeAlias = Callable[[], tuple[Sequence[ChangeHistory], DataSpan]]

_PREFIX: Final = ".evolution-"
_ERRORS: Final = "errors.txt"
_OWNER_LOCK: Final = "owner.lock"  # locked while the job's owner lives
_ROOT: Final = Path(__file__).resolve().parents[2]  # the directory that contains the package
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", VARIABLE), "1")


class Job:
    """A running evolution.

    A thread gathers and writes the training data, starts the process and waits for it, so the creator never blocks.
    `meta`: further inputs of the worker. `function`: the function that the worker calls, as ``module:function``.
    `limit_s`: time limit of the process in seconds of `clock`; after it, `poll` reports failure.
    """

    def __init__(
        self,
        directory: Path,
        gather: GatherTraining,
        meta: Mapping[str, Any],
        function: str,
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the job. Raises OSError if `directory` cannot be written."""
        directory.mkdir(parents=True, exist_ok=True)
        self.folder, self._owner_lock = _make_folder(directory)
        self.data: DataSpan | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self._function = function
        self._limit_s = limit_s
        self._clock = clock
        self._created_at = clock()
        self._started_at: float | None = None  # start of the process
        self._ended_at: float | None = None
        self._failure: str | None = None
        self._cancelled = False
        self._lock = threading.Lock()  # end() and the thread must agree on whether the process is started
        self._thread = threading.Thread(target=self._run, args=(gather, dict(meta)), daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Duration so far, or in total once the evolution has ended."""
        return (self._clock() if self._ended_at is None else self._ended_at) - self._created_at

    def poll(self) -> EvolutionResult | str | None:
        """Return the result, one sentence if the evolution failed, or None while it is running. Milliseconds at most.

        A process that ended by itself counts as ended, even if that is noticed after the time limit. Call `end`
        afterwards.
        """
        if not self._thread.is_alive():
            code = None if self.process is None else self.process.returncode
            return self._failure if code is None else self._read_result() if code == 0 else self._describe_exit(code)
        started = self._started_at  # None while the thread still gathers and writes: bounded work, without a limit
        late = started is not None and self._clock() - started > self._limit_s
        return f"stopped after {self._limit_s:g} s, its time limit" if late else None

    def end(self) -> None:
        """Kill the process if it still runs, and remove its files."""
        with self._lock:
            self._cancelled = True
        if self.process is not None:
            self.process.kill()
        self._thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._owner_lock.close()

    def _run(self, gather: GatherTraining, meta: dict[str, Any]) -> None:
        """Gather the data, start the process and wait for it, unless `end` comes first."""
        self._failure = self._write(gather, meta) or self._start()
        if self.process is not None:
            self.process.wait()
        self._ended_at = self._clock()

    def _write(self, gather: GatherTraining, meta: dict[str, Any]) -> str | None:
        try:
            imputations, self.data = gather()
            write_exchange(self.folder, imputations, self.data, meta)
        except Exception as error:  # noqa: BLE001  in a thread: there is no caller to propagate to
            return f"could not gather the training data: {type(error).__name__}: {_shorten_line(str(error))}"
        return None

    def _start(self) -> str | None:
        with self._lock:
            if self._cancelled:
                return "cancelled before its process was started"
            try:
                self.process = self._spawn()
            except (OSError, subprocess.SubprocessError) as error:
                return f"its process could not be started: {getattr(error, 'strerror', None) or error}"
            self._started_at = self._clock()
        return None

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "streamsched.evolution.worker"]
        inherited = os.environ.get("PYTHONPATH")
        python_path = f"{_ROOT}{os.pathsep}{inherited}" if inherited else str(_ROOT)
        with (self.folder / _ERRORS).open("wb") as errors:
            return subprocess.Popen(
                [*command, str(self.folder), str(os.getpid()), self._function],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **_ONE_THREAD, "PYTHONPATH": python_path},
            )

    def _read_result(self) -> EvolutionResult | str:
        try:
            return EvolutionResult.from_json(read_json(self.folder / RESULT_NAME))
        except (StreamschedError, ValueError, TypeError) as error:
            return f"left no readable result: {_shorten_line(str(error))}"

    def _describe_exit(self, code: int) -> str:
        if code < 0:
            return f"its process was killed by signal {-code}"
        try:
            lines = (self.folder / _ERRORS).read_bytes().decode(errors="replace").strip().splitlines()
        except OSError:  # the directory was removed
            lines = []
        return f"its process ended with code {code}" + (f": {_shorten_line(lines[-1])}" if lines else "")


def remove_abandoned_jobs(directory: Path) -> None:
    """Remove the files of jobs in `directory` whose owner was killed, not those of live owners. O(files)."""
    for folder in directory.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            lock = _lock_folder(folder)
            if lock is not None:
                with lock:
                    shutil.rmtree(folder, ignore_errors=True)


def _make_folder(directory: Path) -> tuple[Path, IO[bytes]]:
    """Return a new folder and its owner lock, which prevents others from removing it. Raises OSError."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=directory))
        lock = _lock_folder(folder)
        if lock is not None:
            return folder, lock  # else another process removed it before it was locked


def _lock_folder(folder: Path) -> IO[bytes] | None:
    """Return the owner lock of `folder`, held until the file is closed or this process ends.

    None if another process holds it or the folder is gone. Raises OSError if locking fails otherwise.
    """
    try:
        lock = (folder / _OWNER_LOCK).open("ab")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (folder / _OWNER_LOCK).exists():
            return lock
    except BlockingIOError:
        pass
    except OSError:
        lock.close()
        raise
    lock.close()
    return None


def _shorten_line(text: str, limit: int = 300) -> str:
    return " ".join(text.split())[:limit]
