"""Politeness settings: how often a page and a host may be visited, and the rules that override them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Final, cast

from streamsched.api.values import MOST_ANSWERS, MOST_OF_A_HOST, MOST_PAGES
from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.durations import parse_duration

_ANY: Final = "1 or more pages, or None for any number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Politeness:
    """When pages and hosts may be visited, regardless of scores. Durations are ``"10m"`` or seconds, stored as seconds.

    Settings of a host:

    - ``delay``: least time between two visits. A batch holds at most as many of its pages as can be visited that
      far apart within the lease, at least one, and the crawler spaces these visits; no other batch holds any of them
      before that time is over. `rank`, which has no lease, is not limited by it;
    - ``in_flight``: the maximum of its pages leased at once, None for any number;
    - ``per_batch``: the maximum of its pages in one batch, None for any number;
    - ``retry_after_most``: the longest rest that an answer can demand by Retry-After. An answer dated further ahead of
      the newest outcome before it counts as of the time of that outcome, as its clock may be wrong;
    - ``host_backoff_429``, ``host_backoff_503``: the number of pages, 1 to 255, that must give this answer one after
      another before the whole host rests; None for no such rest. If fewer pages did, a Retry-After holds for each of
      them alone, in addition to its back-off. After its rest the host gives one page, and the others once a visit has
      not failed.

    Settings of a page:

    - ``backoff``, ``backoff_most``: after the i-th failed visit in a row (no response, 429, 5xx) it rests for
      ``backoff * 2**(i - 1)``, at most ``backoff_most``, plus or minus a quarter; 0 for no rest. A host that answers
      429 or 503 without Retry-After rests in the same steps;
    - ``retire_after``, ``probe_every``: a page that answered 404 or 410 that many times in a row, 1 to 255, is visited
      only every ``probe_every``, plus or minus a quarter, until it answers otherwise; None to keep visiting it;
    - ``min_revisit``: least time from a successful visit to the next one;
    - ``max_revisit``: time after a successful visit at which the page becomes overdue and comes before all pages that
      are not, None for never. A page that was never visited counts from when it became known.

    Setting of leases:

    - ``clock_skew``: the most that the clocks of crawlers differ. An outcome that was fetched longer than that before
      the lease of its page began does not end the lease, because it is that of an earlier visit.

    Raises SettingsError if a value is invalid.

    >>> Politeness(delay="2s", backoff="30m").backoff
    1800.0
    """

    delay: str | float = 0.0
    in_flight: int | None = None
    per_batch: int | None = None
    backoff: str | float = "1h"
    backoff_most: str | float = "7d"
    retire_after: int | None = 3
    probe_every: str | float = "30d"
    min_revisit: str | float = 0.0
    max_revisit: str | float | None = None
    retry_after_most: str | float = "1d"
    clock_skew: str | float = "10s"
    host_backoff_429: int | None = 1
    host_backoff_503: int | None = 3

    def __post_init__(self) -> None:
        for name in ("delay", "backoff", "min_revisit", "clock_skew"):
            _replace_duration(self, name, zero=True)
        for name in ("backoff_most", "probe_every", "max_revisit", "retry_after_most"):
            _replace_duration(self, name)
        for name in ("in_flight", "per_batch"):
            _replace_count(self, name, _ANY, MOST_PAGES)
        _replace_count(self, "retire_after", f"1 to {MOST_ANSWERS} answers, or None", MOST_ANSWERS)
        for name in ("host_backoff_429", "host_backoff_503"):
            _replace_count(self, name, f"1 to {MOST_ANSWERS} pages, or None", MOST_ANSWERS)
        _check_revisits(self.min_revisit, self.max_revisit)
        if self.backoff > self.backoff_most:  # type: ignore[operator]
            raise SettingsError(
                "backoff_most", self.backoff_most, f"at least backoff, which is {self.backoff:g} seconds"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON values, durations in seconds."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Politeness:
        """Return the settings that `to_json` returned."""
        shorter = min(state["backoff"], state["backoff_most"])  # states saved before that was checked
        return cls(**(state | {"backoff": shorter}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Overrides of the settings for some pages; None keeps a setting.

    ``never``: the pages are never visited, as robots.txt or their owner demands. It overrides all other rules until it
    is removed or replaced. ``min_revisit`` and ``max_revisit``: as in `Politeness`.

    Raises SettingsError if a value is invalid.

    >>> Rule(min_revisit="1d").min_revisit
    86400.0
    """

    min_revisit: str | float | None = None
    max_revisit: str | float | None = None
    never: bool = False

    def __post_init__(self) -> None:
        _replace_duration(self, "min_revisit", zero=True)
        _replace_duration(self, "max_revisit")
        if not isinstance(self.never, bool):
            raise SettingsError("never", self.never, "True or False")
        _check_revisits(self.min_revisit, self.max_revisit)

    def to_json(self) -> dict[str, Any]:
        """Return what the rule sets, as JSON values."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if value is not None and value is not False
        }

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Rule:
        """Return the rule that `to_json` returned."""
        return cls(**state)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule:
    """Overrides of the settings of `Politeness` for some hosts; None keeps a setting.

    ``in_flight`` and ``per_batch`` are 1 to 65,534 pages. Raises SettingsError if a value is invalid.

    >>> HostRule(delay="1m", in_flight=1).delay
    60.0
    """

    delay: str | float | None = None
    in_flight: int | None = None
    per_batch: int | None = None

    def __post_init__(self) -> None:
        _replace_duration(self, "delay", zero=True)
        for name in ("in_flight", "per_batch"):
            _replace_count(
                self, name, f"1 to {MOST_OF_A_HOST} pages, or None to use the Politeness setting", MOST_OF_A_HOST
            )

    def to_json(self) -> dict[str, Any]:
        """Return what the rule sets, as JSON values."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> HostRule:
        """Return the rule that `to_json` returned."""
        return cls(**state)


def _replace_duration(settings: object, name: str, *, zero: bool = False) -> None:
    """Replace a duration by its seconds; None stays if it is the default."""
    found = getattr(settings, name)
    if found is None and _default(settings, name) is None:
        return
    object.__setattr__(settings, name, parse_duration(cast(str | float, found), name, zero=zero))


def _replace_count(settings: object, name: str, expected: str, most: int | None) -> None:
    """Replace a count of 1 or more by an int; None stays."""
    found = getattr(settings, name)
    if found is not None:
        object.__setattr__(settings, name, check_whole(name, found, 1, expected, most=most))


def _default(settings: object, name: str) -> object:
    return type(settings).__dataclass_fields__[name].default  # type: ignore[attr-defined]


def _check_revisits(least: object, most: object) -> None:
    """Raise SettingsError if the least time between two visits is longer than the greatest."""
    least_s = least if isinstance(least, float) else 0.0
    most_s = most if isinstance(most, float) else math.inf
    if least_s > most_s:
        raise SettingsError("min_revisit", least, f"at most max_revisit, which is {most_s:g} seconds")
