"""Arguments that several commands share, and how their values are read."""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from streamsched.errors import SettingsError
from streamsched.numerics.durations import parse_duration

__all__ = [
    "add_examples",
    "add_now",
    "add_state",
    "clock",
    "duration",
    "moment",
    "share",
    "shield_formulas",
    "url",
    "whole",
]

_OF_FORMULAS: Final = ("--formula", "--policy", "--state-policy")  # options whose values may be formulas
_NEGATIVE: Final = re.compile(r"-(?!-|h$)")  # what begins with a single minus, but for the help
_LARGEST: Final = 2**63 - 1  # what an int64 counts


def add_examples(parser: argparse.ArgumentParser, examples: str) -> None:
    """Show `examples`, a command on each line, below the options of `parser`."""
    parser.epilog = "examples:\n" + examples


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


def share(text: str) -> float:
    """Return the share that `text` writes as a number, such as 0.05; how large it may be is for others to say.

    >>> share("0.05")
    0.05
    """
    try:
        return float(text)
    except ValueError:
        hint = " (5 % is 0.05)" if text.endswith("%") else ""
        raise argparse.ArgumentTypeError(f"expected a share such as 0.05{hint}, found {text!r}") from None


def shield_formulas(words: Sequence[str]) -> list[str]:
    """Return the command line `words` with formulas that begin with a minus written so that none passes for an option.

    >>> shield_formulas(["use", "-t", "--state", "s"]), shield_formulas(["next", "--formula", "-t", "-k", "3"])
    (['use', '(-t)', '--state', 's'], ['next', '--formula=-t', '-k', '3'])
    """
    shielded: list[str] = []
    for word in words:
        before = shielded[-1] if shielded else ""
        negative = _NEGATIVE.match(word) is not None
        if negative and before in _OF_FORMULAS:
            shielded[-1] = f"{before}={word}"
        elif negative and words[0] == "use" and not before.startswith("--") and not word[1:].isdecimal():
            shielded.append(f"({word})")
        else:
            shielded.append(word)
    return shielded


def url(text: str) -> str:
    """Return `text` where it may be a URL: not empty, and in UTF-8."""
    try:
        if text.encode():
            return text
    except UnicodeEncodeError:
        pass
    raise argparse.ArgumentTypeError(f"expected a URL in UTF-8, found {text!r}")


def whole(least: int) -> Callable[[str], int]:
    """Return what reads a whole number of `least` or more."""

    def read(text: str) -> int:
        digits = text.removeprefix("-")
        if digits.isdecimal() and len(digits) <= len(str(_LARGEST)) and least <= int(text) <= _LARGEST:
            return int(text)
        raise argparse.ArgumentTypeError(f"expected a whole number of {least} or more, found {text!r}")

    return read
