"""Hashes of one text in plain Python: exact, without times and dates, and similar (SimHash).

An exact hash has a mark, the version of how it was made, and bits of the text. Hashes of different versions are not
compared: a new release of an extractor is no change of all pages. The mark tells these numbers from the hashes of
crawlers that make their own, which are compared in all their 64 bits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from streamsched.content.page_text import PageText
from streamsched.errors import SettingsError
from streamsched.numerics.text_words import SHINGLE_WORDS, fingerprint_text, fold_text

HASH_BITS: Final = 38  # of 64: two texts share them once in 3e11 pairs
VERSION_BITS: Final = 10
KIND_SHIFT: Final = HASH_BITS  # the mark and the version are the bits from here on
MARK_SHIFT: Final = HASH_BITS + VERSION_BITS
MARK: Final = 0xC0E7  # in the 16 highest bits; another crawler's hash has it once in 65,536

_NOISE_VERSION: Final = 1  # of what is taken out: part of each hash, to be raised with any change below

_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_UNIT: Final = r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
_TIME: Final = r":\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?[ap]\.?m\b\.?)?(?: ?(?:(?:utc|gmt|z)\b|[+-]\d\d:?\d\d))?"
_AFTER_DIGIT: Final = (
    rf"\d{{3}}-\d\d-\d\d(?:[t ]\d\d{_TIME})?",  # 2026-11-27T10:15:00Z
    r"\d{3}/\d\d/\d\d",
    r"\d?/\d{1,2}/\d{4}",
    r"\d?\.\d{1,2}\.\d{4}",
    rf"\d?(?:st|nd|rd|th)? {_MONTH},? \d{{4}}",  # 27 November 2026
    rf"\d?{_TIME}",
    rf"\d{{0,3}} {_UNIT} ago",
    r"\d{0,3}[smhdw] ago",
)
_FLAGS: Final = re.IGNORECASE | re.ASCII
# Each begins with a digit, which the engine finds fast; that it begins a word is looked at afterwards.
_NUMERIC: Final = re.compile(rf"[0-9](?<![\w.:/-].)(?:{'|'.join(_AFTER_DIGIT)})(?![\w/-]) ?", _FLAGS)
_MONTH_FIRST: Final = re.compile(rf"\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}(?!\w) ?", _FLAGS)
_IN_WORDS: Final = re.compile(rf"\b(?:(?:an?|one|a few) {_UNIT} ago|just now)\b ?", _FLAGS)


def remove_noise(text: str) -> str:
    """Return a text without times, dates and "5 minutes ago", with single spaces. O(characters).

    >>> remove_noise("Posted 5 minutes ago, on 2026-11-27 10:15.  Price: 5.99")
    'Posted , on . Price: 5.99'
    """
    text = _NUMERIC.sub("", " ".join(text.split()))
    if " 19" in text or " 20" in text:
        text = _MONTH_FIRST.sub("", text)
    small = text.lower()
    if " ago" in small or "just now" in small:
        text = _IN_WORDS.sub("", text)
    return text.rstrip(" ")


def content_hash(text: str) -> int:
    r"""Return the exact hash of a text for ``Outcome(content=)``: 64 bits. O(characters).

    White space counts as one space, and what `remove_noise` takes out does not count. The version of that, and of what
    `page_text` made the text by, is part of the hash: hashes of different versions are not compared. Equal on every
    Python and machine. Raises SettingsError if `text` is no str.

    >>> content_hash("Price 5, updated 3 minutes ago") == content_hash("Price  5,\nupdated an hour ago")
    True
    >>> content_hash("Price 5") == content_hash("Price 6")
    False
    """
    if not isinstance(text, str):
        raise SettingsError("text", text, "a text as str")
    by = text.by if isinstance(text, PageText) else ""
    digest = blake2b(remove_noise(text).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return _kind(by) | int.from_bytes(digest, "big") >> (64 - HASH_BITS)


def simhash(text: str) -> int:
    """Return the SimHash of a text for ``Outcome(fingerprint=)``: 64 bits, as `streamsched.simhash` does. O(words).

    Compiles nothing: some 5 µs a word. Raises SettingsError if `text` is no str.

    >>> simhash("Red green blue.") == simhash("red, GREEN (blue)")
    True
    """
    return fingerprint_text(fold_text(text), SHINGLE_WORDS)


@lru_cache(64)
def _kind(by: str) -> int:
    """Return the mark and the version in their places."""
    digest = blake2b(f"{_NOISE_VERSION} {by}".encode(), digest_size=2).digest()
    return MARK << MARK_SHIFT | (int.from_bytes(digest, "big") >> (16 - VERSION_BITS)) << KIND_SHIFT
