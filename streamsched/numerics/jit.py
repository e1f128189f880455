"""Compilation of kernels: one decorator for each kind.

Kernels are compiled at their first call and cached on disk: see `streamsched.numerics.compilation`.
"""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast
from weakref import WeakSet

import numpy as np
from numba.core import compiler, sigutils, typing
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.registry import CPUDispatcher

from streamsched.numerics.compilation.code_libraries import KernelPart, WholeKernel
from streamsched.numerics.compilation.helper import start_once
from streamsched.numerics.compilation.kernel_cache import open_cache
from streamsched.numerics.compilation.machine_operations import fold_multiply
from streamsched.numerics.compilation.notices import announced

Result = TypeVar("Result")

_ODD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: odd, and its bits look random
_KERNELS: Final[WeakSet[Kernel]] = WeakSet()


def cache_folders() -> list[Path]:
    """Return the folders of the caches of all kernels imported so far. Sorted."""
    found = {kernel.stats.cache_path for kernel in _KERNELS} - {None}
    return sorted(map(Path, found))  # type: ignore[arg-type]


class Kernel(CPUDispatcher):
    """A function that is compiled at its first call for each kind of arguments.

    A call from Python finds only the signatures compiled whole, in `overloads`: a part has no wrapper to enter it by. A
    kernel that both Python and kernels call is compiled once for each. Only whole kernels are cached on disk.
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # else found three times
        super().__init__(function, targetoptions=dict(options))
        self._compiler = _KernelCompiler(function, self.targetdescr, self.targetoptions, {}, compiler.Compiler)
        self._opened_cache: Any = None
        self._parts: dict[tuple[Any, ...], Any] = {}
        _KERNELS.add(self)

    @property
    def _cache(self) -> Any:
        """The cache on disk, opened at the first use: most kernels are only ever called by others."""
        if self._opened_cache is None:
            self._opened_cache = open_cache(self.py_func)
        return self._opened_cache

    @_cache.setter
    def _cache(self, cache: Any) -> None:
        self._opened_cache = cache

    def address(self, *examples: Any) -> int:
        """Return where the machine code for arguments of the types of `examples` begins; it stays there."""
        arguments = tuple(map(self.typeof_pyval, examples))
        self.compile(arguments)
        whole: Any = self.overloads[arguments]
        return int(whole.library.get_pointer_to_function(whole.fndesc.llvm_func_name))

    def get_call_template(self, args: Any, kws: Any) -> tuple[Any, Any, Any, dict[str, Any]]:  # type: ignore[override]
        """Return the type of a call from another kernel, for which this one is compiled as a part."""
        signature, folded = self._compiler.fold_argument_types(args, kws)
        part = self._part(tuple(folded))
        name = self.py_func.__name__
        template = typing.make_concrete_template(f"CallTemplate({name})", key=name, signatures=[part.signature])  # type: ignore[attr-defined, no-untyped-call]
        return template, signature, folded, {}

    def get_overload(self, sig: Any) -> Any:
        """Return the key under which the compiler finds the part for the arguments of `sig`."""
        arguments, _ = sigutils.normalize_signature(sig)  # type: ignore[no-untyped-call]
        return self._parts[tuple(arguments)].entry_point

    def _part(self, arguments: tuple[Any, ...]) -> Any:
        with global_compiler_lock, self._compiling_counter:
            if arguments not in self._parts:
                part = self._compiler.compile_part(arguments)
                part = part._replace(entry_point=part.library)  # any object will do, it is never called
                self.targetctx.insert_user_function(part.entry_point, part.fndesc, [part.library])  # type: ignore[no-untyped-call]
                self._parts[arguments] = part
            return self._parts[arguments]


class _Flags(compiler.Flags):
    """Numba's flags. The compiler compares a hundred thousand of them; Numba reads each by a property of its own."""

    defaults: ClassVar[Mapping[str, Any]] = compiler.Flags().values()  # type: ignore[no-untyped-call]

    def values(self) -> dict[str, Any]:
        """Return the value of each flag."""
        return {**self.defaults, **self._values}


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let the collector run less often in this block: the compiler keeps what it allocates, a million objects."""
    usual = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class _KernelCompiler(_FunctionCompiler):  # type: ignore[misc]
    """Compiles one kernel, whole or as a part."""

    def compile_part(self, arguments: tuple[Any, ...]) -> Any:
        """Return the result of compiling for a call from another kernel."""
        return self._compile_into(KernelPart, arguments, None, no_cpython_wrapper=True, no_compile=True)

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        start_once(self.py_func.__module__)
        with announced(self.py_func.__name__), _few_collections():
            result = self._compile_into(WholeKernel, args, return_type)
            for environment in result._find_referenced_environments():  # noqa: SLF001  the parts', for their errors
                result.codegen.set_env(environment.env_name, environment)
            return result

    def _compile_into(self, library: type[KernelPart], arguments: Any, return_type: Any, **switched: bool) -> Any:
        flags = _Flags()  # type: ignore[no-untyped-call]
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.no_cfunc_wrapper = True  # type: ignore[assignment]  # kernels are never handed on as function pointers
        for name, value in switched.items():
            setattr(flags, name, value)
        target = self.targetdescr.target_context
        code = library(target.codegen(), self.py_func.__qualname__)
        code.enable_object_caching()  # type: ignore[no-untyped-call]
        return compiler.compile_extra(  # type: ignore[no-untyped-call]
            self.targetdescr.typing_context,
            target,
            self.py_func,
            arguments,
            return_type,
            flags,
            self.locals,
            library=code,
            pipeline_class=self.pipeline_class,
        )


# A child forked in the middle of a compilation would wait for ever for a lock of a thread that it lacks.
os.register_at_fork(
    before=global_compiler_lock.acquire,
    after_in_parent=global_compiler_lock.release,
    after_in_child=global_compiler_lock.release,
)


def kernel(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compile `function` at its first call: without the interpreter lock, with IEEE division, cached on disk.

    The compiler checks the arguments of a call by NumPy's rules (an element of an int64 array is an int). Type checkers
    see the result type only.
    """
    return _compiled(function, {})


def bare_kernel(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compile `function` as `kernel` does, without reference counting: it may neither create nor return arrays.

    Kernels that pass many arrays on to each other run several times faster this way: a call of an ordinary kernel
    increments and decrements the count of every array argument.
    """
    return _compiled(function, {"_nrt": False})


def inlined_kernel(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compile `function` as `bare_kernel` does and inline it into each kernel that calls it.

    For code that runs once for each outcome: passing a shard's arrays to a real call costs more than most such
    functions.
    """
    return _compiled(function, {"_nrt": False, "forceinline": True})


def address_of(function: Callable[..., Any], *examples: Any) -> int:
    """Return where a kernel's machine code for arguments of the types of `examples` begins, compiled whole if need be.

    For kernels that another one needs seldom: compiled apart, and called at their address by `call` and its like.
    """
    return cast(Kernel, function).address(*examples)


def _compiled(function: Callable[..., Result], options: dict[str, bool]) -> Callable[..., Result]:
    kernel_options = {"nopython": True, "boundscheck": None, "nogil": True, "error_model": "numpy"} | options
    return cast(Callable[..., Result], Kernel(function, kernel_options))


@kernel
def mix(value: int) -> np.uint64:
    """Return a uint64 that depends on every bit of the uint64 `value`; 0 does not map to 0. O(1)."""
    return fold_multiply(value ^ np.uint64(_ODD), np.uint64(0xD6E8FEB86659FD93))
