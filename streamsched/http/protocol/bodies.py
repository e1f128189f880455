"""Readers of bodies: a message in JSON or msgpack, or records, which may also come as a columnar frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from streamsched.connectors.reading.validation import ParseError
from streamsched.errors import InvalidRecord
from streamsched.http.protocol.media_types import FRAMES, JSON, MSGPACK, decode_body, decode_plain, malformed
from streamsched.http.protocol.problems import invalid, validation_problem

if TYPE_CHECKING:
    from streamsched.connectors.records.record_types import RecordType

__all__ = ["MOST_RECORDS", "BodyReader", "MessageBody", "RecordsBody"]

MOST_RECORDS: Final = 10_000  # of a request; the scheduler applies them in some 5 ms


class BodyReader(ABC):
    """How a route reads its body. ``kind``: the message, in JSON or msgpack; ``media_types``: what is accepted."""

    media_types: tuple[str, ...] = (JSON, MSGPACK)

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self.kind = kind

    @abstractmethod
    def read(self, body: bytes, media_type: str) -> Any:
        """Return the content of a body of one of ``media_types``. O(bytes). Raises HttpError."""


class MessageBody(BodyReader):
    """Reads a message as it is."""

    def read(self, body: bytes, media_type: str) -> Any:
        """Return the message."""
        return decode_body(body, media_type, self.kind)


class RecordsBody(BodyReader):
    """Reads `records` as columns: from a list of events in a message, its field ``records.name``, or from a frame."""

    media_types = (JSON, MSGPACK, FRAMES)

    def __init__(self, records: RecordType[Any], kind: type[msgspec.Struct]) -> None:
        super().__init__(kind)
        self.records = records
        self._frame = msgspec.defstruct("Frame", [], bases=(records.frame,), forbid_unknown_fields=True)

    def read(self, body: bytes, media_type: str) -> Any:
        """Return the records as one batch."""
        if media_type == FRAMES:
            return self._read_frame(body)
        events: Sequence[Any] = getattr(decode_body(body, media_type, self.kind), self.records.name)
        for number, event in enumerate(events):
            try:
                self.records.read_text(event)
            except ParseError as error:
                field = f"{self.records.name}[{number}].{error.problem.field}"
                raise invalid(field, error.problem.found, error.problem.reason.removeprefix("expected ")) from None
        return self.records.to_columns(events)

    def _read_frame(self, body: bytes) -> Any:
        try:
            frame = msgspec.msgpack.decode(body, type=self._frame)
            batch = self.records.decode_frame(structs.asdict(frame))
        except InvalidRecord:
            raise
        except msgspec.ValidationError as error:
            raise validation_problem(error, decode_plain(body, MSGPACK)) from None
        except (msgspec.MsgspecError, RecursionError, ValueError, TypeError, OverflowError) as error:
            raise malformed(str(error)) from None
        if len(batch) > MOST_RECORDS:
            raise invalid(self.records.name, f"{len(batch)} records", f"at most {MOST_RECORDS:,} records")
        return batch
