"""What a run is to do, read from the words of a file, the environment and the command line.

All that cannot work is told at once: every setting is tried alone by what will use it, which says what it expects;
then those that belong together are tried together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from streamsched.connectors.kafka import SCHEME, read_settings
from streamsched.errors import FormulaError, SettingsError, SettingsErrors
from streamsched.politeness.politeness_settings import HostRule, Politeness, Rule
from streamsched.scheduler.durable import SavePlan
from streamsched.scheduler.scheduler import Scheduler
from streamsched.service.batch_publisher import BatchPlan
from streamsched.service.setting_parsers import MISSING, READERS, kafka_name, read_rule
from streamsched.service.setting_sources import OPEN_TABLES, Word, Words

__all__ = ["KNOWN", "RunSettings", "read_run_settings"]

KNOWN: Final = frozenset(READERS)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run is to do.

    ``source``: a file's path, "-" for standard input, or a topic's URL; ``scheduler``: what was said of the scheduler,
    as it takes it; ``politeness``: None where nothing was said; ``rules``: by target, None to take one back; ``kafka``:
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
    politeness: Politeness | None = None
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
        found = {name: self._read(name, read) for name, read in READERS.items() if name in self._words}
        for name in ("source", "state"):
            if name not in self._words:
                self.errors.append(SettingsError(f"--{name}", None, MISSING[name]))
        for name, word in self._words.items():
            if name not in KNOWN and name.split(".")[0] not in OPEN_TABLES:
                self.errors.append(SettingsError(word.place, word.value, "a setting that docs/run.md lists"))
        own = {name: value for name, value in found.items() if "." not in name}
        tables = {table: _of_table(found, table) for table in ("scheduler", "politeness", "save", "batches", "log")}
        scheduler = self._together("scheduler", tables["scheduler"], Scheduler)
        politeness = self._together("politeness", tables["politeness"], Politeness)
        save = self._together("save", tables["save"], SavePlan)
        kafka, rules = self._read_kafka(), self._read_rules()
        if self.errors:
            return RunSettings("", Path())
        logs = {f"log_{name}": value for name, value in tables["log"].items()}
        return RunSettings(
            **own, **logs, scheduler=scheduler, politeness=Politeness(**politeness) if politeness else None,
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
        said = {kafka_name(name): word for name, word in self._words.items() if name.startswith("kafka.")}
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
                rules[target] = read_rule(word.value)
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


def _of_table(found: Mapping[str, Any], table: str) -> dict[str, Any]:
    return {name.removeprefix(f"{table}."): value for name, value in found.items() if name.startswith(f"{table}.")}
