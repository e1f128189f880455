"""Exit codes, for scripts; ``streamsched --help`` lists them."""

from __future__ import annotations

from typing import Final

from streamsched.errors import (
    FormulaError,
    InvalidOutcome,
    ReplayError,
    SettingsError,
    SnapshotError,
    SourceError,
    StreamschedError,
    UnknownPage,
)

__all__ = ["DONE", "EXIT_HELP", "NOTHING", "exit_code"]

DONE: Final = 0
NOTHING: Final = 1
_USAGE: Final = 2
_INPUT: Final = 3
_STATE: Final = 4
_UNKNOWN: Final = 5

_CODES: Final[tuple[tuple[type[StreamschedError], int], ...]] = (
    (SourceError, _INPUT),
    (InvalidOutcome, _INPUT),
    (SnapshotError, _STATE),
    (UnknownPage, _UNKNOWN),
    (FormulaError, _USAGE),
    (ReplayError, _USAGE),
    (SettingsError, _USAGE),
)

EXIT_HELP: Final = """\
exit codes:
  0  done
  1  there was nothing to hand out
  2  an argument, formula, policy or setting cannot work
  3  the input cannot be read
  4  the saved state is missing, damaged or cannot be written
  5  the page is not known
"""


def exit_code(error: StreamschedError) -> int:
    """Return the exit code that tells scripts what kind of error it was.

    >>> exit_code(UnknownPage("https://a.example/"))
    5
    """
    return next((code for kind, code in _CODES if isinstance(error, kind)), NOTHING)
