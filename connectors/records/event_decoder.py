"""Decodes events of one type, many at once or one with the reason why it cannot be decoded; JSON and msgpack alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import msgspec

from streamsched.connectors.reading.rejections import RecordProblem
from streamsched.connectors.reading.validation import ParseError
from streamsched.connectors.records.event_checks import UNREADABLE, explain
from streamsched.connectors.source import Records

if TYPE_CHECKING:
    from streamsched.connectors.records.record_types import RecordType

__all__ = ["EventDecoder", "Refuse"]

Refuse: TypeAlias = Callable[[Sequence[Any]], RecordProblem | None]
"""Returns what is wrong with the first faulty one of some events of a type with more fields, None where nothing is."""


def _accept_all(_events: Sequence[Any]) -> RecordProblem | None:
    return None


class EventDecoder(Generic[Records]):
    """Makes events of `records` of what a decoder of the struct ``kind`` returns; `refuse` may reject some of them.

    ``kind``: ``records.event``, or a struct with more fields.
    """

    def __init__(
        self, records: RecordType[Records], kind: type[msgspec.Struct] | None = None, refuse: Refuse = _accept_all
    ) -> None:
        self.records = records
        self.kind = kind or records.event
        self._refuse = refuse

    def decode_all(self, decode: Callable[[], Sequence[Any]], count: int) -> Records | None:
        """Return what `decode` returns as columns; None unless it is `count` events, none of them refused."""
        try:
            events = decode()
            if len(events) != count or self._refuse(events) is not None:
                return None
            return self.records.to_columns(events)
        except (*UNREADABLE, OverflowError):
            return None

    def decode_one(self, decode: Callable[[], Any], decode_plain: Callable[[], object], shown: str) -> Any:
        """Return the event that `decode` returns. Raises ParseError.

        `decode_plain`: does the same without types, to find the field at fault; `shown`: the record's text in errors.
        """
        try:
            event = decode()
        except UNREADABLE as error:
            raise ParseError(explain(error, decode_plain, self.records.checks, shown)) from error
        self.records.read_text(event)
        problem = self._refuse([event])
        if problem is not None:
            raise ParseError(problem)
        return event
