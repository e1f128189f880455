"""Worker process of an evolution: ``python -m streamsched.evolution.worker JOB PARENT FUNCTION``.

The worker takes the lowest priority, waits for any other evolution of the same state to end, reads the exchange files
in the directory JOB, calls FUNCTION, and writes ``result.json`` there. It exits when the process PARENT does.
"""

from __future__ import annotations

import fcntl
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from streamsched.evolution.data.change_history import ChangeHistory
from streamsched.evolution.evolution_settings import EvolutionSettings
from streamsched.evolution.exchange_files import read_exchange, write_json
from streamsched.evolution.records import EvolutionResult
from streamsched.formula.formula import Formula

RESULT_NAME: Final = "result.json"
LOCK_NAME: Final = ".evolution.lock"
_PARENT_CHECK_S: Final = 0.2  # interval of the checks that the parent lives
_LOWEST_PRIORITY: Final = 19  # niceness
_ORPHAN_EXIT_CODE: Final = 3  # nobody reads it: the parent has exited


class EvolutionFunction(Protocol):
    """One whole evolution: evolves on training pages and early cycles, judges on held-out pages and later cycles."""

    def __call__(
        self,
        imputations: Sequence[ChangeHistory],
        champion: Formula,
        archive: Sequence[Formula],
        settings: EvolutionSettings,
        seed: int,
    ) -> EvolutionResult:
        """Return the result."""
        ...


def main(arguments: Sequence[str]) -> int:
    """Run the job that `arguments` name; return the exit code."""
    job, parent, function = Path(arguments[0]), int(arguments[1]), arguments[2]
    os.nice(_LOWEST_PRIORITY)
    gc.freeze()  # modules stay: collections need not look at them
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    with (job.parent / LOCK_NAME).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system releases it when the process ends
        imputations, data, meta = read_exchange(job)
        result = load_evolution_function(function)(
            imputations,
            Formula.parse(meta["champion"]),
            [Formula.parse(text) for text in meta["archive"]],
            EvolutionSettings.from_json(meta["settings"]),
            meta["seed"],
        )
        write_json(job / RESULT_NAME, replace(result, data=data).to_json())
    return 0


def load_evolution_function(name: str) -> EvolutionFunction:
    """Import and return the function `name`, given as ``module:function``."""
    module, _, function = name.partition(":")
    loaded: EvolutionFunction = getattr(import_module(module), function)
    return loaded


def _exit_with_parent(parent: int, getppid: Callable[[], int] = os.getppid) -> None:
    while getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(_ORPHAN_EXIT_CODE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
