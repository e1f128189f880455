"""Crawl outcomes from a file or standard input, in any of the formats, plain or gzip."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streamsched.connectors.formats.changelog import CHANGE_LOG
from streamsched.connectors.formats.detection import FORMATS, HEAD_BYTES, recognise_format
from streamsched.connectors.formats.jsonl import JSON_LINES
from streamsched.connectors.formats.microsoft import ORIGIN_S, CrawlHistory
from streamsched.connectors.formats.msgpack_stream import read_maps
from streamsched.connectors.reading.byte_stream import STDIN, ByteStream
from streamsched.connectors.reading.record_reader import OutcomeChunk, Read, RecordReader
from streamsched.connectors.reading.rejections import RejectionCounter, Rejections
from streamsched.connectors.source import Delivery, Position, Rejection, Unit
from streamsched.errors import SettingsError, SourceError, shorten

__all__ = ["BATCH", "FileSource", "open_file"]

BATCH: Final = 65_536  # records a delivery at most; a block of 1 MiB usually ends it before
_BYTEWISE: Final = "msgpack"  # the format without lines


def open_file(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  the word that users know
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
    origin_s: float = ORIGIN_S,
) -> FileSource:
    """Open the file at `path`, "-" for standard input, as a source; `streamsched.connectors.open_source` tells how."""
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


class FileSource:
    """A file as a `Source`; see `open_file`, which makes one.

    A delivery's position counts bytes of the decompressed input, so resuming in a gzip decompresses what it skips.
    """

    def __init__(self, stream: ByteStream, kind: str, read: Read, rejections: Rejections, batch: int) -> None:
        self.format = kind
        self._stream = stream
        self._read = read
        self._rejections = rejections
        self._batch = batch
        self._place = STDIN if stream.path == STDIN else str(Path(stream.path).resolve())
        self._closed = False
        self._cuts = self._start(0)

    @property
    def rejected(self) -> int:
        """Return how many records were rejected since the source was opened."""
        return self._rejections.count

    @property
    def rejections(self) -> Sequence[Rejection]:
        """Return the last rejections, at most 100, oldest first."""
        return tuple(self._rejections.last)

    def seek(self, position: Position) -> None:
        """Go to `position`; raises SourceError where this file did not give it. O(1), in a gzip O(offset)."""
        self._check_open()
        path = self._stream.path
        if (position.kind, position.path) != (self.format, self._place):
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

    def close(self) -> None:
        """Close the file and the dead letters; a second call does nothing."""
        self._closed = True
        self._stream.close()
        self._rejections.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        """Return the next delivery; what it had to reject on the way is in the dead letters by then."""
        self._check_open()
        cut = next(self._cuts, None)
        self._rejections.flush()
        if cut is not None:
            return Delivery(cut.outcomes, Position(self.format, self._place, cut.offset, cut.records))
        damage, self._stream.damage = self._stream.damage, None
        if damage is not None:
            raise damage
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, records: int) -> Iterator[OutcomeChunk]:
        unit: Unit = "byte" if self.format == _BYTEWISE else "line"
        return self._read(
            RecordReader(
                self._stream, RejectionCounter(self._rejections, self._stream.path, unit), self._batch, records
            )
        )

    def _check_open(self) -> None:
        if self._closed:
            raise SourceError(self._stream.path, "is closed: open it again")


def _choose_format(stream: ByteStream, asked: str | None) -> str:
    if asked is not None and asked not in FORMATS:
        raise SourceError(stream.path, f"format: expected one of {', '.join(FORMATS)}, found {shorten(asked)}")
    head = b"" if asked else stream.peek(HEAD_BYTES)
    found = asked or recognise_format(stream.path, head)
    if found is None and not head:
        return FORMATS[0]  # empty: any will do
    if found is None:
        reason = (
            f"format not recognised: expected one of {', '.join(FORMATS)}, told by name or content, or named beforehand"
        )
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
