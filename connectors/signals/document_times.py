"""Times as sitemaps and feeds write them: W3C dates of every precision, and the dates of e-mail (RFC 822)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_tz
from functools import lru_cache
from typing import Final, NamedTuple

_DAY_S: Final = 86_400.0
_FARTHEST_ZONE_S: Final = 14 * 3_600.0  # a day begins first in the zone UTC+14
_MAX_CHARS: Final = 100  # twice the longest sensible time; more is not worth parsing
_W3C: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)([.,]\d+)?)? ?([Zz]|[+-]\d\d:?\d\d)?)?)?)?", re.ASCII
)


class DocumentTime(NamedTuple):
    """A time of limited precision: its first second and its last one, equal unless it is a day, a month or a year.

    ``earliest_s``: the UTC time at which it may have begun. A day has no zone, so it may have begun 14 hours early.
    """

    first_s: float
    last_s: float
    earliest_s: float


def parse_time(text: str) -> DocumentTime | None:
    """Return the time that `text` states, None if it states none. O(length).

    A time of day without a zone is UTC. Source: W3C note "Date and Time Formats" (1997); RFC 822, 2822 and 3339.

    >>> parse_time("1970-01-02").first_s, parse_time("1970-01-02").last_s
    (86400.0, 172799.0)
    >>> parse_time("1970-01-01T01:00:00.5+01:00").first_s
    0.5
    >>> parse_time("Thu, 01 Jan 1970 00:01:00 GMT").first_s
    60.0
    """
    text = text.strip()
    if len(text) > _MAX_CHARS:
        return None
    match = _W3C.fullmatch(text)
    try:
        if match is None:
            parts = parsedate_tz(text)
            if parts is None:
                raise ValueError(text)
            return _at(datetime(*parts[:6], tzinfo=UTC).timestamp() - (parts[9] or 0))
        return _at(_read_moment(match)) if match[4] else _read_period(match)
    except (ValueError, OverflowError, IndexError, TypeError):  # parsedate_tz raises them for some malformed dates
        return None


def _at(time_s: float) -> DocumentTime:
    return DocumentTime(time_s, time_s, time_s)


def _read_moment(match: re.Match[str]) -> float:
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    midnight_s = _midnight(int(year), int(month), int(day))
    seconds = min(int(second or 0), 59) if second != "60" else 59  # a leap second has no number of its own
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 60:
        raise ValueError(match.string)
    part = float(f"0.{fraction[1:]}") if fraction else 0.0
    return midnight_s + int(hour) * 3_600 + int(minute) * 60 + seconds + part - _zone_offset(zone)


def _zone_offset(zone: str | None) -> float:
    """Return the seconds by which a zone such as ``+05:30`` is ahead of UTC."""
    if zone is None or zone in "Zz":
        return 0.0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (hours * 3_600.0 + minutes * 60.0) * (-1.0 if zone[0] == "-" else 1.0)


def _read_period(match: re.Match[str]) -> DocumentTime:
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    first_s = _midnight(year, month, day)
    if match[3]:
        next_s = first_s + _DAY_S
    elif match[2]:
        next_s = _midnight(year + month // 12, month % 12 + 1, 1)
    else:
        next_s = _midnight(year + 1, 1, 1)
    return DocumentTime(first_s, next_s - 1.0, first_s - _FARTHEST_ZONE_S)


@lru_cache(maxsize=4_096)  # a sitemap has many times and few days
def _midnight(year: int, month: int, day: int) -> float:
    return datetime(year, month, day, tzinfo=UTC).timestamp()
