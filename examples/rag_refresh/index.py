"""A vector index in memory, with an embedding that needs no model: hashed words."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

DIMENSIONS: Final = 512

Vector = npt.NDArray[np.float32]


def embed(text: str) -> Vector:
    """Return a text as a vector of length 1: each word adds or takes 1 at a place that its hash names. O(words).

    >>> float(embed("a harbour") @ embed("A harbour!"))
    1.0
    """
    vector = np.zeros(DIMENSIONS, np.float32)
    for word in re.findall(r"\w+", text.lower()):
        hashed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little")
        vector[hashed % DIMENSIONS] += 1.0 if hashed >> 63 else -1.0
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector


class VectorIndex:
    """Documents by URL. ``cursor``: the change up to which it is fresh; ``embedded``, ``deleted``: counts of both.

    >>> index = VectorIndex()
    >>> index.put("https://a.example/", "ships in the harbour")
    >>> index.search("a ship, or more ships")
    ['https://a.example/']
    """

    def __init__(self, cursor: str = "oldest") -> None:
        self.cursor = cursor
        self.embedded = self.deleted = 0
        self.texts: dict[str, str] = {}
        self._vectors: dict[str, Vector] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def put(self, url: str, text: str) -> None:
        """Embed a document, new or changed. O(words)."""
        self.texts[url], self._vectors[url] = text, embed(text)
        self.embedded += 1

    def remove(self, url: str) -> None:
        """Delete a document. O(1)."""
        if self.texts.pop(url, None) is not None:
            del self._vectors[url]
            self.deleted += 1

    def search(self, query: str, k: int = 3) -> list[str]:
        """Return the URLs of the `k` documents most like `query`, best first. O(documents)."""
        if not self._vectors:
            return []
        likeness = np.stack(list(self._vectors.values())) @ embed(query)
        urls = list(self._vectors)
        return [urls[row] for row in np.argsort(-likeness, kind="stable")[:k]]
