"""The cache of compiled kernels on disk, which several processes may fill at the same time.

A wheel may bring machine code along, compiled for a common level of the processor (deploy/build_wheel.py). Numba's
index of a cache names the processor and its features, so it finds only what was compiled for this very one. Code for a
level, such as x86-64-v3, runs on every processor with the level's features; it is looked up under the level's name,
after the machine's own.
"""

from __future__ import annotations

import fcntl
import os
import pickle  # noqa: TID251  for the name of an error: Numba reads its own files
import platform
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import llvmlite.binding
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

from streamsched.numerics.compilation.helper import aside, await_helper
from streamsched.numerics.compilation.notices import announce

NATIVE: Final = "STREAMSCHED_NATIVE"
"""The environment variable that forbids shipped machine code: 1, kernels are compiled for this very processor."""
SHIPPED: Final = Path(__file__).resolve().parents[2] / "machine_code"
"""The folder of shipped machine code, with a folder for each level; the package of a checkout has none."""
_POLL_S: Final = 0.02


class Level(NamedTuple):
    """A level of a processor: LLVM's name for it, and which of the features that LLVM reports it needs."""

    name: str
    features: tuple[str, ...]


_V3: Final = "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave"
LEVELS: Final[Mapping[str, Level]] = {
    "x86_64": Level("x86-64-v3", tuple(_V3.split())),  # Intel from 2013 on, AMD from 2015
    "aarch64": Level("generic", ()),
}
"""The level whose code is shipped, by `platform.machine()`."""


@cache
def usable_level() -> Level | None:
    """Return the level whose shipped code this processor runs, None if there is none or it is forbidden."""
    level = LEVELS.get(platform.machine())
    if level is None or os.environ.get(NATIVE, "0") == "1" or not (SHIPPED / level.name).is_dir():
        return None
    features = llvmlite.binding.get_host_cpu_features()
    return level if all(features.get(name, False) for name in level.features) else None


def forbid_shipped() -> None:
    """Compile for this very processor from now on, in this process and those that it starts."""
    os.environ[NATIVE] = "1"
    usable_level.cache_clear()


def open_cache(function: Any) -> Any:
    """Return the cache of a kernel, or one that keeps nothing if no folder can be read or written."""
    for kind in (KernelCache, ShippedKernels):
        with suppress(RuntimeError):  # Numba found no folder
            return kind(function)
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


class _Shipped(_ByContent, UserProvidedCacheLocator):
    """The folder in the package of what is shipped for a state of a module."""

    def __init__(self, py_func: Any, py_file: str, level: Level) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(SHIPPED / level.name / f"{py_func.__module__}-{self._stamp[:16]}")

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Return a locator, or None if nothing is shipped for the module of `py_func`."""
        level = usable_level()
        locator = None if level is None else cls(py_func, py_file, level)
        return locator if locator is not None and Path(locator.get_cache_path()).is_dir() else None  # type: ignore[no-untyped-call]


class _ShippedFiles(CompileResultCacheImpl):
    _locator_classes = (_Shipped,)  # type: ignore[assignment]


class ShippedKernels(FunctionCache):
    """The shipped machine code of one kernel, which is only read. Raises RuntimeError if its module has none."""

    _impl_class = _ShippedFiles

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return the key under which the code was saved for the level, which has no features of its own."""
        level = usable_level()
        assert level is not None
        signature, (triple, _, _), source = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        return signature, (triple, level.name, ""), source

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code of a signature, None if it is not shipped or no longer wanted."""
        if usable_level() is None:
            return None
        rtsys.initialize(target_context)  # Numba's own method loads SciPy: see KernelCache
        try:
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (OSError, AttributeError, EOFError, ImportError, pickle.UnpicklingError):  # damaged
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep nothing."""


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
        self._shipped: ShippedKernels | None = None
        with suppress(RuntimeError):  # nothing is shipped
            self._shipped = ShippedKernels(function)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code of a signature. If there is none, hold the lock until `save_overload`.

        Where the folder has no index of the kernel, shipped code is looked up first: no lock, nothing is written.
        """
        if not self._has_index() and (found := self._find_shipped(sig, target_context)) is not None:
            return found
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
        if found is None:
            found = self._find_shipped(sig, target_context)
        if found is not None:
            self._release()
        elif aside:
            self._release()  # for the helper
            announce(self._py_func.__name__)
            await_helper()
            return self.load_overload(sig, target_context)
        return found

    def _find_shipped(self, sig: Any, target_context: Any) -> Any:
        return None if self._shipped is None else self._shipped.load_overload(sig, target_context)

    def _has_index(self) -> bool:
        return Path(self.cache_path, f"{self._impl.filename_base}.nbi").exists()

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
