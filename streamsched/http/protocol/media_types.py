"""Media types of bodies: JSON, msgpack, and the project's columnar frames; which one an answer has."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from streamsched.http.protocol.problems import HttpError, shorten_text, validation_problem

__all__ = [
    "FRAMES",
    "JSON",
    "MSGPACK",
    "PROBLEM",
    "choose_type",
    "decode_body",
    "decode_plain",
    "encode_body",
    "malformed",
]

Content = TypeVar("Content")

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
FRAMES: Final = "application/vnd.streamsched.frames"
PROBLEM: Final = "application/problem+json"
_EXACT: Final = 2.0**53  # up to which a float holds every whole number
_OFFERED: Final = (JSON, MSGPACK)


def choose_type(accept: str) -> str | None:
    """Return the media type of an answer to a request with this Accept header, None if there is none. O(length).

    >>> choose_type("*/*"), choose_type("application/msgpack, */*;q=0.1"), choose_type("text/html")
    ('application/json', 'application/msgpack', None)
    """
    if not accept.strip():
        return JSON
    ranges = list(_read_ranges(accept))
    weights = {offered: _weigh(offered, ranges) for offered in _OFFERED}
    best = max(_OFFERED, key=lambda offered: weights[offered])  # of equals the first
    return best if weights[best] > 0.0 else None


def encode_body(content: object, media_type: str) -> bytes:
    """Return `content`, a message, in `media_type`. O(bytes)."""
    return msgspec.msgpack.encode(content) if media_type == MSGPACK else msgspec.json.encode(content)


def decode_body(body: bytes, media_type: str, kind: type[Content]) -> Content:
    """Return the message of type `kind` in `body`. O(bytes). Raises HttpError if it is not one."""
    try:
        decode = msgspec.msgpack.decode if media_type == MSGPACK else msgspec.json.decode
        return decode(body, type=kind)
    except msgspec.ValidationError:
        return _convert(decode_plain(body, media_type), kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise malformed(str(error)) from None


def decode_plain(body: bytes, media_type: str) -> Any:
    """Return what `body` holds, of any type. O(bytes). Raises HttpError."""
    try:
        return msgspec.msgpack.decode(body) if media_type == MSGPACK else msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise malformed(str(error)) from None


def malformed(reason: str) -> HttpError:
    """Return the answer to a body that cannot be decoded at all."""
    detail = f"the body cannot be decoded: {shorten_text(reason)}"
    return HttpError(HTTPStatus.BAD_REQUEST, "malformed", detail, fields={"field": "body"})


def _convert(content: object, kind: type[Content]) -> Content:
    """Return the message of type `kind` in `content`, where 5.0 is a whole number too, as JSON Schema has it.

    Some languages have no other numbers. Raises HttpError if it is none.
    """
    try:
        return msgspec.convert(_make_whole(content), kind)
    except msgspec.ValidationError as error:
        raise validation_problem(error, _isolate(content, kind)) from None


def _isolate(content: Any, kind: type[Content]) -> Any:
    """Return `content` with nothing but the first invalid entry in a mapping of several, so that an error can name it.

    The errors of msgspec do not. O(entries), each converted once more.
    """
    fields = content.items() if isinstance(content, dict) else ()
    for name, entries in fields:
        for key in entries if isinstance(entries, dict) else ():
            one = {**content, name: {key: entries[key]}}
            try:
                msgspec.convert(_make_whole(one), kind)
            except msgspec.ValidationError:
                return one
    return content


def _make_whole(content: Any) -> Any:
    """Return `content` with whole numbers in place of floats that are equal to them. O(values)."""
    if isinstance(content, dict):
        return {name: _make_whole(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_make_whole(value) for value in content]
    is_whole = isinstance(content, float) and abs(content) <= _EXACT and content.is_integer()
    return int(content) if is_whole else content


def _read_ranges(accept: str) -> Iterator[tuple[str, float]]:
    """Yield the media ranges of an Accept header with their weights; what cannot be read has the weight 0."""
    for part in accept.split(","):
        name, *parameters = (one.strip().lower() for one in part.split(";"))
        weight = next((one.removeprefix("q=") for one in parameters if one.startswith("q=")), "1")
        try:
            yield name, min(max(float(weight), 0.0), 1.0)
        except ValueError:
            yield name, 0.0


def _weigh(offered: str, ranges: list[tuple[str, float]]) -> float:
    """Return the weight of `offered` by the most specific range that matches it, 0 without one."""
    for name in (offered, f"{offered.partition('/')[0]}/*", "*/*"):
        weights = [weight for one, weight in ranges if one == name]
        if weights:
            return max(weights)
    return 0.0
