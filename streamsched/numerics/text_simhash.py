"""SimHash of one text in plain Python, for programs that have no compiler: the twin of `estimation.content`'s kernel.

The 64 votes of a run of words are added eight at a time: each byte of its hash stands for a number with eight lanes of
32 bits, one for each bit.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from streamsched.numerics.text_words import encode, find_words

_ONES: Final = (1 << 64) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: odd, and its bits look random
_K0: Final = 0xA0761D6478BD642F  # the constants of `numerics.url_bytes.hash_bytes`
_K1: Final = 0xE7037ED1A0B428DB
_K2: Final = 0x8EBC6AF09C88C6E3
_MIX: Final = 0xD6E8FEB86659FD93  # that of `numerics.jit.mix`
_LANE: Final = 32  # bits: more runs than a text in memory has
_LANES: Final = [sum(1 << _LANE * bit for bit in range(8) if byte >> bit & 1) for byte in range(256)]


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
