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
from typing import TYPE_CHECKING, Final, Protocol

from streamsched.evolution.gp.evolution_settings import EvolutionSettings
from streamsched.evolution.process.exchange_files import read_exchange, write_json
from streamsched.formula.formula import Formula

if TYPE_CHECKING:
    from streamsched.evolution.data.change_history import ChangeHistory
    from streamsched.evolution.findings import EvolutionResult

__all__ = ["LOCK_NAME", "RESULT_NAME", "Breed", "find_breed", "main"]

RESULT_NAME: Final = "result.json"
LOCK_NAME: Final = ".evolution.lock"
_WATCH_S: Final = 0.2  # between two looks at whether the parent lives
_NICEST: Final = 19  # the lowest priority that there is
_ORPHANED: Final = 3  # exit code that nobody is left to read


class Breed(Protocol):
    """One whole evolution: evolves on what is early and not held out, and holds the contest on what is later and is."""

    def __call__(
        self,
        draws: Sequence[ChangeHistory],
        champion: Formula,
        archive: Sequence[Formula],
        settings: EvolutionSettings,
        seed: int,
    ) -> EvolutionResult:
        """Return what came of it."""
        ...


def main(words: Sequence[str]) -> int:
    """Do the job that `words` name; return the exit code."""
    job, parent, breed = Path(words[0]), int(words[1]), words[2]
    os.nice(_NICEST)
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()
    with (job.parent / LOCK_NAME).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go by the system when the process ends, however it ends
        draws, data, meta = read_exchange(job)
        bred = find_breed(breed)(
            draws,
            Formula.parse(meta["champion"]),
            [Formula.parse(text) for text in meta["archive"]],
            EvolutionSettings.from_json(meta["settings"]),
            meta["seed"],
        )
        write_json(job / RESULT_NAME, replace(bred, data=data).to_json())
    return 0


def find_breed(name: str) -> Breed:
    """Return the function that `name` names, as ``module:function``."""
    module, _, function = name.partition(":")
    found: Breed = getattr(import_module(module), function)
    return found


def _die_with(parent: int, getppid: Callable[[], int] = os.getppid) -> None:
    while getppid() == parent:
        time.sleep(_WATCH_S)
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
