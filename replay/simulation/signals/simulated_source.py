"""Settings of a simulated source of change signals: its pages, what it announces, how late, and how often wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_fields, check_part
from streamsched.numerics.durations import parse_duration
from streamsched.signals import MAX_SOURCE_BYTES

__all__ = ["SimulatedSource", "is_simulated", "name_sources", "parse_source"]

_SETTINGS: Final = {  # as people write them
    "share": "share",
    "recall": "recall",
    "precision": "precision",
    "late": "late_s",
    "start": "start_s",
    "flood": "flood_s",
    "kind": "kind",
}
_EXAMPLE: Final = "settings such as share=.5,recall=.7,precision=.7,late=6h"


@dataclass(frozen=True, slots=True)
class SimulatedSource:
    """One simulated source.

    ``share``: of the pages that it covers, for the whole replay. ``recall``: of their changes that it announces.
    ``precision``: of its signals that announce a change; the false ones come at one rate on all covered pages.
    ``late_s``: the mean delay of an announcement, exponentially distributed. ``start_s``: seconds of the replay before
    its first signal. ``flood_s``: signal all covered pages each such time instead, changed or not. ``kind``: the name
    of the source; one without a name is called by its number.

    Raises SettingsError if a value is invalid.
    """

    kind: str = ""
    share: float = 1.0
    recall: float = 1.0
    precision: float = 1.0
    late_s: float = 0.0
    start_s: float = 0.0
    flood_s: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("share", "recall", "precision"):
            check_part(name, getattr(self, name))
        for name in ("late_s", "start_s"):
            seconds = getattr(self, name)
            if not 0.0 <= seconds < math.inf:
                raise SettingsError(name, seconds, "a number of seconds of 0 or more")
        if self.flood_s is not None and not 1.0 <= self.flood_s < math.inf:
            raise SettingsError("flood_s", self.flood_s, "1 second or more")
        announces = (self.recall, self.precision, self.late_s) != (1.0, 1.0, 0.0)
        if self.flood_s is not None and announces:
            raise SettingsError("flood_s", self.flood_s, "no recall, precision or lateness beside it")
        if not self.kind.isprintable() or len(self.kind.encode(errors="replace")) > MAX_SOURCE_BYTES:
            raise SettingsError("kind", self.kind, f"at most {MAX_SOURCE_BYTES} bytes of printable UTF-8")

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values for JSON; what does not apply to a flood is left out. O(1)."""
        plain = {"kind": self.kind, "share": self.share, "start_s": self.start_s}
        if self.flood_s is not None:
            return plain | {"flood_s": self.flood_s}
        return plain | {"recall": self.recall, "precision": self.precision, "late_s": self.late_s}


def is_simulated(text: str) -> bool:
    """Return whether `text` describes a simulated source; else it is the name of a file. O(length).

    >>> is_simulated("share=.5,late=6h"), is_simulated("signals.jsonl"), is_simulated("./share=.5")
    (True, False, False)
    """
    return text.partition("=")[0].isidentifier() and "=" in text


def parse_source(text: str) -> SimulatedSource:
    """Return the simulated source that `text` describes. O(length). Raises SettingsError.

    >>> parse_source("share=.5,recall=.7,precision=.7,late=6h")
    SimulatedSource(kind='', share=0.5, recall=0.7, precision=0.7, late_s=21600.0, start_s=0.0, flood_s=None)
    """
    given: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in _SETTINGS or not value:
            raise SettingsError("signals", text, f"{_EXAMPLE}; known are {', '.join(_SETTINGS)}")
        if _SETTINGS[name] in given:
            raise SettingsError("signals", text, f"{name} once")
        given[_SETTINGS[name]] = _read(name, value, text)
    try:
        return SimulatedSource(**given)
    except SettingsError as error:
        name = error.setting.removesuffix("_s")
        raise SettingsError("signals", text, f"{name}: {error.expected}") from None


def name_sources(sources: Iterable[SimulatedSource]) -> tuple[SimulatedSource, ...]:
    """Return the sources with names: one that has none is called source-N, its place among all from 1. O(n).

    >>> [source.kind for source in name_sources([SimulatedSource(), SimulatedSource(kind="feed")])]
    ['source-1', 'feed']
    """
    return tuple(
        source if source.kind else replace(source, kind=f"source-{place}") for place, source in enumerate(sources, 1)
    )


def _read(name: str, value: str, text: str) -> Any:
    """Return the value of one setting. Raises SettingsError about the whole `text`."""
    if name == "kind":
        return value
    duration = name in ("late", "start", "flood")
    read: Callable[[str], float] = (lambda one: parse_duration(one, zero=name != "flood")) if duration else float
    try:
        return read(value)
    except (SettingsError, ValueError):
        expected = "a duration such as 6h" if duration else "a number such as .5"
        raise SettingsError("signals", text, f"{name}: {expected}") from None
