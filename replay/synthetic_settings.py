"""Settings of a synthetic corpus: size, sites, and change processes of the pages."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_fields

KINDS: Final = ("poisson", "weekday", "clock", "bursty", "dead")
"""Kinds of pages; `Sites.kind` holds their indices."""

_MAX_SPAN_S: Final = 2**31  # seconds: a page and a second of the log are sorted as one int64
_MAX_PAGES: Final = 2**31
_LATEST_S: Final = 62_135_596_800  # as far from 1970 as year 1
_DAY_S: Final = 86_400
_DOMAIN: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*")


@dataclass(frozen=True, slots=True)
class SyntheticSettings:
    """A corpus of pages on hosts, and the processes by which they change; the defaults resemble BRDC'12.

    Size: ``pages``; ``days`` from ``start_s``, epoch seconds at a whole second. ``zone_hours``: hours east of
    UTC of the local time that working days and fixed hours use.

    Sites: ``pages_per_host`` on average, sizes drawn from a Pareto distribution of index ``host_tail`` (smaller is
    more unequal); ``pages_per_prefix`` on average, geometrically distributed. Pages of one URL prefix are of one kind
    and share fixed hours and days. ``host_accord``: probability that a prefix has its host's kind instead of a
    random one. ``domain``: suffix of the host names.

    Kinds: ``poisson``, ``weekday``, ``clock``, ``bursty`` and ``dead`` are the shares of the pages of each kind; they
    sum to 1.

    *poisson*: changes at a constant rate, of ``rate_per_day`` on average: a host's mean is log-normal with
    ``host_spread`` as deviation of its logarithm, a prefix varies it by a gamma factor of shape ``prefix_shape``, a
    page that by one of shape ``page_shape`` (larger shapes vary less).

    *weekday*: at most a change on each local day of the prefix's own, never on a Saturday or Sunday. A prefix works
    from Monday to Friday with chance ``office_share``, otherwise on 1 to 3 of these days. A working day brings a change
    with chance ``weekday_chance``, between ``office_hours``; with chance ``fixed_hour_share`` at the prefix's hour.

    *clock*: an update at the prefix's fixed minute of each day, of each hour with chance ``hourly_share`` of the
    prefixes; an update changes the page with chance ``clock_chance``.

    *bursty*: bursts and quiet stretches of whole days take turns, 1 day or more and ``burst_days`` and ``quiet_days``
    long on average, with ``burst_rate`` changes a day in a burst. What a stretch has beyond 1 day is gamma distributed
    with shape ``burst_regularity``: nearly geometric at 1, nearly constant at 40.

    *dead*: no change.

    ``jitter_s``: the maximum delay of an update at a fixed hour or minute, uniformly distributed.
    ``bulk_edits_per_day``: how often, on average, most pages of a URL prefix that is not dead are edited: each with
    probability ``bulk_reach``, all within ``bulk_s`` seconds at any time, regardless of its kind.

    Raises SettingsError if a value is invalid.
    """

    pages: int = 417_000
    days: int = 57
    start_s: float = 1_347_840_000.0  # Monday, 2012-09-17
    zone_hours: float = -3.0
    pages_per_host: float = 41.7
    host_tail: float = 1.25
    pages_per_prefix: float = 24.0
    host_accord: float = 0.3
    domain: str = "example"
    poisson: float = 0.29
    weekday: float = 0.09
    clock: float = 0.01
    bursty: float = 0.42
    dead: float = 0.19
    rate_per_day: float = 0.04
    host_spread: float = 0.8
    prefix_shape: float = 4.0
    page_shape: float = 2.0
    office_share: float = 0.85
    weekday_chance: float = 0.9
    office_hours: tuple[float, float] = (8.0, 19.0)
    fixed_hour_share: float = 0.3
    hourly_share: float = 0.1
    clock_chance: float = 0.97
    burst_days: float = 4.8
    quiet_days: float = 1.2
    burst_rate: float = 2.1
    burst_regularity: float = 40.0
    jitter_s: int = 300
    bulk_edits_per_day: float = 0.0
    bulk_reach: float = 0.8
    bulk_s: int = 1_800

    def __post_init__(self) -> None:
        check_fields(self)
        for setting in ("pages", "days"):
            value = getattr(self, setting)
            _require(isinstance(value, int) and value >= 1, setting, value, "a whole number of 1 or more")
        _require(self.pages < _MAX_PAGES, "pages", self.pages, f"fewer than {_MAX_PAGES}")
        _require(self.days * _DAY_S < _MAX_SPAN_S, "days", self.days, f"fewer than {_MAX_SPAN_S // _DAY_S}")
        dated = abs(self.start_s) <= _LATEST_S and float(self.start_s).is_integer()
        _require(dated, "start_s", self.start_s, "epoch seconds at a whole second, of the years 1 to 3938")
        _require(-14 <= self.zone_hours <= 14, "zone_hours", self.zone_hours, "hours from -14 to 14")
        for setting in _CHANCES:
            _require(0 <= getattr(self, setting) <= 1, setting, getattr(self, setting), "a chance from 0 to 1")
        for setting in _AMOUNTS:
            _require(0 <= getattr(self, setting) < math.inf, setting, getattr(self, setting), "a number of 0 or more")
        for setting in _SCALES:
            _require(0 < getattr(self, setting) < math.inf, setting, getattr(self, setting), "a number above 0")
        for setting in _MEANS:
            _require(1 <= getattr(self, setting) < math.inf, setting, getattr(self, setting), "a number of 1 or more")
        hours, expected = self.office_hours, "two hours of the day, ascending"
        numbers = isinstance(hours, tuple) and all(isinstance(hour, int | float) for hour in hours)
        _require(numbers and len(hours) == 2 and 0 <= hours[0] < hours[1] <= 24, "office_hours", hours, expected)
        _require(self.jitter_s < 3_600, "jitter_s", self.jitter_s, "less than an hour")
        _require(bool(_DOMAIN.fullmatch(self.domain)), "domain", self.domain, "a name such as example.org")
        total = math.fsum(self.shares)
        _require(math.isclose(total, 1, abs_tol=1e-6), "kinds", self.shares, f"shares of {_NAMES} that sum to 1")

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of the pages of each of `KINDS`."""
        return tuple(getattr(self, kind) for kind in KINDS)

    @property
    def span_s(self) -> int:
        """Length of the log in seconds."""
        return self.days * _DAY_S

    @property
    def hosts(self) -> int:
        """Number of hosts.

        >>> SyntheticSettings().hosts
        10000
        """
        return max(1, round(self.pages / self.pages_per_host))


_NAMES: Final = ", ".join(KINDS)
_CHANCES: Final = (
    *KINDS,
    *("host_accord", "office_share", "weekday_chance", "fixed_hour_share"),
    *("hourly_share", "clock_chance", "bulk_reach"),
)
_AMOUNTS: Final = ("rate_per_day", "host_spread", "burst_rate", "jitter_s", "bulk_edits_per_day", "bulk_s")
_SCALES: Final = ("host_tail", "prefix_shape", "page_shape", "burst_regularity")
_MEANS: Final = ("pages_per_host", "pages_per_prefix", "burst_days", "quiet_days")


def _require(fits: bool, setting: str, found: object, expected: str) -> None:
    if not fits:
        raise SettingsError(setting, found, expected)
