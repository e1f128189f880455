"""The files beside Microsoft's crawl history: each page's URL, importance and change rate, found by its id.

Read once, front to back, into sorted arrays: 24 bytes a row in each and the URLs' text, about twice that while
loading, 1.7 µs a row. So the 18 million URLs published need some 2 GB and a minute. If an id occurs twice the
first row counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from streamsched.connectors.reading.byte_stream import ByteStream, RecordReader
from streamsched.connectors.reading.lines import split_lines
from streamsched.connectors.reading.rejections import (
    ParseError,
    RecordProblem,
    RejectionCounter,
    describe,
    parse_each,
    reject_each,
)
from streamsched.numerics.arrays import Bools, Floats, Ints, Rows
from streamsched.numerics.packed_urls import MAX_URL_BYTES, URL_EXPECTED, PackedUrls

_ID: Final = re.compile(rb"\d{1,18}")  # what int64 holds
_NUMBER: Final = re.compile(rb"\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?")
_MAX_NUMBER: Final = float(np.finfo(np.float32).max)
_LINES: Final = 65_536  # read at a time

Value = TypeVar("Value")


def parse_id(raw: bytes) -> int:
    """Return a URL_ID; raises ParseError.

    >>> parse_id(b"5")
    5
    """
    if not _ID.fullmatch(raw):
        raise ParseError(RecordProblem("url_id", "expected a whole number of at most 18 digits", describe(raw)))
    return int(raw)


def parse_number(field: str, raw: bytes) -> float:
    """Return a number from 0 to the largest float32; raises ParseError.

    >>> parse_number("importance", b"5.5143055555555556")
    5.514305555555556
    """
    number = float(raw) if _NUMBER.fullmatch(raw) else -1.0
    if 0 <= number <= _MAX_NUMBER:
        return number
    raise ParseError(RecordProblem(field, f"expected a number from 0 to {_MAX_NUMBER:.4g}", describe(raw)))


class UrlTable:
    """URLs by id, from ``url_urlid_hostid.txt``: URL, URL_ID and Host_ID between tabs."""

    def __init__(self, path: Path, rejections: RejectionCounter) -> None:
        """Read `path` whole; rows that are malformed go into `rejections`. O(n log n)."""
        ids, parts = [], []
        for chunk_ids, urls in _read_rows(path, rejections, _parse_url_row):
            ids.append(np.array(chunk_ids, np.int64))
            parts.append(PackedUrls.pack_bytes(urls))
        self._index = _IdIndex(ids)
        self._urls = _join(parts)

    def find(self, ids: Ints) -> Rows:
        """Return the row of each of `ids`: int64[m], -1 if there is none. O(m log n)."""
        return self._index.find(ids)

    def take(self, rows: Rows) -> PackedUrls:
        """Return the URLs at `rows`: intp[m]. O(bytes taken)."""
        return self._urls.take(rows)


class NumberTable:
    """Numbers by id, from ``urlid_imp.txt`` or ``urlid_chrate_compl_obs_hist.txt``: URL_ID and a number."""

    def __init__(self, path: Path, rejections: RejectionCounter, field: str = "importance") -> None:
        """Read `path` whole; rows that are malformed go into `rejections`, their number as `field`. O(n log n)."""
        ids, values = [], []
        for chunk_ids, numbers in _read_rows(path, rejections, lambda line: _parse_number_row(line, field)):
            ids.append(np.array(chunk_ids, np.int64))
            values.append(np.array(numbers, np.float64))
        self._index = _IdIndex(ids)
        self._values = np.concatenate([*values, np.zeros(1)])  # the last is for absent ids

    def find(self, ids: Ints) -> tuple[Floats, Bools]:
        """Return the number of each of `ids`: int64[m], and whether there is one. O(m log n)."""
        rows = self._index.find(ids)
        return self._values[rows], rows >= 0


class _IdIndex:
    """Rows by id: int64[n] sorted, and the row of each."""

    def __init__(self, parts: Sequence[Ints]) -> None:
        ids = np.concatenate([*parts, np.empty(0, np.int64)])
        self._rows = np.argsort(ids, kind="stable")
        self._ids = ids[self._rows]

    def find(self, ids: Ints) -> Rows:
        if not self._ids.size:
            return np.full(ids.size, -1, np.intp)
        places = np.minimum(np.searchsorted(self._ids, ids), self._ids.size - 1)
        return np.where(self._ids[places] == ids, self._rows[places], -1)


def _read_rows(
    path: Path, rejections: RejectionCounter, parse: Callable[[bytes], tuple[int, Value]]
) -> Iterator[tuple[list[int], list[Value]]]:
    """Return ids and values of the rows that parse, a chunk of lines at a time."""
    stream = ByteStream(str(path))
    own = rejections.beside(str(path))
    try:
        for chunk in split_lines(RecordReader(stream, own, _LINES)):
            lines = chunk.numbered()
            rows, problems = parse_each(lines, parse)
            reject_each(lines, problems, own)
            yield [url_id for url_id, _ in rows.values()], [value for _, value in rows.values()]
    finally:
        stream.close()
    if stream.damage is not None:
        raise stream.damage


def _parse_url_row(line: bytes) -> tuple[int, bytes]:
    fields = line.rstrip(b"\r").split(b"\t")
    if len(fields) not in (2, 3):
        raise ParseError(
            RecordProblem("record", "expected url, url_id and host_id with a tab between them", describe(line))
        )
    url = fields[0]
    try:
        fits = len(url.decode("utf-8").encode("utf-8")) in range(1, MAX_URL_BYTES + 1)
    except UnicodeDecodeError:
        fits = False
    if not fits:
        raise ParseError(RecordProblem("url", f"expected {URL_EXPECTED}", describe(url)))
    return parse_id(fields[1]), url


def _parse_number_row(line: bytes, field: str) -> tuple[int, float]:
    fields = line.split()
    if len(fields) != 2:
        raise ParseError(RecordProblem("record", f"expected url_id and {field}", describe(line)))
    return parse_id(fields[0]), parse_number(field, fields[1])


def _join(parts: Sequence[PackedUrls]) -> PackedUrls:
    """Return the URLs of all `parts`, each without slack before or behind its text."""
    lengths = np.concatenate([*(np.diff(part.offsets) for part in parts), np.empty(0, np.int64)])
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return PackedUrls(np.concatenate([*(part.blob for part in parts), np.empty(0, np.uint8)]), offsets)
