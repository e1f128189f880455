"""Hash and time of each entry of the documents read last, in memory and in a file; and what has changed since then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from crc32c import crc32c

from streamsched.connectors.signals.entry_columns import MAX_ENTRIES, Entries
from streamsched.errors import SnapshotError
from streamsched.numerics.argument_checks import check_path, check_whole
from streamsched.numerics.arrays import Bools, Floats, Hashes, Rows
from streamsched.persistence.files import as_snapshot_errors, read_regular, write_file

MAX_REMEMBERED_ENTRIES: Final = 10_000_000  # 240 MB; several sites of a million pages
MAX_REMEMBERED_DOCUMENTS: Final = 100_000
_ITEM_BYTES: Final = 8  # of each column of an entry


@dataclass(frozen=True, slots=True)
class RememberedDocument:
    """A document's n entries as of `read_at`, UTC epoch seconds, in ascending order of their keys.

    ``keys``, ``contents``: uint64[n], ``times``: float64[n], as in `Entries`. 24 bytes an entry.
    """

    read_at: float
    keys: Hashes
    times: Floats
    contents: Hashes

    def __len__(self) -> int:
        return self.keys.size


class _SavedDocument(msgspec.Struct):
    """A document in a file, its columns as little-endian bytes."""

    url: str
    read_at: float
    keys: bytes
    times: bytes
    contents: bytes


class _SavedMemory(msgspec.Struct):
    """A whole file in msgpack: the documents, in the order of their last readings, and the CRC-32C of their bytes."""

    format: Literal["streamsched documents 2"]
    crc32c: int
    documents: msgspec.Raw


class DocumentMemory:
    """The entries of documents as they were last read, by the documents' URLs, bounded in number.

    Beyond `max_entries` or `max_documents` the documents that were not read for the longest time are forgotten, so
    that their next reading counts as a first one; a document that exceeds `max_entries` alone is not kept.
    ``forgotten``: how many documents that concerned. For one thread at a time.

    >>> len(DocumentMemory()), DocumentMemory().entries
    (0, 0)
    """

    def __init__(
        self, *, max_entries: int = MAX_REMEMBERED_ENTRIES, max_documents: int = MAX_REMEMBERED_DOCUMENTS
    ) -> None:
        """Begin with no documents. Raises SettingsError for a bound below 1."""
        self.max_entries = check_whole("max_entries", max_entries, 1, "1 or more entries")
        self.max_documents = check_whole("max_documents", max_documents, 1, "1 or more documents")
        self.entries = 0
        self.forgotten = 0
        self._documents: dict[str, RememberedDocument] = {}  # in the order of their last readings

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, url: object) -> bool:
        return url in self._documents

    def __iter__(self) -> Iterator[str]:
        """Return the documents' URLs, the one that was not read for the longest time first."""
        return iter(self._documents)

    def recall(self, url: str) -> RememberedDocument | None:
        """Return what the document at `url` said when it was last read, None if it is not known. O(1)."""
        return self._documents.get(url)

    def remember(self, url: str, document: RememberedDocument) -> None:
        """Keep `document` in place of what was known of `url`. O(1), amortised."""
        self.forget(url)
        if len(document) > self.max_entries:
            self.forgotten += 1
            return
        self._documents[url] = document
        self.entries += len(document)
        while self.entries > self.max_entries or len(self._documents) > self.max_documents:
            self.forget(next(iter(self._documents)))
            self.forgotten += 1

    def keep_too(self, url: str, last: RememberedDocument) -> None:
        """Keep the entries of `last` that the newest reading of `url` lacks: it was one of a part. O(n log n).

        If these are too many for one document, `last` alone is kept.
        """
        read = self.recall(url)
        if read is None:
            return
        is_kept = np.isin(last.keys, read.keys, invert=True)
        if len(read) + int(is_kept.sum()) > MAX_ENTRIES:
            self.remember(url, last)
            return
        keys = np.concatenate((read.keys, last.keys[is_kept]))
        order = np.argsort(keys)
        times = np.concatenate((read.times, last.times[is_kept]))[order]
        contents = np.concatenate((read.contents, last.contents[is_kept]))[order]
        self.remember(url, RememberedDocument(read.read_at, keys[order], times, contents))

    def forget(self, url: str) -> None:
        """Forget the document at `url`, if it is known. O(1)."""
        document = self._documents.pop(url, None)
        if document is not None:
            self.entries -= len(document)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the memory to the file at `path`, in place of what it holds. O(entries).

        Msgpack, written atomically: a process that is killed leaves the former file or the new one. Raises
        SnapshotError if it cannot be written.
        """
        target = check_path("path", os.fspath(path))
        documents = msgspec.msgpack.encode([_to_saved(url, document) for url, document in self._documents.items()])
        saved = _SavedMemory("streamsched documents 2", crc32c(documents), msgspec.Raw(documents))
        with as_snapshot_errors(target, "cannot be written"):
            write_file(target, msgspec.msgpack.encode(saved))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        max_entries: int = MAX_REMEMBERED_ENTRIES,
        max_documents: int = MAX_REMEMBERED_DOCUMENTS,
    ) -> DocumentMemory:
        """Return the memory saved at `path`; if it exceeds the bounds, without what was read longest ago. O(entries).

        Raises SnapshotError if the file is damaged or cannot be read, FileNotFoundError if there is none.
        """
        source = check_path("path", os.fspath(path))
        memory = cls(max_entries=max_entries, max_documents=max_documents)
        for saved in _decode(source, read_regular(source)):
            memory.remember(saved.url, _from_saved(source, saved))
        return memory


def _decode(path: Path, raw: bytes) -> list[_SavedDocument]:
    try:
        saved = msgspec.msgpack.decode(raw, type=_SavedMemory)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SnapshotError(
            str(path), f"is no memory of documents, one of another version, or damaged: {error}"
        ) from error
    if saved.crc32c != crc32c(saved.documents):
        raise SnapshotError(str(path), "damaged: its documents do not match their checksum")
    try:
        return msgspec.msgpack.decode(saved.documents, type=list[_SavedDocument])
    except msgspec.DecodeError as error:
        raise SnapshotError(str(path), f"its checksum fits, but not its contents: {error}") from error


def _to_saved(url: str, document: RememberedDocument) -> _SavedDocument:
    keys, contents = (column.astype("<u8").tobytes() for column in (document.keys, document.contents))
    return _SavedDocument(url, document.read_at, keys, document.times.astype("<f8").tobytes(), contents)


def _from_saved(path: Path, saved: _SavedDocument) -> RememberedDocument:
    sizes = {len(saved.keys), len(saved.times), len(saved.contents)}
    if len(sizes) != 1 or len(saved.keys) % _ITEM_BYTES:
        raise SnapshotError(str(path), "its checksum fits, but its columns have different lengths")
    keys, contents = (np.frombuffer(raw, "<u8").astype(np.uint64) for raw in (saved.keys, saved.contents))
    times = np.frombuffer(saved.times, "<f8").astype(np.float64)
    if np.any(keys[1:] <= keys[:-1]) or not np.all(np.isfinite(times)) or not np.isfinite(saved.read_at):
        raise SnapshotError(str(path), "its checksum fits, but an entry is out of order or has no finite time")
    return RememberedDocument(saved.read_at, keys, times, contents)


class Changes(NamedTuple):
    """Which of n entries are announced, and when.

    ``new``: bool[n], not known before; ``changed``: bool[n], known as another; ``at``: float64[n], UTC epoch seconds,
    the time that a signal of the entry has; ``telling``: bool[n], whether the entry's own time says something.
    """

    new: Bools
    changed: Bools
    at: Floats
    telling: Bools


def keep_newest(entries: Entries) -> Entries:
    """Return the newest entry of each URL, of equally new ones the first; in the document's order. O(n log n)."""
    order = np.lexsort((-entries.times, ~entries.timed, entries.keys))  # stable
    keys = entries.keys[order]
    first = np.ones(keys.size, np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    if first.all():
        return entries
    return entries.take(np.sort(order[first]))


def has_one_time(entries: Entries) -> bool:
    """Return whether at least two entries all have the same time: then it is the document's time, not theirs. O(n)."""
    return len(entries) > 1 and bool(entries.timed.all()) and bool(np.all(entries.times == entries.times[0]))


def find_changes(
    entries: Entries, remembered: RememberedDocument | None, read_at: float, since: float | None
) -> Changes:
    """Return which entries of a document read at `read_at`, each of another URL, are announced by it.

    Of a document known before: URLs that it did not have, times newer than those it had, other contents. Of one read
    for the first time: entries with a time after `since`. A time that is not ``timed``, or that all entries have, says
    nothing. An entry whose content changed, but not its time, changed at `read_at`. O(n log n).
    """
    none = np.zeros(len(entries), np.bool_)
    telling = none if has_one_time(entries) else entries.timed
    at = np.where(telling, entries.at, read_at)
    if remembered is None:
        return Changes(telling & (at > since) if since is not None else none, none, at, telling)
    known, last = _look_up(remembered, entries)
    newer, edited = none.copy(), none.copy()
    newer[known] = telling[known] & (entries.times[known] > remembered.times[last])
    edited[known] = entries.contents[known] != remembered.contents[last]
    return Changes(~known, newer | edited, np.where(edited & ~newer, read_at, at), telling)


def find_documents(changes: Changes, *, first: bool, since: float | None) -> Bools:
    """Return which entries of a sitemap index are to be read: bool[n].

    Those that are announced, those whose time says nothing, and all of them at a first reading without `since`. O(n).
    """
    if first and since is None:
        return np.ones_like(changes.new)
    return changes.new | changes.changed | ~changes.telling


def _look_up(remembered: RememberedDocument, entries: Entries) -> tuple[Bools, Rows]:
    """Return which entries are remembered, bool[n], and the rows of those that are."""
    rows = np.searchsorted(remembered.keys, entries.keys)
    known = np.zeros(len(entries), np.bool_)
    inside = np.flatnonzero(rows < len(remembered))
    known[inside] = remembered.keys[rows[inside]] == entries.keys[inside]
    return known, rows[known]


def to_remembered(entries: Entries, read_at: float) -> RememberedDocument:
    """Return what to remember of a document's entries, each of another URL. O(n log n)."""
    order = np.argsort(entries.keys)
    return RememberedDocument(read_at, entries.keys[order], entries.times[order], entries.contents[order])
