"""The contents of a page: how much of them changes, and the kernel that fingerprints texts (`estimation.simhash`).

The significance of a page's changes says how much of it changes. A change has the significance that the crawler
reports. Otherwise it is the share of bits in which the fingerprints before and after the change differ; other contents,
with nothing in common, differ in about half. A change without either says nothing.

What a page's next change is expected to have is the mean of its changes so far and of `PAGE_STRENGTH` more that have
the mean of its host: the posterior mean of a normal mean whose prior is worth that many observations. The host's mean
is shrunk towards that of all pages likewise. After `PAGE_MEMORY` changes the oldest fade. A page without any such
change takes the mean of its host with each outcome, and when the prior sweep passes it; a page's first change fixes the
mean that it starts from. So between these moments nothing that happens to other pages moves what is expected of it.

Without a change of known significance in the whole corpus, 1 is expected of every page.

A page's share of this is two bytes of its SEASONAL_LINK: 4 bits count its changes, 12 say how far below 1 the
expectation is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bytes, Floats, Hashes, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, kernel, mix
from streamsched.numerics.text_words import SEPARATORS, WORDS_ALONE
from streamsched.numerics.url_bytes import hash_bytes

_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: odd, and its bits look random
_SEPARATOR: Final = 0
_LETTER: Final = 1
_ALONE: Final = 2

_RANGES: Final = sorted([(*r, _SEPARATOR) for r in SEPARATORS] + [(*r, _ALONE) for r in WORDS_ALONE])
_FIRST: Final = np.array([first for first, _, _ in _RANGES])
_LAST: Final = np.array([last for _, last, _ in _RANGES])
_KIND: Final = np.array([kind for _, _, kind in _RANGES])
_ASCII: Final = np.array([_LETTER if chr(code).isalnum() or code == ord("_") else _SEPARATOR for code in range(128)])

PAGE_STRENGTH: Final = 2.0  # changes that the host's mean counts for
HOST_STRENGTH: Final = 8.0  # changes that the mean of all pages counts for in a host's mean
PAGE_MEMORY: Final = 15  # changes of a page, at most: 4 bits
HOST_MEMORY: Final = 1024.0  # changes of a host, and of all pages, after which the oldest fade
_MEAN_BITS: Final = 12
_MOST: Final = (1 << _MEAN_BITS) - 1  # the distance from 1 to 0


def fingerprint_texts(folded: Sequence[bytes], width: int) -> Hashes:
    """Return `simhash` of n folded texts in UTF-8: uint64[n]. O(bytes)."""
    offsets = np.zeros(len(folded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, folded), np.int64, len(folded)), out=offsets[1:])
    out = np.empty(len(folded), np.uint64)
    _fingerprint(np.frombuffer(b"".join(folded), np.uint8), offsets, width, out)
    return out


@kernel
def _fingerprint(blob: Bytes, offsets: Ints, width: int, out: Hashes) -> None:
    """Count the votes of the runs of words of each text."""
    recent = np.zeros(width, np.uint64)  # hashes of the last `width` words, the newest at `words` % width
    votes = np.zeros(64, np.int64)
    for text in range(out.size):
        votes[:] = 0
        words = 0
        begin, end = _next_word(blob, offsets[text], offsets[text + 1])
        while begin < end:
            recent[words % width] = hash_bytes(blob, begin, end)
            words += 1
            if words >= width:
                _vote(recent, words, width, votes)
            begin, end = _next_word(blob, end, offsets[text + 1])
        if 0 < words < width:
            _vote(recent, words, words, votes)
        fingerprint = np.uint64(0)
        for bit in range(64):
            if votes[bit] > 0:
                fingerprint |= np.uint64(1) << np.uint64(bit)
        out[text] = fingerprint


@bare_kernel
def _vote(recent: Hashes, words: int, run: int, votes: Ints) -> None:
    """Add the votes of the last `run` of `words` words: +1 for each bit set in their hash, else -1."""
    state = np.uint64(run)
    for word in range(words - run, words):
        state = mix(state * _SPREAD + recent[word % recent.size])
    for bit in range(64):
        votes[bit] += np.int64((state >> np.uint64(bit)) & np.uint64(1)) * 2 - 1


@bare_kernel
def _next_word(blob: Bytes, start: int, stop: int) -> tuple[int, int]:
    """Return where the first word of ``blob[start:stop]`` begins and ends; both are `stop` if there is none."""
    begin = start
    while begin < stop and _kind(blob, begin) == _SEPARATOR:
        begin += _size(blob[begin])
    end = begin
    while end < stop:
        kind = _kind(blob, end)
        if kind == _ALONE and end == begin:
            return begin, end + _size(blob[end])
        if kind != _LETTER:
            break
        end += _size(blob[end])
    return begin, end


@bare_kernel
def _size(lead: int) -> int:
    """Return the length in bytes of the UTF-8 character that begins with `lead`."""
    return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)


@bare_kernel
def _kind(blob: Bytes, at: int) -> int:
    """Return the kind of the UTF-8 character at ``blob[at]``."""
    lead = np.int64(blob[at])
    if lead < 0x80:
        return int(_ASCII[lead])
    size = _size(lead)
    code = lead & (0x7F >> size)
    for i in range(at + 1, at + size):
        code = (code << 6) | (blob[i] & 0x3F)
    place = np.searchsorted(_FIRST, code, "right") - 1
    return int(_KIND[place]) if code <= _LAST[place] else _LETTER


@inlined_kernel
def expected_significance(link: Record) -> float:
    """Return the significance that a page's next change is expected to have, from 0 to 1. O(1)."""
    return (_MOST - (np.int64(link.significance) & _MOST)) / _MOST


@bare_kernel
def fill_significance(links: Records, out: Floats) -> None:
    """Write the expected significance of m pages to `out`: float64[m]; ``links``: SEASONAL_LINK[m]. O(m)."""
    for i in range(out.size):
        out[i] = expected_significance(links[i])


def expected_significances(links: Records) -> Floats:
    """Return the expected significance of m pages: float64[m]; ``links``: SEASONAL_LINK[m]. O(m)."""
    out = np.empty(links.size)
    fill_significance(links, out)
    return out


def pack_expected(expected: Floats) -> npt.NDArray[np.uint16]:
    """Return SEASONAL_LINK.significance of pages without changes that expect these: uint16[m] of float64[m]. O(m)."""
    return (_MOST - np.rint(expected * _MOST)).astype(np.uint16)


@inlined_kernel
def pack_significance(changes: int, expected: float) -> int:
    """Return SEASONAL_LINK.significance of a page with that many changes of known significance. O(1)."""
    return (min(changes, PAGE_MEMORY) << _MEAN_BITS) | (_MOST - int(expected * _MOST + 0.5))


@inlined_kernel
def refresh_significance(link: Record, corpus: Record, host: Record) -> None:
    """Let a page without changes of known significance expect the mean of its `host`, a GROUP. O(1)."""
    if corpus.significant > 0.0 and link.significance <= _MOST:
        link.significance = pack_significance(0, _host_mean(corpus, host))


@bare_kernel
def learn_significance(link: Record, corpus: Record, host: Record, significance: float) -> None:
    """Learn from a change of a page, 0 to 1. O(1)."""
    corpus.significant = min(corpus.significant + 1.0, HOST_MEMORY)
    corpus.significance += (significance - corpus.significance) / corpus.significant
    host.significant = min(host.significant + 1.0, HOST_MEMORY)
    host.significance += (significance - host.significance) / host.significant
    changes = np.int64(link.significance) >> _MEAN_BITS
    expected = expected_significance(link) if changes else _host_mean(corpus, host)
    expected += (significance - expected) / (PAGE_STRENGTH + changes + 1.0)
    link.significance = pack_significance(changes + 1, expected)


@inlined_kernel
def _host_mean(corpus: Record, host: Record) -> float:
    """Return the mean significance of the changes of a host's pages, shrunk towards that of all pages."""
    known = HOST_STRENGTH + host.significant
    changed = HOST_STRENGTH * corpus.significance + host.significant * host.significance
    return float(min(changed / known, 1.0))
