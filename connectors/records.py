"""The two types of records that a stream may carry, and how events of them are decoded, in JSON and msgpack alike."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias

import msgspec
import numpy as np

from streamsched.connectors.reading.rejections import ParseError, RecordProblem
from streamsched.connectors.source import Records
from streamsched.errors import shorten
from streamsched.fields import Fingerprint, Time, diagnose, suggest
from streamsched.frames import decode_frame, frame_type
from streamsched.outcomes import OutcomeBatch
from streamsched.signals import SignalBatch

UNREADABLE: Final = (ValueError, TypeError, RecursionError)  # what msgspec raises on input, its own errors included

MOST_UNKNOWN: Final = 20
OTHERS: Final = "other fields"
_log: Final = logging.getLogger("streamsched.connectors")
_OF_SIGNALS: Final = " signals"  # ends the kind of their positions


@dataclass(frozen=True, slots=True)
class RecordType(Generic[Records]):
    """A type of records. ``name``: "outcomes" or "signals"; ``batch``: their columns, which know their fields."""

    name: str
    batch: type[Records]

    @property
    def time(self) -> str:
        """The field with the time of a record."""
        return self.batch.FIELDS[1].name

    @property
    def event(self) -> type[msgspec.Struct]:
        """One record in wire format."""
        return self.batch.EVENT

    def check(self, event: Any) -> None:
        """Raise ParseError if `event` has a whole number of more than 64 bits, or a text that is no time."""
        for field in self.batch.FIELDS:
            value = getattr(event, field.name)
            is_open = isinstance(field.kind, Fingerprint) or (isinstance(field.kind, Time) and isinstance(value, str))
            if is_open and value is not None and not field.kind.fits(value):
                raise ParseError(RecordProblem(field.name, f"expected {field.kind.expected}", shorten(value)))

    def none(self) -> Records:
        """Return a batch without records."""
        return self.batch.from_events([])

    def join(self, batches: Sequence[Records]) -> Records:
        """Return the records of `batches`, at least one, as one batch. O(bytes), itself if there is only one."""
        return batches[0] if len(batches) == 1 else self.batch.concatenate(batches)

    def decode_frame(self, columns: Mapping[str, Any]) -> Records:
        """Return the records of a frame; see `streamsched.frames`."""
        return decode_frame(columns, self.batch)

    def frame(self) -> type[msgspec.Struct]:
        """Return the type of a decoder's frames."""
        return frame_type(self.batch)

    def encode(self, records: Records, row: int) -> bytes:
        """Return one of `records` as JSON. O(bytes)."""
        (event,) = records.take(np.array([row], np.intp)).to_events()
        return msgspec.json.encode(event)

    def position_kind(self, format_name: str) -> str:
        """Return the kind of positions in files of a format, or in topics: one of signals is none of outcomes.

        >>> OUTCOMES.position_kind("jsonl"), SIGNALS.position_kind("jsonl")
        ('jsonl', 'jsonl signals')
        """
        return format_name + (_OF_SIGNALS if self.name == "signals" else "")

    def format_of(self, position_kind: str) -> str:
        """Return the format that `position_kind` made a kind of."""
        return position_kind.removesuffix(self.position_kind(""))


OUTCOMES: Final = RecordType("outcomes", OutcomeBatch)
SIGNALS: Final = RecordType("signals", SignalBatch)


def type_of_position(kind: str) -> RecordType[Any]:
    """Return the type of records that a position of the kind `kind` is in.

    >>> type_of_position("jsonl signals").name
    'signals'
    """
    return SIGNALS if kind.endswith(_OF_SIGNALS) else OUTCOMES


Refuse: TypeAlias = Callable[[Sequence[Any]], RecordProblem | None]
"""Returns what is wrong with the first faulty one of some events of a type with more fields, None where nothing is."""


class EventDecoder(Generic[Records]):
    """Makes events of `records` of what a decoder of the struct ``kind`` returns; `refuse` may reject some of them.

    ``kind``: ``records.event``, or a struct with more fields; ``unknown``: how many records had each other field, by
    its name; those beyond `MOST_UNKNOWN` names are counted as `OTHERS`.
    """

    def __init__(
        self,
        records: RecordType[Records],
        kind: type[msgspec.Struct] | None = None,
        refuse: Refuse = lambda events: None,
    ) -> None:
        self.records = records
        self.kind = kind or records.event
        self.unknown: Counter[str] = Counter()
        self._refuse = refuse

    def kind_without_others(self) -> type[msgspec.Struct]:
        """Return ``kind`` as a type that refuses maps with other fields."""
        return msgspec.defstruct(
            self.kind.__name__, [], bases=(self.kind,), forbid_unknown_fields=True, frozen=True, gc=False
        )

    def count_unknown(self, maps: Iterable[Mapping[str, object]]) -> None:
        """Count the fields of `maps` that ``kind`` does not have, and log each name once. O(fields)."""
        known = self.kind.__struct_fields__
        for name in (name for one in maps for name in one if name not in known):
            if name not in self.unknown:
                if len(self.unknown) >= MOST_UNKNOWN:
                    name = OTHERS  # noqa: PLW2901  names are a stranger's: their number is bounded
                elif name != OTHERS:
                    _log.warning("unknown field %s is not read%s", shorten(name), suggest(name, known))
            self.unknown[name] += 1

    def report_unknown(self) -> None:
        """Log how many records had fields that are not read, if any had."""
        if self.unknown:
            counts = ((OTHERS if name == OTHERS else shorten(name), count) for name, count in self.unknown.items())
            _log.warning("unknown fields: %s", ", ".join(f"{name} in {count:,} records" for name, count in counts))

    def decode_all(self, decode: Callable[[], Sequence[Any]], count: int) -> Records | None:
        """Return what `decode` returns as columns; None unless it is `count` events, none of them refused."""
        try:
            events = decode()
            if len(events) != count or self._refuse(events) is not None:
                return None
            return self.records.batch.from_events(events)
        except (*UNREADABLE, OverflowError):
            return None

    def decode_one(self, decode: Callable[[], Any], decode_plain: Callable[[], object], shown: str) -> Any:
        """Return the event that `decode` returns. Raises ParseError.

        `decode_plain`: does the same without types, to find the field at fault; `shown`: the record's text in errors.
        """
        try:
            event = decode()
        except UNREADABLE as error:
            raise ParseError(self._explain(error, decode_plain, shown)) from error
        self.records.check(event)
        problem = self._refuse([event])
        if problem is not None:
            raise ParseError(problem)
        return event

    def _explain(self, error: Exception, decode_plain: Callable[[], object], shown: str) -> RecordProblem:
        """Return why a typed decode failed with `error`."""
        try:
            problem = diagnose(decode_plain(), self.records.batch.FIELDS, self.records.batch.ERROR)
        except UNREADABLE:
            problem = None
        return describe_error(error, shown) if problem is None else RecordProblem.of(problem)


def describe_error(error: Exception, shown: str) -> RecordProblem:
    """Return a decoder's message as a problem, with the field if the message ends in a path."""
    message, _, path = str(error).partition(" - at `$")
    return RecordProblem(path.strip("`.[]") or "record", f"cannot be read: {message}", shown)
