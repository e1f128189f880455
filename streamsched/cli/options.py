"""Types of options and arguments, and options that several commands share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from streamsched.errors import SettingsError, shorten
from streamsched.numerics.durations import parse_duration, parse_lease, parse_moment

_LARGEST: Final = 2**63 - 1  # of an int64


class Parsed(click.types.StringParamType):
    """A type of parameter whose text `parse` reads; a SettingsError of `parse` becomes a usage error.

    ``name``: what help texts show in the place of a value.
    """

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text; a default that is not a text is the value itself."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except SettingsError as error:
            self.fail(f"expected {error.expected}, found {shorten(value)}", param, ctx)


class PlainPath(click.Path):
    """A path that is not checked here: the code that opens it reports what is wrong, each kind with its exit code."""

    def __init__(self, name: str) -> None:
        super().__init__(readable=False, path_type=Path)
        self.name = name


def parse_share(text: str, expected: str = "a share such as 0.05") -> float:
    """Return the number that `text` holds; its range is checked with the other settings. `expected`: said of others.

    >>> parse_share("0.05")
    0.05
    """
    try:
        return float(text)
    except ValueError:
        hint = " (5 % is 0.05)" if text.endswith("%") else ""
        raise SettingsError("share", text, f"{expected}{hint}") from None


def parse_url(text: str) -> str:
    """Return `text` if it is not empty and can be encoded in UTF-8."""
    try:
        if text.encode():
            return text
    except UnicodeEncodeError:
        pass
    raise SettingsError("URL", text, "a URL in UTF-8")


def parse_whole(text: str, least: int) -> int:
    """Return the whole number in `text`, from `least` to the largest int64."""
    digits = text.removeprefix("-")
    if digits.isdecimal() and len(digits) <= len(str(_LARGEST)) and least <= int(text) <= _LARGEST:
        return int(text)
    is_large = digits.isdecimal() and len(digits) >= len(str(_LARGEST))
    span = f"{least} to {_LARGEST}" if is_large else f"{least} or more"
    raise SettingsError("number", text, f"a whole number of {span}")


def whole(least: int) -> Parsed:
    """Return the type of whole numbers from `least`."""
    return Parsed("N", lambda text: parse_whole(text, least))


def output_file(*suffixes: str) -> Parsed:
    """Return the type of files that are written, whose names end in one of `suffixes` with or without ``.gz``."""
    known = " or ".join([", ".join(suffixes[:-1]), suffixes[-1]]) if suffixes[1:] else suffixes[0]

    def parse(text: str) -> Path:
        if Path(text.removesuffix(".gz")).suffix not in suffixes:
            raise SettingsError("file", text, f"a name that ends in {known}, with .gz or without")
        return Path(text)

    return Parsed("FILE", parse)


def current_time(now: float | None) -> float:
    """Return `now`, or the clock's time if it is None. The command line reads the clock only here."""
    return time.time() if now is None else now  # noqa: TID251  a person at the terminal means the present


DURATION: Final = Parsed("TIME", parse_duration)
LEASE: Final = Parsed("TIME", parse_lease)
MOMENT: Final = Parsed("DATE", parse_moment)
SHARE: Final = Parsed("SHARE", parse_share)
URL: Final = Parsed("URL", parse_url)
FILE: Final = PlainPath("FILE")
DIRECTORY: Final = PlainPath("DIR")

state: Final = click.option("--state", required=True, type=DIRECTORY, help="Directory of the saved state.")
now: Final = click.option(
    "--now",
    type=MOMENT,
    metavar="TIME",
    show_default="the current time",
    help="Time of the ranking: a date, an ISO 8601 time (UTC unless it has a zone) or epoch seconds.",
)
figures: Final = click.option(
    "--json", "figures", metavar="FILE", help="Write the figures to FILE as JSON; - is standard output."
)
report: Final = click.option(
    "--report", type=FILE, metavar="FILE.html", help="Write a self-contained HTML page with plots."
)
cycle: Final = click.option("--cycle", "cycle_s", type=DURATION, default="1d", help="Time between two rankings.")
changed: Final = click.option(
    "--changed",
    type=click.Choice(["since-visit", "that-day"]),
    default="since-visit",
    help="Count a page as changed if it changed since its last visit, or in the same cycle as in the GP4C paper.",
)
seed: Final = click.option(
    "--seed", type=whole(0), default=0, help="Seed of random choices and of the order of equal scores."
)
end: Final = click.option(
    "--to", "end_s", type=MOMENT, show_default="end of the log", help="End of the period, exclusive."
)
workers: Final = click.option(
    "--workers",
    type=whole(1),
    default=os.cpu_count() or 1,
    show_default="one per core",
    help="Largest number of processes or threads.",
)
