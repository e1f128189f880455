"""The main program of a process that compiles beside another one; see `streamsched.numerics.compilation.helper`."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Sequence
from typing import Final

from streamsched.numerics.compilation.kernel_cache import KernelBusy, KernelCache
from streamsched.numerics.compilation.notices import Compilation, on_compile
from streamsched.scheduler.warm import WORKLOADS

# Of the four slowest kernels the other process begins with that of new pages, and this one with two others.
_FIRST: Final = ("fill terminals", "ingest", "rank", "observe")
_PATIENCE_S: Final = 0.5  # for a kernel of the other process; most small ones are done by then


def help_out(workloads: Sequence[str]) -> int:
    """Run `workloads`, leaving kernels that another process compiles to it; return how many kernels were compiled."""
    compiled = 0

    def count(compilation: Compilation) -> None:
        nonlocal compiled
        compiled += compilation.done

    KernelCache.gives_up, KernelCache.patience_s = True, _PATIENCE_S
    with on_compile(count):
        for name in workloads:
            try:
                WORKLOADS[name]()
            except KernelBusy:
                continue
    return compiled


def _end_with(parent: int) -> None:
    """End this process when standard input is closed or its parent is gone: then nobody waits for the kernels."""
    while os.getppid() == parent and not select.select([0], [], [], 1.0)[0]:
        pass
    os._exit(1)


def _main() -> None:
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    print(help_out(sys.argv[2:] or _FIRST))  # noqa: T201


if __name__ == "__main__":
    _main()
