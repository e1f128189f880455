"""What a run is to do, read from the words of a file, the environment and the command line.

All that cannot work is told at once: every setting is tried alone by what will use it, which says what it expects;
then those that belong together are tried together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from streamsched.checks import check_whole
from streamsched.connectors.kafka import SCHEME, KafkaSettings, read_settings
from streamsched.connectors.recognition import FORMATS
from streamsched.durable import SavePlan
from streamsched.errors import FormulaError, SettingsError, SettingsErrors
from streamsched.manners import HostRule, Manners, Rule
from streamsched.scheduler import Scheduler
from streamsched.service.handing_out import BatchPlan
from streamsched.service.words import OPEN_TABLES, Word, Words

__all__ = ["KNOWN", "LOG_FORMATS", "LOG_LEVELS", "RunSettings", "read_run_settings"]

LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_OF_HOSTS: Final = frozenset(one.name for one in fields(HostRule))
_OF_KAFKA: Final = frozenset(one.name.removesuffix("_s") for one in fields(KafkaSettings))
_NO_VALUE: Final = "none"  # for what may be left out, where a place cannot say so otherwise


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run is to do.

    ``source``: a file's path, "-" for standard input, or a topic's URL; ``scheduler``: what was said of the scheduler,
    as it takes it; ``manners``: None where nothing was said; ``rules``: by target, None to take one back; ``kafka``:
    more of what the topics' URLs may say; ``evolve_every``: cycles; ``batches_to``: a topic's URL, None for none;
    ``log_level``: None for that of the kind of source.
    """

    source: str
    state: Path
    format: str | None = None
    until_end: bool = False
    from_start: bool = False
    dead_letters: Path | None = None
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    manners: Manners | None = None
    rules: Mapping[str, Rule | HostRule | None] = field(default_factory=dict)
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)  # passwords are among them
    save: SavePlan = field(default_factory=SavePlan)
    evolve_every: int | None = None
    threads: int | None = None
    batches_to: str | None = None
    batches: BatchPlan = field(default_factory=BatchPlan)
    log_level: str | None = None
    log_format: str = "text"

    @property
    def is_topic(self) -> bool:
        """Whether outcomes come from Kafka."""
        return self.source.startswith(SCHEME)


def read_run_settings(words: Words) -> RunSettings:
    """Return what `words` say. Raises SettingsErrors, which names every setting that cannot work.

    >>> read_run_settings({"source": Word("file:a.jsonl", "--source"), "state": Word("s", "--state")}).source
    'a.jsonl'
    """
    reading = _Reading(words)
    found = reading.read_all()
    if reading.errors:
        raise SettingsErrors(reading.errors)
    return found


class _Reading:
    """One reading of `words`; ``errors`` gathers what cannot work."""

    def __init__(self, words: Words) -> None:
        self.errors: list[SettingsError] = []
        self._words = words

    def read_all(self) -> RunSettings:
        found = {name: self._read(name, read) for name, read in _READERS.items() if name in self._words}
        for name in ("source", "state"):
            if name not in self._words:
                self.errors.append(SettingsError(f"--{name}", None, _MISSING[name]))
        for name, word in self._words.items():
            if name not in KNOWN and name.split(".")[0] not in OPEN_TABLES:
                self.errors.append(SettingsError(word.place, word.value, "a setting that docs/run.md lists"))
        own = {name: value for name, value in found.items() if "." not in name}
        tables = {table: _of_table(found, table) for table in ("scheduler", "manners", "save", "batches", "log")}
        scheduler = self._together("scheduler", tables["scheduler"], Scheduler)
        manners = self._together("manners", tables["manners"], Manners)
        save = self._together("save", tables["save"], SavePlan)
        kafka, rules = self._read_kafka(), self._read_rules()
        if self.errors:
            return RunSettings("", Path())
        logs = {f"log_{name}": value for name, value in tables["log"].items()}
        return RunSettings(
            **own, **logs, scheduler=scheduler, manners=Manners(**manners) if manners else None,
            save=SavePlan(**save), kafka=kafka, rules=rules, batches_to=tables["batches"].pop("to", None),
            batches=BatchPlan(**tables["batches"]),
        )  # fmt: skip

    def _read(self, name: str, read: Callable[[Any], Any]) -> Any:
        word = self._words[name]
        try:
            return read(word.value)
        except (SettingsError, FormulaError) as error:
            self._refuse(word, error)
        return None

    def _refuse(self, word: Word, error: SettingsError | FormulaError) -> None:
        expected = error.expected if isinstance(error, SettingsError) else f"a formula: {error}"
        self.errors.append(SettingsError(word.place, word.value, expected))

    def _together(self, table: str, values: dict[str, Any], make: Callable[..., object]) -> dict[str, Any]:
        """Return `values` where `make` takes them all; what it refuses only together is told once."""
        if values and not self.errors:
            try:
                make(**values)
            except SettingsError as error:
                word = self._words.get(f"{table}.{error.setting}")
                self.errors.append(
                    SettingsError(word.place if word else f"{table}.{error.setting}", error.found, error.expected)
                )
        return values

    def _read_kafka(self) -> dict[str, str]:
        """Return what is said beside the topic's URL, by the names that `read_settings` takes."""
        topics = [self._words[name] for name in ("source", "batches.to") if name in self._words]
        source = next((word for word in topics if str(word.value).startswith(SCHEME)), Word("", ""))
        said = {_kafka_name(name): word for name, word in self._words.items() if name.startswith("kafka.")}
        if not source.place:
            expected = "nothing, for there is no topic kafka://… to read or write"
            self.errors += [SettingsError(word.place, "…", expected) for word in said.values()]  # it may be a secret
            return {}
        self._try(source.place, lambda: read_settings(source.value))
        for name, word in said.items():
            self._try(word.place, lambda name=name, word=word: read_settings(source.value, {name: word.value}), name)  # type: ignore[misc]
        return {name: str(word.value) for name, word in said.items()}

    def _read_rules(self) -> dict[str, Rule | HostRule | None]:
        rules: dict[str, Rule | HostRule | None] = {}
        words = {name.removeprefix("rules."): word for name, word in self._words.items() if name.startswith("rules.")}
        trial = Scheduler() if words else None
        for target, word in words.items():
            try:
                rules[target] = _read_rule(word.value)
                assert trial is not None
                trial.set_rule(target, rules[target])
            except SettingsError as error:
                place = word.place if error.setting in ("target", "rule") else f"{word.place}.{error.setting}"
                self.errors.append(SettingsError(place, error.found, error.expected))
        return rules

    def _try(self, place: str, work: Callable[[], object], setting: str | None = None) -> None:
        """Tell what `work` refuses; of `setting` only, if one is named: the others are told where they stand."""
        try:
            work()
        except SettingsError as error:
            if setting is None or error.setting == setting:
                where = place if setting is not None or error.setting == "source" else f"{place}: {error.setting}"
                self.errors.append(SettingsError(where, error.found, error.expected))


def _kafka_name(name: str) -> str:
    """Return a word of Kafka's as its documentation has it: variables of the environment cannot have dots.

    >>> _kafka_name("kafka.sasl_username"), _kafka_name("kafka.dead_letters")
    ('sasl.username', 'dead_letters')
    """
    word = name.removeprefix("kafka.")
    return word if word.replace("-", "_") in _OF_KAFKA else word.replace("_", ".")


def _of_table(found: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {name.removeprefix(f"{table}."): value for name, value in found.items() if name.startswith(f"{table}.")}


def _read_rule(value: object) -> Rule | HostRule | None:
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
        raise SettingsError("source", value, _MISSING["source"])
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
            if error.setting == name or f"{table}.{error.setting}" not in KNOWN:
                raise  # else it only does not go with what another is when nothing is said of it
        return converted

    return read


def _or_none(value: Any) -> Any:
    return None if value == _NO_VALUE else value


_MISSING: Final = {
    "source": "file:PATH, PATH, - for standard input, or kafka://HOST:PORT/TOPIC",
    "state": "the directory of the saved state",
}
_SCHEDULER: Final[dict[str, Callable[[Any], Any]]] = {
    "cycle": _or_none, "objective": _or_none, "formula": _or_none, "seed": _number, "change_bits": _number,
    "panel": _number, "new_share": _number, "explore_share": _number,
}  # fmt: skip
_COUNTS: Final = ("in_flight", "per_batch", "retire_after")  # of Manners; its other settings are lengths of time
_READERS: Final[dict[str, Callable[[Any], Any]]] = {
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
        f"manners.{one.name}": _alone(Manners, one.name, _number if one.name in _COUNTS else _or_none, "manners")
        for one in fields(Manners)
    },
    "save.every": _alone(SavePlan, "every", _or_none, "save"),
    **{f"save.{name}": _alone(SavePlan, name, _number, "save") for name in ("increments", "share", "kept")},
    "batches.to": _read_topic,
    "batches.size": _alone(BatchPlan, "size", _number, "batches"),
    **{f"batches.{name}": _alone(BatchPlan, name, _or_none, "batches") for name in ("every", "lease")},
    "log.level": _choice(LOG_LEVELS),
    "log.format": _choice(LOG_FORMATS),
}
KNOWN: Final = frozenset(_READERS)
