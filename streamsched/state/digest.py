"""Digest of a shard's logical state: equal for equal states, however they came about."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from streamsched.records.page_schema import LEASED, OUT
from streamsched.records.url_patterns import candidate_space

if TYPE_CHECKING:
    from streamsched.state.page_table import PageTable

__all__ = ["digest_state"]

_VERSION: Final = 10  # of what is hashed, not of the format on disk


def digest_state(pages: PageTable, settings: dict[str, Any]) -> str:
    """Return the SHA-256 of settings, records and texts, not of their layout on disk. O(pages)."""
    arrays = _arrays(pages)
    waits = ((arrays["pages"]["flags"] & LEASED) != 0) | (arrays["pages"]["failures"] > 0)
    arrays["lease_until_s"] = np.where(waits, arrays["lease_until_s"], 0.0)
    arrays["pages"], arrays["groups"] = arrays["pages"].copy(), arrays["groups"].copy()
    arrays["pages"]["flags"] &= np.uint8(0xFF ^ OUT)  # when an expiry was noticed is not part of the state
    arrays["groups"]["out"] = 0
    arrays["groups"]["stream"] = 0  # it says how the state came about
    arrays["corpus"] = arrays["corpus"].copy()
    arrays["corpus"]["refused_pages"] = 0  # a repeated outcome that is refused counts again
    whole = hashlib.sha256(json.dumps([_VERSION, settings], sort_keys=True).encode())
    for name in sorted(arrays):
        whole.update(np.ascontiguousarray(arrays[name]).view(np.uint8).data)
    return whole.hexdigest()


def _arrays(pages: PageTable) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of the state, cut to what is in use."""
    shard = pages.arrays
    corpus, seasonality = shard.corpus[0], shard.seasonality.state[0]
    count, groups = int(corpus["pages"]), int(corpus["groups"])
    return {
        "corpus": shard.corpus,
        "pages": shard.pages.records[:count],
        "traces": shard.pages.traces[:count],
        "lease_until_s": shard.pages.lease_until_s[:count],
        "text": shard.pages.text[: int(corpus["text_end"])],
        "groups": shard.groups.records[:groups],
        "names": shard.groups.names[: int(corpus["names_end"])],
        "journal": shard.journal[: int(corpus["journaled"])],
        "shadows": shard.shadows[: -(-count // int(corpus["shadow_stride"]))],
        "candidates": shard.groups.candidates[: candidate_space(count)],
        "links": shard.seasonality.links[:count],
        "schedules": shard.seasonality.schedules[: 1 + int(seasonality["schedules"])],
        "profiles": shard.seasonality.profiles[: int(seasonality["profiles"])],
        "seasonality": shard.seasonality.state,
        "chances": shard.related.chances[: int(shard.related.state["keys"][0])],
        "related": shard.related.state,
        "signals": shard.pages.signals[: count if int(shard.signals.state["kinds"][0]) else 0],
        "signal_sources": shard.signals.sources[: int(shard.signals.state["sources"][0])],
        "signal_kinds": shard.signals.kinds,
        "signal_state": shard.signals.state,
    }
