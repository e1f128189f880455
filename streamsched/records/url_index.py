"""URL to row: an open-addressing index over keyed hashes that compares the URL's text.

A slot holds the upper half of a hash and the row; URLs whose halves are equal are distinguished by their text. Without
the key nobody can construct URLs whose hashes collide. The index grows by filling a table twice as large, a few slots
for each new URL, so no insertion waits for a rehash.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bytes, Hashes, Ints, Record, Records, frozen
from streamsched.numerics.compilation.machine_operations import prefetch
from streamsched.numerics.hash_slots import move_slots, place_slot
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.keyed_hash import keyed_hash
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.url_bytes import hash_bytes
from streamsched.records.page_schema import FORGOTTEN, PageArrays, assign_prior
from streamsched.records.url_store import is_url, prefetch_anchor, prefetch_url, read_url

NOT_FOUND: Final = -1
_FEWEST_SLOTS: Final = 1 << 10
LOOKUP_CHUNK: Final = 2048  # a power of two; the records of as many rows fill an eighth of an L2 cache
_AT_ONCE: Final = 32  # look-ups that are prefetched together
_MOVED_PER_INSERT: Final = 8  # old slots moved per new URL: the old table is empty long before the new one is full


class UrlIndex:
    """The hash index of one shard's URLs; 8 bytes a slot, 37 % to 75 % full.

    ``key``: uint64[2], of the hash; ``slots``: uint64[2^k]; ``old``: uint64[2^j], the table being moved from, or length
    0; ``moved``: int64[1], the old slots moved so far.
    """

    __slots__ = ("_work", "key", "moved", "old", "slots")

    def __init__(self, key: Hashes) -> None:
        self.key = key
        self.slots: Hashes = np.zeros(_FEWEST_SLOTS, np.uint64)
        self.old: Hashes = np.zeros(0, np.uint64)
        self.moved: Ints = np.zeros(1, np.int64)
        self._work = _Work(), _Work()

    def ensure(self, pages: int) -> None:
        """Make room for `pages` pages in all; O(1), or O(pages) if one call more than doubles them."""
        while 4 * pages > 3 * self.slots.size:
            move_slots(self.old, self.slots, int(self.moved[0]), self.old.size)
            self.old, self.slots = self.slots, np.zeros(2 * self.slots.size, np.uint64)
            self.moved[0] = 0

    def find(self, pages: PageArrays, urls: PackedUrls) -> Ints:
        """Return the rows of `urls`: int64[n], NOT_FOUND for unknown ones. O(1) a URL."""
        rows = np.empty(len(urls), np.int64)
        resolve(pages, self.arrays(), frozen(urls.blob), frozen(urls.offsets), rows)
        return rows

    def settle(self) -> None:
        """Release the table being moved from, once it is empty."""
        if self.old.size and self.moved[0] >= self.old.size:
            self.old = np.zeros(0, np.uint64)

    def arrays(self, thread: int = 0) -> IndexArrays:
        """Return the arrays of the index, valid until it grows, with the working memory of that `thread`, 0 or 1."""
        work = self._work[thread]
        return IndexArrays(self.key, self.slots, self.old, self.moved, work.hashes, work.likely, work.rows)

    def rebuild(self, pages: PageArrays, corpus: Records) -> None:
        """Build the index from the URLs' texts. O(their bytes)."""
        self.__init__(self.key)  # type: ignore[misc]
        count = int(corpus["pages"][0])
        while 4 * count > 3 * self.slots.size:
            self.slots = np.zeros(2 * self.slots.size, np.uint64)
        _enter_all(pages, self.arrays(), count)

    def nbytes(self) -> int:
        """Return the memory in use, in bytes."""
        return self.slots.nbytes + self.old.nbytes


class _Work:
    """Working memory of look-ups."""

    __slots__ = ("hashes", "likely", "rows")

    def __init__(self) -> None:
        self.hashes: Hashes = np.empty(LOOKUP_CHUNK, np.uint64)
        self.likely: Ints = np.empty(_AT_ONCE, np.int64)
        self.rows: Ints = np.empty(LOOKUP_CHUNK, np.int64)


class IndexArrays(NamedTuple):
    """The arrays of an index, for kernels."""

    key: Hashes
    slots: Hashes
    old: Hashes
    moved: Ints
    hashes: Hashes  # of the URLs looked up last: that of number i is at position i % LOOKUP_CHUNK
    likely: Ints  # the rows that the URLs being looked up together probably have
    rows: Ints  # int64[LOOKUP_CHUNK], working memory of callers that use the rows at once


def hash_urls(pages: PageArrays, count: int) -> Hashes:
    """Return the hashes without a key of the first `count` pages' URLs: uint64[count]. O(total length)."""
    hashes = np.empty(count, np.uint64)
    _hash_texts(pages, hashes)
    return hashes


@bare_kernel
def resolve(pages: PageArrays, index: IndexArrays, blob: Bytes, offsets: Ints, rows: Ints) -> None:
    """Fill `rows` with those of the URLs, NOT_FOUND for unknown ones.

    `_AT_ONCE` at a time: first all their memory is prefetched, then each is looked up.
    """
    for first in range(0, rows.size, _AT_ONCE):
        count = min(_AT_ONCE, rows.size - first)
        base = first & (LOOKUP_CHUNK - 1)
        _prefetch_candidates(pages, index, blob, offsets, first, count)
        for i in range(count):
            start, stop = offsets[first + i], offsets[first + i + 1]
            rows[first + i] = find_row(pages, index, index.hashes[base + i], blob, start, stop)


@inlined_kernel
def find_row(pages: PageArrays, index: IndexArrays, hash_: int, blob: Bytes, start: int, stop: int) -> int:
    """Return the row of the URL ``blob[start:stop]``, whose keyed hash is `hash_`; NOT_FOUND if it is unknown."""
    row = _find(pages, index.slots, hash_, blob, start, stop)
    if row < 0 and index.moved[0] < index.old.size:
        row = _find(pages, index.old, hash_, blob, start, stop)
    return row


@inlined_kernel
def append_page(  # noqa: PLR0913, PLR0917  a kernel
    pages: PageArrays, corpus: Record, index: IndexArrays, hash_: int, blob: Bytes, start: int, stop: int
) -> int:
    """Add a row for the unknown URL ``blob[start:stop]``, a page without observations; return the row. O(bytes).

    `hash_`: its keyed hash. The arrays must have room. Its text is kept once its group is known, see `url_store`.
    """
    row = int(corpus.pages)
    trace = pages.traces[row]
    trace.last_outcome_s = trace.last_attempt_s = -np.inf
    page = pages.records[row]
    page.url_hash = hash_bytes(blob, start, stop)
    assign_prior(page, corpus.shape, corpus.mean)  # until it is assigned to a group
    page.importance = 1.0
    page.cost = 1.0
    corpus.pages = row + 1
    place_slot(index.slots, hash_ >> np.uint64(32), row)
    if index.moved[0] < index.old.size:
        stop_at = min(index.moved[0] + _MOVED_PER_INSERT, index.old.size)
        move_slots(index.old, index.slots, index.moved[0], stop_at)
        index.moved[0] = stop_at
    return row


@bare_kernel
def _prefetch_candidates(
    pages: PageArrays, index: IndexArrays, blob: Bytes, offsets: Ints, first: int, count: int
) -> None:
    """Hash the next URLs, and prefetch slots, records and text of the rows that they likely have."""
    mask = np.uint64(index.slots.size - 1)
    base = first & (LOOKUP_CHUNK - 1)
    for i in range(count):
        hash_ = keyed_hash(index.key, blob, offsets[first + i], offsets[first + i + 1])
        index.hashes[base + i] = hash_
        prefetch(index.slots, np.int64((hash_ >> np.uint64(32)) & mask))
    for i in range(count):
        index.likely[i] = _likely_row(index.slots, index.hashes[base + i])
        if index.likely[i] >= 0:
            prefetch(pages.records, index.likely[i])
            prefetch(pages.traces, index.likely[i])
            prefetch(pages.traces, index.likely[i] + 1)  # up to where the record ends, often the next cache line
    for i in range(count):
        if index.likely[i] >= 0:
            trace: Record = pages.traces[index.likely[i]]
            prefetch_url(pages.text, trace.url_span)
    for i in range(count):
        if index.likely[i] >= 0:
            known: Record = pages.traces[index.likely[i]]
            prefetch_anchor(pages.text, known.url_span)


@bare_kernel
def _likely_row(slots: Hashes, hash_: int) -> int:
    """Return the first row whose slot agrees with the upper half of `hash_`, NOT_FOUND if none does."""
    mask = np.uint64(slots.size - 1)
    tag = hash_ >> np.uint64(32)
    position = tag & mask
    while slots[position] != 0:
        if slots[position] >> np.uint64(32) == tag:
            # In a kernel int() leaves a uint64 unsigned, and unsigned with signed makes a float.
            return int(np.int64(slots[position] & np.uint64(0xFFFFFFFF))) - 1
        position = (position + np.uint64(1)) & mask
    return NOT_FOUND


@bare_kernel
def _find(pages: PageArrays, slots: Hashes, hash_: int, blob: Bytes, start: int, stop: int) -> int:
    mask = np.uint64(slots.size - 1)
    tag = hash_ >> np.uint64(32)
    position = tag & mask
    while slots[position] != 0:
        if slots[position] >> np.uint64(32) == tag:
            row = int(np.int64(slots[position] & np.uint64(0xFFFFFFFF))) - 1
            if _has_text(pages, row, blob, start, stop):
                return row
        position = (position + np.uint64(1)) & mask
    return NOT_FOUND


@bare_kernel
def _has_text(pages: PageArrays, row: int, blob: Bytes, start: int, stop: int) -> bool:
    if pages.records[row].rule == FORGOTTEN:
        return False
    return is_url(pages.text, pages.traces[row].url_span, blob, start, stop - start)


@bare_kernel
def _enter_all(pages: PageArrays, index: IndexArrays, count: int) -> None:
    """Enter the first `count` rows into an empty index, `_AT_ONCE` at a time, for their slots to be prefetched."""
    mask = np.uint64(index.slots.size - 1)
    for first in range(0, count, _AT_ONCE):
        stop = min(first + _AT_ONCE, count)
        for row in range(first, stop):
            hash_ = keyed_hash(index.key, pages.url, 0, read_url(pages, row))
            index.hashes[row - first] = hash_
            prefetch(index.slots, np.int64((hash_ >> np.uint64(32)) & mask))
        for row in range(first, stop):
            place_slot(index.slots, index.hashes[row - first] >> np.uint64(32), row)


@bare_kernel
def _hash_texts(pages: PageArrays, out: Hashes) -> None:
    for row in range(out.size):
        out[row] = hash_bytes(pages.url, 0, read_url(pages, row))
