"""What a format reads from, and what it hands on: the seam between an opened file and the formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from streamsched.connectors.reading.byte_stream import ByteStream
from streamsched.connectors.reading.rejections import RejectionCounter
from streamsched.outcomes import OutcomeBatch

__all__ = ["Cut", "Read", "RecordReader"]


@dataclass(frozen=True, slots=True)
class RecordReader:
    """The stream at the first byte to read, the book of rejections, and the records (lines, maps) before that byte.

    ``batch``: most records in one delivery, at least 1.
    """

    stream: ByteStream
    ledger: RejectionCounter
    batch: int
    records: int = 0


class Cut(NamedTuple):
    """Valid outcomes, at least one, and where the input stands after them: the next byte and the records before it."""

    outcomes: OutcomeBatch
    offset: int
    records: int


Read: TypeAlias = Callable[[RecordReader], Iterator[Cut]]
