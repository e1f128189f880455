"""An evolution in a process of its own: ``python -m streamsched.evolution.process.worker JOB PARENT BREED``.

It takes the lowest priority, waits for any other that works on the same state to end, reads the parcel in the directory
JOB, breeds, and leaves ``result.json`` there. It ends when the process PARENT does, whatever it is doing.
"""

from __future__ import annotations

import fcntl
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
from streamsched.evolution.findings import EvolutionResult
from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.evolution.process.exchange_files import read_exchange, write_json
from streamsched.formula import Formula

__all__ = ["LOCK_NAME", "RESULT_NAME", "EvolutionFunction", "load_evolution_function", "main"]

RESULT_NAME: Final = "result.json"
LOCK_NAME: Final = ".evolution.lock"
_PARENT_CHECK_S: Final = 0.2  # between two looks at whether the parent lives
_LOWEST_PRIORITY: Final = 19  # the lowest priority that there is
_ORPHAN_EXIT_CODE: Final = 3  # exit code that nobody is left to read


class EvolutionFunction(Protocol):
    """One whole evolution: evolves on what is early and not held out, and holds the contest on what is later and is."""

    def __call__(
        self,
        imputations: Sequence[ChangeHistory],
        champion: Formula,
        archive: Sequence[Formula],
        settings: EvolutionSettings,
        seed: int,
    ) -> EvolutionResult:
        """Return what came of it."""
        ...


def main(arguments: Sequence[str]) -> int:
    """Do the job that `arguments` name; return the exit code."""
    job, parent, function = Path(arguments[0]), int(arguments[1]), arguments[2]
    os.nice(_LOWEST_PRIORITY)
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    with (job.parent / LOCK_NAME).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go by the system when the process ends, however it ends
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
    """Return the function that `name` names, as ``module:function``."""
    module, _, function = name.partition(":")
    loaded: EvolutionFunction = getattr(import_module(module), function)
    return loaded


def _exit_with_parent(parent: int, getppid: Callable[[], int] = os.getppid) -> None:
    while getppid() == parent:
        time.sleep(_PARENT_CHECK_S)
    os._exit(_ORPHAN_EXIT_CODE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
