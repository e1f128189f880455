"""The settings of a run: one model, read from the command line, the environment and a TOML file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from streamsched.connectors.formats.detection import FORMATS
from streamsched.connectors.kafka.kafka_settings import SCHEME, read_settings
from streamsched.errors import NOTHING, FormulaError, SettingsError, SettingsErrors
from streamsched.politeness.politeness_settings import HostRule, Rule
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.setting_sources import PREFIX, CommandLine, Environment, Given, TomlFile
from streamsched.service.setting_tables import (
    NO_STREAM,
    NONE,
    SOURCE_EXPECTED,
    BatchesTable,
    ClockTable,
    HttpTable,
    LogTable,
    OptimiserTable,
    PolitenessTable,
    SaveTable,
    SchedulerTable,
    SignalsTable,
    Text,
    TextPath,
    check_source,
)
from streamsched.state.stream_clock import parse_max_ahead

__all__ = ["SETTING_NAMES", "RunSettings", "read_run_settings"]

_HIDDEN: Final = "…"  # in place of a value that may be a password
_REQUIRED: Final = {
    "source": SOURCE_EXPECTED,
    "state": "the directory of the saved state",
}
_HOST_RULE_NAMES: Final = frozenset(one.name for one in fields(HostRule))


class RunSettings(BaseSettings):
    """What a run does; see `read_run_settings`.

    ``source``: a file's path, "-" for standard input, a topic's URL, or `NO_STREAM`; ``signals``: the second stream;
    ``evolve_every``: cycles; ``kafka``: further
    settings of the topics' URLs, by the names that `read_settings` takes; ``rules``: by target, None to remove one;
    ``max_ahead``: how far ahead of the clock, or of a file's newest outcome, an outcome may be: None for the default,
    "none" for any time.
    """

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=False,
        env_prefix=PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
    )

    source: Text
    state: TextPath
    signals: SignalsTable = SignalsTable()
    format: str | None = None
    until_end: bool = False
    from_start: bool = False
    dead_letters: TextPath | None = None
    evolve_every: Annotated[int, Field(ge=1)] | None = None
    threads: int | None = None
    max_ahead: str | float | None = None
    scheduler: SchedulerTable = SchedulerTable()
    politeness: PolitenessTable = PolitenessTable()
    optimiser: OptimiserTable = OptimiserTable()
    save: SaveTable = SaveTable()
    batches: BatchesTable = BatchesTable()
    http: HttpTable = HttpTable()
    clock: ClockTable = ClockTable()
    log: LogTable = LogTable()
    kafka: dict[str, Any] = Field(default={}, repr=False)  # may hold passwords
    rules: dict[str, Rule | HostRule | None] = {}

    def __init__(self, *sources: PydanticBaseSettingsSource) -> None:
        """Read the settings from `sources`; earlier ones override later ones."""
        super().__init__(_build_sources=(sources, {}))

    @property
    def is_topic(self) -> bool:
        """Whether outcomes come from Kafka."""
        return self.source.startswith(SCHEME)

    def ahead_of(self, default: str | float | None) -> str | float | None:
        """Return ``max_ahead``, or `default` if it is not given; None for no bound."""
        if self.max_ahead is None:
            return default
        return None if self.max_ahead == NONE else self.max_ahead

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str) -> str:
        return check_source(source)

    @field_validator("signals")
    @classmethod
    def _check_signals(cls, signals: SignalsTable, info: ValidationInfo) -> SignalsTable:
        if signals.source is None:
            if signals.model_fields_set - {"source"}:
                raise SettingsError("source", NOTHING, SOURCE_EXPECTED)
        elif (source := info.data.get("source")) is not None:  # otherwise reported already
            _check_beside(source, signals.source)
        return signals

    @field_validator("format")
    @classmethod
    def _check_format(cls, value: str | None) -> str | None:
        if value is not None and value not in FORMATS:
            raise SettingsError("", value, f"one of {', '.join(FORMATS)}")
        return value

    @field_validator("threads")
    @classmethod
    def _check_threads(cls, value: int | None) -> int | None:
        try:
            Scheduler(threads=value)
        except SettingsError as error:
            raise SettingsError("", value, error.expected) from error
        return value

    @field_validator("max_ahead", mode="plain")
    @classmethod
    def _check_max_ahead(cls, value: Any) -> str | float | None:
        if value == NONE:
            return NONE
        try:
            return parse_max_ahead(value)
        except SettingsError as error:
            raise SettingsError("", value, f'{error.expected}, or "{NONE}"') from error

    @field_validator("kafka", mode="plain")
    @classmethod
    def _check_kafka(cls, table: Any, info: ValidationInfo) -> dict[str, Any]:
        if not isinstance(table, dict):
            raise SettingsError("", _HIDDEN, "a table")
        source, signals, batches = (info.data.get(name) for name in ("source", "signals", "batches"))
        if source is None or signals is None or batches is None:  # reported already
            return table
        url = next((url for url in (source, signals.source, batches.to) if url and url.startswith(SCHEME)), None)
        if url is None and source == NO_STREAM:
            return table  # of a file that `run` reads too
        if url is None:
            expected = "no setting of Kafka without a topic kafka://… to read or write"
            raise SettingsErrors([SettingsError(name, _HIDDEN, expected) for name in table])
        _raise_all(_kafka_errors(url, table))
        return table

    @field_validator("rules", mode="plain")
    @classmethod
    def _check_rules(cls, table: Any) -> dict[str, Rule | HostRule | None]:
        if not isinstance(table, dict):
            raise SettingsError("", table, "a table")
        errors: list[SettingsError] = []
        rules: dict[str, Rule | HostRule | None] = {}
        trial = Scheduler()
        for target, value in table.items():
            try:
                rules[target] = _make_rule(value)
                trial.set_rule(target, rules[target])
            except SettingsError as error:
                name = target if error.setting in ("target", "rule") else f"{target}.{error.setting}"
                errors.append(SettingsError(name, error.found, error.expected))
        _raise_all(errors)
        return rules


def _setting_names() -> Iterator[str]:
    for name, field in RunSettings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from (f"{name}.{inner}" for inner in field.annotation.model_fields)
        elif name not in ("kafka", "rules"):
            yield name


SETTING_NAMES: Final = frozenset(_setting_names())
"""All settings by dotted name, but for those of Kafka and the rules."""


def read_run_settings(options: Mapping[str, Given], config: Path | None = None) -> tuple[RunSettings, list[str]]:
    """Return the settings in `options`, by dotted name, then the environment, then the file `config`.

    Also returns the variables of the environment that look like settings but are unknown. Raises SettingsErrors that
    names every invalid setting, or SettingsError if the file cannot be read.

    >>> options = {"source": Given("file:a.jsonl", "--source"), "state": Given("s", "--state")}
    >>> read_run_settings(options)[0].source
    'a.jsonl'
    """
    environment = Environment(RunSettings, SETTING_NAMES)
    command_line, file = CommandLine(RunSettings, options), TomlFile(RunSettings, config)
    try:
        return RunSettings(command_line, environment, file), environment.unknown
    except ValidationError as error:
        given = file.given | environment.given | command_line.given
        details = error.errors(include_url=False, include_input=False)
        raise SettingsErrors([found for one in details for found in _describe(one, given)]) from None


def _describe(error: ErrorDetails, given: Mapping[str, Given]) -> Iterator[SettingsError]:
    """Yield the errors in one of pydantic's, each with its place and the value that was given there."""
    table = str(error["loc"][0])
    name = ".".join(str(one) for one in error["loc"][: 1 if table in _REQUIRED else 2])
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, SettingsErrors):
        for one in cause.errors:
            full = f"{name}.{one.setting}" if one.setting else name
            yield SettingsError(_find_place(full, given), one.found, one.expected)
    elif isinstance(cause, SettingsError):
        full = f"{name}.{cause.setting}" if cause.setting else name
        hides = table in ("source", "kafka") or name in ("batches.to", "signals.source")
        found = given[full].value if full in given and not hides else cause.found
        yield SettingsError(_find_place(full, given), found, cause.expected)
    elif error["type"] == "extra_forbidden":
        for full in given:
            if full == name or full.startswith(f"{name}."):
                yield SettingsError(given[full].place, _HIDDEN, "a setting that docs/run.md lists")
    elif error["type"] == "missing":
        yield SettingsError(f"--{name}", NOTHING, _REQUIRED[name])
    else:
        found = given[name].value if name in given else _HIDDEN
        yield SettingsError(_find_place(name, given), found, _describe_expected(error, cause))


def _describe_expected(error: ErrorDetails, cause: object) -> str:
    if isinstance(cause, FormulaError):
        return f"a formula: {cause}"
    if error["type"] in ("model_type", "model_attributes_type"):
        return "a table"
    expected = error["msg"].removeprefix("Input should be ")
    return expected if error["type"] == "literal_error" else expected.partition(",")[0]


def _find_place(name: str, given: Mapping[str, Given]) -> str:
    """Return the place of the setting `name`; of a name within it, with that after a colon."""
    for end in range(len(name), 0, -1):
        if name[:end] in given and name[end : end + 1] in ("", "."):
            return given[name[:end]].place + (f": {name[end + 1 :]}" if name[end:] else "")
    return name


def _check_beside(source: str, signals: str) -> None:
    """Raise SettingsError if `signals` cannot be read beside `source`."""
    if signals.startswith(SCHEME) and source.startswith(SCHEME):
        own, other = read_settings(signals), read_settings(source)
        if own.topic == other.topic:
            raise SettingsError("source", own.topic, "another topic than that of the outcomes, by its name")
        if own.group is not None and own.group == other.group:
            raise SettingsError("source", f"group={own.group}", "a group of its own")
    elif signals == source:
        raise SettingsError("source", signals, "another source than that of the outcomes")
    elif "-" in (signals, source) and (signals.startswith(SCHEME) or source.startswith(SCHEME)):
        raise SettingsError("source", signals, "no standard input beside a topic, which cannot wait for it")


def _kafka_errors(url: str, table: Mapping[str, Any]) -> Iterator[SettingsError]:
    for name, value in table.items():
        try:
            read_settings(url, {name: value})
        except SettingsError as error:
            yield SettingsError(name, error.found, error.expected)


def _raise_all(errors: Iterable[SettingsError]) -> None:
    if found := list(errors):
        raise SettingsErrors(found)


def _make_rule(value: object) -> Rule | HostRule | None:
    """Return the rule in a table, None for "none". Raises SettingsError."""
    if value == NONE:
        return None
    if not isinstance(value, dict):
        raise SettingsError("rule", value, 'a table such as {delay = "2s"} or {never = true}, or "none"')
    kind = HostRule if _HOST_RULE_NAMES & value.keys() else Rule
    known = {one.name for one in fields(kind)}
    for name in value.keys() - known:
        raise SettingsError(name, value[name], f"one of {', '.join(sorted(known))}")
    return kind(**value)
