"""Hashes of one text in plain Python: exact, without times and dates, and similar (SimHash)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from streamsched.content.content_version import HASH_BITS, KIND_SHIFT, MARK, MARK_SHIFT, VERSION_BITS
from streamsched.content.noise import NOISE_VERSION, remove_noise
from streamsched.content.page_text import PageText
from streamsched.errors import SettingsError
from streamsched.numerics.text_words import fingerprint_text, fold_text

_SHINGLE_WORDS: Final = 3  # as `estimation.simhash.SHINGLE_WORDS`


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
    return fingerprint_text(fold_text(text), _SHINGLE_WORDS)


@lru_cache(64)
def _kind(by: str) -> int:
    """Return the mark and the version in their places."""
    digest = blake2b(f"{NOISE_VERSION} {by}".encode(), digest_size=2).digest()
    return MARK << MARK_SHIFT | (int.from_bytes(digest, "big") >> (16 - VERSION_BITS)) << KIND_SHIFT
