"""One hash of what a shard's state means: equal for equal states, whatever way they came about."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.records.schema import LEASED, OUT
from streamsched.records.url_patterns import candidate_space
from streamsched.state.page_table import PageTable

__all__ = ["digest_state"]

_VERSION: Final = 5  # of what is hashed, not of how it is saved


def digest_state(pages: PageTable, settings: dict[str, Any]) -> str:
    """Return the SHA-256 of what the state means: settings, records and texts, not their layout on disk. O(pages)."""
    arrays = _arrays(pages)
    leased = (arrays["pages"]["flags"] & LEASED) != 0
    arrays["lease_until_s"] = np.where(leased, arrays["lease_until_s"], 0.0)
    arrays["pages"], arrays["groups"] = arrays["pages"].copy(), arrays["groups"].copy()
    arrays["pages"]["flags"] &= np.uint8(0xFF ^ OUT)  # when an expiry was noticed does not matter
    arrays["groups"]["out"] = 0
    whole = hashlib.sha256(json.dumps([_VERSION, settings], sort_keys=True).encode())
    for name in sorted(arrays):
        whole.update(np.ascontiguousarray(arrays[name]).view(np.uint8).data)
    return whole.hexdigest()


def _arrays(pages: PageTable) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays that are the state, cut to what is in use."""
    tables = pages.tables
    corpus, tempo = tables.corpus[0], tables.rhythm.tempo[0]
    count, groups = int(corpus["pages"]), int(corpus["groups"])
    return {
        "corpus": tables.corpus,
        "pages": tables.pages[:count],
        "traces": tables.traces[:count],
        "lease_until_s": tables.lease_until_s[:count],
        "text": tables.text[: int(corpus["text_end"])],
        "groups": tables.groups[:groups],
        "names": tables.names[: int(corpus["names_end"])],
        "journal": tables.journal[: int(corpus["journaled"])],
        "candidates": tables.candidates[: candidate_space(count)],
        "links": tables.rhythm.links[:count],
        "schedules": tables.rhythm.schedules[: 1 + int(tempo["schedules"])],
        "profiles": tables.rhythm.profiles[: int(tempo["profiles"])],
        "tempo": tables.rhythm.tempo,
    }
