"""The words of a text and their SimHash, without a compiler: letters are defined here, not by the tables of Python.

A word, of the case-folded text in Unicode's composed form (NFC), is a maximal run of letters, digits and underscores;
from U+00C0 on, everything but spaces, punctuation and symbols is a letter. Each character of a script that puts no
spaces between words (Han, kana, Thai, Lao, Khmer, Myanmar), and each emoji, is a word of its own. Markup is not
recognised: pass a page's text, not its HTML.

`fingerprint_text` is the twin of `estimation.content`'s kernel. The 64 votes of a run of words are added eight at a
time: each byte of its hash is a number with eight lanes of 32 bits, one for each bit.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Final

from streamsched.errors import SettingsError

SHINGLE_WORDS: Final = 3  # long enough to detect reordered words, short enough that an edit affects few runs
_ONES: Final = (1 << 64) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: odd, and its bits look random
_K0: Final = 0xA0761D6478BD642F  # the constants of `numerics.url_bytes.hash_bytes`
_K1: Final = 0xE7037ED1A0B428DB
_K2: Final = 0x8EBC6AF09C88C6E3
_MIX: Final = 0xD6E8FEB86659FD93  # that of `numerics.jit.mix`
_LANE: Final = 32  # bits: more runs than a text in memory has
_LANES: Final = [sum(1 << _LANE * bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]
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


def fold_text(text: str) -> str:
    """Return the composed, case-folded text. O(characters). Raises SettingsError if it is none."""
    if not isinstance(text, str):
        raise SettingsError("texts", text, "texts as str")
    return unicodedata.normalize("NFC", text.casefold())


def find_words(folded: str) -> list[str]:
    """Return the words of a folded text, in order. O(characters).

    >>> find_words("mp3_player: 東京!")
    ['mp3_player', '東', '京']
    """
    found: list[str] = _WORDS.findall(folded)
    return found


def encode(text: str) -> bytes:
    """Return a text as UTF-8; lone surrogates are kept."""
    return text.encode("utf-8", "surrogatepass")


def fingerprint_text(folded: str, width: int) -> int:
    """Return the SimHash of a folded text by runs of `width` words; see `estimation.simhash`. O(words)."""
    words = find_words(folded)
    if not words:
        return 0
    known = {word: _hash_bytes(encode(word)) for word in set(words)}
    hashes = [known[word] for word in words]
    run = min(width, len(hashes))
    votes = [0] * 8
    lanes, count = _LANES, len(hashes) - run + 1
    for code, times in Counter(zip(*(hashes[at : at + count] for at in range(run)), strict=True)).items():
        state = run
        for each in code:
            value = ((state * _SPREAD + each) & _ONES) ^ _SPREAD
            product = value * _MIX
            state = (product >> 64) ^ (product & _ONES)
        for place, byte in enumerate(state.to_bytes(8, "little")):
            votes[place] += times * lanes[byte]
    fingerprint = 0
    for place in range(8):
        for bit in range(8):
            ones = votes[place] >> _LANE * bit & ((1 << _LANE) - 1)
            fingerprint |= (2 * ones > count) << (8 * place + bit)
    return fingerprint


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


def _character_class(spans: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in spans)


_WORDS: Final = re.compile(f"[{_character_class(WORDS_ALONE)}]|[^{_character_class((*SEPARATORS, *WORDS_ALONE))}]+")
