"""What a crawler reports: outcomes and change signals. `streamsched.Outcome` has the same fields, but needs numba."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, structs

from streamsched.errors import InvalidOutcome, InvalidRecord, InvalidSignal

__all__ = ["Outcome", "Signal"]

_LARGEST: Final = sys.float_info.max
_MOST_FLOAT32: Final = 3.4028234663852886e38  # in which the service stores amounts
_Text: TypeAlias = Annotated[str, Meta(min_length=1)]
_Time: TypeAlias = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
_Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=_LARGEST)]
_Amount: TypeAlias = Annotated[float, Meta(ge=0.0, le=_MOST_FLOAT32)]
_Part: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]
_Status: TypeAlias = Annotated[int, Meta(ge=0, le=999)] | Literal["robots_denied", "not_attempted"]
_FIELD: Final = re.compile(r".* - at `\$\.(\w+)`", re.DOTALL)  # at the end of what msgspec says
_TEXT: Final = "text in UTF-8, not empty"
_TIME: Final = "UTC epoch seconds"
_AMOUNT: Final = "a finite number of 0 or more"
_EXPECTED: Final = {
    "url": _TEXT,
    "fetched_at": _TIME,
    "status": "a whole number from 0 to 999, 'robots_denied' or 'not_attempted'",
    "fingerprint": "a whole number from 0 to 2**64 - 1",
    "changed": "True or False",
    "importance": _AMOUNT,
    "cost": _AMOUNT,
    "retry_after": f"{_AMOUNT} seconds",
    "moved_to": _TEXT,
    "significance": "a number from 0 to 1",
    "at": _TIME,
    "source": _TEXT,
}


class _OutcomeFields(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    url: _Text
    fetched_at: _Time
    status: _Status | None = None
    fingerprint: Annotated[int, Meta(ge=0)] | None = None
    changed: bool | None = None
    importance: _Amount | None = None
    cost: _Amount | None = None
    retry_after: _Seconds | None = None
    moved_to: _Text | None = None
    significance: _Part | None = None


class Outcome(_OutcomeFields, frozen=True, gc=False, omit_defaults=True):
    """One finished crawl of a page, as docs/outcomes.md describes it; None: the crawler did not report the field.

    ``fetched_at``: UTC epoch seconds; ``status``: an HTTP status, 0 for a network failure, ``"robots_denied"`` or
    ``"not_attempted"``. Raises InvalidOutcome, as record 0, if a field is of a wrong type or out of its range.

    >>> Outcome("https://example.org/", 1_700_000_000.0, status=200, changed=True).changed
    True
    """

    def __post_init__(self) -> None:
        _check(self, _OutcomeFields, InvalidOutcome)
        if self.fingerprint is not None and self.fingerprint >> 64:
            raise InvalidOutcome(0, "fingerprint", self.fingerprint, _EXPECTED["fingerprint"])


class _SignalFields(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    url: _Text
    at: _Time
    source: _Text
    significance: _Part | None = None


class Signal(_SignalFields, frozen=True, gc=False, omit_defaults=True):
    """One announcement that a page has changed, as docs/signal-streams.md describes it.

    ``at``: when it was announced, UTC epoch seconds; ``source``: the kind of source, such as ``"sitemap"``. Raises
    InvalidSignal, as record 0, if a field is of a wrong type or out of its range.

    >>> Signal("https://example.org/", 1_700_000_000.0, "sitemap").source
    'sitemap'
    """

    def __post_init__(self) -> None:
        _check(self, _SignalFields, InvalidSignal)


def _check(record: msgspec.Struct, fields: type[msgspec.Struct], error_type: type[InvalidRecord]) -> None:
    """Raise `error_type` if a field of `record` does not have its type in `fields`, or is no UTF-8."""
    values = structs.asdict(record)
    try:
        msgspec.convert(values, fields)
    except msgspec.ValidationError as error:
        found = _FIELD.fullmatch(str(error))
        assert found is not None
        raise error_type(0, found[1], values[found[1]], _EXPECTED[found[1]]) from None
    for name, value in values.items():
        if isinstance(value, str) and not _is_utf8(value):
            raise error_type(0, name, value, _EXPECTED[name])


def _is_utf8(text: Any) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
