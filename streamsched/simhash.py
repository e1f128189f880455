"""A 64-bit fingerprint of text whose distance tells how much two texts differ: Charikar's SimHash.

Charikar (2002), "Similarity estimation techniques from rounding algorithms". Every run of `width` words votes with its
hash on each of the 64 bits, as often as it stands in the text, and the majority decides; a tie gives 0. Texts that
share all but a few runs share all but a few bits, unrelated ones differ in about 32. A text of fewer words votes once, as a whole;
a text without words has fingerprint 0.

What a word is, over the case-folded text in Unicode's composed form (NFC): a longest run of letters, digits and
underscores, where every character from U+00C0 on counts as a letter but spaces, punctuation, arrows and symbols; and
each character of a script that puts no spaces between words (Han, kana, Thai, Lao, Khmer, Myanmar) and each emoji is a word of its own.
Markup is not looked for: pass the text of a page, not its HTML.

Equal texts get equal fingerprints in every version of this library, on every machine with little-endian words. Only
letters that a Unicode version newer than the running Python's has added may fold to another case later.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

import numpy as np

from streamsched.arrays import Bytes, Hashes, Ints
from streamsched.errors import SettingsError
from streamsched.jit import kernel, mix
from streamsched.packed import hash_bytes

__all__ = ["SHINGLE_WORDS", "simhash"]

SHINGLE_WORDS: Final = 3  # long enough to see words change places, short enough to leave most runs of an edit alone

_WIDEST: Final = 64
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)

# What a code point is to the word splitter.
_SEPARATOR: Final = 0
_LETTER: Final = 1
_ALONE: Final = 2

# Code points up to and including each bound, ascending, are of the kind that stands beside it. Fixed here and not
# taken from the running Python's Unicode tables, so that fingerprints do not depend on its version.
_KINDS: Final = (
    (0x002F, _SEPARATOR),
    (0x0039, _LETTER),  # 0-9
    (0x0040, _SEPARATOR),
    (0x005A, _LETTER),  # A-Z
    (0x005E, _SEPARATOR),
    (0x005F, _LETTER),  # _
    (0x0060, _SEPARATOR),
    (0x007A, _LETTER),  # a-z
    (0x00A9, _SEPARATOR),
    (0x00AA, _LETTER),  # feminine ordinal
    (0x00B4, _SEPARATOR),
    (0x00B5, _LETTER),  # micro sign
    (0x00B9, _SEPARATOR),
    (0x00BA, _LETTER),  # masculine ordinal
    (0x00BF, _SEPARATOR),
    (0x00D6, _LETTER),
    (0x00D7, _SEPARATOR),  # multiplication sign
    (0x00F6, _LETTER),
    (0x00F7, _SEPARATOR),  # division sign
    (0x0DFF, _LETTER),
    (0x0EFF, _ALONE),  # Thai, Lao
    (0x0FFF, _LETTER),
    (0x109F, _ALONE),  # Myanmar
    (0x177F, _LETTER),
    (0x17FF, _ALONE),  # Khmer
    (0x1FFF, _LETTER),
    (0x206F, _SEPARATOR),  # general punctuation, spaces
    (0x209F, _LETTER),
    (0x20CF, _SEPARATOR),  # currency
    (0x218F, _LETTER),
    (0x2BFF, _SEPARATOR),  # arrows, mathematics, boxes, dingbats
    (0x2DFF, _LETTER),
    (0x2E7F, _SEPARATOR),  # supplemental punctuation
    (0x2FFF, _ALONE),  # radicals
    (0x3004, _SEPARATOR),
    (0x3007, _ALONE),  # iteration mark, zero
    (0x3020, _SEPARATOR),
    (0x302F, _ALONE),
    (0x3030, _SEPARATOR),
    (0x312F, _ALONE),  # kana, bopomofo
    (0x318F, _LETTER),  # Hangul puts spaces
    (0x31FF, _ALONE),
    (0x33FF, _ALONE),
    (0x9FFF, _ALONE),  # Han
    (0xF8FF, _LETTER),
    (0xFAFF, _ALONE),  # Han, compatibility
    (0xFE0F, _LETTER),
    (0xFE6F, _SEPARATOR),  # vertical and small forms of punctuation
    (0xFEFE, _LETTER),
    (0xFF0F, _SEPARATOR),  # byte order mark, fullwidth punctuation
    (0xFF19, _LETTER),
    (0xFF20, _SEPARATOR),
    (0xFF3A, _LETTER),
    (0xFF40, _SEPARATOR),
    (0xFF5A, _LETTER),
    (0xFF65, _SEPARATOR),
    (0xFF9F, _ALONE),  # halfwidth kana
    (0xFFEF, _LETTER),
    (0xFFFF, _SEPARATOR),  # specials, the replacement character
    (0x1AFEF, _LETTER),
    (0x1B16F, _ALONE),  # kana
    (0x1EFFF, _LETTER),
    (0x1FAFF, _ALONE),  # emoji, tiles, pictographs
    (0x1FFFF, _LETTER),
    (0x3FFFF, _ALONE),  # Han
    (0x10FFFF, _LETTER),
)
