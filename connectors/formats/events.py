"""Single events as maps: how one is decoded, and what is wrong with one that is not (SPEC 2).

JSON Lines and msgpack share this. A status is a number or a word. A fingerprint may be a whole number or, because many
JSON writers lose whole numbers beyond 2**53, a string of 16 hexadecimal digits. Optional fields may be null; unknown
fields are ignored; a boolean is no number and a number no boolean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from streamsched.connectors.reading.rejections import RecordProblem
from streamsched.connectors.reading.validation import ParseError
from streamsched.errors import shorten
from streamsched.outcomes import MAX_STATUS, STATUS_EXPECTED, STATUS_WORDS

__all__ = [
    "UNREADABLE",
    "Event",
    "Refuse",
    "accept_all",
    "describe_error",
    "diagnose",
    "explain",
    "read_fingerprint",
]

UNREADABLE: Final = (ValueError, TypeError, RecursionError)  # what msgspec raises on input, its own errors included

_HEX: Final = re.compile("[0-9a-fA-F]{16}")
_MAX_FINGERPRINT: Final = 2**64 - 1
_FLOAT_LIMIT: Final = 2**1024  # the first whole number that no float64 is near


class Event(msgspec.Struct, gc=False, omit_defaults=True):
    """One event as the wire has it: fields of SPEC 2, None where absent."""

    url: str
    fetched_at: float
    status: Annotated[int, msgspec.Meta(ge=0, le=MAX_STATUS)] | Literal["robots_denied", "not_attempted"] | None = None
    fingerprint: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    changed: bool | None = None
    importance: float | None = None
    cost: float | None = None
    retry_after: float | None = None
    moved_to: str | None = None


Refuse: TypeAlias = Callable[[Sequence[Any]], RecordProblem | None]
"""Returns what is wrong with the first faulty one of some events of a type with more fields, None where nothing is."""


def accept_all(_events: Sequence[Any]) -> RecordProblem | None:
    """Return None: an event that decodes has nothing else that could be wrong with it."""
    return None


def read_fingerprint(value: int | str) -> int:
    """Return a fingerprint given as a number or as 16 hexadecimal digits; raises ParseError if it is neither.

    >>> read_fingerprint("00000000000000ff")
    255
    """
    if isinstance(value, str):
        if _HEX.fullmatch(value):
            return int(value, 16)
    elif value <= _MAX_FINGERPRINT:
        return value
    raise ParseError(RecordProblem("fingerprint", f"expected {_FIELDS['fingerprint'][0]}", shorten(value)))


def diagnose(record: object) -> RecordProblem | None:
    """Return the first problem of `record`, an event decoded without types; None if its types are valid.

    >>> diagnose({"url": "https://example.org/", "fetched_at": "now"})
    RecordProblem(field='fetched_at', reason='expected a number', found="'now'")
    """
    if not isinstance(record, Mapping):
        return RecordProblem("record", "expected a map", shorten(record))
    for field, (expected, fits) in _FIELDS.items():
        value = record.get(field, _NOTHING)
        required = field in ("url", "fetched_at")
        if value is _NOTHING and required:
            return RecordProblem(field, f"expected {expected}", "nothing")
        if (required or value not in (None, _NOTHING)) and not fits(value):
            return RecordProblem(field, f"expected {expected}", shorten(value))
    return None


def explain(error: Exception, decode: Callable[[], object], shown: str) -> RecordProblem:
    """Return why a typed decode failed with `error`: `decode` is the same without types, `shown` the record's text."""
    try:
        problem = diagnose(decode())
    except UNREADABLE:
        problem = None
    return describe_error(error, shown) if problem is None else problem


def describe_error(error: Exception, shown: str) -> RecordProblem:
    """Return a decoder's message as a problem, with the field if the message ends in a path."""
    message, _, path = str(error).partition(" - at `$")
    return RecordProblem(path.strip("`.[]") or "record", f"cannot be read: {message}", shown)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (_is_whole(value) and -_FLOAT_LIMIT < value < _FLOAT_LIMIT)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_NOTHING: Final = object()
_FIELDS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "url": ("text", lambda value: isinstance(value, str)),
    "fetched_at": ("a number", _is_number),
    "status": (
        STATUS_EXPECTED,
        lambda value: (
            value in STATUS_WORDS if isinstance(value, str) else _is_whole(value) and 0 <= value <= MAX_STATUS
        ),
    ),
    "fingerprint": (
        "a whole number from 0 to 2**64 - 1 or 16 hexadecimal digits",
        lambda value: (
            bool(_HEX.fullmatch(value))
            if isinstance(value, str)
            else _is_whole(value) and 0 <= value <= _MAX_FINGERPRINT
        ),
    ),
    "changed": ("true or false", lambda value: isinstance(value, bool)),
    "importance": ("a number", _is_number),
    "cost": ("a number", _is_number),
    "retry_after": ("a number", _is_number),
    "moved_to": ("text", lambda value: isinstance(value, str)),
}
