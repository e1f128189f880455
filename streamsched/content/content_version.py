"""The bits of a `content` that `content_hash` makes: a mark, the version of how it was made, and the hash.

Hashes of different versions are not compared: a new release of an extractor is no change of all pages. The mark tells
these numbers from the hashes of crawlers that make their own, which are compared in all their 64 bits.
"""

from __future__ import annotations

from typing import Final

HASH_BITS: Final = 38  # of 64: two texts share them once in 3e11 pairs
VERSION_BITS: Final = 10
KIND_SHIFT: Final = HASH_BITS  # the mark and the version are the bits from here on
MARK_SHIFT: Final = HASH_BITS + VERSION_BITS
MARK: Final = 0xC0E7  # in the 16 highest bits; another crawler's hash has it once in 65,536
