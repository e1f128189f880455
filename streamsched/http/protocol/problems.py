"""Errors of HTTP as problem details (RFC 9457), with the field at fault, what was found and what was expected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from streamsched.errors import (
    FormulaError,
    InvalidRecord,
    KeyReusedError,
    SettingsError,
    SnapshotError,
    StreamschedError,
    UnknownPage,
    shorten,
)

__all__ = ["HttpError", "Problem", "invalid", "problem_of", "shorten_text", "validation_problem"]

_MESSAGE: Final = re.compile(r"(?P<text>.*?)(?: - at `(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected (?P<expected>.+?)(?:, got .*)?", re.DOTALL)
_FIELD: Final = re.compile(r"Object (?P<kind>missing required|contains unknown) field `(?P<field>.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
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
    if isinstance(error, InvalidRecord):
        return invalid(error.field, shorten(error.found), error.expected)
    if isinstance(error, FormulaError):
        return invalid("formula", shorten(error.text), f"a formula; column {error.column}: {error.reason}")
    if isinstance(error, SnapshotError):
        return HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "state_not_writable", str(error), headers={"retry-after": "5"})
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


def validation_problem(error: msgspec.ValidationError, content: object) -> HttpError:
    """Return the answer to `content`, decoded without types, which a typed decoder has refused with `error`.

    >>> refusal = msgspec.ValidationError("Expected `int` >= 1 - at `$.k`")
    >>> validation_problem(refusal, {"k": 0}).problem.detail
    'k: expected int >= 1, found 0'
    """
    message = _MESSAGE.fullmatch(str(error))
    assert message is not None
    path, text = message["path"] or "$", message["text"]
    about_field = _FIELD.fullmatch(text)
    if about_field is not None:
        field = f"{path}.{about_field['field']}".removeprefix("$").removeprefix(".")
        is_missing = about_field["kind"].startswith("missing")
        value = _NOTHING if is_missing else "a field"
        return invalid(field, value, "a value" if is_missing else "no field of this name")
    expected = _EXPECTED.fullmatch(text)
    field = path.removeprefix("$").removeprefix(".") or "body"
    wanted = (expected["expected"] if expected else text).replace("`", "")
    return invalid(field, shorten(_find(content, path)), wanted)


def _find(content: object, path: str) -> object:
    """Return the value at a path such as ``$.outcomes[3].url``; the last one on the way if it leads nowhere."""
    found: Any = content
    for name, index in _STEP.findall(path):
        if name and isinstance(found, Mapping) and name in found:
            found = found[name]
        elif index and isinstance(found, Sequence) and not isinstance(found, str | bytes) and int(index) < len(found):
            found = found[int(index)]
        else:
            break
    return found


def shorten_text(text: str) -> str:
    """Return `text`, cut if it is long: what a client sent must not flood its answer."""
    return text if len(text) <= _LONGEST_FIELD else f"{text[: _LONGEST_FIELD - 1]}…"
