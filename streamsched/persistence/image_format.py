"""The layout of an image: a file with the state of a shard at an instant, or with what changed since another image.

An image is `MAGIC`, then parts, one after another, then the contents as JSON, then a trailer of fixed size: the offset,
length and CRC-32C of the contents, and `MAGIC` again. The contents list every part: its array, the index of its first
record there, the number of records, and their CRC-32C. All numbers are little-endian. Parts are in any order, except
that parts which overwrite records of others come after them.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import numpy as np
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.numerics.arrays import Records
from streamsched.persistence.files import NewFile, draft_of, open_regular, put_in_place
from streamsched.records.schema import OLD_ADJUSTED, OLD_CONTENT, OLD_GROUP, OLD_ROW, OLD_SCHEDULE, OLD_SIGNAL, OLD_TEXT
from streamsched.state.state_arrays import ARRAYS

MAGIC: Final = b"streamsched image\n"
FORMAT_VERSION: Final = 27  # of the parts' records and of the settings; no other is read
PATCHES: Final = MappingProxyType(  # parts whose records name their own places: their parts' places have no meaning
    {
        "changed_rows": OLD_ROW,
        "adjusted_rows": OLD_ADJUSTED,  # after the rows: of a row that has both, this was kept first
        "changed_groups": OLD_GROUP,
        "changed_schedules": OLD_SCHEDULE,  # all schedules: they have no order that follows the pages
        "changed_signals": OLD_SIGNAL,
        "changed_contents": OLD_CONTENT,
        "changed_texts": OLD_TEXT,  # of validators: likewise
    }
)
_PART_DTYPES: Final[dict[str, np.dtype[Any]]] = {array.name: array.dtype for array in ARRAYS if array.saved} | PATCHES
_TRAILER: Final = struct.Struct(f"<QQQ{len(MAGIC)}s")
_LARGEST_CONTENTS: Final = 1 << 30  # bytes; a damaged length must not allocate all the memory


@dataclass(frozen=True, slots=True)
class Part:
    """`count` records of the array `name` from index `start` on, at byte `offset` of the file."""

    name: str
    start: int
    count: int
    crc: int
    offset: int
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Its length in the file."""
        return self.count * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Image:
    """The contents of an image; its parts are not read yet."""

    path: Path
    contents: dict[str, Any]
    parts: tuple[Part, ...]


class ImageWriter:
    """Writes an image to a draft, and renames it to `path` once it is whole and synced.

    Raises OSError if it cannot be written. Use it as a context manager, which removes an unfinished draft.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._draft = draft_of(path)
        self._file = NewFile(self._draft)
        self._parts: list[tuple[str, int, int, int]] = []

    def add(self, name: str, start: int, records: Records) -> None:
        """Append a part. O(bytes)."""
        if records.size:
            raw = records.view(np.uint8).data
            self._parts.append((name, start, records.size, crc32c(raw)))
            self._file.put(raw)

    def finish(self, contents: dict[str, Any]) -> int:
        """Write the contents and trailer, sync and rename the image; return its size in bytes."""
        listed = {"version": FORMAT_VERSION, "parts": self._parts}
        text = json.dumps(contents | listed, sort_keys=True).encode()
        trailer = _TRAILER.pack(self._file.size, len(text), crc32c(text), MAGIC)
        self._file.put(text + trailer)
        self._file.finish()
        put_in_place(self._draft, self._path)
        return self._file.size

    def __enter__(self) -> Self:
        try:
            self._file.put(MAGIC)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._draft.unlink(missing_ok=True)


def read_image(path: Path) -> Image:
    """Return the contents of the image at `path`; `image_reader` reads its parts. O(parts).

    Raises SnapshotError if it is damaged or has another format version.
    """
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TRAILER.size))
            trailer = file.read(_TRAILER.size)
            if size < len(MAGIC) + _TRAILER.size:
                raise SnapshotError(str(path), "damaged: ends too early")
            offset, length, crc, magic = _TRAILER.unpack(trailer)
            file.seek(0)
            if file.read(len(MAGIC)) != MAGIC:
                raise SnapshotError(str(path), "is no saved state, or its first bytes are damaged")
            if magic != MAGIC or offset + length + _TRAILER.size != size or length > _LARGEST_CONTENTS:
                raise SnapshotError(str(path), "damaged: its last bytes are not those of a whole file")
            file.seek(offset)
            raw = file.read(length)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror or error}") from error
    if len(raw) != length or crc32c(raw) != crc:
        raise SnapshotError(str(path), "damaged: its contents do not match their checksum")
    contents = json.loads(raw)
    if contents["version"] != FORMAT_VERSION:
        reason = f"has format version {contents['version']}; this release reads version {FORMAT_VERSION} only"
        raise SnapshotError(str(path), reason)
    parts = tuple(_place_parts(contents["parts"]))
    end = parts[-1].offset + parts[-1].nbytes if parts else len(MAGIC)
    if end != offset:
        raise SnapshotError(str(path), "damaged: its parts do not fill the file")
    return Image(path, contents, parts)


def _place_parts(listed: list[list[Any]]) -> Iterator[Part]:
    offset = len(MAGIC)
    for name, start, count, crc in listed:
        part = Part(name, start, count, crc, offset, _PART_DTYPES[name])
        offset += part.nbytes
        yield part
