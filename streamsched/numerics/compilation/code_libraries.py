"""Machine code of kernels: a kernel and all that it calls are linked, optimised and emitted once, together.

Numba optimises and emits the code of every kernel by itself, then again as part of each kernel that calls it. Six deep,
that is most of the time of a first call and most of the cache on disk.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Literal

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary

_STUB: Final = 'define void @"{}"() {{ ret void }}'


class KernelPart(JITCodeLibrary):
    """The code of a kernel that other kernels call: simplified, neither linked nor emitted."""

    def add_linking_library(self, library: Any) -> None:
        """Remember a library that this code calls. Numba's own method would emit its machine code."""
        self._linking_libraries.append(library)

    def finalize(self) -> None:
        """Refuse: only a whole kernel has machine code."""
        raise AssertionError(f"{self.name} is a part of other kernels")


class WholeKernel(KernelPart):
    """The code of a kernel that Python calls, with that of all kernels it calls."""

    def finalize(self) -> None:
        """Link everything once, optimise it and emit its machine code."""
        self._raise_if_finalized()  # type: ignore[no-untyped-call]
        for library in _in_order(self):
            self._link(library)
        self._optimize()
        self._final_module.verify()
        with signals_deferred():
            self._finalize_final_module()  # type: ignore[no-untyped-call]

    def _optimize(self) -> None:
        """Inline, and optimise as Numba does, but unroll no loops: that takes a sixth of the time and gains nothing."""
        first, builder = self._codegen._module_pass_manager(  # type: ignore[no-untyped-call]  # noqa: SLF001  the passes of Numba's own method
            loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap"
        )
        first.run(self._final_module, builder)
        options = llvm.create_pipeline_tuning_options(3)
        options.loop_vectorization, options.slp_vectorization, options.loop_unrolling = True, False, False
        builder = llvm.create_pass_builder(self._codegen._tm, options)  # noqa: SLF001
        second = builder.getModulePassManager()
        second.add_refprune_pass()
        second.run(self._final_module, builder)

    def serialize_using_object_code(self) -> tuple[str, Literal["object"], tuple[bytes, bytes]]:
        """Return what the cache keeps: the machine code, and the names it defines. No kernel links it again."""
        names = (function.name for function in self.get_defined_functions())  # type: ignore[no-untyped-call]
        stubs = llvm.parse_assembly("\n".join(_STUB.format(name) for name in names))
        return self.name, "object", (self._get_compiled_object(), stubs.as_bitcode())  # type: ignore[no-untyped-call]

    def _link(self, library: Any) -> None:
        """Link `library` alone; one that is finalised holds what it calls."""
        self._reload_init.update(library._reload_init)  # noqa: SLF001  one kind of object, here and below
        code = library._get_module_for_linking() if library._finalized else _shared(library)  # noqa: SLF001
        self._final_module.link_in(code, preserve=True)


def _in_order(whole: WholeKernel) -> list[Any]:
    """Return all libraries that `whole` calls, each once and before those that it calls itself.

    The linker drops a shared function that nothing linked so far calls.
    """
    found: list[Any] = []
    seen = {whole}

    def visit(library: Any) -> None:
        for called in library._linking_libraries:  # noqa: SLF001
            if called not in seen:
                seen.add(called)
                if not called._finalized:  # noqa: SLF001
                    visit(called)
                found.append(called)

    visit(whole)
    return found[::-1]


@contextmanager
def signals_deferred() -> Iterator[None]:
    """In this block SIGINT and SIGTERM wait for its end.

    LLVM hands its code over in a callback. An exception that a signal raises there is printed and lost, and so is the
    code.
    """
    taken: list[tuple[int, FrameType | None]] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():
        handlers = {}  # other threads take no signals, and may not set handlers
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: taken.append((number, frame)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if taken:
            first, frame = taken[0]
            handlers[signal.Signals(first)](first, frame)


def _shared(library: Any) -> Any:
    """Return a copy of the code of `library` alone, to link into others, which may drop what they inline."""
    module = library._final_module.clone()  # noqa: SLF001
    for function in module.functions:
        if not function.is_declaration and function.linkage == llvm.Linkage.external:
            function.linkage = "linkonce_odr"
    return module
