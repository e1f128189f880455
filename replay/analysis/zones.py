"""Clocks of time zones: what a clock on the wall shows at any time of a log, summer time and all."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from streamsched.arrays import Floats
from streamsched.errors import SettingsError

__all__ = ["Clock", "check_zone", "set_clock"]

_DAY_S: Final = 86_400
_FINEST_S: Final = 60  # clocks have been changed at whole minutes
_FIRST_S: Final = -62_135_510_400  # the second day of year 1, and ...
_LAST_S: Final = 253_402_214_400  # ... the last of year 9999: a day from what Python can date, for clocks differ
_OFFSET: Final = re.compile(r"(?:UTC)?([+-])(\d{1,2})(?::?([0-5]\d))?")
_EXPECTED: Final = "a zone such as Europe/Paris, UTC or +08:00 (names need the time zone database: package tzdata)"
_MOST_HOURS: Final = 14  # east or west of UTC


class Clock(NamedTuple):
    """A zone's offsets: ``offsets_s``: float64[k], seconds to add to UTC from ``starts_s``: float64[k] on."""

    starts_s: Floats
    offsets_s: Floats

    def read(self, times_s: Floats) -> Floats:
        """Return what the clock shows at epoch seconds, as seconds since its own 1970: float64[n]. O(n log k)."""
        place = np.searchsorted(self.starts_s, times_s, "right") - 1
        return np.asarray(times_s + self.offsets_s[np.maximum(place, 0)])


def check_zone(name: str) -> None:
    """Raise SettingsError where `name` is no zone."""
    _find_zone(name)


def set_clock(name: str, first_s: float, last_s: float) -> Clock:
    """Return the clock of the zone `name` for times from `first_s` to `last_s`. O(days). Raises SettingsError.

    >>> clock = set_clock("Europe/Paris", 1_743_200_000.0, 1_743_300_000.0)  # summer time from 2025-03-30, 01:00 UTC
    >>> clock.starts_s.tolist()[1:], (clock.offsets_s / 3600).tolist()
    ([1743296400.0], [1.0, 2.0])
    """
    zone = _find_zone(name)

    def offset(at_s: int) -> float:
        when = datetime.fromtimestamp(min(max(at_s, _FIRST_S), _LAST_S), zone)
        return (when.utcoffset() or timedelta(0)).total_seconds()

    first, last = int(first_s) // _DAY_S * _DAY_S, int(last_s) + _DAY_S
    starts, offsets = [first], [offset(first)]
    for day in range(first, last, _DAY_S):
        shown = offset(day + _DAY_S)
        if shown != offsets[-1]:
            starts.append(_find_shift(offset, day, day + _DAY_S))
            offsets.append(shown)
    return Clock(np.array(starts, np.float64), np.array(offsets))


def _find_shift(offset: Callable[[int], float], low: int, high: int) -> int:
    """Return the first minute after `low`, up to `high`, at which the offset is that of `high`."""
    shown = offset(high)
    while high - low > _FINEST_S:
        middle = (low + high) // (2 * _FINEST_S) * _FINEST_S
        low, high = (low, middle) if offset(middle) == shown else (middle, high)
    return high


def _find_zone(name: str) -> tzinfo:
    if name.upper() in ("UTC", "Z"):
        return UTC
    spelled = _OFFSET.fullmatch(name)
    if spelled:
        east = timedelta(hours=int(spelled[2]), minutes=int(spelled[3] or 0))
        if east <= timedelta(hours=_MOST_HOURS):
            return timezone(east if spelled[1] == "+" else -east)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # not there, no key at all, a folder
        raise SettingsError("zone", name, _EXPECTED) from error
