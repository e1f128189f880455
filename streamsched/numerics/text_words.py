"""The words of a text: letters are defined here, not by the tables of the running Python.

A word, of the case-folded text in Unicode's composed form (NFC), is a maximal run of letters, digits and underscores;
from U+00C0 on, everything but spaces, punctuation and symbols is a letter. Each character of a script that puts no
spaces between words (Han, kana, Thai, Lao, Khmer, Myanmar), and each emoji, is a word of its own. Markup is not
recognised: pass a page's text, not its HTML.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from streamsched.errors import SettingsError

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


def _character_class(spans: Iterable[tuple[int, int]]) -> str:
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in spans)


_WORDS: Final = re.compile(f"[{_character_class(WORDS_ALONE)}]|[^{_character_class((*SEPARATORS, *WORDS_ALONE))}]+")
