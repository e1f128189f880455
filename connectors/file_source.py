"""Crawl outcomes from a file or standard input, in any of the formats, plain or gzip."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamsched.connectors.formats.changelog import CHANGE_LOG
from streamsched.connectors.formats.columns import encode_event
from streamsched.connectors.formats.detection import FORMATS, HEAD_BYTES, recognise_format
from streamsched.connectors.formats.jsonl import JSON_LINES
from streamsched.connectors.formats.microsoft import ORIGIN_S, CrawlHistory
from streamsched.connectors.formats.msgpack_stream import read_maps
from streamsched.connectors.reading.byte_stream import STDIN, ByteStream
from streamsched.connectors.reading.record_reader import OutcomeChunk, Read, RecordReader
from streamsched.connectors.reading.rejections import RecordProblem, RejectionCounter, Rejections
from streamsched.connectors.source import Delivery, Position, Rejection, Source, Unit
from streamsched.errors import SettingsError, SourceError, shorten

if TYPE_CHECKING:
    from streamsched.errors import InvalidOutcome

__all__ = ["BATCH", "FileSource", "open_file"]

BATCH: Final = 65_536  # most records in a delivery; usually a block of 1 MiB ends it first
_BYTEWISE: Final = "msgpack"  # the only format without lines


def open_file(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  the name that users know
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
    origin_s: float = ORIGIN_S,
) -> FileSource:
    """Open the file at `path`, "-" for standard input, as a source; see `streamsched.connectors.open_source`."""
    if batch < 1:
        raise SettingsError("batch", batch, "a whole number of 1 or more")
    if not math.isfinite(origin_s):
        raise SettingsError("origin_s", origin_s, "UTC epoch seconds, finite")
    name = str(path)
    with ExitStack() as undo:
        stream = ByteStream(name)
        undo.callback(stream.close)
        kind = _choose_format(stream, format or (position.kind if position else None))
        rejections = Rejections(dead_letters)
        undo.callback(rejections.close)
        source = FileSource(stream, kind, _choose_reader(kind, name, origin_s), rejections, batch)
        if position is not None:
            undo.callback(source.close)
            source.seek(position)
        undo.pop_all()
    return source


class FileSource(Source):
    """A file or a pipe as a `Source`, opened by `open_file`.

    A position counts bytes of the decompressed input, so resuming in a gzip decompresses everything before it.
    """

    def __init__(self, stream: ByteStream, kind: str, read: Read, rejections: Rejections, batch: int) -> None:
        self.format = kind
        self._stream = stream
        self._read = read
        self._rejections = rejections
        self._batch = batch
        self._path = STDIN if stream.path == STDIN else str(Path(stream.path).resolve())
        self.is_replayable = stream.path != STDIN and Path(stream.path).is_file()
        self._closed = False
        self._unit: Unit = "byte" if kind == _BYTEWISE else "line"
        self._delivered = self._records = 0  # before the last delivery; after it
        self._cuts = self._start(0)

    @property
    def rejected(self) -> int:
        """The number of records rejected since the source was opened."""
        return self._rejections.count

    @property
    def rejections(self) -> Sequence[Rejection]:
        """The last rejections, at most 100, oldest first."""
        return tuple(self._rejections.last)

    def owns(self, path: str) -> bool:
        """Return whether `path` is the absolute name of this file."""
        return path == self._path

    def seek(self, position: Position) -> None:
        """Continue at `position`. Raises SourceError if it is of another file. O(1), in a gzip O(offset)."""
        self._check_open()
        path = self._stream.path
        if (position.kind, position.path) != (self.format, self._path):
            reason = f"the position belongs to {position.path} ({position.kind}), not to this file ({self.format})"
            raise SourceError(path, reason)
        stream = ByteStream(path)
        try:
            before = stream.skip_to(position.offset)
            starts_line = before in (b"", b"\n") or stream.peek(1) in (b"", b"\n", b"\r")
            if self.format != _BYTEWISE and not starts_line:
                reason = "the position is not at the start of a line: the file is not the one it was taken from"
                raise SourceError(path, reason, position.offset)
        except BaseException:
            stream.close()
            raise
        self._stream.close()
        self._stream = stream
        self._cuts = self._start(position.records)

    def reject(self, delivery: Delivery, problems: Sequence[InvalidOutcome]) -> None:
        """Count outcomes of the last `delivery` as rejected, and write them to the dead letters as JSON. O(bytes).

        Their place is their line if each line of the delivery was one outcome, else the end of the delivery.
        """
        counter = RejectionCounter(self._rejections, self._stream.path, self._unit)
        position = delivery.position
        is_line_each = self._unit == "line" and position.records - self._delivered == len(delivery.outcomes)
        for problem in problems:
            raw = encode_event(delivery.outcomes, problem.record)
            end = position.records if self._unit == "line" else position.offset
            offset = self._delivered + 1 + problem.record if is_line_each else end
            counter.reject(offset, RecordProblem.of(problem), raw)
        self._rejections.flush()

    def close(self) -> None:
        """Close the file and the dead letters; a second call does nothing."""
        self._closed = True
        self._stream.close()
        self._rejections.close()

    def __next__(self) -> Delivery:
        """Return the next delivery, after the records rejected before it were written to the dead letters."""
        self._check_open()
        cut = next(self._cuts, None)
        self._rejections.flush()
        if cut is not None:
            self._delivered, self._records = self._records, cut.records
            return Delivery(cut.outcomes, Position(self.format, self._path, cut.offset, cut.records))
        damage, self._stream.damage = self._stream.damage, None
        if damage is not None:
            raise damage
        raise StopIteration

    def _start(self, records: int) -> Iterator[OutcomeChunk]:
        self._delivered = self._records = records
        counter = RejectionCounter(self._rejections, self._stream.path, self._unit)
        return self._read(RecordReader(self._stream, counter, self._batch, records))

    def _check_open(self) -> None:
        if self._closed:
            raise SourceError(self._stream.path, "is closed: open it again")


def _choose_format(stream: ByteStream, asked: str | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise SourceError(stream.path, f"format: expected one of {', '.join(FORMATS)}, found {shorten(asked)}")
    head = b"" if asked else stream.peek(HEAD_BYTES)
    found = asked or recognise_format(stream.path, head)
    if found is None and not head:
        return FORMATS[0]  # empty: every format reads nothing
    if found is None:
        reason = f"format not recognised: expected one of {', '.join(FORMATS)}, by name or content"
        raise SourceError(stream.path, reason)
    return found


def _choose_reader(kind: str, path: str, origin_s: float) -> Read:
    readers: dict[str, Read] = {
        "changes": CHANGE_LOG.read,
        "jsonl": JSON_LINES.read,
        "microsoft": CrawlHistory(path, origin_s).read,
        "msgpack": read_maps,
    }
    return readers[kind]
