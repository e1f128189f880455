"""Single crawl outcomes as maps, in JSON Lines, msgpack and messages.

A status is a number or a word. A fingerprint may be a whole number or, because many JSON writers lose whole numbers
beyond 2**53, a string of 16 hexadecimal digits. Optional fields may be null; unknown fields are ignored; a boolean is
no number and a number no boolean.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec

from streamsched.connectors.reading.rejections import RecordProblem
from streamsched.connectors.reading.validation import ParseError
from streamsched.connectors.records.event_checks import FieldCheck, FieldChecks, is_number, is_text
from streamsched.errors import shorten
from streamsched.outcomes import MAX_STATUS, STATUS_EXPECTED, STATUS_WORDS

__all__ = ["OUTCOME_CHECKS", "OutcomeEvent", "read_fingerprint", "read_outcome_text"]

_HEX: Final = re.compile("[0-9a-fA-F]{16}")
_MAX_FINGERPRINT: Final = 2**64 - 1
_FINGERPRINT_EXPECTED: Final = "a whole number from 0 to 2**64 - 1 or 16 hexadecimal digits"


class OutcomeEvent(msgspec.Struct, gc=False, omit_defaults=True):
    """One outcome as the wire has it: its fields, None where absent."""

    url: str
    fetched_at: float
    status: Annotated[int, msgspec.Meta(ge=0, le=MAX_STATUS)] | Literal["robots_denied", "not_attempted"] | None = None
    fingerprint: Annotated[int, msgspec.Meta(ge=0)] | str | None = None
    changed: bool | None = None
    importance: float | None = None
    cost: float | None = None
    retry_after: float | None = None
    significance: float | None = None
    moved_to: str | None = None


def read_outcome_text(event: OutcomeEvent) -> None:
    """Make a number of a fingerprint that is text. Raises ParseError."""
    if event.fingerprint is not None:
        event.fingerprint = read_fingerprint(event.fingerprint)


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
    raise ParseError(RecordProblem("fingerprint", f"expected {_FINGERPRINT_EXPECTED}", shorten(value)))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_status(value: Any) -> bool:
    return value in STATUS_WORDS if isinstance(value, str) else _is_whole(value) and 0 <= value <= MAX_STATUS


def _is_fingerprint(value: Any) -> bool:
    if isinstance(value, str):
        return bool(_HEX.fullmatch(value))
    return _is_whole(value) and 0 <= value <= _MAX_FINGERPRINT


OUTCOME_CHECKS: Final[FieldChecks] = {
    "url": FieldCheck("text", is_text, required=True),
    "fetched_at": FieldCheck("a number", is_number, required=True),
    "status": FieldCheck(STATUS_EXPECTED, _is_status),
    "fingerprint": FieldCheck(_FINGERPRINT_EXPECTED, _is_fingerprint),
    "changed": FieldCheck("true or false", lambda value: isinstance(value, bool)),
    "importance": FieldCheck("a number", is_number),
    "cost": FieldCheck("a number", is_number),
    "retry_after": FieldCheck("a number", is_number),
    "significance": FieldCheck("a number", is_number),
    "moved_to": FieldCheck("text", is_text),
}
