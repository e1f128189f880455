"""URL to row: an open-addressing index over 64-bit hashes that compares the URL text, and the text itself.

A slot holds the upper half of a hash and the row; two URLs with the same 64-bit hash are distinguished by their text.
The index grows by filling a table twice as large, a few slots for each new URL, so no insertion waits for a rehash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bytes, Hashes, Ints, Record, Records, frozen
from streamsched.numerics.hash_slots import place_slot
from streamsched.numerics.jit import bare_kernel, prefetch
from streamsched.numerics.packed_urls import PackedUrls, decode_spans, hash_bytes, same_bytes
from streamsched.records.page_init import assign_prior

if TYPE_CHECKING:
    from streamsched.records.page_schema import PageArrays

__all__ = ["LOOKUP_CHUNK", "MAX_PAGES", "NOT_FOUND", "IndexArrays", "UrlIndex", "resolve", "url_text", "url_texts"]

NOT_FOUND: Final = -1
MAX_PAGES: Final = (1 << 32) - 2  # a slot keeps row + 1 in 32 bits
_FEWEST_SLOTS: Final = 1 << 10
LOOKUP_CHUNK: Final = 2048  # rows whose records, two or three cache lines each, fill an eighth of an L2 cache
_AT_ONCE: Final = 32  # look-ups that are prefetched together
_MOVED_PER_INSERT: Final = 8  # old slots moved per new URL: the old table is empty long before the new one is full


class UrlIndex:
    """The hash index of one shard's URLs; 8 bytes a slot, 37 % to 75 % full.

    ``slots``: uint64[2^k]; ``old``: uint64[2^j], the table being moved from, or length 0; ``moved``: int64[1], the old
    slots moved so far.
    """

    __slots__ = ("_keys", "_likely", "_rows", "moved", "old", "slots")

    def __init__(self) -> None:
        self.slots: Hashes = np.zeros(_FEWEST_SLOTS, np.uint64)
        self.old: Hashes = np.zeros(0, np.uint64)
        self.moved: Ints = np.zeros(1, np.int64)
        self._keys: Hashes = np.empty(_AT_ONCE, np.uint64)
        self._likely: Ints = np.empty(_AT_ONCE, np.int64)
        self._rows: Ints = np.empty(LOOKUP_CHUNK, np.int64)

    def ensure(self, pages: int) -> None:
        """Make room for `pages` pages in all; O(1), or O(pages) if one call more than doubles them."""
        while 4 * pages > 3 * self.slots.size:
            _move(self.old, self.slots, self.moved, self.old.size)
            self.old, self.slots = self.slots, np.zeros(2 * self.slots.size, np.uint64)
            self.moved[0] = 0

    def find(self, pages: PageArrays, corpus: Records, urls: PackedUrls) -> Ints:
        """Return the rows of `urls`: int64[n], NOT_FOUND for unknown ones. O(1) a URL."""
        rows = np.empty(len(urls), np.int64)
        resolve(pages, corpus, self.arrays(), frozen(urls.blob), frozen(urls.offsets), rows, False)
        return rows

    def enter(self, pages: PageArrays, corpus: Records, urls: PackedUrls) -> Ints:
        """Return the rows of `urls`: int64[n], adding unknown ones as new rows. O(1) a URL.

        The arrays must have room for n more pages and their text.
        """
        rows = np.empty(len(urls), np.int64)
        resolve(pages, corpus, self.arrays(), frozen(urls.blob), frozen(urls.offsets), rows, True)
        self.settle()
        return rows

    def settle(self) -> None:
        """Release the table being moved from, once it is empty."""
        if self.old.size and self.moved[0] >= self.old.size:
            self.old = np.zeros(0, np.uint64)

    def arrays(self) -> IndexArrays:
        """Return the arrays of the index, valid until it grows."""
        return IndexArrays(self.slots, self.old, self.moved, self._keys, self._likely, self._rows)

    def rebuild(self, pages: Records, corpus: Records) -> None:
        """Build the index from the page records. O(pages)."""
        self.__init__()  # type: ignore[misc]
        count = int(corpus["pages"][0])
        while 4 * count > 3 * self.slots.size:
            self.slots = np.zeros(2 * self.slots.size, np.uint64)
        _enter_all(pages, self.slots, count)

    def nbytes(self) -> int:
        """Return the memory in use, in bytes."""
        return self.slots.nbytes + self.old.nbytes


class IndexArrays(NamedTuple):
    """The arrays of an index, for kernels."""

    slots: Hashes
    old: Hashes
    moved: Ints
    keys: Hashes  # hashes of the URLs being looked up together
    likely: Ints  # the rows they probably have
    rows: Ints  # int64[LOOKUP_CHUNK], working memory of callers that use the rows at once


def url_text(pages: PageArrays, row: int) -> str:
    """Return the URL of `row`. O(length)."""
    return decode_spans(pages.text, pages.traces["url_span"][row : row + 1])[0]


def url_texts(pages: PageArrays, rows: Ints) -> list[str]:
    """Return the URLs of `rows`: int64[m]. O(total length)."""
    return decode_spans(pages.text, pages.traces["url_span"][rows])


@bare_kernel
def resolve(  # noqa: PLR0913, PLR0917  a kernel
    pages: PageArrays, corpus: Records, index: IndexArrays, blob: Bytes, offsets: Ints, rows: Ints, insert: bool
) -> None:
    """Fill `rows` in order, `_AT_ONCE` at a time: first all their memory is prefetched, then each is looked up.

    `insert`: whether unknown URLs are added as new rows.
    """
    for first in range(0, rows.size, _AT_ONCE):
        count = min(_AT_ONCE, rows.size - first)
        _prefetch_candidates(pages, index, blob, offsets, first, count)
        for i in range(count):
            start, stop = offsets[first + i], offsets[first + i + 1]
            key = index.keys[i]
            row = _find(pages, index.slots, key, blob, start, stop)
            if row < 0 and index.moved[0] < index.old.size:
                row = _find(pages, index.old, key, blob, start, stop)
            if row < 0 and insert:
                row = _append(pages, corpus[0], key, blob, start, stop)
                place_slot(index.slots, key >> np.uint64(32), row)
                if index.moved[0] < index.old.size:
                    _move(index.old, index.slots, index.moved, _MOVED_PER_INSERT)
            rows[first + i] = row


@bare_kernel
def _prefetch_candidates(
    pages: PageArrays, index: IndexArrays, blob: Bytes, offsets: Ints, first: int, count: int
) -> None:
    """Hash the next URLs, and prefetch slots, records and text of the rows that they likely have."""
    mask = np.uint64(index.slots.size - 1)
    for i in range(count):
        key = hash_bytes(blob, offsets[first + i], offsets[first + i + 1])
        index.keys[i] = key
        prefetch(index.slots, np.int64((key >> np.uint64(32)) & mask))
    for i in range(count):
        index.likely[i] = _likely_row(index.slots, index.keys[i])
        if index.likely[i] >= 0:
            prefetch(pages.records, index.likely[i])
            prefetch(pages.traces, index.likely[i])
            prefetch(pages.traces, index.likely[i] + 1)  # up to where the record ends, often the next cache line
    for i in range(count):
        if index.likely[i] >= 0:
            trace: Record = pages.traces[index.likely[i]]
            start = np.int64(trace.url_span >> np.uint64(16))
            prefetch(pages.text, start)
            prefetch(pages.text, start + 64)


@bare_kernel
def _likely_row(slots: Hashes, key: int) -> int:
    """Return the first row whose slot agrees with the upper half of `key`, NOT_FOUND if none does."""
    mask = np.uint64(slots.size - 1)
    tag = key >> np.uint64(32)
    position = tag & mask
    while slots[position] != 0:
        if slots[position] >> np.uint64(32) == tag:
            # In a kernel int() leaves a uint64 unsigned, and unsigned with signed makes a float.
            return int(np.int64(slots[position] & np.uint64(0xFFFFFFFF))) - 1
        position = (position + np.uint64(1)) & mask
    return NOT_FOUND


@bare_kernel
def _find(pages: PageArrays, slots: Hashes, key: int, blob: Bytes, start: int, stop: int) -> int:
    mask = np.uint64(slots.size - 1)
    tag = key >> np.uint64(32)
    position = tag & mask
    while slots[position] != 0:
        if slots[position] >> np.uint64(32) == tag:
            row = int(np.int64(slots[position] & np.uint64(0xFFFFFFFF))) - 1
            if pages.records[row].url_hash == key and _has_text(pages, row, blob, start, stop):
                return row
        position = (position + np.uint64(1)) & mask
    return NOT_FOUND


@bare_kernel
def _has_text(pages: PageArrays, row: int, blob: Bytes, start: int, stop: int) -> bool:
    span = pages.traces[row].url_span
    length = stop - start
    if np.int64(span & np.uint64(0xFFFF)) != length:
        return False
    at = np.int64(span >> np.uint64(16))
    return same_bytes(pages.text, at, blob, start, length)


@bare_kernel
def _append(pages: PageArrays, corpus: Record, key: int, blob: Bytes, start: int, stop: int) -> int:
    """Add a row for a new URL, a page without observations; return the row."""
    row = int(corpus.pages)
    for i in range(stop - start):
        pages.text[corpus.text_end + i] = blob[start + i]
    trace = pages.traces[row]
    trace.url_span = (np.uint64(corpus.text_end) << np.uint64(16)) | np.uint64(stop - start)
    trace.last_outcome_s = -np.inf
    trace.last_attempt_s = -np.inf
    page = pages.records[row]
    page.url_hash = key
    assign_prior(page, corpus.shape, corpus.mean)  # until it is assigned to a group
    page.importance = 1.0
    page.cost = 1.0
    corpus.text_end += stop - start
    corpus.pages = row + 1
    return row


@bare_kernel
def _move(old: Hashes, slots: Hashes, moved: Ints, count: int) -> None:
    """Enter the next `count` slots of the old table into the new one."""
    stop = min(moved[0] + count, old.size)
    for i in range(moved[0], stop):
        if old[i] != 0:
            place_slot(slots, old[i] >> np.uint64(32), np.int64(old[i] & np.uint64(0xFFFFFFFF)) - 1)
    moved[0] = stop


@bare_kernel
def _enter_all(pages: Records, slots: Hashes, count: int) -> None:
    mask = np.uint64(slots.size - 1)
    for row in range(count):
        if row + _AT_ONCE < count:
            prefetch(slots, np.int64((pages[row + _AT_ONCE].url_hash >> np.uint64(32)) & mask))
        place_slot(slots, pages[row].url_hash >> np.uint64(32), row)
