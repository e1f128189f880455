"""State files of format 4, as releases before the store wrote them: read for `state migrate`, never written."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.persistence.format_versions import EDITIONS, widen
from streamsched.state.page_table import PageTable

__all__ = ["FORMER_MAGIC", "FORMER_VERSION", "is_former", "load_former"]

FORMER_MAGIC: Final = b"streamsched state\n"
FORMER_VERSION: Final = 4
_LENGTHS: Final = struct.Struct("<QQ")
_LARGEST_HEADER: Final = 1 << 26  # bytes; a damaged length must not ask for all the memory


def is_former(path: Path) -> bool:
    """Return whether the file at `path` begins as those of format 4 do."""
    try:
        with path.open("rb") as file:
            return file.read(len(FORMER_MAGIC)) == FORMER_MAGIC
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror or error}") from error


def load_former(path: Path) -> tuple[PageTable, dict[str, Any]]:
    """Return the page table and settings of the file at `path`. O(pages).

    Every byte is checked. Raises SnapshotError, naming the file and what is wrong, where any does not fit.
    """
    try:
        with path.open("rb") as file:
            header = _read_header(path, file)
            settings = header["settings"]
            pages = PageTable.of_settings(settings)
            _read_arrays(path, file, {entry["name"]: entry for entry in header["arrays"]}, pages)
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror or error}") from error
    pages.rebuild_index()
    return pages, settings


def _read_header(path: Path, file: BinaryIO) -> dict[str, Any]:
    start = file.read(len(FORMER_MAGIC) + _LENGTHS.size)
    if len(start) < len(FORMER_MAGIC) + _LENGTHS.size:
        raise SnapshotError(str(path), "damaged: ends within its header")
    length, crc = _LENGTHS.unpack(start[len(FORMER_MAGIC) :])
    raw = file.read(length) if length <= _LARGEST_HEADER else b""
    if len(raw) != length or crc32c(raw) != crc:
        raise SnapshotError(str(path), "damaged: its header does not match its checksum")
    header: dict[str, Any] = json.loads(raw)
    if header["version"] != FORMER_VERSION:
        raise SnapshotError(str(path), f"is of format version {header['version']}, expected {FORMER_VERSION} or newer")
    return header


def _read_arrays(path: Path, file: BinaryIO, entries: dict[str, dict[str, Any]], pages: PageTable) -> None:
    """Read the arrays into the place where `pages` keeps them, checking each; records that have grown, widened."""
    dtypes = EDITIONS[FORMER_VERSION]
    if set(entries) != set(dtypes):
        raise SnapshotError(str(path), f"damaged: holds {sorted(entries)}, expected {sorted(dtypes)}")
    counts = {name: entry["count"] for name, entry in entries.items()}
    pages.reserve(max(counts["pages"], counts["candidates"]), counts["text"], counts["groups"], counts["names"])
    for name, entry in entries.items():  # in the order of the file
        place = getattr(pages.arrays, name)[: entry["count"]]
        records = place if place.dtype == dtypes[name] else np.empty(place.size, dtypes[name])
        view = records.view(np.uint8).data
        if file.readinto(view) != view.nbytes:  # type: ignore[attr-defined]
            raise SnapshotError(str(path), f"damaged: ends within {name}")
        if crc32c(view) != entry["crc"]:
            raise SnapshotError(str(path), f"damaged: {name} does not match its checksum")
        if records is not place:
            place[:] = widen(name, records)
    if file.read(1):
        raise SnapshotError(str(path), "damaged: bytes after the last array")
