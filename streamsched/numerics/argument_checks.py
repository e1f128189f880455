"""Settings that are numbers, checked at the door: returned as plain numbers, or refused with what was expected."""

from __future__ import annotations

import math

import numpy as np

from streamsched.errors import SettingsError

__all__ = ["check_share", "check_time", "check_whole"]


def check_time(now: float, setting: str = "now") -> float:
    """Return a time as a float; raises SettingsError naming `setting` where it is no finite number.

    >>> check_time(5)
    5.0
    """
    number = _number(now)
    if not math.isfinite(number):
        raise SettingsError(setting, now, "UTC epoch seconds, finite")
    return number


def check_share(setting: str, found: float) -> float:
    """Return a share from 0 up to 1, exclusive, as a float; raises SettingsError elsewhere.

    >>> check_share("panel", 0)
    0.0
    """
    number = _number(found)
    if not 0.0 <= number < 1.0 or isinstance(found, bool):
        raise SettingsError(setting, found, "0 or more and less than 1")
    return number


def check_whole(setting: str, found: object, least: int | None, expected: str, *, most: int | None = None) -> int:
    """Return `found` as an int where it is a whole number within the bounds; raises SettingsError elsewhere.

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
