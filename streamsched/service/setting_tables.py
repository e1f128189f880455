"""The tables of a run's settings, each checked by the class that takes its values.

Every setting is checked alone, then all of a table together, so that every invalid setting is reported at once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SkipValidation,
    ValidationInfo,
    field_validator,
    model_validator,
)

from streamsched.connectors.kafka.kafka_settings import SCHEME, read_settings
from streamsched.connectors.records.record_types import SIGNALS
from streamsched.errors import SettingsError, SettingsErrors
from streamsched.persistence.image_writer import SavePlan
from streamsched.politeness.politeness_settings import Politeness
from streamsched.scheduler.planning.optimiser_settings import OptimiserSettings
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.batch_publisher import BatchPlan
from streamsched.service.http_settings import HttpSettings

__all__ = [
    "LOG_FORMATS",
    "LOG_LEVELS",
    "NONE",
    "NO_STREAM",
    "SOURCE_EXPECTED",
    "BatchesTable",
    "HttpTable",
    "LogTable",
    "OptimiserTable",
    "PolitenessTable",
    "SaveTable",
    "SchedulerTable",
    "SignalsTable",
    "Text",
    "TextPath",
    "check_source",
]

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]
LOG_LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)
LOG_FORMATS: Final[tuple[LogFormat, ...]] = get_args(LogFormat)
SOURCE_EXPECTED: Final = "file:PATH, PATH, - for standard input, or kafka://HOST:PORT/TOPIC"
NO_STREAM: Final = "none:"  # the source of `serve`
NONE: Final = "none"  # the value None, for places that hold text only


def check_topic(url: str) -> None:
    """Check the URL of a topic; the error shows no password."""
    try:
        read_settings(url)
    except SettingsError as error:
        setting = "" if error.setting == "source" else error.setting
        raise SettingsErrors([SettingsError(setting, error.found, error.expected)]) from error


def check_source(source: str) -> str:
    """Return a file's path or a topic's URL without the prefix ``file:``; the error shows no password."""
    if source.startswith(SCHEME):
        check_topic(source)
    elif source.startswith("kafka:"):
        raise SettingsError("", source.partition("?")[0], SOURCE_EXPECTED)
    return source.removeprefix("file:")


def _require_text(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    raise SettingsError("", value, "a text")


Duration: TypeAlias = Annotated[str | float, SkipValidation]  # or a budget: parsed by the class that takes it
Text: TypeAlias = Annotated[str, BeforeValidator(_require_text)]
TextPath: TypeAlias = Annotated[Path, BeforeValidator(_require_text)]


class SettingsTable(BaseModel):
    """Settings of ``target``, the class that checks and takes them; a setting that is not given has its default there.

    ``extra_names``: settings in the same table that ``target`` does not take; ``flags``: those that are true or false.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    target: ClassVar[Callable[..., object]]
    extra_names: ClassVar[frozenset[str]] = frozenset()
    flags: ClassVar[frozenset[str]] = frozenset()

    def given(self) -> dict[str, Any]:
        """Return the given arguments of ``target``."""
        return {name: getattr(self, name) for name in self.model_fields_set - self.extra_names}

    @field_validator("*", mode="before")
    @classmethod
    def _read_none(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and str(info.field_name) not in cls.flags:  # pydantic would take it for 0 or 1
            raise SettingsError("", value, "a number or a text")
        return None if value == NONE else value

    @field_validator("*")
    @classmethod
    def _check_alone(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        if name not in cls.extra_names:
            try:
                cls.target(**{name: value})
            except SettingsError as error:
                if error.setting == name or error.setting not in cls.model_fields:
                    raise SettingsError("", error.found, error.expected) from error
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if given := self.given():
            type(self).target(**given)
        return self


class SchedulerTable(SettingsTable):
    """Settings of a new `Scheduler`; only the formula, the objective and the bounds `max_…` may change later."""

    target = Scheduler
    flags = frozenset({"signals_discover"})
    cycle: Duration | None = None
    objective: str | None = None
    formula: str | None = None
    seed: int | None = None
    change_bits: int | None = None
    panel: float | None = None
    new_share: float | None = None
    explore_share: float | None = None
    signals_discover: bool | None = None
    max_pages: int | None = None
    max_pages_per_host: int | None = None
    max_patterns_per_host: int | None = None


class PolitenessTable(SettingsTable):
    """Settings of `Politeness`."""

    target = Politeness
    delay: Duration | None = None
    in_flight: int | None = None
    per_batch: int | None = None
    backoff: Duration | None = None
    backoff_most: Duration | None = None
    retire_after: int | None = None
    probe_every: Duration | None = None
    min_revisit: Duration | None = None
    max_revisit: Duration | None = None
    retry_after_most: Duration | None = None
    host_backoff_429: int | None = None
    host_backoff_503: int | None = None


class OptimiserTable(SettingsTable):
    """Settings of `OptimiserSettings`; a run without any has no optimiser."""

    target = OptimiserSettings
    policy: str | None = None
    budget: Duration | None = None
    every: Duration | None = None
    floor: float | None = None
    complete_from: float | None = None


class SaveTable(SettingsTable):
    """Settings of `SavePlan`."""

    target = SavePlan
    every: Duration | None = None
    increments: int | None = None
    share: float | None = None
    kept: int | None = None


class BatchesTable(SettingsTable):
    """Settings of `BatchPlan`, and ``to``, the URL of the topic that batches are published to."""

    target = BatchPlan
    extra_names = frozenset({"to"})
    to: Text | None = None
    size: int | None = None
    every: Duration | None = None
    lease: Duration | None = None
    behind: int | None = None

    @field_validator("to")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None:
            check_topic(url)
        return url


class HttpTable(SettingsTable):
    """Settings of `HttpSettings`; without an ``address``, `run` serves no HTTP."""

    target = HttpSettings
    address: str | None = None
    tokens: Text | None = None
    audit: Text | None = None
    max_body: int | None = None
    rate: int | None = None
    connections: int | None = None
    queue: int | None = None
    body_timeout: Duration | None = None
    idle_timeout: Duration | None = None
    drain_timeout: Duration | None = None
    sample_every: Duration | None = None


class SignalsTable(BaseModel):
    """The second stream, of change signals: ``source``: a file's path, "-" or a topic's URL; ``format``: of a file.

    ``dead_letters``: a file for rejected signals.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    source: Text | None = None
    format: str | None = None
    dead_letters: TextPath | None = None

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str | None) -> str | None:
        return None if source is None else check_source(source)

    @field_validator("format")
    @classmethod
    def _check_format(cls, value: str | None) -> str | None:
        if value is not None and value not in SIGNALS.formats:
            raise SettingsError("", value, f"one of {', '.join(SIGNALS.formats)}")
        return value


class ClockTable(BaseModel):
    """The time of the service: from ``start`` on, UTC unless it has a zone, ``speed`` times as fast as the machine's.

    ``start`` None is the present.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    start: datetime | None = None
    speed: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 1.0

    @field_validator("start")
    @classmethod
    def _set_zone(cls, start: datetime | None) -> datetime | None:
        return start if start is None or start.tzinfo else start.replace(tzinfo=UTC)


class LogTable(BaseModel):
    """Settings of the log; ``level`` None is "info" for topics and "warning" for files."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    level: LogLevel | None = None
    format: LogFormat = "text"
