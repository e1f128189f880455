"""The sources of settings: the command line, the environment and a TOML file, each with the places of its values.

A setting has a dotted name, ``scheduler.cycle``. In a TOML file it is a key in a table, in the environment
``STREAMSCHED_SCHEDULER_CYCLE``, on the command line ``--set scheduler.cycle=1d``, or an option of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource

from streamsched.connectors.kafka.kafka_settings import KafkaSettings
from streamsched.errors import SettingsError, SnapshotError
from streamsched.persistence.files import read_regular

__all__ = ["PREFIX", "CommandLine", "Environment", "Given", "TomlFile", "read_assignments"]

PREFIX: Final = "STREAMSCHED_"
_KAFKA_NAMES: Final = frozenset(one.name.removesuffix("_s") for one in fields(KafkaSettings))
# With our prefix, but no settings of a run.
_OTHER_VARIABLES: Final = tuple(f"{PREFIX}{name}" for name in ("CONFIG", "CACHE", "COMPILE_PROCESSES", "TOKEN"))

Tables = dict[str, Any]
"""Settings as nested tables."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value given for a setting, and its place as errors name it: an option, a variable or a key of a file."""

    value: Any
    place: str


class CommandLine(InitSettingsSource):
    """Settings from `options`, by dotted name. ``given``: the same, by normalised name."""

    def __init__(self, settings: type[BaseSettings], options: Mapping[str, Given]) -> None:
        tables: Tables = {}
        self.given: dict[str, Given] = {}
        for name, given in options.items():
            table, dot, key = name.partition(".")
            if dot:
                if not isinstance(tables.get(table), dict):
                    tables[table] = {}
                key = _kafka_name(key) if table == "kafka" else key
                tables[table][key] = given.value
            else:
                tables.setdefault(name, given.value)
            self.given[f"{table}{dot}{key}"] = given
        super().__init__(settings, tables)


class Environment(EnvSettingsSource):
    """Settings from the variables of `known` settings and of Kafka's; ``unknown``: others with our prefix.

    All values stay text: a password such as ``1e5`` must not be decoded as JSON.
    """

    def __init__(self, settings: type[BaseSettings], known: Iterable[str]) -> None:
        super().__init__(settings)
        variables = {variable_of(name) for name in known}
        ours = [name for name in map(str.upper, self.env_vars) if name.startswith(PREFIX)]
        read = [name for name in ours if name in variables or name.startswith(variable_of("kafka."))]
        self.env_vars = {name.lower(): self.env_vars[name.lower()] for name in read}
        self.unknown = sorted(set(ours) - set(read) - set(_OTHER_VARIABLES))
        self.given = {name: Given(value, variable_of(name)) for name, value in _flatten(self())}

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:  # noqa: ARG002  pydantic's
        """Return `value` as it is."""
        return value

    def __call__(self) -> Tables:
        """Return the settings as nested tables."""
        return _normalise_kafka(super().__call__())


class TomlFile(InitSettingsSource):
    """Settings from the file at `path`, none if it is None. Raises SettingsError if it cannot be read."""

    def __init__(self, settings: type[BaseSettings], path: Path | None) -> None:
        tables = {} if path is None else _normalise_kafka(_read_toml(path))
        self.given = {name: Given(value, f"{path}: {name}") for name, value in _flatten(tables)}
        super().__init__(settings, tables)


def read_assignments(texts: Iterable[str]) -> dict[str, Given]:
    """Return the settings in `texts` of the form ``NAME=VALUE``. Raises SettingsError for any other form.

    >>> read_assignments(["politeness.delay=2s"])["politeness.delay"].value
    '2s'
    """
    given: dict[str, Given] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingsError("--set", text, "NAME=VALUE, such as politeness.delay=2s")
        given[name] = Given(value, f"--set {name}")
    return given


def variable_of(name: str) -> str:
    """Return the variable of the environment for the setting `name`.

    >>> variable_of("kafka.sasl.username")
    'STREAMSCHED_KAFKA_SASL_USERNAME'
    """
    return PREFIX + name.replace(".", "_").replace("-", "_").upper()


def _read_toml(path: Path) -> Tables:
    """Return the tables in the file; unlike pydantic's own source, a missing file is an error."""
    try:
        return tomllib.loads(read_regular(path).decode())
    except (SnapshotError, FileNotFoundError) as error:
        reason = error.reason if isinstance(error, SnapshotError) else error.strerror
        raise SettingsError("--config", str(path), f"a file that can be read ({reason})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("--config", str(path), f"a TOML file ({error})") from error


def _normalise_kafka(tables: Tables) -> Tables:
    """Return `tables` with the table kafka flat and by the names that `read_settings` takes."""
    kafka = tables.get("kafka")
    if not isinstance(kafka, dict):
        return tables
    return {**tables, "kafka": {_kafka_name(name): value for name, value in _flatten_all(kafka)}}


def _kafka_name(name: str) -> str:
    """Return a name of the table kafka as its documentation has it: variables cannot contain dots or hyphens.

    >>> _kafka_name("sasl_username"), _kafka_name("dead-letters")
    ('sasl.username', 'dead_letters')
    """
    own = name.replace("-", "_")
    return own if own in _KAFKA_NAMES else name.replace("_", ".")


def _flatten(tables: Tables) -> Iterator[tuple[str, Any]]:
    """Yield settings by dotted name; tables within a table, such as a rule, stay values."""
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def _flatten_all(table: Tables, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten_all(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
