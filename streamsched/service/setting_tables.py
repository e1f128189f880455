"""The tables of a run's settings, each checked by the class that takes its values.

Every setting is checked alone, then all of a table together, so that every invalid setting is reported at once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SkipValidation,
    ValidationInfo,
    field_validator,
    model_validator,
)

from streamsched.connectors.kafka.kafka_settings import read_settings
from streamsched.errors import SettingsError, SettingsErrors
from streamsched.persistence.image_writer import SavePlan
from streamsched.politeness.politeness_settings import Politeness
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.batch_publisher import BatchPlan

__all__ = [
    "LOG_FORMATS",
    "LOG_LEVELS",
    "NONE",
    "BatchesTable",
    "LogTable",
    "PolitenessTable",
    "SaveTable",
    "SchedulerTable",
    "Text",
    "TextPath",
    "check_topic",
]

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LogFormat: TypeAlias = Literal["text", "json"]
LOG_LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)
LOG_FORMATS: Final[tuple[LogFormat, ...]] = get_args(LogFormat)
NONE: Final = "none"  # the value None, for places that hold text only


def check_topic(url: str) -> None:
    """Check the URL of a topic; the error shows no password."""
    try:
        read_settings(url)
    except SettingsError as error:
        setting = "" if error.setting == "source" else error.setting
        raise SettingsErrors([SettingsError(setting, error.found, error.expected)]) from error


def _require_text(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    raise SettingsError("", value, "a text")


Duration: TypeAlias = Annotated[str | float, SkipValidation]  # parsed by the class that takes it
Text: TypeAlias = Annotated[str, BeforeValidator(_require_text)]
TextPath: TypeAlias = Annotated[Path, BeforeValidator(_require_text)]


class SettingsTable(BaseModel):
    """Settings of ``target``, the class that checks and takes them; a setting that is not given has its default there.

    ``extra_names``: settings in the same table that ``target`` does not take.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    target: ClassVar[Callable[..., object]]
    extra_names: ClassVar[frozenset[str]] = frozenset()

    def given(self) -> dict[str, Any]:
        """Return the given arguments of ``target``."""
        return {name: getattr(self, name) for name in self.model_fields_set - self.extra_names}

    @field_validator("*", mode="before")
    @classmethod
    def _read_none(cls, value: Any) -> Any:
        if isinstance(value, bool):  # pydantic would take it for 0 or 1
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
    cycle: Duration | None = None
    objective: str | None = None
    formula: str | None = None
    seed: int | None = None
    change_bits: int | None = None
    panel: float | None = None
    new_share: float | None = None
    explore_share: float | None = None
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


class LogTable(BaseModel):
    """Settings of the log; ``level`` None is "info" for topics and "warning" for files."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    level: LogLevel | None = None
    format: LogFormat = "text"
