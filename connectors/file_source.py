"""Records from a file, a pipe or standard input, in any of the formats, plain or gzip."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from streamsched.connectors.file_formats import (
    HEAD_BYTES,
    LEAST_HEAD_BYTES,
    Format,
    describe_mistake,
    formats_of,
    recognise_format,
)
from streamsched.connectors.formats.microsoft import ORIGIN_S
from streamsched.connectors.reading.byte_stream import STDIN, ByteStream, Read, RecordChunk, RecordReader
from streamsched.connectors.reading.rejections import RecordProblem, RejectionCounter, Rejections
from streamsched.connectors.records import RecordType
from streamsched.connectors.source import Delivery, Position, Records, Rejection, Source, Unit
from streamsched.errors import InvalidRecord, SettingsError, SourceError, shorten

BATCH: Final = 65_536  # most records in a delivery; usually a block of 1 MiB ends it first


def is_pipe(path: str) -> bool:
    """Return whether `path` is standard input or a named pipe: opening one waits for its first bytes."""
    return path == STDIN or Path(path).is_fifo()


def open_file(  # noqa: PLR0913  what a user may say of a file
    path: str | Path,
    records: RecordType[Records],
    *,
    format: str | None = None,  # noqa: A002  the name that users know
    position: Position | None = None,
    dead_letters: str | Path | None = None,
    batch: int = BATCH,
    origin_s: float = ORIGIN_S,
) -> FileSource[Records]:
    """Open the file at `path`, "-" for standard input, as a source of `records`; see `open_source`."""
    if batch < 1:
        raise SettingsError("batch", batch, "a whole number of 1 or more")
    if not math.isfinite(origin_s):
        raise SettingsError("origin_s", origin_s, "UTC epoch seconds, finite")
    name = str(path)
    with ExitStack() as undo:
        stream = ByteStream(name)
        undo.callback(stream.close)
        chosen = _choose_format(stream, records, format or (records.format_of(position.kind) if position else None))
        rejections = Rejections(dead_letters)
        undo.callback(rejections.close)
        source = FileSource(stream, records, chosen, chosen.reader(records, name, origin_s), rejections, batch)
        if position is not None:
            undo.callback(source.close)
            source.seek(position)
        undo.pop_all()
    return source


class FileSource(Source[Records]):
    """A file or a pipe as a `Source`, opened by `open_file`.

    A position counts bytes of the decompressed input, so resuming in a gzip decompresses everything before it.
    """

    def __init__(
        self,
        stream: ByteStream,
        records: RecordType[Records],
        format: Format,  # noqa: A002  the name that users know
        read: Read[Records],
        rejections: Rejections,
        batch: int,
    ) -> None:
        self.format = format.name
        self._type = records
        self._stream = stream
        self._read = read
        self._rejections = rejections
        self._batch = batch
        self._path = STDIN if stream.path == STDIN else str(Path(stream.path).resolve())
        self.is_replayable = stream.path != STDIN and Path(stream.path).is_file()
        self._closed = False
        self._unit: Unit = format.unit
        self._lines: Sequence[int] = ()  # of the records of the last delivery, if they are lines
        self._cuts = self._start(0)

    @property
    def rejected(self) -> int:
        """The number of records rejected since the source was opened."""
        return self._rejections.count

    @property
    def rejections(self) -> Sequence[Rejection]:
        """The last rejections, at most 100, oldest first."""
        return tuple(self._rejections.last)

    @property
    def starts(self) -> Mapping[str, Position]:
        """The position at which reading began last, by path; none if it cannot begin there again."""
        return {self._path: self._began} if self.is_replayable else {}

    def owns(self, path: str) -> bool:
        """Return whether `path` is the absolute name of this file."""
        return path == self._path

    def seek(self, position: Position) -> None:
        """Continue at `position`. Raises SourceError if it is of another file. O(1), in a gzip O(offset)."""
        self._check_open()
        path = self._stream.path
        if (position.kind, position.path) != (self._position_kind, self._path):
            reason = (
                f"the position belongs to {position.path} ({position.kind}), not to this file ({self._position_kind})"
            )
            raise SourceError(path, reason)
        stream = ByteStream(path)
        try:
            before = stream.skip_to(position.offset)
            starts_line = before in (b"", b"\n") or stream.peek(1) in (b"", b"\n", b"\r")
            if self._unit == "line" and not starts_line:
                reason = "the position is not at the start of a line: the file is not the one it was taken from"
                raise SourceError(path, reason, position.offset)
        except BaseException:
            stream.close()
            raise
        self._stream.close()
        self._stream = stream
        self._cuts = self._start(position.records)

    def reject(self, delivery: Delivery[Records], problems: Sequence[InvalidRecord]) -> None:
        """Count records of the last `delivery` as rejected, and write them to the dead letters as JSON. O(bytes).

        Their place is their line if each record is one, else the end of the delivery.
        """
        counter = RejectionCounter(self._rejections, self._stream.path, self._unit)
        position = delivery.position
        end = position.records if self._unit == "line" else position.offset
        for problem in problems:
            raw = self._type.encode(delivery.records, problem.record)
            counter.reject(self._lines[problem.record] if self._lines else end, RecordProblem.of(problem), raw)
        self._rejections.flush()

    def close(self) -> None:
        """Close the file and the dead letters; a second call does nothing."""
        self._closed = True
        self._stream.close()
        self._rejections.close()

    def __next__(self) -> Delivery[Records]:
        """Return the next delivery, after the records rejected before it were written to the dead letters."""
        self._check_open()
        cut = next(self._cuts, None)
        self._rejections.flush()
        if cut is not None:
            self._lines = cut.lines
            return Delivery(cut.records, self._position(cut.offset, cut.count))
        damage, self._stream.damage = self._stream.damage, None
        if damage is not None:
            raise damage
        raise StopIteration

    def _start(self, records: int) -> Iterator[RecordChunk[Records]]:
        self._lines = ()
        self._began = self._position(self._stream.offset, records)
        counter = RejectionCounter(self._rejections, self._stream.path, self._unit)
        return self._read(RecordReader(self._stream, counter, self._batch, records))

    @property
    def _position_kind(self) -> str:
        return self._type.position_kind(self.format)

    def _position(self, offset: int, records: int) -> Position:
        return Position(self._position_kind, self._path, offset, records)

    def _check_open(self) -> None:
        if self._closed:
            raise SourceError(self._stream.path, "is closed: open it again")


def _choose_format(stream: ByteStream, records: RecordType[Any], asked: str | None) -> Format:
    formats = formats_of(records)
    names = ", ".join(formats)
    if asked is not None and asked not in formats:
        raise SourceError(stream.path, f"format: expected one of {names}, found {shorten(asked)}")
    head = stream.peek(LEAST_HEAD_BYTES if asked and is_pipe(stream.path) else HEAD_BYTES)
    found = asked or recognise_format(stream.path, head)
    mistake = None if found in formats and formats[found].unit != "line" else describe_mistake(head)
    if mistake is not None:
        raise SourceError(stream.path, f"is {mistake}")
    if found is None and not head:
        return next(iter(formats.values()))  # empty: every format reads nothing
    if found not in formats:
        of = "" if found is None else f": {found} holds no {records.name}"
        table = "a CSV or another table becomes JSON Lines by from_table and write_jsonl"
        raise SourceError(
            stream.path, f"format not recognised: expected one of {names}, by name or content{of}; {table}"
        )
    return formats[found]


class PipeSource(Source[Records]):
    """Standard input or a named pipe at `path` as a `Source`, opened by `open_source` for its first delivery.

    Opening waits for its first bytes. Errors of opening are those of that delivery.
    """

    format = "pipe"
    is_replayable = False

    def __init__(self, path: str, open_source: Callable[[], Source[Records]]) -> None:
        self._path = path
        self._open_source = open_source
        self._source: Source[Records] | None = None

    @property
    def rejected(self) -> int:
        """The number of records rejected since the source was opened."""
        return 0 if self._source is None else self._source.rejected

    @property
    def rejections(self) -> Sequence[Rejection]:
        """The last rejections, at most 100, oldest first."""
        return () if self._source is None else self._source.rejections

    def owns(self, path: str) -> bool:
        """Return False: a pipe has no positions to save."""
        del path
        return False

    def seek(self, position: Position) -> None:
        """Raise SourceError: a pipe cannot be read again."""
        raise SourceError(self._path, "standard input and pipes cannot be resumed", position.offset)

    def reject(self, delivery: Delivery[Records], problems: Sequence[InvalidRecord]) -> None:
        """Count records of the last `delivery` as rejected, and keep them aside with the other dead letters."""
        if self._source is not None:
            self._source.reject(delivery, problems)

    def close(self) -> None:
        """Close the pipe if it was opened; a second call does nothing."""
        if self._source is not None:
            self._source.close()

    def __next__(self) -> Delivery[Records]:
        """Return the next delivery; the first call opens the pipe."""
        if self._source is None:
            self._source = self._open_source()
        return next(self._source)
