"""The disk cache of compiled kernels, safe for several processes that compile at the same time.

Numba writes the index of a kernel's cache file before the data and without a lock, so two processes that compile
different signatures at once may leave an index that names the other's code. Here a process holds a file lock from the
look-up of a signature until its code is saved. A second process that needs the same kernel waits and then loads it.
"""

from __future__ import annotations

import fcntl
import pickle  # noqa: TID251  for the name of an error: Numba reads its own files
import time
from pathlib import Path
from typing import IO, Any, Final

from numba.core.caching import FunctionCache

__all__ = ["KernelCache"]

_PATIENCE_S: Final = 300.0  # for another process that compiles the same kernel; the slowest takes a minute
_POLL_S: Final = 0.05


class KernelCache(FunctionCache):
    """The cache of one kernel. Numba calls it while it holds its compiler lock, so one thread at a time."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._lock: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code of a signature. If there is none, hold the lock until `save_overload`."""
        self._acquire()
        try:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (AttributeError, EOFError, ImportError, pickle.UnpicklingError):  # written for classes that have moved
            self.flush()  # type: ignore[no-untyped-call]
            found = None
        if found is not None:
            self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code of a signature and release the lock."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        finally:
            self._release()

    def _acquire(self) -> None:
        """Wait for the lock of this kernel. Go on without it if the folder is read-only or the wait is too long."""
        if self._lock is not None:  # the compilation before this one failed
            return
        try:
            Path(self.cache_path).mkdir(parents=True, exist_ok=True)
            lock = Path(self.cache_path, f"{self._impl.filename_base}.lock").open("wb")  # noqa: SIM115  held beyond this call
        except OSError:
            return
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_POLL_S)
            except OSError:  # a file system without locks
                break
            else:
                self._lock = lock
                return
        lock.close()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
