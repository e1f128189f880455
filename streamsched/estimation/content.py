"""The contents of a page: fingerprints of them, and how much of them changes.

SimHash is a 64-bit fingerprint of text whose Hamming distance measures how much two texts differ. Charikar (2002),
"Similarity estimation techniques from rounding algorithms". Each run of `width` words votes with its hash on all 64
bits, once per occurrence; the majority decides, a tie gives 0. Texts that share all but a few runs differ in a few
bits, unrelated ones in about 32. A text with fewer words votes once, as a whole; a text without words has fingerprint
0.

A word, of the case-folded text in Unicode's composed form (NFC), is a maximal run of letters, digits and underscores;
from U+00C0 on, everything but spaces, punctuation and symbols is a letter. Each character of a script that puts no
spaces between words (Han, kana, Thai, Lao, Khmer, Myanmar), and each emoji, is a word of its own. Markup is not
recognised: pass a page's text, not its HTML.

Equal texts have equal fingerprints in every version of this library and on every little-endian machine, because letters
are defined here, not by the running Python's tables. Only letters newer than those tables may be folded differently.

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

import unicodedata
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from streamsched.errors import SettingsError
from streamsched.numerics.argument_checks import check_whole, read_items
from streamsched.numerics.arrays import Bytes, Floats, Hashes, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, kernel, mix
from streamsched.numerics.url_bytes import hash_bytes

SHINGLE_WORDS: Final = 3  # long enough to detect reordered words, short enough that an edit affects few runs

_WIDEST: Final = 64
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: odd, and its bits look random

# First and last code points of non-letters; all others up to U+10FFFF are letters.
SEPARATORS: Final = (
    *((0x00, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60), (0x7B, 0xA9)),
    *((0xAB, 0xB4), (0xB6, 0xB9), (0xBB, 0xBF), (0xD7, 0xD7), (0xF7, 0xF7)),
    *((0x2000, 0x206F), (0x20A0, 0x20CF), (0x2190, 0x2BFF), (0x2E00, 0x2E7F)),  # punctuation, currency, symbols
    *((0x3000, 0x3004), (0x3008, 0x3020), (0x3030, 0x3030)),  # of Han and kana
    *((0xFE00, 0xFE1F), (0xFE30, 0xFE6F)),  # variation selectors, vertical and small forms
    *((0xFEFF, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF65), (0xFFF0, 0xFFFF)),  # fullwidth, specials
)
WORDS_ALONE: Final = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF)),  # Thai and Lao, Myanmar, Khmer
    *((0x2E80, 0x2FFF), (0x3005, 0x3007), (0x3021, 0x302F), (0x3031, 0x312F), (0x3190, 0x9FFF), (0xF900, 0xFAFF)),
    *((0xFF66, 0xFF9F), (0x1AFF0, 0x1B16F), (0x1F000, 0x1FAFF), (0x20000, 0x3FFFF)),  # kana, emoji, Han
)

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


def simhash(texts: str | Iterable[str], *, width: int = SHINGLE_WORDS) -> Hashes:
    """Return the fingerprint of each text: uint64[n]; a single str is one text, so n is 1. O(characters).

    `width`: how many words vote together, 1 to 64. With 1 the order of words does not count; fingerprints of different
    widths are not comparable. Raises SettingsError if `width` is out of range or a text is no str, TypeError if `texts`
    are no texts.

    >>> from streamsched.estimation.change_detection import hamming
    >>> simhash("Red green blue.") == simhash("red, GREEN (blue)")
    array([ True])
    >>> hamming(simhash("to be or not to be", width=1), simhash("or not to be to be", width=1))
    array([0], dtype=uint8)
    """
    width = check_whole("width", width, 1, f"1 to {_WIDEST} words", most=_WIDEST)
    items = [texts] if isinstance(texts, str) else read_items("texts", texts, "a text or texts")
    folded = [_fold(text) for text in items]
    offsets = np.zeros(len(folded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, folded), np.int64, len(folded)), out=offsets[1:])
    out = np.empty(len(folded), np.uint64)
    _fingerprint(np.frombuffer(b"".join(folded), np.uint8), offsets, width, out)
    return out


def _fold(text: str) -> bytes:
    """Return the composed, case-folded text as UTF-8; lone surrogates are kept. Raises SettingsError if it is none."""
    if not isinstance(text, str):
        raise SettingsError("texts", text, "texts as str")
    return unicodedata.normalize("NFC", text.casefold()).encode("utf-8", "surrogatepass")


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
