"""Bodies in JSON, msgpack or the project's columnar frames: which type an answer has, and how a request's is read.

What a client sends is bounded before anything walks through it: no nesting beyond `_MOST_DEPTH`, no values beyond
`_MOST_VALUES` but those that a message has, and no search for the wrong entry beyond `_MOST_ENTRIES`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from streamsched.api.values import MOST_RECORDS
from streamsched.connectors.reading.rejections import ParseError
from streamsched.connectors.records import RecordType
from streamsched.errors import InvalidRecord
from streamsched.http.protocol.problems import HttpError, invalid, shorten_text, validation_problem
from streamsched.http.protocol.value_count import has_more_values

Content = TypeVar("Content")

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
NDJSON: Final = "application/x-ndjson"
FRAMES: Final = "application/vnd.streamsched.frames"
PROBLEM: Final = "application/problem+json"
_LINES: Final = msgspec.json.Encoder()
_EXACT: Final = 2.0**53  # up to which a float holds every whole number
_OFFERED: Final = (JSON, MSGPACK)
_MOST_DEPTH: Final = 32  # of lists and objects in each other; messages have four
_MOST_VALUES: Final = 1 << 18  # of a body that is decoded without a type; the largest message has 210,002
_MOST_ENTRIES: Final = 1_000  # of a mapping that are searched for the wrong one: the most that a message may have
_A_FLOAT: Final = "got `float`"  # in what msgspec says of a float in place of a whole number
_SOME_KEY: Final = "[...]"  # in its paths: a key of a mapping


def choose_type(accept: str, offered: Sequence[str] = _OFFERED) -> str | None:
    """Return the media type of an answer to a request with this Accept header, None if there is none. O(length).

    `offered`: the types of the answer, the preferred one first.

    >>> choose_type("*/*"), choose_type("application/msgpack, */*;q=0.1"), choose_type("text/html")
    ('application/json', 'application/msgpack', None)
    """
    if not accept.strip():
        return JSON
    ranges = list(_read_ranges(accept))
    weights = {one: _weigh(one, ranges) for one in offered}
    best = max(offered, key=lambda one: weights[one])  # of equals the first
    return best if weights[best] > 0.0 else None


def encode_body(content: object, media_type: str) -> bytes:
    """Return `content`, a message, in `media_type`. O(bytes)."""
    return msgspec.msgpack.encode(content) if media_type == MSGPACK else msgspec.json.encode(content)


def answer_types(lines: str | None) -> tuple[str, ...]:
    """Return the media types of an answer; `lines`: its field that may be sent as lines, if it has one."""
    return _OFFERED if lines is None else (*_OFFERED, NDJSON)


def encode_lines(content: msgspec.Struct, lines: str) -> bytes:
    """Return `content` as NDJSON: the items of its field `lines`, then an object of its other fields. O(bytes)."""
    rest = {name: getattr(content, name) for name in content.__struct_fields__ if name != lines}
    return _LINES.encode_lines([*getattr(content, lines), rest])


def decode_body(body: bytes, media_type: str, kind: type[Content]) -> Content:
    """Return the message of type `kind` in `body`. O(bytes). Raises HttpError if it is not one."""
    try:
        decode = msgspec.msgpack.decode if media_type == MSGPACK else msgspec.json.decode
        return decode(body, type=kind)
    except msgspec.ValidationError as error:
        return _convert(decode_plain(body, media_type), kind, error)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise malformed(str(error)) from None


def decode_plain(body: bytes, media_type: str) -> Any:
    """Return what `body` holds, of any type but not nested deeply; `_UNSEEN` if these are too many values. O(bytes).

    Raises HttpError.
    """
    if has_more_values(body, _MOST_VALUES, is_msgpack=media_type == MSGPACK):
        return _UNSEEN
    try:
        content = msgspec.msgpack.decode(body) if media_type == MSGPACK else msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError, TypeError) as error:
        raise malformed(str(error)) from None
    level = [content] if isinstance(content, dict | list) else []
    for _ in range(_MOST_DEPTH):
        containers = (one.values() if isinstance(one, dict) else one for one in level)
        level = [inner for container in containers for inner in container if isinstance(inner, dict | list)]
        if not level:
            return content
    raise malformed(f"lists and objects in each other, more than {_MOST_DEPTH} deep")


def _check_values(body: bytes, media_type: str) -> None:
    """Raise HttpError if `body` has too many values. Microseconds for a message that has few; see `has_more_values`."""
    if has_more_values(body, _MOST_VALUES, is_msgpack=media_type == MSGPACK):
        raise invalid("body", "more", f"at most {_MOST_VALUES:,} values")


class _Unseen:
    """What an error says it found in place of content that is not decoded."""

    def __repr__(self) -> str:
        return f"one of more than {_MOST_VALUES:,} values"


_UNSEEN: Final = _Unseen()


def malformed(reason: str) -> HttpError:
    """Return the answer to a body that cannot be decoded at all."""
    detail = f"the body cannot be decoded: {shorten_text(reason)}"
    return HttpError(HTTPStatus.BAD_REQUEST, "malformed", detail, fields={"field": "body"})


def _convert(content: object, kind: type[Content], refusal: msgspec.ValidationError) -> Content:
    """Return the message of type `kind` in `content`, which a strict decoder has refused with `refusal`.

    5.0 is a whole number too, as JSON Schema has it: some languages have no other numbers. Raises HttpError.
    """
    if _A_FLOAT in str(refusal) and content is not _UNSEEN:
        content = _make_whole(content)
        try:
            return msgspec.convert(content, kind)
        except msgspec.ValidationError as error:
            refusal = error
    raise validation_problem(refusal, _isolate(content, kind) if _SOME_KEY in str(refusal) else content) from None


def _isolate(content: Any, kind: type[Content]) -> Any:
    """Return `content` with nothing but the first invalid entry in a mapping of several, so that an error can name it.

    The errors of msgspec do not. Each entry, `_MOST_ENTRIES` at most, is converted once more.
    """
    fields = content.items() if isinstance(content, dict) else ()
    for name, entries in fields:
        for key in islice(entries, _MOST_ENTRIES) if isinstance(entries, dict) else ():
            one = {**content, name: {key: entries[key]}}
            try:
                msgspec.convert(one, kind)
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


class BodyReader:
    """Reads the bodies of a route. ``kind``: the message, in JSON or msgpack; ``media_types``: what is accepted.

    `records`: read the message's field ``records.name``, a list of events, as columns; a body may also be one frame.
    """

    def __init__(self, kind: type[msgspec.Struct], records: RecordType[Any] | None = None) -> None:
        self.kind = kind
        self.media_types: tuple[str, ...] = (JSON, MSGPACK) if records is None else (JSON, MSGPACK, FRAMES)
        self._records = records
        if records is not None:
            self._frame = msgspec.defstruct("Frame", [], bases=(records.frame(),), forbid_unknown_fields=True)

    def read(self, body: bytes, media_type: str) -> Any:
        """Return the message in a body of one of ``media_types``, or its records as one batch. O(bytes).

        Raises HttpError.
        """
        if self._records is None:
            _check_values(body, media_type)
            return decode_body(body, media_type, self.kind)
        return self._read_records(self._records, body, media_type)

    def _read_records(self, records: RecordType[Any], body: bytes, media_type: str) -> Any:
        if media_type == FRAMES:
            return self._read_frame(records, body)
        events: Sequence[Any] = getattr(decode_body(body, media_type, self.kind), records.name)
        for number, event in enumerate(events):
            try:
                records.check(event)
            except ParseError as error:
                field = f"{records.name}[{number}].{error.problem.field}"
                raise invalid(field, error.problem.found, error.problem.reason.removeprefix("expected ")) from None
        return records.batch.from_events(events)

    def _read_frame(self, records: RecordType[Any], body: bytes) -> Any:
        _check_values(body, MSGPACK)
        try:
            frame = msgspec.msgpack.decode(body, type=self._frame)
            batch = records.decode_frame(structs.asdict(frame))
        except InvalidRecord:
            raise
        except msgspec.ValidationError as error:
            raise validation_problem(error, decode_plain(body, MSGPACK)) from None
        except (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError) as error:
            raise malformed(str(error)) from None
        if len(batch) > MOST_RECORDS:
            raise invalid(records.name, f"{len(batch)} records", f"at most {MOST_RECORDS:,} records")
        return batch
