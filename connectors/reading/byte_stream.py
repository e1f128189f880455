"""A file's bytes from front to back, plain or gzip, in bounded memory; and what formats read of them, yield of them."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from typing import Final, Generic, Protocol, TypeAlias

from streamsched.connectors.reading.rejections import RejectionCounter
from streamsched.connectors.source import Records
from streamsched.errors import SourceError

STDIN: Final = "-"
BLOCK_BYTES: Final = 1 << 20  # one read: some 10,000 events, so that what a block costs is shared by many
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"  # of UTF-8: editors on Windows begin a text with it
_PACKED_BYTES: Final = 1 << 16  # compressed bytes taken at a time
GZIP_MAGIC: Final = b"\x1f\x8b\x08"  # gzip, deflate
_GZIP_WINDOW: Final = 31  # zlib's code for "gzip header and trailer, largest window"


class ByteStream:
    """The decompressed bytes of the file at `path` ("-": standard input); gzip is detected by its first bytes.

    ``offset``: bytes read so far; ``damage``: why the input ended early (truncated, damaged, unreadable), None
    if it did not. Raises SourceError if the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.offset = 0
        self.damage: SourceError | None = None
        self._file = _open(path)
        self._peeked = b""
        try:
            head = _read_head(self._file)
        except OSError as error:
            self._file.close()
            raise SourceError(path, f"cannot be read: {error.strerror or error}") from error
        self._packed = head == GZIP_MAGIC
        self._fetch: Callable[[int], bytes]
        if self._packed:
            self._fetch = Inflater(self._file, head).read
        else:
            self._peeked = head
            self._fetch = lambda size: self._file.read(size) or b""

    def read(self, size: int = BLOCK_BYTES) -> bytes:
        """Return 1 to `size` bytes, none at the end; never raises, so that bytes before a damage can be used."""
        if self._peeked:
            data, self._peeked = self._peeked[:size], self._peeked[size:]
        else:
            data = self._fetch_safely(size)
        self.offset += len(data)
        return data

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only at the end, without consuming them."""
        while len(self._peeked) < size and (more := self._fetch_safely(size - len(self._peeked))):
            self._peeked += more
        return self._peeked[:size]

    def skip_to(self, offset: int) -> bytes:
        """Go to byte `offset` and return the byte before it, none at 0; O(1) where plain, O(offset) in gzip.

        Raises SourceError if the input ends before `offset` or cannot be resumed, as standard input.
        """
        if self.path == STDIN or not self._file.seekable():
            raise SourceError(self.path, "standard input and pipes cannot be resumed: start them without a position")
        start = max(offset - 1, 0)
        if not self._packed:
            self._peeked, self.offset = b"", min(start, self._file.seek(0, 2))
            self._file.seek(self.offset)
        while self.offset < start and self.read(min(BLOCK_BYTES, start - self.offset)):
            pass
        before = self.read(1) if self.offset == start < offset else b""
        if self.offset < offset:
            reason = f"the position, byte {offset}, lies beyond the end: the file is not the one it was taken from"
            raise self.damage or SourceError(self.path, reason, self.offset)
        return before

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()

    def _fetch_safely(self, size: int) -> bytes:
        if self.damage is not None:
            return b""
        offset = self.offset + len(self._peeked)
        try:
            return self._fetch(size)
        except EOFError as error:
            self.damage = SourceError(self.path, str(error), offset)
        except zlib.error as error:
            self.damage = SourceError(self.path, f"damaged gzip: {error}; fetch it again", offset)
        except OSError as error:
            self.damage = SourceError(
                self.path, f"cannot be read on: {error.strerror or error}", offset, retriable=True
            )
        return b""


class Readable(Protocol):
    """What has bytes to read: an open file, or bytes in memory."""

    def read(self, size: int, /) -> bytes | None:
        """Return at most `size` bytes, none at the end."""
        ...


class Inflater:
    """The decompressed bytes of `head` and of the rest of `file`, which are gzip.

    Members follow one another, with zero padding between and after them.
    """

    def __init__(self, file: Readable, head: bytes = b"") -> None:
        self._file = file
        self._pending = head
        self._member = zlib.decompressobj(_GZIP_WINDOW)

    def read(self, size: int) -> bytes:
        """Return 1 to `size` bytes, none at the end; however much a member holds, no more is decompressed.

        Raises EOFError if the last member is cut off or what follows it is not gzip, zlib.error if one is damaged.
        """
        while not self._member.eof or self._next_member():
            packed = self._pending or self._file.read(_PACKED_BYTES) or b""
            data = self._member.decompress(packed, size)
            self._pending = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if data:
                return data
            if not packed and not self._member.eof:
                raise EOFError("truncated gzip: the file ends before its last member does; fetch it again")
        return b""

    def _next_member(self) -> bool:
        pending = self._pending.lstrip(b"\0")
        while len(pending) < len(GZIP_MAGIC) and (more := self._file.read(_PACKED_BYTES)):
            pending = (pending + more).lstrip(b"\0")
        if pending and not pending.startswith(GZIP_MAGIC):
            raise EOFError("damaged gzip: what follows a member is not another")
        if pending:
            self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._pending = pending
        return bool(pending)


def _read_head(file: FileIO) -> bytes:
    """Return the first bytes of `file`, enough to detect gzip; a pipe may return fewer at a time."""
    head = b""
    while len(head) < len(GZIP_MAGIC) and (more := file.read(len(GZIP_MAGIC) - len(head))):
        head += more
    return head


def _open(path: str) -> FileIO:
    try:
        return FileIO(sys.stdin.fileno(), closefd=False) if path == STDIN else FileIO(path)
    except FileNotFoundError as error:
        raise SourceError(path, "no such file") from error
    except IsADirectoryError as error:
        raise SourceError(path, "is a directory: expected a file") from error
    except OSError as error:
        raise SourceError(path, f"cannot be opened: {error.strerror or error}") from error


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
