"""Checks of numeric arguments: valid values are returned as plain numbers, others raise SettingsError."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from streamsched.errors import SettingsError

__all__ = ["TIME_LIMIT_S", "check_share", "check_time", "check_whole", "expected_time"]

TIME_LIMIT_S: Final = 1e11  # the year 5138; as milliseconds 1973: times from it on, or before its negative, are errors


def check_time(now: float, setting: str = "now") -> float:
    """Return a time as a float; raises SettingsError naming `setting` unless it lies within `TIME_LIMIT_S` of 1970.

    >>> check_time(5)
    5.0
    """
    number = _number(now)
    if not -TIME_LIMIT_S < number < TIME_LIMIT_S:
        raise SettingsError(setting, now, expected_time(number))
    return number


def expected_time(found: float) -> str:
    """Return what an error expects in place of the time `found`, which is not within `TIME_LIMIT_S` of 1970.

    >>> expected_time(1.7e12)
    'UTC epoch seconds below 1e11 (are these milliseconds?)'
    """
    if not math.isfinite(found):
        return "UTC epoch seconds, finite"
    return "UTC epoch seconds below 1e11 (are these milliseconds?)"


def check_share(setting: str, found: float) -> float:
    """Return a share in [0, 1) as a float; raises SettingsError naming `setting` if it is not one.

    >>> check_share("panel", 0)
    0.0
    """
    number = _number(found)
    if not 0.0 <= number < 1.0 or isinstance(found, bool):
        raise SettingsError(setting, found, "0 or more and less than 1")
    return number


def check_whole(setting: str, found: object, least: int | None, expected: str, *, most: int | None = None) -> int:
    """Return `found` as an int; raises SettingsError if it is not a whole number from `least` to `most`.

    >>> check_whole("k", np.int32(3), 0, "0 or more pages")
    3
    """
    if isinstance(found, int | np.integer) and not isinstance(found, bool):
        number = int(found)
        if (least is None or number >= least) and (most is None or number <= most):
            return number
    raise SettingsError(setting, found, expected)


def _number(found: float) -> float:
    try:
        return math.nan if isinstance(found, str) else float(found)
    except (OverflowError, TypeError, ValueError):
        return math.nan
