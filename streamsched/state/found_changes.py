"""Columns of the changes that outcomes have shown, in stream order: what the change feed holds of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.estimation.change_detection import GONE, NOT_FOUND
from streamsched.numerics.arrays import Arrays, Bools, Floats, Hashes, Rows
from streamsched.numerics.packed_urls import NO_URLS, PackedUrls
from streamsched.outcomes import CONTENT, MOVED_TO, STATUS, OutcomeBatch

_TEXTS: Final = ("urls", "moved_to")


class FoundChanges(NamedTuple):
    """n changes, in their order.

    ``urls``: the pages; ``fetched_at``: float64[n], when the change was seen; ``unchanged_at``: float64[n], the last
    informative visit before; ``significance``: float64[n], how much changed, NaN if unknown; ``gone``: bool[n], whether
    the answer was 404 or 410; ``content``: uint64[n], the hash that the outcome carries, 0 without one, as
    ``has_content``: bool[n] says; ``moved_to``: the URL that the outcome names, an empty text if it names none.
    """

    urls: PackedUrls
    fetched_at: Floats
    unchanged_at: Floats
    significance: Floats
    gone: Bools
    content: Hashes
    has_content: Bools
    moved_to: PackedUrls

    @classmethod
    def of(cls, batch: OutcomeBatch, found: npt.NDArray[np.float64]) -> FoundChanges:
        """Return the changes that `batch` has shown; `found`: as in `state.ingest.IngestCounts`. O(n)."""
        rows = found[:, 0].astype(np.intp)
        given = batch.given[rows]
        gone = np.zeros(rows.size, np.bool_)
        if len(batch.status):
            status = batch.status[rows]
            gone = (given & STATUS != 0) & ((status == NOT_FOUND) | (status == GONE))
        has_content = given & CONTENT != 0
        content = np.where(has_content, batch.content[rows], 0) if len(batch.content) else np.zeros(rows.size)
        return cls(
            batch.urls.take(rows),
            batch.fetched_at[rows],
            found[:, 1].copy(),
            found[:, 2].copy(),
            gone,
            content.astype(np.uint64),
            has_content,
            _take_named(batch.moved_to, rows, given),
        )

    def __bool__(self) -> bool:
        return bool(self.fetched_at.size)

    @property
    def size(self) -> int:
        """How many they are."""
        return self.fetched_at.size

    @property
    def nbytes(self) -> int:
        """About how many bytes they take."""
        texts = sum(int(column.offsets[-1] - column.offsets[0]) for column in (self.urls, self.moved_to))
        return texts + 50 * self.size

    @classmethod
    def concatenate(cls, parts: Sequence[FoundChanges]) -> FoundChanges:
        """Return the changes of `parts`, one part after another. O(n)."""
        if len(parts) == 1:
            return parts[0]
        joined: list[Any] = [
            PackedUrls.concatenate(columns) if name in _TEXTS else np.concatenate(columns)
            for name, columns in zip(cls._fields, map(list, zip(*parts, strict=True)), strict=True)
        ]
        return cls(*joined)

    def slice(self, start: int, stop: int) -> FoundChanges:
        """Return the changes from `start` up to `stop`, which share their memory with these. O(1)."""
        columns: list[Any] = [
            PackedUrls(column.blob, column.offsets[start : stop + 1])
            if isinstance(column, PackedUrls)
            else column[start:stop]
            for column in self
        ]
        return FoundChanges(*columns)

    def split(self, most: int, most_bytes: int) -> Iterator[FoundChanges]:
        """Yield them in parts of at most `most` changes, with texts of about `most_bytes` bytes. O(parts)."""
        starts = self.urls.offsets[:-1] + self.moved_to.offsets[:-1]
        start = 0
        while start < self.size:
            stop = int(np.searchsorted(starts, starts[start] + most_bytes, "right"))
            stop = min(max(stop, start + 1), start + most, self.size)
            yield self if stop - start == self.size else self.slice(start, stop)
            start = stop

    def pack(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to store, from which `unpack` makes them again."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, column in zip(self._fields, self, strict=True):
            if isinstance(column, PackedUrls):
                first, last = int(column.offsets[0]), int(column.offsets[-1])
                arrays[name] = column.blob[first:last]
                arrays[f"{name}_sizes"] = np.diff(column.offsets).astype(np.uint16)  # URLs have 8,192 bytes at most
            else:
                arrays[name] = np.asarray(column)
        return arrays

    @classmethod
    def unpack(cls, arrays: Arrays) -> FoundChanges:
        """Return the changes that `pack` has made `arrays` of."""
        columns: list[Any] = [_read_texts(arrays, name) if name in _TEXTS else arrays[name] for name in cls._fields]
        return cls(*columns)


def _take_named(moved_to: PackedUrls, rows: Rows, given: npt.NDArray[np.uint16]) -> PackedUrls:
    """Return the URLs that the outcomes `rows` name, an empty text for those that name none."""
    if not len(moved_to) or not np.any(given & MOVED_TO):
        return PackedUrls(NO_URLS.blob, np.zeros(rows.size + 1, np.int64))
    taken = moved_to.take(rows)
    lengths = np.diff(taken.offsets)
    if np.all(given & MOVED_TO):
        return taken
    named = (given & MOVED_TO) != 0
    texts = taken.take(np.flatnonzero(named))
    offsets = np.zeros(rows.size + 1, np.int64)
    np.cumsum(np.where(named, lengths, 0), out=offsets[1:])
    return PackedUrls(texts.blob, offsets)


def _read_texts(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> PackedUrls:
    sizes = arrays[f"{name}_sizes"]
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return PackedUrls(arrays[name], offsets)
