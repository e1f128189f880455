"""Exit codes, for scripts; ``streamsched --help`` lists them."""

from __future__ import annotations

import signal
from typing import Final

from streamsched.errors import (
    FormulaError,
    InvalidOutcome,
    ReplayError,
    ServiceError,
    SettingsError,
    SnapshotError,
    SourceError,
    StreamschedError,
    UnknownPage,
)

__all__ = [
    "DEFECT",
    "DONE",
    "EXIT_HELP",
    "INTERRUPTED",
    "NOTHING",
    "NO_MEMORY",
    "UNREADABLE",
    "USAGE",
    "after_drain",
    "after_signal",
    "exit_code",
]

DONE: Final = 0
NOTHING: Final = 1
USAGE: Final = 2  # as click has it
UNREADABLE: Final = 3
_STATE: Final = 4
_UNKNOWN: Final = 5
_SERVICE: Final = 6
DEFECT: Final = 70  # EX_SOFTWARE of sysexits.h; Python's own 1 means that there is nothing to print
NO_MEMORY: Final = 71  # EX_OSERR of sysexits.h

_CODES: Final[tuple[tuple[type[StreamschedError], int], ...]] = (
    (SourceError, UNREADABLE),
    (InvalidOutcome, UNREADABLE),
    (SnapshotError, _STATE),
    (UnknownPage, _UNKNOWN),
    (ServiceError, _SERVICE),
    (FormulaError, USAGE),
    (ReplayError, USAGE),
    (SettingsError, USAGE),
)

EXIT_HELP: Final = """\
Exit codes:
    0  done
    1  there is nothing to print: no page to visit now, no record of an evolution
    2  an argument, formula, policy or setting cannot work
    3  an input cannot be read, or an output cannot be written
    4  the saved state is missing, damaged, in use by another process or cannot be written
    5  the page is not known
    6  the service cannot be reached, or refuses
   70  a defect of streamsched: please report the traceback
   71  the system refused memory
  130  interrupted by Ctrl-C (SIGINT); `run` saves first, unless Ctrl-C comes twice
  143  terminated (SIGTERM); `run` saves first and exits with 0, unless SIGTERM comes twice
"""


def exit_code(error: StreamschedError) -> int:
    """Return the exit code for the class of `error`.

    >>> exit_code(UnknownPage("https://a.example/"))
    5
    """
    return next((code for kind, code in _CODES if isinstance(error, kind)), DEFECT)


def after_signal(number: int) -> int:
    """Return the exit code of a command that a signal ended, by the convention of shells.

    >>> after_signal(signal.SIGTERM)
    143
    """
    return 128 + number


def after_drain(number: int) -> int:
    """Return the exit code of a command that saved its work after a signal: SIGTERM is the usual way to stop a service.

    >>> after_drain(signal.SIGTERM), after_drain(signal.SIGINT)
    (0, 130)
    """
    return DONE if number == signal.SIGTERM else after_signal(number)


INTERRUPTED: Final = after_signal(signal.SIGINT)
