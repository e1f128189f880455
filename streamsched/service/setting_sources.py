"""Reads the settings of a run from the command line, the environment and a TOML file, and reports all invalid ones.

A setting has a dotted name, ``scheduler.cycle``. In a TOML file it is a key in a table, in the environment
``STREAMSCHED_SCHEDULER_CYCLE``, on the command line ``--set scheduler.cycle=1d``, or an option of its own. Every value
is first checked alone, then all of a table together.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import date
from pathlib import Path
from types import NoneType
from typing import Any, Final

from streamsched.connectors.kafka.kafka_settings import SCHEME, KafkaSettings, read_settings
from streamsched.errors import NOTHING, FormulaError, SettingsError, SettingsErrors, SnapshotError, shorten
from streamsched.fields import closest
from streamsched.persistence.files import read_regular
from streamsched.politeness.politeness_settings import HostRule, Rule
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.run_settings import NO_STREAM, SETTINGS, SOURCE_EXPECTED, TABLES, RunSettings

PREFIX: Final = "STREAMSCHED_"
_NONE: Final = "none"  # the value None, for places that hold text only
_HIDDEN: Final = "…"  # in place of a value that may be a password
_REQUIRED: Final = {"source": SOURCE_EXPECTED, "state": "the directory of the saved state"}
_UNCHECKED: Final = {"source": "-", "state": Path()}  # for the required ones while another setting is checked alone
_FLAGS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_KAFKA_NAMES: Final = frozenset(one.name.removesuffix("_s") for one in fields(KafkaSettings))
# With our prefix, but no settings of a run.
_OTHER_VARIABLES: Final = frozenset(f"{PREFIX}{name}" for name in ("CONFIG", "CACHE", "COMPILE_PROCESSES", "TOKEN"))

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Given:
    """A value given for a setting, and its place as errors name it: an option, a variable or a key of a file."""

    value: Any
    place: str


def read_run_settings(options: Mapping[str, Given], config: Path | None = None) -> tuple[RunSettings, list[str]]:
    """Return the settings in `options`, by dotted name, then the environment, then the file `config`.

    Also returns the variables of the environment that look like settings but are unknown. Raises SettingsErrors that
    names every invalid setting, or SettingsError if the file cannot be read.

    >>> options = {"source": Given("file:a.jsonl", "--source"), "state": Given("s", "--state")}
    >>> read_run_settings(options)[0].source
    'a.jsonl'
    """
    variables, unknown = _read_environment()
    given = dict(_with_kafka_names(_read_toml(config))) | variables | dict(_with_kafka_names(options))
    errors: list[SettingsError] = []
    values: dict[str, Values] = {table: {} for table in (*TABLES, "kafka", "rules")}
    for name, one in given.items():
        try:
            table, key, value = _read_setting(name, one.value)
            values[table][key] = value
        except SettingsError as error:
            errors += _placed(error, name, given)
    for table in TABLES:
        errors += _check_table(table, values[table], given)
    topics = [given[name].place for name in _urls(values) if name in given]
    for name, expected in _REQUIRED.items():
        if name not in values[""] and name not in given:
            errors.append(SettingsError(f"--{name}", NOTHING, expected))
    if "source" in values[""] and not any(error.setting.startswith(place) for error in errors for place in topics):
        errors += _check_kafka(values, given)
    rules = dict(_read_rules(values["rules"], given, errors))
    if not errors:
        own = {name: TABLES[name](**values[name]) for name in TABLES if name and values[name]}
        own |= {name: values[name] for name in ("scheduler", "http", "kafka")} | {"rules": rules}
        try:
            return RunSettings(**values[""], **own), unknown
        except SettingsError as error:
            errors += _placed(error, "", given)
    raise SettingsErrors(errors)


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


def _read_environment() -> tuple[dict[str, Given], list[str]]:
    """Return the settings of the variables, and the names of others with our prefix. All values are texts."""
    names = {variable_of(name): name for name in SETTINGS}
    kafka = variable_of("kafka.")
    given: dict[str, Given] = {}
    unknown: list[str] = []
    for variable, value in os.environ.items():
        upper = variable.upper()
        if upper.startswith(kafka):
            given[f"kafka.{_kafka_name(upper.removeprefix(kafka).lower())}"] = Given(value, upper)
        elif upper in names:
            given[names[upper]] = Given(value, upper)
        elif upper.startswith(PREFIX) and upper not in _OTHER_VARIABLES:
            unknown.append(upper)
    return given, sorted(unknown)


def _read_toml(path: Path | None) -> dict[str, Given]:
    """Return the settings in the file, none if `path` is None; tables within a table, such as a rule, stay values."""
    if path is None:
        return {}
    try:
        tables = tomllib.loads(read_regular(path).decode("utf-8-sig"))
    except (SnapshotError, FileNotFoundError) as error:
        reason = error.reason if isinstance(error, SnapshotError) else error.strerror
        raise SettingsError("--config", str(path), f"a file that can be read ({reason})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("--config", str(path), f"a TOML file ({error})") from error
    found: dict[str, Any] = {}
    for name, value in tables.items():
        if name == "kafka":
            found |= _flatten(value, name)
        else:
            found |= {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    return {name: Given(value, f"{path}: {name}") for name, value in found.items()}


def _flatten(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {inner: one for key, below in value.items() for inner, one in _flatten(below, f"{name}.{key}").items()}


def _with_kafka_names(given: Mapping[str, Given]) -> Iterator[tuple[str, Given]]:
    for name, one in given.items():
        yield (f"kafka.{_kafka_name(name[6:])}" if name.startswith("kafka.") else name), one


def _kafka_name(name: str) -> str:
    """Return a name of the table kafka as its documentation has it: variables cannot contain dots or hyphens.

    >>> _kafka_name("sasl_username"), _kafka_name("dead-letters")
    ('sasl.username', 'dead_letters')
    """
    own = name.replace("-", "_")
    return own if own in _KAFKA_NAMES else name.replace("_", ".")


def _read_setting(name: str, found: Any) -> tuple[str, str, Any]:
    """Return table, key and value of a setting. Raises SettingsError if there is none of this name and kind."""
    table, dot, key = name.partition(".")
    if dot and table in ("kafka", "rules"):
        return table, key, found
    if name in SETTINGS:
        table, key = (table, key) if dot else ("", table)
        return table, key, _read_value(found, SETTINGS[name].kinds)
    if name in (*TABLES, "kafka", "rules"):
        raise SettingsErrors([SettingsError("", _HIDDEN if name == "kafka" else found, "a table")])
    raise SettingsErrors([SettingsError("", _HIDDEN, f"a setting that docs/settings.md lists{_nearest(name)}")])


def _nearest(name: str) -> str:
    """Return what an error says of an unknown setting `name`: the nearest known one, else the tables if it has none.

    >>> _nearest("politness.dely"), _nearest("save.colour")
    (', such as politeness.delay', '')
    """
    alike = closest(name, SETTINGS)
    if alike is not None:
        return f", such as {alike}"
    table, dot, _ = name.partition(".")
    tables = [one for one in (*TABLES, "kafka", "rules") if one]
    return f": there is no table {shorten(table)}, but {', '.join(tables)}" if dot and table not in tables else ""


def _read_value(found: Any, kinds: frozenset[type]) -> Any:
    """Return a text or a value of a TOML file as a setting of these `kinds` takes it. Raises SettingsError."""
    if found == _NONE and NoneType in kinds:
        return None
    if bool in kinds:
        found = _FLAGS.get(found.lower(), found) if isinstance(found, str) else found
        if isinstance(found, bool):
            return found
        raise SettingsError("", found, "true or false")
    value = found.isoformat() if isinstance(found, date) else found
    if isinstance(value, str) and value and kinds & {str, Path}:
        return value if str in kinds else Path(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and kinds & {int, float}:
        return value
    number = next((kind for kind in (int, float) if kind in kinds), None)
    if isinstance(value, str) and number is not None:
        try:
            return number(value)
        except ValueError:
            pass
    expected = "a whole number" if number is int else "a number" if number is float else "a text"
    raise SettingsError("", found, f"{expected} or a text" if number and str in kinds else expected)


def _check_table(table: str, values: Values, given: Mapping[str, Given]) -> Iterator[SettingsError]:
    """Yield the errors of a table's values, each alone; if there are none, the first of all together."""
    target = TABLES[table]
    wrong = False
    for name, value in values.items():
        try:
            target(**({} if table else _UNCHECKED) | {name: value})
        except (SettingsError, FormulaError) as error:
            setting = name if isinstance(error, SettingsErrors | FormulaError) else error.setting
            if setting == name or f"{table}.{setting}" not in SETTINGS:
                wrong = True
                yield from _placed(error, f"{table}.{name}".lstrip("."), given)
    if values and table and not wrong:
        try:
            target(**values)
        except SettingsError as error:
            yield from _placed(error, f"{table}.{error.setting}", given)


def _placed(error: SettingsError | FormulaError, name: str, given: Mapping[str, Given]) -> Iterator[SettingsError]:
    """Yield `error` of the setting `name`, each of several, with its place and the value that was given there."""
    if isinstance(error, SettingsErrors):  # of parts of a value, which may hold a password
        for one in error.errors:
            place = given[name].place if name in given else name
            if name:
                yield SettingsError(f"{place}: {one.setting}" if one.setting else place, one.found, one.expected)
            else:
                yield from _placed(SettingsErrors([SettingsError("", one.found, one.expected)]), one.setting, given)
    else:
        expected = f"a formula: {error}" if isinstance(error, FormulaError) else error.expected
        found = given[name].value if name in given else getattr(error, "found", NOTHING)
        yield SettingsError(given[name].place if name in given else name, found, expected)


def _urls(values: Mapping[str, Values]) -> dict[str, str | None]:
    """Return what may be the URL of a topic, by the setting's name."""
    names = ("", "source"), ("signals", "source"), ("batches", "to")
    return {f"{table}.{name}".lstrip("."): values[table].get(name) for table, name in names}


def _check_kafka(values: Mapping[str, Values], given: Mapping[str, Given]) -> Iterator[SettingsError]:
    """Yield the errors of the table kafka, whose settings are those of the first topic there is."""
    url = next((url for url in _urls(values).values() if url and url.startswith(SCHEME)), None)
    if url is None and values[""]["source"] == NO_STREAM:
        return  # of a file that `run` reads too
    for name, value in values["kafka"].items():
        place = given[f"kafka.{name}"].place
        if url is None:
            yield SettingsError(place, _HIDDEN, "no setting of Kafka without a topic kafka://… to read or write")
            continue
        try:
            read_settings(url, {name: value})
        except SettingsError as error:
            yield SettingsError(place, error.found, error.expected)


def _read_rules(
    table: Values, given: Mapping[str, Given], errors: list[SettingsError]
) -> Iterator[tuple[str, Rule | HostRule | None]]:
    if not table:
        return  # a scheduler compiles kernels, before the log of the run begins
    trial = Scheduler()
    for target, value in table.items():
        try:
            rule = _make_rule(value)
            trial.set_rule(target, rule)
            yield target, rule
        except SettingsError as error:
            place = given[f"rules.{target}"].place
            name = place if error.setting in ("target", "rule") else f"{place}: {error.setting}"
            errors.append(SettingsError(name, error.found, error.expected))


def _make_rule(value: object) -> Rule | HostRule | None:
    """Return the rule in a table, None for "none". Raises SettingsError."""
    if value == _NONE:
        return None
    if not isinstance(value, dict):
        raise SettingsError("rule", value, 'a table such as {delay = "2s"} or {never = true}, or "none"')
    kind = HostRule if {one.name for one in fields(HostRule)} & value.keys() else Rule
    known = {one.name for one in fields(kind)}
    for name in value.keys() - known:
        raise SettingsError(name, value[name], f"one of {', '.join(sorted(known))}")
    return kind(**value)
