"""How settings of a run are read, each by its name: from texts, as the environment has them, or from TOML's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from streamsched.connectors.formats.detection import FORMATS
from streamsched.connectors.kafka import SCHEME, KafkaSettings, read_settings
from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_whole
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.scheduler.durable import SavePlan
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.batch_publisher import BatchPlan

__all__ = ["LOG_FORMATS", "LOG_LEVELS", "MISSING", "READERS", "kafka_name", "read_rule"]

LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_OF_HOSTS: Final = frozenset(one.name for one in fields(HostRule))
_OF_KAFKA: Final = frozenset(one.name.removesuffix("_s") for one in fields(KafkaSettings))
_NO_VALUE: Final = "none"  # for what may be left out, where a place cannot say so otherwise


def kafka_name(name: str) -> str:
    """Return a word of Kafka's as its documentation has it: variables of the environment cannot have dots.

    >>> kafka_name("kafka.sasl_username"), kafka_name("kafka.dead_letters")
    ('sasl.username', 'dead_letters')
    """
    word = name.removeprefix("kafka.")
    return word if word.replace("-", "_") in _OF_KAFKA else word.replace("_", ".")


def read_rule(value: object) -> Rule | HostRule | None:
    """Return the rule that a table writes, None for "none". Raises SettingsError."""
    if value == _NO_VALUE:
        return None
    if not isinstance(value, dict):
        raise SettingsError("rule", value, 'a table such as {delay = "2s"} or {never = true}, or "none"')
    kind = HostRule if _OF_HOSTS & value.keys() else Rule
    known = {one.name for one in fields(kind)}
    for name in value.keys() - known:
        raise SettingsError(name, value[name], f"one of {', '.join(sorted(known))}")
    return kind(**value)


def _read_source(value: object) -> str:
    text = _read_text(value)
    if text.startswith("kafka:") and not text.startswith(SCHEME):
        raise SettingsError("source", value, MISSING["source"])
    return text.removeprefix("file:")


def _read_topic(value: object) -> str:
    url = _read_text(value)
    try:
        read_settings(url)
    except SettingsError as error:
        word = "" if error.setting == "source" else f"{error.setting}: "
        raise SettingsError("topic", value, f"{word}{error.expected}") from error
    return url


def _read_text(value: object) -> str:
    if isinstance(value, str) and value:
        return value
    raise SettingsError("text", value, "a text")


def _read_path(value: object) -> Path:
    return Path(_read_text(value))


def _read_flag(value: object) -> bool:
    flag = {"true": True, "false": False}.get(str(value).lower())
    if flag is None:
        raise SettingsError("flag", value, "true or false")
    return flag


def _choice(choices: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value in choices:
            return str(value)
        raise SettingsError("choice", value, f"one of {', '.join(choices)}")

    return read


def _number(value: object) -> object:
    """Return the number that a text writes, None for "none"; what is none is left to who expects one."""
    if value == _NO_VALUE:
        return None
    if isinstance(value, str):
        for read in (int, float):
            try:
                return read(value)
            except ValueError:
                continue
    return value


def _whole(least: int, expected: str) -> Callable[[object], int]:
    return lambda value: check_whole("number", _number(value), least, expected)


def _alone(make: Callable[..., object], name: str, convert: Callable[[Any], Any], table: str) -> Callable[[Any], Any]:
    """Return what has `make` try a value as its setting `name`, and returns the value."""

    def read(value: Any) -> Any:
        converted = convert(value)
        try:
            make(**{name: converted})
        except SettingsError as error:
            if error.setting == name or f"{table}.{error.setting}" not in READERS:
                raise  # else it only does not go with what another is when nothing is said of it
        return converted

    return read


def _or_none(value: Any) -> Any:
    return None if value == _NO_VALUE else value


MISSING: Final = {
    "source": "file:PATH, PATH, - for standard input, or kafka://HOST:PORT/TOPIC",
    "state": "the directory of the saved state",
}
_SCHEDULER: Final[dict[str, Callable[[Any], Any]]] = {
    "cycle": _or_none, "objective": _or_none, "formula": _or_none, "seed": _number, "change_bits": _number,
    "panel": _number, "new_share": _number, "explore_share": _number,
}  # fmt: skip
_COUNTS: Final = ("in_flight", "per_batch", "retire_after")  # of Politeness; its other settings are lengths of time
READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "source": _read_source,
    "state": _read_path,
    "format": _choice(FORMATS),
    "until_end": _read_flag,
    "from_start": _read_flag,
    "dead_letters": _read_path,
    "evolve_every": _whole(1, "1 or more cycles"),
    "threads": _alone(Scheduler, "threads", _number, "scheduler"),
    **{f"scheduler.{name}": _alone(Scheduler, name, convert, "scheduler") for name, convert in _SCHEDULER.items()},
    **{
        f"politeness.{one.name}": _alone(
            Politeness, one.name, _number if one.name in _COUNTS else _or_none, "politeness"
        )
        for one in fields(Politeness)
    },
    "save.every": _alone(SavePlan, "every", _or_none, "save"),
    **{f"save.{name}": _alone(SavePlan, name, _number, "save") for name in ("increments", "share", "kept")},
    "batches.to": _read_topic,
    **{f"batches.{name}": _alone(BatchPlan, name, _number, "batches") for name in ("size", "behind")},
    **{f"batches.{name}": _alone(BatchPlan, name, _or_none, "batches") for name in ("every", "lease")},
    "log.level": _choice(LOG_LEVELS),
    "log.format": _choice(LOG_FORMATS),
}
