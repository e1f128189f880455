"""The texts of URLs, in the order of rows: whole, or without what they share with an earlier URL.

Each group has an anchor, its newest URL that is kept whole. A new page's URL is kept as the place of its group's
anchor, 5 bytes, and what follows the bytes that both begin with, unless that takes as much as the URL itself: then it
is kept whole and is the next anchor. So no URL takes more than its own bytes, and it is read from two places at most,
whatever the other URLs are. Text is never written to again: what a URL shares stays where it is, forgotten pages' URLs
included.

A span says where a URL is: the start of its text << 24 | the number of bytes shared << 16 | its length.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsched.numerics.arrays import Bytes, Hashes, Ints, Record
from streamsched.numerics.compilation.machine_operations import load_word, prefetch
from streamsched.numerics.jit import bare_kernel, inlined_kernel
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.url_bytes import copy_bytes, same_bytes, split_texts
from streamsched.records.page_schema import PageArrays

ANCHOR_BYTES: Final = 5  # of the place of an anchor: up to 1 TB of text
MOST_SHARED: Final = 255  # bytes; a span has 8 bits for their number
_PREFETCH_AHEAD: Final = 8  # URLs
_BEFORE: Final = 8 - ANCHOR_BYTES  # bytes of a word that ends with the place of an anchor
_LINE_FEED: Final = 10


def pack_urls(text: Bytes, spans: Hashes) -> PackedUrls:
    """Return the URLs at `spans`: uint64[m], of `text`. O(total length)."""
    offsets = np.zeros(spans.size + 1, np.int64)
    np.cumsum(span_lengths(spans), out=offsets[1:])
    blob = np.empty(int(offsets[-1]), np.uint8)
    _copy_urls(text, np.ascontiguousarray(spans), 0, blob)
    return PackedUrls(blob, offsets)


def url_text(pages: PageArrays, row: int) -> str:
    """Return the URL of `row`. O(length)."""
    return url_texts(pages, np.array([row]))[0]


def url_texts(pages: PageArrays, rows: Ints) -> list[str]:
    """Return the URLs of `rows`: int64[m]. O(total length)."""
    spans = pages.traces["url_span"][rows]
    ends = np.cumsum(span_lengths(spans) + 1)  # each with a separator
    blob = np.empty(int(ends[-1]) if ends.size else 0, np.uint8)
    _copy_urls(pages.text, spans, 1, blob)
    return split_texts(blob, ends)


def span_lengths(spans: Hashes) -> Ints:
    """Return the lengths of the URLs at `spans`: int64[m]."""
    return (spans & np.uint64(0xFFFF)).astype(np.int64)


def whole_spans(spans: Hashes) -> Hashes:
    """Return where the URLs at `spans`, those of all rows, would be if all were kept whole: start << 16 | length.

    uint64[m]. O(m).
    """
    lengths = span_lengths(spans)
    whole: Hashes = ((np.cumsum(lengths) - lengths) << 16 | lengths).astype(np.uint64)
    return whole


def texts_are_sound(text: Bytes, spans: Hashes) -> bool:
    """Return whether the URLs at `spans`, those of all rows, fill `text`, and share only what is before them. O(m)."""
    starts, shared = (spans >> np.uint64(24)).astype(np.int64), (spans >> np.uint64(16)).astype(np.int64) & MOST_SHARED
    kept = span_lengths(spans) - shared + ANCHOR_BYTES * (shared > 0)
    ends = np.cumsum(kept)
    if np.any(kept < ANCHOR_BYTES * (shared > 0)) or np.any(starts != ends - kept) or int(kept.sum()) != text.size:
        return False
    starts, shared = starts[shared > 0], shared[shared > 0]
    anchors = sum(text[starts + i].astype(np.int64) << 8 * i for i in range(ANCHOR_BYTES))
    return bool(np.all(anchors + shared <= starts))


@bare_kernel
def keep_url(text: Bytes, end: int, anchor: int, blob: Bytes, start: int, stop: int) -> np.uint64:
    """Append the URL ``blob[start:stop]`` to the text, which ends at `end`; return its span. O(URL).

    `anchor`: where a URL is in the text that it may begin like; -1: none.
    """
    length = stop - start
    shared = 0
    if anchor >= 0:
        shared = _count_shared(text, anchor, blob, start, min(length, MOST_SHARED, end - anchor))
    at = end
    if shared > ANCHOR_BYTES:
        left = np.uint64(anchor)
        for i in range(ANCHOR_BYTES):
            text[at + i] = np.uint8(left & np.uint64(0xFF))
            left >>= np.uint64(8)
        at += ANCHOR_BYTES
    else:
        shared = 0
    copy_bytes(blob, start + shared, text, at, length - shared)
    return (np.uint64(end) << np.uint64(24)) | (np.uint64(shared) << np.uint64(16)) | np.uint64(length)


@inlined_kernel
def kept_bytes(span: int) -> Any:
    """Return how many bytes of text the URL at `span` takes. O(1)."""
    shared = shared_bytes(span)
    return url_length(span) - shared + (ANCHOR_BYTES if shared else 0)


@inlined_kernel
def url_length(span: int) -> Any:
    """Return the length of the URL at `span`. O(1)."""
    return np.int64(span & np.uint64(0xFFFF))  # int() leaves a uint64 unsigned, and unsigned with signed makes a float


@inlined_kernel
def shared_bytes(span: int) -> Any:
    """Return how many bytes the URL at `span` shares with an anchor, 0 if it is kept whole. O(1)."""
    return np.int64((span >> np.uint64(16)) & np.uint64(MOST_SHARED))


@inlined_kernel
def text_start(span: int) -> Any:
    """Return where the text of the URL at `span` starts. O(1)."""
    return np.int64(span >> np.uint64(24))


@inlined_kernel
def anchor_of(text: Bytes, start: int) -> Any:
    """Return the place of the anchor that is written at `start`. O(1)."""
    return np.int64(load_word(text, start - _BEFORE) >> np.uint64(8 * _BEFORE))  # something is before: the anchor is


@bare_kernel
def is_url(text: Bytes, span: int, blob: Bytes, start: int, length: int) -> bool:
    """Return whether the URL at `span` is that of `length` bytes in `blob` from `start` on. O(length)."""
    if url_length(span) != length:
        return False
    at, shared = text_start(span), shared_bytes(span)
    if shared == 0:
        return same_bytes(text, at, blob, start, length)
    rest = length - shared
    if 0 < rest < 8 <= length:  # as one word, without the bytes before
        before = np.uint64(8 * (8 - rest))
        own = load_word(text, at + ANCHOR_BYTES + rest - 8) >> before
        if own != load_word(blob, start + length - 8) >> before:
            return False
    elif not same_bytes(text, at + ANCHOR_BYTES, blob, start + shared, rest):
        return False
    return same_bytes(text, anchor_of(text, at), blob, start, shared)


@bare_kernel
def copy_url(text: Bytes, span: int, out: Bytes, at: int) -> int:
    """Write the URL at `span` to `out` from `at` on; return its length. O(length)."""
    start, shared, length = text_start(span), shared_bytes(span), url_length(span)
    if shared:
        copy_bytes(text, anchor_of(text, start), out, at, shared)
        start += ANCHOR_BYTES
    copy_bytes(text, start, out, at + shared, length - shared)
    return int(length)


@inlined_kernel
def read_url(pages: PageArrays, row: int) -> Any:
    """Write the URL of `row` to ``pages.url``; return its length. O(length)."""
    trace: Record = pages.traces[row]
    return copy_url(pages.text, trace.url_span, pages.url, 0)


@bare_kernel
def find_anchors(pages: PageArrays, anchors: Hashes, count: int) -> None:
    """Find the anchors of the groups of the first `count` pages, after the records were loaded. O(pages).

    A page that has moved to a deeper group is now an anchor there, so later URLs may be kept otherwise than without a
    restart; no digest depends on that.
    """
    for row in range(count):
        span = pages.traces[row].url_span
        if shared_bytes(span) == 0:
            anchors[np.int64(pages.records[row].group)] = text_start(span) + 1


@bare_kernel
def _count_shared(text: Bytes, place: int, blob: Bytes, start: int, most: int) -> int:
    """Return how many bytes are equal in `text` from `place` and in `blob` from `start` on, at most `most`."""
    shared = 0
    while shared + 8 <= most and load_word(text, place + shared) == load_word(blob, start + shared):
        shared += 8
    while shared < most and text[place + shared] == blob[start + shared]:
        shared += 1
    return shared


@bare_kernel
def _copy_urls(text: Bytes, spans: Hashes, gap: int, out: Bytes) -> None:
    """Copy the URLs at `spans` to `out`, each followed by `gap` line feeds, 0 or 1. O(total length)."""
    at = 0
    for i in range(spans.size):
        if i + 2 * _PREFETCH_AHEAD < spans.size:
            prefetch_url(text, spans[i + 2 * _PREFETCH_AHEAD])
        if i + _PREFETCH_AHEAD < spans.size:
            prefetch_anchor(text, spans[i + _PREFETCH_AHEAD])
        at += copy_url(text, spans[i], out, at)
        if gap:
            out[at] = _LINE_FEED
            at += 1


@inlined_kernel
def prefetch_url(text: Bytes, span: int) -> None:
    """Prefetch the text of the URL at `span`, 128 bytes at most. O(1)."""
    prefetch(text, text_start(span))
    prefetch(text, text_start(span) + 64)


@inlined_kernel
def prefetch_anchor(text: Bytes, span: int) -> None:
    """Prefetch what the URL at `span` shares, once its text is there. O(1)."""
    if shared_bytes(span):
        prefetch(text, anchor_of(text, text_start(span)))
