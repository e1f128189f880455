"""How often a page and a host may be visited: the settings, and the rules that make exceptions from them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Final, cast

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_whole
from streamsched.numerics.durations import parse_duration

__all__ = ["MOST_OF_A_HOST", "HostRule", "Politeness", "Rule"]

MOST_OF_A_HOST: Final = 0xFFFE  # pages in flight or in a batch that a host's rule can allow: what its record holds
_MOST_GONE: Final = 255  # answers of 404 or 410 in a row that a page's record counts
_ANY: Final = "1 or more pages, or None for any number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Politeness:
    """What a scheduler keeps to whatever the scores say. Lengths of time as ``"10m"`` or seconds, kept as seconds.

    Of a host:

    - ``delay``: least time between two visits to it. A batch holds as many of its pages as can be visited that far
      apart within the lease, one at the least, and the crawler spaces their visits; no other batch holds any of them
      before that time is over. `rank`, which knows no lease, is not limited by it;
    - ``in_flight``: most of its pages out on lease at once, None for any number;
    - ``per_batch``: most of its pages in one batch, None for any number; a scheduler's ``per_host`` is the same.

    Of a page:

    - ``backoff``, ``backoff_most``: after the i-th failed visit in a row (no answer, 429, 5xx) it rests for
      ``backoff * 2**(i - 1)``, at most ``backoff_most``, give or take a quarter; 0 for no rest. A host that answers 429
      without saying for how long rests in the same steps;
    - ``retire_after``, ``probe_every``: a page that answered 404 or 410 that many times in a row, 1 to 255, is visited
      only every ``probe_every``, give or take a quarter, until it answers otherwise; None to go on as before;
    - ``min_revisit``: least time from a visit that told something to the next;
    - ``max_revisit``: time from such a visit on after which the page goes before all that are not overdue, None for
      never. A page that was never visited counts from when it became known.

    Raises SettingsError where a value cannot work.

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

    def __post_init__(self) -> None:
        for name in ("delay", "backoff", "min_revisit"):
            _settle(self, name, zero=True)
        for name in ("backoff_most", "probe_every", "max_revisit"):
            _settle(self, name)
        for name in ("in_flight", "per_batch"):
            _settle_count(self, name, _ANY, None)
        _settle_count(self, "retire_after", f"1 to {_MOST_GONE} answers, or None", _MOST_GONE)
        _check_revisits(self.min_revisit, self.max_revisit)
        if self.backoff > self.backoff_most:  # type: ignore[operator]
            raise SettingsError(
                "backoff_most", self.backoff_most, f"at least backoff, which is {self.backoff:g} seconds"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON has them, lengths of time in seconds."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Politeness:
        """Return the settings that `to_json` told."""
        shorter = min(told["backoff"], told["backoff_most"])  # as it was meant where that was not checked yet
        return cls(**(told | {"backoff": shorter}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What holds for some pages in place of the settings; None leaves a setting as it is.

    ``never``: they are not handed out at all, as robots.txt or their owner wishes, whatever other rules say of them,
    until this one is taken back; ``min_revisit`` and ``max_revisit``: as in `Politeness`.

    Raises SettingsError where a value cannot work.

    >>> Rule(min_revisit="1d").min_revisit
    86400.0
    """

    min_revisit: str | float | None = None
    max_revisit: str | float | None = None
    never: bool = False

    def __post_init__(self) -> None:
        _settle(self, "min_revisit", zero=True)
        _settle(self, "max_revisit")
        if not isinstance(self.never, bool):
            raise SettingsError("never", self.never, "True or False")
        _check_revisits(self.min_revisit, self.max_revisit)

    def to_json(self) -> dict[str, Any]:
        """Return what the rule sets as JSON has it."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if value is not None and value is not False
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Rule:
        """Return the rule that `to_json` told."""
        return cls(**told)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRule:
    """What holds for some hosts in place of the settings of `Politeness`; None leaves a setting as it is.

    ``in_flight`` and ``per_batch`` are 1 to 65,534 pages. Raises SettingsError where a value cannot work.

    >>> HostRule(delay="1m", in_flight=1).delay
    60.0
    """

    delay: str | float | None = None
    in_flight: int | None = None
    per_batch: int | None = None

    def __post_init__(self) -> None:
        _settle(self, "delay", zero=True)
        for name in ("in_flight", "per_batch"):
            _settle_count(self, name, f"1 to {MOST_OF_A_HOST} pages, or None for the settings'", MOST_OF_A_HOST)

    def to_json(self) -> dict[str, Any]:
        """Return what the rule sets as JSON has it."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> HostRule:
        """Return the rule that `to_json` told."""
        return cls(**told)


def _settle(settings: object, name: str, *, zero: bool = False) -> None:
    """Check a length of time and put its seconds in its place; None stays where it is the default."""
    found = getattr(settings, name)
    if found is None and _default(settings, name) is None:
        return
    object.__setattr__(settings, name, parse_duration(cast(str | float, found), name, zero=zero))


def _settle_count(settings: object, name: str, expected: str, most: int | None) -> None:
    """Check a number of 1 or more, or None, and put it in its place as an int."""
    found = getattr(settings, name)
    if found is not None:
        object.__setattr__(settings, name, check_whole(name, found, 1, expected, most=most))


def _default(settings: object, name: str) -> object:
    return type(settings).__dataclass_fields__[name].default  # type: ignore[attr-defined]


def _check_revisits(least: object, most: object) -> None:
    """Refuse a least time between two visits that is longer than the greatest."""
    least_s = least if isinstance(least, float) else 0.0
    most_s = most if isinstance(most, float) else math.inf
    if least_s > most_s:
        raise SettingsError("min_revisit", least, f"at most max_revisit, which is {most_s:g} seconds")
