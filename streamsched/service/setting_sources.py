"""Settings as somebody wrote them, each with the place where it stands: a file, the environment or the command line.

A setting has a dotted name, ``scheduler.cycle``. In a TOML file it is a key in a table, in the environment
``STREAMSCHED_SCHEDULER_CYCLE``, on the command line ``--set scheduler.cycle=1d``, if it has no option of its own.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from streamsched.errors import SettingsError

__all__ = ["OPEN_TABLES", "PREFIX", "Word", "Words", "read_assignments", "read_environment", "read_toml"]

PREFIX: Final = "STREAMSCHED_"
OPEN_TABLES: Final = ("kafka", "rules")  # tables whose keys are not ours: a client's settings, targets
_UNSAID: Final = ("CONFIG", "CACHE")  # variables that are no settings of a run


@dataclass(frozen=True, slots=True)
class Word:
    """What a setting was given: its value, text where the place holds only text, and the place, as errors name it."""

    value: Any
    place: str


Words = dict[str, Word]


def read_toml(path: Path) -> Words:
    """Return the settings in the TOML file at `path`. Raises SettingsError where it cannot be read."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise SettingsError("--config", str(path), f"a file that can be read ({error.strerror or error})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("--config", str(path), f"a TOML file ({error})") from error
    return {name: Word(value, f"{path}: {name}") for name, value in _flatten(tables)}


def read_environment(environment: Mapping[str, str], known: Collection[str]) -> tuple[Words, list[str]]:
    """Return the settings in `environment`, and the variables that look like some of `known` but are none.

    >>> read_environment({"STREAMSCHED_SAVE_EVERY": "1m"}, ["save.every"])[0]["save.every"].value
    '1m'
    """
    names = {PREFIX + name.replace(".", "_").upper(): name for name in known}
    words: Words = {}
    strange: list[str] = []
    for variable, value in sorted(environment.items()):
        rest = variable.removeprefix(PREFIX)
        if rest == variable or rest in _UNSAID:
            continue
        if variable in names:
            words[names[variable]] = Word(value, variable)
        elif rest.startswith("KAFKA_"):
            words["kafka." + rest.removeprefix("KAFKA_").lower()] = Word(value, variable)
        else:
            strange.append(variable)
    return words, strange


def read_assignments(texts: Iterable[str]) -> Words:
    """Return the settings in `texts` of the form ``NAME=VALUE``. Raises SettingsError where one has another.

    >>> read_assignments(["politeness.delay=2s"])["politeness.delay"].value
    '2s'
    """
    words: Words = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SettingsError("--set", text, "NAME=VALUE, as politeness.delay=2s")
        words[name] = Word(value, f"--set {name}")
    return words


def _flatten(tables: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Yield dotted names and values; a rule, whose target is a name of its own, stays a table."""
    for key, value in tables.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and before != "rules.":
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value
