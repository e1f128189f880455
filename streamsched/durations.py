"""Lengths of time as people write them: ``"10m"``, ``"1d"``, or a number of seconds."""

from __future__ import annotations

import math
import re
from typing import Final

from streamsched.errors import SettingsError

__all__ = ["format_duration", "parse_duration"]

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_WRITTEN: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([smhdw]?)\s*")


def parse_duration(duration: str | float, setting: str = "duration") -> float:
    """Return seconds, finite and above 0; raises SettingsError naming `setting` for anything else.

    >>> parse_duration("10m"), parse_duration("1.5h"), parse_duration(30)
    (600.0, 5400.0, 30.0)
    """
    seconds = math.nan
    if isinstance(duration, str):
        written = _WRITTEN.fullmatch(duration)
        if written:
            seconds = float(written[1]) * _SECONDS[written[2] or "s"]
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = float(duration)
    if not 0.0 < seconds < math.inf:
        raise SettingsError(setting, duration, "a length of time such as 90s, 10m, 1h, 1d or 1w")
    return seconds


def format_duration(seconds: float) -> str:
    """Return a length of time in the largest fitting unit, rounded for reading.

    >>> format_duration(5400), format_duration(90), format_duration(0.25)
    ('1.5 h', '1.5 min', '0.25 s')
    """
    for name, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
