"""The settings of the Scrapy add-on, each ``STREAMSCHED_…`` in Scrapy's settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scrapy.settings import BaseSettings

from streamsched.api.values import MOST_RECORDS
from streamsched.connectors.crawlers.visits import ContentRules
from streamsched.content.ignore_rules import IgnoreRules
from streamsched.errors import NOTHING, SettingsError
from streamsched.fields import suggest
from streamsched.numerics.durations import parse_duration, parse_lease

PREFIX: Final = "STREAMSCHED_"


@dataclass(frozen=True, slots=True)
class AddonSettings:
    """What docs/scrapy.md lists, read and checked.

    ``url``, ``state``: one of them is set; ``lease_s``, ``idle_close_s``, ``stop_s``: seconds; ``hosts``: None for
    those of the spider's `allowed_domains`; ``pages``: 0 without an end; ``cost_s``: seconds of a visit whose cost is
    1, None to report no costs; ``callbacks``: names of the spider's methods, with the URLs that they are for;
    ``clock_speed``: seconds of the service's clock a second.
    """

    url: str | None
    state: str | None
    token: str | None = None
    batch: int = 100
    lease_s: float = 600.0
    hosts: tuple[str, ...] | None = None
    per_host: int | None = None
    pages: int = 0
    idle_close_s: float | None = None
    cost_s: float | None = None
    stop_s: float = 10.0
    discover: bool = True
    changed: bool = True
    crawl_delay: bool = True
    validators: bool = False
    callbacks: tuple[tuple[re.Pattern[str], str], ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    content: ContentRules = field(default_factory=ContentRules)
    clock_speed: float = 1.0


def read_settings(settings: BaseSettings) -> AddonSettings:
    """Return the add-on's settings. Raises SettingsError, which names the first one that is not valid or not known."""
    read = _Reader(settings)
    found = _read_all(read)
    for name in settings:
        if str(name).startswith(PREFIX) and name not in read.names:
            raise SettingsError(str(name), settings[name], f"a setting of the add-on{suggest(str(name), read.names)}")
    return found


class _Reader:
    """Scrapy's settings, whose errors name the setting; ``names``: those that were read."""

    def __init__(self, settings: BaseSettings) -> None:
        self._settings = settings
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None, *, as_: str = "get") -> Any:
        """Return a setting by the method `as_` of Scrapy's settings."""
        self.names.add(PREFIX + name)
        try:
            return getattr(self._settings, as_)(PREFIX + name, default)
        except (TypeError, ValueError) as error:
            raise SettingsError(PREFIX + name, self._settings[PREFIX + name], f"what {as_} reads: {error}") from None

    def flag(self, name: str, default: bool) -> bool:
        """Return a setting that is true or false."""
        return bool(self.get(name, default, as_="getbool"))

    def mapping(self, name: str) -> dict[Any, Any]:
        """Return a setting that is a mapping."""
        return dict(self.get(name, as_="getdict"))


def _read_all(settings: _Reader) -> AddonSettings:
    url, state = _text(settings, "URL"), _text(settings, "STATE")
    if (url is None) == (state is None):
        found = NOTHING if url is None else f"{url} and STREAMSCHED_STATE"
        raise SettingsError(f"{PREFIX}URL", found, "the service's URL, or STREAMSCHED_STATE for one of its own")
    if url is not None and not url.startswith(("http://", "https://")):
        raise SettingsError(f"{PREFIX}URL", url, "a URL with http:// or https://")
    idle, hosts, per_host, cost = (settings.get(name) for name in ("IDLE_CLOSE", "HOSTS", "PER_HOST", "COST"))
    return AddonSettings(
        url=url,
        state=state,
        token=_text(settings, "TOKEN"),
        batch=_count(settings, "BATCH", 100, most=MOST_RECORDS),
        lease_s=_checked("LEASE", parse_lease, settings.get("LEASE", "10m")),
        hosts=None if hosts is None else tuple(settings.get("HOSTS", as_="getlist")),
        per_host=None if per_host is None else _count(settings, "PER_HOST", 1),
        pages=_count(settings, "PAGES", 0, least=0),
        idle_close_s=None if idle is None else _duration("IDLE_CLOSE", idle),
        cost_s=None if cost is None else parse_duration(cost, f"{PREFIX}COST"),
        stop_s=_duration("STOP", settings.get("STOP", "10s")),
        discover=settings.flag("DISCOVER", True),
        changed=settings.flag("CHANGED", True),
        crawl_delay=settings.flag("CRAWL_DELAY", True),
        validators=settings.flag("VALIDATORS", False),
        callbacks=_callbacks(settings),
        meta=settings.mapping("META"),
        content=ContentRules(
            ignore=_checked("IGNORE", IgnoreRules, settings.mapping("IGNORE")),
            has_fingerprint=settings.flag("FINGERPRINT", True),
        ),
        clock_speed=_speed(settings),
    )


def _text(settings: _Reader, name: str) -> str | None:
    value = settings.get(name)
    return str(value) if value else None


def _count(settings: _Reader, name: str, default: int, *, least: int = 1, most: int | None = None) -> int:
    found = settings.get(name, default)
    expected = f"a number from {least:,}" + ("" if most is None else f" to {most:,}")
    try:
        number = int(found)
    except (TypeError, ValueError):
        raise SettingsError(PREFIX + name, found, expected) from None
    if number < least or (most is not None and number > most):
        raise SettingsError(PREFIX + name, found, expected)
    return number


def _duration(name: str, value: Any) -> float:
    return parse_duration(value, PREFIX + name, zero=True)


def _speed(settings: _Reader) -> float:
    speed = float(settings.get("CLOCK_SPEED", 1.0, as_="getfloat"))
    if speed <= 0.0:
        raise SettingsError(f"{PREFIX}CLOCK_SPEED", speed, "seconds of the service's clock a second, above 0")
    return speed


def _checked(name: str, read: Callable[[Any], Any], value: Any) -> Any:
    """Return what `read` makes of a setting; its error names the setting."""
    try:
        return read(value)
    except SettingsError as error:
        raise SettingsError(PREFIX + name, error.found, error.expected) from None


def _callbacks(settings: _Reader) -> tuple[tuple[re.Pattern[str], str], ...]:
    found = []
    for pattern, method in settings.mapping("CALLBACKS").items():
        try:
            found.append((re.compile(pattern), str(method)))
        except re.error as error:
            raise SettingsError(f"{PREFIX}CALLBACKS", pattern, f"a regular expression: {error}") from None
    return tuple(found)
