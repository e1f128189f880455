"""Durations and times as people write them: ``"10m"``, ``"1d"`` or a number of seconds, and calendar times."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_time

_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
LONGEST_LEASE_S: Final = 366 * 86_400.0  # a year: for more, a page that nobody reports would be lost for the crawl
_WRITTEN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|[smhdw]?)\s*")


def parse_duration(duration: str | float, setting: str = "duration", *, zero: bool = False) -> float:
    """Return a duration in seconds; raises SettingsError naming `setting` unless it is finite and above 0, or 0 with
    `zero`.

    >>> parse_duration("10m"), parse_duration("1.5h"), parse_duration(30)
    (600.0, 5400.0, 30.0)
    """
    seconds = math.nan
    if isinstance(duration, str):
        written = _WRITTEN.fullmatch(duration)
        if written:
            seconds = float(written[1]) * _SECONDS[written[2] or "s"]
    elif isinstance(duration, int | float | np.integer | np.floating) and not isinstance(duration, bool):
        seconds = _float(duration)
    if not 0.0 <= seconds < math.inf or (seconds == 0.0 and not zero):
        expected = "a duration, for example 500ms, 90s, 10m, 1h, 1d or 1w"
        raise SettingsError(setting, duration, f"{expected}, or 0" if zero else expected)
    return seconds


def parse_lease(lease: str | float) -> float:
    """Return the length of a lease in seconds. Raises SettingsError unless it is a duration of at most 366 days."""
    lease_s = parse_duration(lease, "lease")
    if lease_s > LONGEST_LEASE_S:
        found = lease if isinstance(lease, str) else write_duration(lease_s)  # as people write it
        raise SettingsError("lease", found, "a duration of at most 366 days")
    return lease_s


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an int too large for a float
        return math.inf


def format_duration(seconds: float) -> str:
    """Return a duration in the largest unit that fits, rounded for reading.

    >>> format_duration(5400), format_duration(90), format_duration(0.25), format_duration(1e8)
    ('1.5 h', '1.5 min', '0.25 s', '1,157 d')
    """
    for name, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if abs(seconds) >= size:
            count = seconds / size
            return f"{count:.3g} {name}" if abs(count) < 999.5 else f"{count:,.0f} {name}"
    return f"{seconds:.3g} s"


def write_duration(seconds: float) -> str:
    """Return a duration as `parse_duration` reads it, in the largest unit that divides it.

    >>> write_duration(86_400.0), write_duration(5_400.0), write_duration(0.25)
    ('1d', '90m', '0.25s')
    """
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:.0f}{unit}"
    return f"{seconds!r}s".replace(".0s", "s")


def parse_moment(text: str, setting: str = "time") -> float:
    """Return epoch seconds for a date, an ISO 8601 time (UTC unless it has a zone) or epoch seconds.

    >>> parse_moment("2025-08-22"), parse_moment("2025-08-22T12:00:00+02:00"), parse_moment("1755820800.5")
    (1755820800.0, 1755856800.0, 1755820800.5)
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise SettingsError(setting, text, "a date (2025-08-22), ISO 8601 time or epoch seconds") from None
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    return check_time(seconds, setting)


def format_moment(seconds: float, layout: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Return UTC epoch seconds as a calendar time, or as seconds if the calendar cannot represent them.

    >>> format_moment(1_790_000_000.0), format_moment(1e300)
    ('2026-09-21 14:13:20 UTC', 'second 1e+300')
    """
    try:
        return datetime.fromtimestamp(float(seconds), UTC).strftime(layout)
    except (OverflowError, OSError, ValueError):  # a year that the calendar cannot represent
        return f"second {seconds:.6g}"


def format_date(seconds: float) -> str:
    """Return the date of UTC epoch seconds.

    >>> format_date(1_790_000_000.0)
    '2026-09-21'
    """
    return format_moment(seconds, "%Y-%m-%d")
