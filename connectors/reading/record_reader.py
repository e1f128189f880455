"""The interface between an opened file and the formats: a format reads bytes and yields chunks of outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from streamsched.connectors.reading.byte_stream import ByteStream
    from streamsched.connectors.reading.rejections import RejectionCounter
    from streamsched.outcomes import OutcomeBatch

__all__ = ["OutcomeChunk", "Read", "RecordReader"]


@dataclass(frozen=True, slots=True)
class RecordReader:
    """A stream at its first unread byte, the counter of rejections, and the number of records (lines, maps) before.

    ``batch``: maximum number of records in one chunk, at least 1.
    """

    stream: ByteStream
    rejections: RejectionCounter
    batch: int
    records: int = 0


class OutcomeChunk(NamedTuple):
    """Valid outcomes, at least one; the offset of the byte after them and the number of records before that byte."""

    outcomes: OutcomeBatch
    offset: int
    records: int


Read: TypeAlias = Callable[[RecordReader], Iterator[OutcomeChunk]]
