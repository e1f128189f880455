"""Arguments that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from streamsched.durations import parse_duration
from streamsched.errors import SettingsError

__all__ = ["Commands", "add_command", "add_now", "add_state", "clock", "duration", "moment", "whole"]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(commands: Commands, name: str, help_line: str, examples: str) -> argparse.ArgumentParser:
    """Return the parser of a new command, with its examples below its options."""
    return commands.add_parser(
        name,
        help=help_line,
        description=help_line[0].upper() + help_line[1:] + ".",
        epilog="examples:\n" + examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_state(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the state directory."""
    parser.add_argument("--state", required=True, type=Path, metavar="DIR", help="the directory of the saved state")


def add_now(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what time it is."""
    parser.add_argument(
        "--now", type=moment, metavar="TIME", help="rank as of TIME: a date, ISO 8601 or epoch seconds (the clock's)"
    )


def clock(now: float | None) -> float:
    """Return the time asked for, or the clock's: the one place where the command line reads it."""
    return time.time() if now is None else now  # noqa: TID251  a person at the terminal means the present


def moment(text: str) -> float:
    """Return epoch seconds for a date, an ISO 8601 time (UTC where it names no zone) or epoch seconds.

    >>> moment("2025-08-22"), moment("2025-08-22T12:00:00+02:00"), moment("1755820800.5")
    (1755820800.0, 1755856800.0, 1755820800.5)
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            expected = "a date (2025-08-22), ISO 8601 time or epoch seconds"
            raise argparse.ArgumentTypeError(f"expected {expected}, found {text!r}") from None
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"expected a finite time, found {text!r}")
    return seconds


def duration(text: str) -> float:
    """Return the seconds of a length of time such as ``10m``.

    >>> duration("1d")
    86400.0
    """
    try:
        return parse_duration(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(f"expected {error.expected}, found {text!r}") from None


def whole(least: int) -> Any:
    """Return what reads a whole number of `least` or more."""

    def read(text: str) -> int:
        if not text.removeprefix("-").isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, found {text!r}")
        return int(text)

    return read
