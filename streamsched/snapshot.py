"""Saved state: one file for one moment, written beside the one before and put in place by a rename.

A file is ``MAGIC``, the header's length and CRC-32C (two little-endian uint64), the header as JSON, then the arrays
one after another, each with its CRC-32C in the header. Hash indexes are not saved: loading makes them anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from streamsched.errors import SnapshotError
from streamsched.groups import candidate_space
from streamsched.pages import PageTable
from streamsched.tables import CORPUS, GROUP, LEASED, OUT, PAGE, TRACE, VISIT

__all__ = ["FORMAT_VERSION", "digest_state", "has_snapshot", "load_state", "newest_snapshot", "save_state"]

MAGIC: Final = b"streamsched state\n"
FORMAT_VERSION: Final = 4
_KEPT: Final = 2  # files: the newest and the one before it
_NAME: Final = re.compile(r"snapshot-(\d{8,})\.state")
_LENGTHS: Final = struct.Struct("<QQ")
_LARGEST_HEADER: Final = 1 << 26  # bytes; a damaged length must not ask for all the memory

_DTYPES: Final = {
    "corpus": CORPUS,
    "pages": PAGE,
    "traces": TRACE,
    "lease_until_s": np.dtype("<f8"),
    "text": np.dtype("u1"),
    "groups": GROUP,
    "names": np.dtype("u1"),
    "journal": VISIT,
    "candidates": np.dtype("u1"),
}


def save_state(directory: Path, pages: PageTable, settings: dict[str, Any]) -> Path:
    """Write the state of `pages` and the JSON-able `settings` to a new file in `directory`; return it. O(pages).

    The file appears whole or not at all, and on disk before this returns; older ones but the last are removed.
    Raises SnapshotError where the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        before = _snapshots(directory)
        number = before[0][0] + 1 if before else 1
        path = directory / f"snapshot-{number:08d}.state"
        draft = directory / f".{path.name}.draft"
        try:
            with draft.open("wb") as file:
                _write(file, _arrays(pages), settings)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        _sync_directory(directory)
        for _, old in before[_KEPT - 1 :]:
            old.unlink(missing_ok=True)
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be written: {error.strerror or error}") from error
    return path


def newest_snapshot(directory: Path) -> Path:
    """Return the newest state file in `directory`; raises SnapshotError where there is none."""
    try:
        found = _snapshots(directory)
    except OSError as error:
        raise SnapshotError(str(directory), f"cannot be read: {error.strerror or error}") from error
    if not found:
        raise SnapshotError(str(directory), "holds no saved state: expected a file named snapshot-00000001.state")
    return found[0][1]


def has_snapshot(directory: Path) -> bool:
    """Return whether `directory` holds a state file, sound or not."""
    return bool(_snapshots(directory))


def load_state(directory: Path) -> tuple[PageTable, dict[str, Any]]:
    """Return the page table and settings of the newest state file in `directory`. O(pages).

    Every byte is checked. Raises SnapshotError, naming the file and what is wrong, where any does not fit.
    """
    path = newest_snapshot(directory)
    try:
        return _load(path)
    except SnapshotError as error:
        older = _snapshots(directory)[1:]
        if not older:
            raise
        hint = f"to go back to {older[0][1].name}, move this file away and read the stream again from its positions"
        raise SnapshotError(error.path, f"{error.reason}; {hint}") from error


def _load(path: Path) -> tuple[PageTable, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            header = _read_header(path, file)
            settings = header["settings"]
            pages = PageTable(settings["cycle_s"], settings["change_bits"])
            _read_arrays(path, file, {entry["name"]: entry for entry in header["arrays"]}, pages)
    except OSError as error:
        raise SnapshotError(str(path), f"cannot be read: {error.strerror or error}") from error
    pages.rebuild_index()
    return pages, settings


def digest_state(pages: PageTable, settings: dict[str, Any]) -> str:
    """Return the SHA-256 of what the state means: settings, records and texts, not their layout on disk. O(pages)."""
    arrays = _arrays(pages)
    leased = (arrays["pages"]["flags"] & LEASED) != 0
    arrays["lease_until_s"] = np.where(leased, arrays["lease_until_s"], 0.0)
    arrays["pages"], arrays["groups"] = arrays["pages"].copy(), arrays["groups"].copy()
    arrays["pages"]["flags"] &= np.uint8(0xFF ^ OUT)  # when an expiry was noticed does not matter
    arrays["groups"]["out"] = 0
    whole = hashlib.sha256(json.dumps([FORMAT_VERSION, settings], sort_keys=True).encode())
    for name in sorted(arrays):
        whole.update(np.ascontiguousarray(arrays[name]).view(np.uint8).data)
    return whole.hexdigest()


def _arrays(pages: PageTable) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that are the state, cut to what is in use."""
    tables = pages.tables
    corpus = tables.corpus[0]
    count, groups = int(corpus["pages"]), int(corpus["groups"])
    return {
        "corpus": tables.corpus,
        "pages": tables.pages[:count],
        "traces": tables.traces[:count],
        "lease_until_s": tables.lease_until_s[:count],
        "text": tables.text[: int(corpus["text_end"])],
        "groups": tables.groups[:groups],
        "names": tables.names[: int(corpus["names_end"])],
        "journal": tables.journal[: int(corpus["journaled"])],
        "candidates": tables.candidates[: candidate_space(count)],
    }


def _write(file: BinaryIO, arrays: dict[str, npt.NDArray[Any]], settings: dict[str, Any]) -> None:
    entries = [
        {"name": name, "count": array.size, "crc": crc32c(array.view(np.uint8).data)} for name, array in arrays.items()
    ]
    content = {"version": FORMAT_VERSION, "settings": settings, "arrays": entries}
    header = json.dumps(content, sort_keys=True).encode()
    file.write(MAGIC + _LENGTHS.pack(len(header), crc32c(header)) + header)
    file.writelines(array.view(np.uint8).data for array in arrays.values())


def _read_header(path: Path, file: BinaryIO) -> dict[str, Any]:
    start = file.read(len(MAGIC) + _LENGTHS.size)
    if not start.startswith(MAGIC):
        raise SnapshotError(str(path), "is no saved state, or its first bytes are damaged")
    if len(start) < len(MAGIC) + _LENGTHS.size:
        raise SnapshotError(str(path), "damaged: ends within its header")
    length, crc = _LENGTHS.unpack(start[len(MAGIC) :])
    raw = file.read(length) if length <= _LARGEST_HEADER else b""
    if len(raw) != length or crc32c(raw) != crc:
        raise SnapshotError(str(path), "damaged: its header does not match its checksum")
    header: dict[str, Any] = json.loads(raw)
    if header["version"] != FORMAT_VERSION:
        raise SnapshotError(
            str(path), f"is of format version {header['version']}, this release reads {FORMAT_VERSION} only"
        )
    return header


def _read_arrays(path: Path, file: BinaryIO, entries: dict[str, dict[str, Any]], pages: PageTable) -> None:
    """Read the arrays straight into the place where `pages` keeps them, checking each."""
    if set(entries) != set(_DTYPES):
        raise SnapshotError(str(path), f"damaged: holds {sorted(entries)}, expected {sorted(_DTYPES)}")
    counts = {name: entry["count"] for name, entry in entries.items()}
    pages.reserve(max(counts["pages"], counts["candidates"]), counts["text"], counts["groups"], counts["names"])
    for name, entry in entries.items():  # in the order of the file
        view = getattr(pages.tables, name)[: entry["count"]].view(np.uint8).data
        if file.readinto(view) != view.nbytes:  # type: ignore[attr-defined]
            raise SnapshotError(str(path), f"damaged: ends within {name}")
        if crc32c(view) != entry["crc"]:
            raise SnapshotError(str(path), f"damaged: {name} does not match its checksum")
    if file.read(1):
        raise SnapshotError(str(path), "damaged: bytes after the last array")


def _snapshots(directory: Path) -> list[tuple[int, Path]]:
    """Return the state files in `directory` with their numbers, newest first."""
    if not directory.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
