"""Errors of HTTP as problem details (RFC 9457), with the field at fault, what was found and what was expected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import msgspec

from streamsched.api.values import CURSOR, DURATION, DURATION_OR_ZERO, KEY
from streamsched.errors import (
    CatchingUp,
    ChangesGone,
    FormulaError,
    InvalidRecord,
    KeyReusedError,
    SettingsError,
    SnapshotError,
    StreamschedError,
    UnknownPage,
    shorten,
)
from streamsched.fields import FINGERPRINT_64, HEX_64
from streamsched.outcomes import STATUS_CODE
from streamsched.persistence.change_feed import CURSOR_EXPECTED

_WITH_UNIT: Final = (
    ", of at most 9 digits and 6 decimals, with a unit, such as 500ms, 90s, 10m, 1h, 1d or 1w, or seconds as a number"
)
EXPECTED_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        DURATION: f"a number above 0{_WITH_UNIT}",
        DURATION_OR_ZERO: f"a number{_WITH_UNIT}",
        HEX_64: FINGERPRINT_64.expected,
        CURSOR: CURSOR_EXPECTED,
        KEY: "1 to 128 visible ASCII characters",
    }
)
"""What errors say in place of a pattern that a field must match: few people read patterns."""
_PLACE: Final = " - at `"  # in a message, before the path
_EXPECTED: Final = re.compile(r"Expected (?P<expected>.+?)(?:, got .*)?", re.DOTALL)
_FIELD: Final = re.compile(r"Object (?P<kind>missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_PATTERN: Final = "str matching regex "
_EXPECTED_TEXTS: Final = {repr(pattern): text for pattern, text in EXPECTED_TEXTS.items()}
_CONSTANTS: Final = {"None": "null", "True": "true", "False": "false"}
_SOME_KEY: Final = "..."
_NOTHING: Final = "nothing"
_LONGEST_FIELD: Final = 200


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is wrong with a request. ``code`` is stable, the sentences may change.

    ``field``: the field, parameter or header at fault; ``found`` and ``expected``: its value, as a text, and what it
    should have been; ``retriable``: whether the same request may succeed later.
    """

    type: str = msgspec.field(default="about:blank")
    title: str
    status: int
    code: str
    detail: str
    field: str | None = None
    found: str | None = None
    expected: str | None = None
    retriable: bool = False


class HttpError(Exception):
    """A request that is refused: ``problem``, and further headers of the answer."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        *,
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse with `status`; ``fields``: the field, found and expected of the problem, as far as they apply."""
        retriable = status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.CONFLICT)
        self.problem = Problem(
            title=status.phrase, status=status.value, code=code, detail=detail, retriable=retriable, **(fields or {})
        )
        self.headers = dict(headers or {})
        super().__init__(detail)


def problem_of(error: StreamschedError) -> HttpError:
    """Return the answer to an error of the library.

    >>> problem_of(UnknownPage("https://a.example/")).problem.status
    404
    """
    if isinstance(error, UnknownPage):
        return HttpError(HTTPStatus.NOT_FOUND, "unknown_page", str(error), fields={"found": shorten(error.url)})
    if isinstance(error, SettingsError):
        return invalid(error.setting, shorten(error.found), error.expected)
    if isinstance(error, KeyReusedError):
        return invalid("key", shorten(error.key), "a new key, or the same request as before", error.code)
    if isinstance(error, ChangesGone):
        fields = {"field": "after", "found": shorten(error.after), "expected": error.oldest}
        return HttpError(HTTPStatus.GONE, error.code, str(error), fields=fields)
    if isinstance(error, InvalidRecord):
        return invalid(error.field, shorten(error.found), error.expected)
    if isinstance(error, FormulaError):
        return invalid("formula", shorten(error.text), f"a formula; column {error.column}: {error.reason}")
    if isinstance(error, CatchingUp | SnapshotError):
        code, after_s = (error.code, "1") if isinstance(error, CatchingUp) else ("state_not_writable", "5")
        return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, code, str(error), headers={"retry-after": after_s})
    return HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the service has failed; its log says why")


def invalid(field: str, found: str, expected: str, code: str = "invalid") -> HttpError:
    """Return the answer to a value that is not valid.

    >>> invalid("k", "0", "1 or more pages").problem.detail
    'k: expected 1 or more pages, found 0'
    """
    field = shorten_text(field)
    return HttpError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        code,
        f"{field}: expected {expected}, found {found}",
        fields={"field": field, "found": found, "expected": expected},
    )


def unknown(code: str, detail: str, found: object) -> HttpError:
    """Return the answer to a request for something that is not known.

    >>> unknown("unknown_host", "no page of this host is known", "a.example").problem.status
    404
    """
    return HttpError(HTTPStatus.NOT_FOUND, code, detail, fields={"found": shorten(found)})


def validation_problem(error: msgspec.ValidationError, content: object) -> HttpError:
    """Return the answer to `content`, decoded without types, which a typed decoder has refused with `error`.

    >>> refusal = msgspec.ValidationError("Expected `int` >= 1 - at `$.k`")
    >>> validation_problem(refusal, {"k": 0}).problem.detail
    'k: expected int >= 1, found 0'
    """
    text, has_path, path = str(error).rpartition(_PLACE)
    if not has_path:
        text, path = path, "$`"
    place, found = _find(content, path.removesuffix("`"))
    about_field = _FIELD.fullmatch(text)
    if about_field is not None:
        field = f"{place}.{about_field['field']}".removeprefix(".")
        is_missing = about_field["kind"].startswith("missing")
        value = _NOTHING if is_missing else "a field"
        return invalid(field, value, "a value" if is_missing else "no field of this name")
    return invalid(place or "body", _show(found), _describe_expected(text))


def _describe_expected(text: str) -> str:
    """Return what was expected instead of a value that was refused with `text`.

    >>> _describe_expected("Expected `str`, got `int`"), _describe_expected("Number out of range")
    ('str', 'another value (Number out of range)')
    """
    if text.startswith("Invalid enum value"):  # a status is the only field of words
        return STATUS_CODE.expected
    expected = _EXPECTED.fullmatch(text)
    wanted = (expected["expected"] if expected else f"another value ({text})").replace("`", "")
    _, has_pattern, pattern = wanted.partition(_PATTERN)
    return _EXPECTED_TEXTS[pattern] if has_pattern else wanted


def _show(value: object) -> str:
    """Return a decoded value as text, its constants as JSON has them.

    >>> _show(None), _show(True), _show("None")
    ('null', 'true', "'None'")
    """
    text = shorten(value)
    return _CONSTANTS.get(text, text)


def _find(content: object, path: str) -> tuple[str, object]:
    """Return the place and the value at a path such as ``$.outcomes[3].url``; the last value if it leads nowhere.

    ``[...]`` is a key of a mapping, which can be named if the mapping has only one.

    >>> _find({"rules": {"a.example": {"never": 1}}}, "$.rules[...].never")
    ('rules.a.example.never', 1)
    """
    found: Any = content
    place = ""
    for name, index in _STEP.findall(path):
        is_only = index == _SOME_KEY and isinstance(found, Mapping) and len(found) == 1
        key = next(iter(found)) if is_only else name
        place += f".{key}" if key else f"[{index}]"
        with suppress(LookupError, TypeError, ValueError):
            found = found[key] if key else found[int(index)]
    return place.removeprefix("."), found


def shorten_text(text: str) -> str:
    """Return `text`, cut if it is long: what a client sent must not flood its answer."""
    return text if len(text) <= _LONGEST_FIELD else f"{text[: _LONGEST_FIELD - 1]}…"
