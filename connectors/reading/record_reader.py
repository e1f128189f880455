"""The interface between an opened file and the formats: a format reads bytes and yields chunks of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias

from streamsched.connectors.source import Records

if TYPE_CHECKING:
    from streamsched.connectors.reading.byte_stream import ByteStream
    from streamsched.connectors.reading.rejections import RejectionCounter

__all__ = ["Read", "RecordChunk", "RecordReader"]


@dataclass(frozen=True, slots=True)
class RecordReader:
    """A stream at its first unread byte, the counter of rejections, and the number of records (lines, maps) before.

    ``batch``: maximum number of records in one chunk, at least 1.
    """

    stream: ByteStream
    rejections: RejectionCounter
    batch: int
    records: int = 0


@dataclass(frozen=True, slots=True)
class RecordChunk(Generic[Records]):
    """Valid records, at least one; the offset of the byte after them and the number of lines or maps before it.

    ``lines``: the line of each record, empty if records are no lines.
    """

    records: Records
    offset: int
    count: int
    lines: Sequence[int] = ()


Read: TypeAlias = Callable[[RecordReader], Iterator[RecordChunk[Records]]]
