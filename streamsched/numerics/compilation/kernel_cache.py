"""The cache of compiled kernels on disk, which several processes may fill at the same time."""

from __future__ import annotations

import fcntl
import os
import pickle  # noqa: TID251  for the name of an error: Numba reads its own files
import re
import sys
import time
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final

from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    NullCache,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)
from numba.core.runtime.nrt import rtsys

_POLL_S: Final = 0.02


def open_cache(function: Any) -> Any:
    """Return the cache of a kernel, or one that keeps nothing if no folder can be read or written."""
    try:
        return KernelCache(function)
    except RuntimeError:  # Numba found no folder
        return NullCache()


_IMPORT: Final = re.compile(rb"^(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)


@cache
def _read_source(module: str) -> tuple[bytes, frozenset[str]]:
    """Return a digest of the source of a loaded module and what it imports, as names. O(bytes), once."""
    source = Path(getattr(sys.modules[module], "__file__", None) or os.devnull).read_bytes()
    found = set()
    for source_module, names, whole in _IMPORT.findall(source):
        origin = (source_module or whole).decode()
        found |= {origin, *(f"{origin}.{name.decode()}" for name in re.findall(rb"\w+", names))}
    return sha256(source).digest(), frozenset(found)


@cache
def source_stamp(module: str) -> str:
    """Return a digest of the sources of a loaded module and of all that it imports of its package and of streamsched.

    A kernel holds the code and constants of those it uses, in whatever module they are; Numba compares the kernel's own
    file only. Paths and times do not count: checkouts and installations of equal sources share their kernels. O(bytes).
    """
    if module not in sys.modules:
        raise RuntimeError(f"the module {module!r} of a kernel is not loaded")  # as Numba says that it cannot be cached
    packages = {"streamsched", module.partition(".")[0]}
    waiting, digests = [module], dict[str, bytes]()
    while waiting:
        name = waiting.pop()
        if name not in digests and name in sys.modules and name.partition(".")[0] in packages:
            digests[name], imported = _read_source(name)
            waiting += imported
    return sha256(repr(sorted(digests.items())).encode()).hexdigest()


class KernelBusy(Exception):
    """Another process compiles the kernel, and this one waits no longer: see `KernelCache.patience_s`."""


class _ByContent:
    """Mixed into a locator of Numba's: what it finds depends on the sources that went into a kernel."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[call-arg]
        self._stamp = source_stamp(py_func.__module__)

    def get_source_stamp(self) -> Any:
        """Return what the index of the kernel must have been written for."""
        return self._stamp


class _User(_ByContent, UserProvidedCacheLocator):
    """The folder that NUMBA_CACHE_DIR names: in it a folder for each state of a module."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(Path(config.CACHE_DIR, f"{py_func.__module__}-{self._stamp[:16]}"))  # type: ignore[attr-defined]


class _InTree(_ByContent, InTreeCacheLocator):
    """The folder beside the module."""


class _UserWide(_ByContent, UserWideCacheLocator):
    """The user's own cache."""


class _Filled:
    """Mixed into a locator: a folder that has an index of the kernel will do, even if it is read-only."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return a locator, or None if the folder has no index of `py_func`."""
        if cls is _FilledByUser and not config.CACHE_DIR:  # type: ignore[attr-defined]
            return None
        locator: Any = cls(py_func, py_file)  # type: ignore[call-arg]
        tag = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        name = f"{Path(py_file).stem}.{py_func.__qualname__}-{locator.get_disambiguator()}.{tag}.nbi"
        return locator if Path(locator.get_cache_path(), name).exists() else None


class _FilledByUser(_Filled, _User):
    pass


class _FilledInTree(_Filled, _InTree):
    pass


class _Files(CompileResultCacheImpl):
    """Numba's files of one kernel, in the first of its folders that will do."""

    _locator_classes = (_FilledByUser, _User, _FilledInTree, _InTree, _UserWide)  # type: ignore[assignment]


class KernelCache(FunctionCache):
    """The disk cache of one kernel, safe for several processes that compile at the same time.

    Numba writes the index of a kernel's cache file before the data and without a lock, so two processes that compile
    different signatures at once may leave an index that names the other's code. Here a process holds a file lock from
    the look-up of a signature until its code is saved. A second process that needs the same kernel waits and loads it.
    Numba calls the methods while it holds its compiler lock, so one thread at a time.

    A folder that is read-only, full or gone costs time only: what is compiled is not kept.
    """

    patience_s = 300.0  # for another process that compiles the same kernel; the slowest takes a minute
    gives_up = False  # True in a process that helps others: it leaves to them what they compile for longer
    _impl_class = _Files

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._lock: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code of a signature. If there is none, hold the lock until `save_overload`."""
        self._acquire()
        found = None
        try:
            # Numba's own method loads all that compiling needs, first of all SciPy: half of a start from the cache.
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():
                found = self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (AttributeError, EOFError, ImportError, pickle.UnpicklingError):  # written for classes that have moved
            with suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]
        except OSError:
            pass
        if found is not None:
            self._release()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code of a signature, if the folder takes it, and release the lock."""
        try:
            with suppress(OSError):
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
        give_up = time.monotonic() + self.patience_s
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
        else:
            if self.gives_up:
                lock.close()
                raise KernelBusy(self._impl.filename_base)
        lock.close()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
