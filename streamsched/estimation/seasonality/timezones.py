"""UTC offsets of time zones at any time, with daylight saving time."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from streamsched.errors import SettingsError
from streamsched.numerics.arrays import Floats, frozen

__all__ = ["ZoneOffsets", "find_zone", "offsets_between"]

_DAY_S: Final = 86_400
_LOOK_S: Final = 3 * _DAY_S  # no zone changed its clock twice within less: Recife did within a week in 2000
_FIRST_S: Final = -62_135_510_400  # the second day of year 1
_LAST_S: Final = 253_402_214_400  # the last day of year 9999 but one: Python's dates, less a day for UTC offsets
_OFFSET: Final = re.compile(r"(?:UTC)?([+-])(\d{1,2})(?::?(00|15|30|45))?")
_EXPECTED: Final = (
    "a zone such as Europe/Paris, UTC or +08:00, or quarters of an hour from -14 to 14 hours "
    "(names need the time zone database: package tzdata)"
)
_MOST_HOURS: Final = 14  # east or west of UTC


class ZoneOffsets(NamedTuple):
    """A zone's offsets: ``offsets_s``: float64[k], seconds to add to UTC from ``starts_s``: float64[k] on.

    The first starts at minus infinity.
    """

    starts_s: Floats
    offsets_s: Floats

    def read(self, times_s: Floats) -> Floats:
        """Return local times of epoch seconds, as seconds since the local 1970: float64[n]. O(n log k)."""
        place = np.searchsorted(self.starts_s, times_s, "right") - 1
        return np.asarray(times_s + self.offsets_s[np.maximum(place, 0)])


def find_zone(zone: str | float | None) -> tzinfo:
    """Return the zone of that name or offset, such as ``+08:00``, or of that many hours east of UTC; None is UTC.

    Raises SettingsError if there is no such zone, or the offset is not a multiple of a quarter of an hour.
    """
    if zone is None:
        return UTC
    if not isinstance(zone, str):
        is_number = isinstance(zone, int | float | np.integer | np.floating) and not isinstance(zone, bool)
        return _find_fixed(zone, float(zone) if is_number and abs(zone) <= _MOST_HOURS else math.nan)
    if zone.upper() in ("UTC", "Z"):
        return UTC
    if matched := _OFFSET.fullmatch(zone):
        east = int(matched[2]) + int(matched[3] or 0) / 60
        return _find_fixed(zone, east if matched[1] == "+" else -east)
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError) as error:  # an unknown key, no valid key, a folder
        raise SettingsError("zone", zone, _EXPECTED) from error


def _find_fixed(zone: str | float, hours: float) -> timezone:
    if not ((4 * hours).is_integer() and abs(hours) <= _MOST_HOURS):
        raise SettingsError("zone", zone, _EXPECTED)
    return timezone(timedelta(hours=hours))


@lru_cache
def offsets_between(zone: str | float | None, first_s: float, last_s: float) -> ZoneOffsets:
    """Return a zone's offsets, valid from `first_s` to `last_s`. O(days). Raises SettingsError.

    >>> clock = offsets_between("Europe/Paris", 1_743_200_000.0, 1_743_300_000.0)  # summer time from 01:00 UTC on
    >>> clock.starts_s.tolist(), (clock.offsets_s / 3600).tolist()
    ([-inf, 1743296400.0], [1.0, 2.0])
    """
    found = find_zone(zone)

    def offset(at_s: int) -> float:
        when = datetime.fromtimestamp(min(max(at_s, _FIRST_S), _LAST_S), found)
        return (when.utcoffset() or timedelta(0)).total_seconds()

    at_s = int(np.floor(first_s))
    starts, offsets = [-np.inf], [offset(at_s)]
    while at_s < last_s and not isinstance(found, timezone):
        if offset(at_s + _LOOK_S) == offsets[-1]:
            at_s += _LOOK_S
        else:
            at_s = _find_switch(offset, at_s, at_s + _LOOK_S)
            starts.append(float(at_s))
            offsets.append(offset(at_s))
    return ZoneOffsets(frozen(np.array(starts)), frozen(np.array(offsets)))


def _find_switch(offset: Callable[[int], float], low: int, high: int) -> int:
    """Return the first second after `low`, up to `high`, at which the offset differs from that at `low`."""
    shown = offset(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == shown else (low, middle)
    return high
