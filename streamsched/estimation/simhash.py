"""SimHash: fingerprints of texts, of one text without the compiler.

SimHash is a 64-bit fingerprint of text whose Hamming distance measures how much two texts differ. Charikar (2002),
"Similarity estimation techniques from rounding algorithms". Each run of `width` words votes with its hash on all 64
bits, once per occurrence; the majority decides, a tie gives 0. Texts that share all but a few runs differ in a few
bits, unrelated ones in about 32. A text with fewer words votes once, as a whole; a text without words has fingerprint
0. `numerics.text_words` says what a word is.

Equal texts have equal fingerprints in every version of this library and on every little-endian machine, because letters
are defined here, not by the running Python's tables. Only letters newer than those tables may be folded differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from streamsched.numerics.argument_checks import check_whole, read_items
from streamsched.numerics.text_words import encode, find_words, fold_text

SHINGLE_WORDS: Final = 3  # long enough to detect reordered words, short enough that an edit affects few runs

_WIDEST: Final = 64
_SPREAD: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: odd, and its bits look random

_ONES: Final = (1 << 64) - 1
_K0: Final = 0xA0761D6478BD642F  # the constants of `numerics.url_bytes.hash_bytes`
_K1: Final = 0xE7037ED1A0B428DB
_K2: Final = 0x8EBC6AF09C88C6E3
_MIX: Final = 0xD6E8FEB86659FD93  # that of `numerics.jit.mix`
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)
_MIX_HIGH: Final = np.uint64(_MIX >> 32)
_MIX_LOW: Final = np.uint64(_MIX & 0xFFFFFFFF)


@overload
def simhash(texts: str, *, width: int = SHINGLE_WORDS) -> int: ...  # type: ignore[overload-overlap]
@overload
def simhash(texts: Iterable[str], *, width: int = SHINGLE_WORDS) -> npt.NDArray[np.uint64]: ...
def simhash(texts: str | Iterable[str], *, width: int = SHINGLE_WORDS) -> int | npt.NDArray[np.uint64]:
    """Return the fingerprint of a text, as `Outcome` takes it, or those of n texts: uint64[n]. O(characters).

    One text takes a few µs a word and compiles nothing; texts are walked by a kernel, which is compiled for the first.
    `width`: how many words vote together, 1 to 64. With 1 the order of words does not count; fingerprints of different
    widths are not comparable. Raises SettingsError if `width` is out of range or a text is no str, TypeError if `texts`
    are no texts.

    >>> simhash("Red green blue.") == simhash("red, GREEN (blue)")
    True
    >>> simhash("to be or not to be", width=1) == simhash("or not to be to be", width=1)
    True
    >>> simhash(["one", "two"]).shape
    (2,)
    """
    width = check_whole("width", width, 1, f"1 to {_WIDEST} words", most=_WIDEST)
    if isinstance(texts, str):
        return _fingerprint(fold_text(texts), width)
    from streamsched.estimation.content import fingerprint_texts  # noqa: PLC0415  numba takes longer than one text

    return fingerprint_texts([encode(fold_text(text)) for text in read_items("texts", texts, "a text or texts")], width)


def _fingerprint(text: str, width: int) -> int:
    """Return the fingerprint of a folded text: the twin of the kernel."""
    words = find_words(text)
    if not words:
        return 0
    known = {word: _hash_bytes(encode(word)) for word in set(words)}
    hashes = np.array([known[word] for word in words], np.uint64)
    run = min(width, hashes.size)
    runs = np.lib.stride_tricks.sliding_window_view(hashes, run)
    codes = np.full(len(runs), run, np.uint64)
    for member in range(run):
        codes = _mix(codes * np.uint64(_SPREAD) + runs[:, member])
    bits = np.unpackbits(codes.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    majority = np.packbits(2 * bits.sum(axis=0, dtype=np.int64) > len(codes), bitorder="little")
    return int.from_bytes(majority.tobytes(), "little")


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return `numerics.jit.mix` of `values`: the high half of a product of 128 bits, by halves, xor its low half."""
    values = values ^ np.uint64(_SPREAD)
    high, low = values >> _HALF, values & _LOW
    middle = (low * _MIX_LOW >> _HALF) + (high * _MIX_LOW & _LOW) + low * _MIX_HIGH  # below 2**64: no carry is lost
    carried = high * _MIX_HIGH + (high * _MIX_LOW >> _HALF) + (middle >> _HALF)
    mixed: npt.NDArray[np.uint64] = carried ^ (values * np.uint64(_MIX))
    return mixed


def _hash_bytes(raw: bytes) -> int:
    """Return `numerics.url_bytes.hash_bytes` of `raw`."""
    length = len(raw)
    state = _K0 ^ length
    for start in range(0, length - 15, 16):
        state = _fold_multiply(_word(raw, start) ^ _K1, _word(raw, start + 8) ^ state)
    head, tail = int.from_bytes(raw, "big"), 0
    if length >= 8:
        head, tail = _word(raw, length - 16 if length >= 16 else 0), _word(raw, length - 8)
    return _fold_multiply(_fold_multiply(head ^ _K1, tail ^ state) ^ _K2, length ^ _K1)


def _word(raw: bytes, start: int) -> int:
    return int.from_bytes(raw[start : start + 8], "little")


def _fold_multiply(left: int, right: int) -> int:
    """Return the high half of the 128-bit product xor its low half."""
    product = left * right
    return (product >> 64) ^ (product & _ONES)
