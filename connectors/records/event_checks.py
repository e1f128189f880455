"""What is wrong with an event that could not be decoded, by a table of the checks of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from streamsched.connectors.reading.rejections import RecordProblem
from streamsched.errors import shorten

__all__ = ["UNREADABLE", "FieldCheck", "FieldChecks", "describe_error", "diagnose", "explain", "is_number", "is_text"]

UNREADABLE: Final = (ValueError, TypeError, RecursionError)  # what msgspec raises on input, its own errors included

_FLOAT_LIMIT: Final = 2**1024  # the first whole number that no float64 is near
_NOTHING: Final = object()


class FieldCheck(NamedTuple):
    """What is expected of a field, whether a value fits, and whether the field must be there."""

    expected: str
    fits: Callable[[Any], bool]
    required: bool = False


FieldChecks: TypeAlias = Mapping[str, FieldCheck]
"""The checks of a type of events by field, in the order in which they apply."""


def diagnose(record: object, checks: FieldChecks) -> RecordProblem | None:
    """Return the first problem of `record`, an event decoded without types; None if its types are valid.

    >>> diagnose({"at": "now"}, {"at": FieldCheck("a number", is_number, required=True)})
    RecordProblem(field='at', reason='expected a number', found="'now'")
    """
    if not isinstance(record, Mapping):
        return RecordProblem("record", "expected a map", shorten(record))
    for field, (expected, fits, required) in checks.items():
        value = record.get(field, _NOTHING)
        if value is _NOTHING and required:
            return RecordProblem(field, f"expected {expected}", "nothing")
        if (required or value not in (None, _NOTHING)) and not fits(value):
            return RecordProblem(field, f"expected {expected}", shorten(value))
    return None


def explain(error: Exception, decode: Callable[[], object], checks: FieldChecks, shown: str) -> RecordProblem:
    """Return why a typed decode failed with `error`: `decode` is the same without types, `shown` the record's text."""
    try:
        problem = diagnose(decode(), checks)
    except UNREADABLE:
        problem = None
    return describe_error(error, shown) if problem is None else problem


def describe_error(error: Exception, shown: str) -> RecordProblem:
    """Return a decoder's message as a problem, with the field if the message ends in a path."""
    message, _, path = str(error).partition(" - at `$")
    return RecordProblem(path.strip("`.[]") or "record", f"cannot be read: {message}", shown)


def is_number(value: Any) -> bool:
    """Return whether `value` is a number that a float64 can hold; a boolean is none."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, float) or (whole and -_FLOAT_LIMIT < value < _FLOAT_LIMIT)


def is_text(value: Any) -> bool:
    """Return whether `value` is text."""
    return isinstance(value, str)
