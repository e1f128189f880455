"""Checks of numeric arguments: valid values are returned as plain numbers, others raise SettingsError."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Final

import numpy as np

from streamsched.errors import SettingsError, shorten

TIME_LIMIT_S: Final = 1e11  # the year 5138; as milliseconds 1973: times from it on, or before its negative, are errors

_KINDS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "bool": ("True or False", (bool, np.bool_)),
    "int": ("a whole number", (int, np.integer)),
    "float": ("a number", (int, float, np.integer, np.floating)),
    "str": ("a text", (str,)),
}


def check_time(now: float, setting: str = "now") -> float:
    """Return a time as a float; raises SettingsError naming `setting` unless it lies within `TIME_LIMIT_S` of 1970.

    >>> check_time(5)
    5.0
    """
    number = _number(now)
    if not -TIME_LIMIT_S < number < TIME_LIMIT_S:
        raise SettingsError(setting, now, expected_time(number))
    return number


def expected_time(found: float) -> str:
    """Return what an error expects in place of the time `found`, which is not within `TIME_LIMIT_S` of 1970.

    >>> expected_time(1.7e12)
    'UTC epoch seconds below 1e11 (are these milliseconds?)'
    """
    if not math.isfinite(found):
        return "UTC epoch seconds, finite"
    return f"UTC epoch seconds {'below 1e11' if found > 0.0 else 'above -1e11'} (are these milliseconds?)"


def check_share(setting: str, found: float) -> float:
    """Return a share in [0, 1) as a float; raises SettingsError naming `setting` if it is not one.

    >>> check_share("panel", 0)
    0.0
    """
    number = _number(found)
    if not 0.0 <= number < 1.0:
        raise SettingsError(setting, found, "0 or more and less than 1")
    return number


def check_part(setting: str, found: float) -> float:
    """Return a share above 0, up to 1, as a float; raises SettingsError naming `setting` if it is not one.

    >>> check_part("share", 1)
    1.0
    """
    number = _number(found)
    if not 0.0 < number <= 1.0:
        raise SettingsError(setting, found, "more than 0, at most 1")
    return number


def check_whole(setting: str, found: object, least: int | None, expected: str, *, most: int | None = None) -> int:
    """Return `found` as an int; raises SettingsError if it is not a whole number from `least` to `most`.

    >>> check_whole("k", np.int32(3), 0, "0 or more pages")
    3
    """
    if isinstance(found, int | np.integer) and not isinstance(found, bool):
        number = int(found)
        if (least is None or number >= least) and (most is None or number <= most):
            return number
    raise SettingsError(setting, found, expected)


def check_fields(settings: Any) -> None:
    """Raise SettingsError for the first field of a dataclass that has no value of its declared kind.

    Fields declared as bool, int, float or str, with None or without, are checked; others are not.
    """
    for field in dataclasses.fields(settings):
        kind, _, other = str(field.type).partition(" | ")
        value = getattr(settings, field.name)
        if kind not in _KINDS or (value is None and other == "None"):
            continue
        expected, types = _KINDS[kind]
        fits = isinstance(value, types) and (kind == "bool" or not isinstance(value, bool))
        if not fits or (kind == "float" and isinstance(value, int) and math.isnan(_number(value))):
            raise SettingsError(field.name, value, expected)


def check_flag(setting: str, found: object) -> bool:
    """Return `found` as a bool; raises SettingsError naming `setting` if it is not True or False.

    >>> check_flag("surges", np.bool_(True))
    True
    """
    if isinstance(found, bool | np.bool_):
        return bool(found)
    raise SettingsError(setting, found, "True or False")


def check_path(setting: str, found: object) -> Path:
    """Return `found` as a Path; raises SettingsError naming `setting` if it is not the text of a path or a path.

    >>> check_path("path", "state").name
    'state'
    """
    if isinstance(found, str | os.PathLike) and str(found) and "\0" not in str(found):
        return Path(found)
    raise SettingsError(setting, found, "a path")


def check_type(setting: str, found: object, kind: type | UnionType, expected: str) -> None:
    """Raise SettingsError naming `setting` if `found` is not a `kind`."""
    if not isinstance(found, kind):
        raise SettingsError(setting, found, expected)


def read_items(name: str, values: object, expected: str) -> list[Any]:
    """Return the items of `values`; raises TypeError naming `name` for a text, a mapping, or what has no items.

    >>> read_items("urls", ("a", "b"), "URLs")
    ['a', 'b']
    """
    try:
        if not isinstance(values, str | bytes | bytearray | Mapping):
            return list(values)  # type: ignore[call-overload,no-any-return]
    except TypeError:  # not iterable, or an array without dimensions
        pass
    raise TypeError(f"{name}: expected {expected}, found {shorten(values)}")


def _number(found: object) -> float:
    """Return a plain number as a float, NaN for everything else: a bool or an array is not a number."""
    if isinstance(found, bool) or not isinstance(found, int | float | np.integer | np.floating):
        return math.nan
    try:
        return float(found)
    except OverflowError:
        return math.nan
