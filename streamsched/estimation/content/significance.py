"""The significance of a page's changes: how much of it changes, learned from change to change.

A change has the significance that the crawler reports. Otherwise it is the share of bits in which the fingerprints
before and after the change differ; other contents, with nothing in common, differ in about half. A change without
either says nothing.

What a page's next change is expected to have is the mean of its changes so far and of `PAGE_STRENGTH` more that have
the mean of its host: the posterior mean of a normal mean whose prior is worth that many observations. The host's mean
is shrunk towards that of all pages likewise. After `PAGE_MEMORY` changes the oldest fade. A page without any such
change takes the mean of its host with each outcome, and when the prior sweep passes it; a page's first change fixes the
mean that it starts from. So between these moments nothing that happens to other pages moves what is expected of it.

Without a change of known significance in the whole corpus, 1 is expected of every page.

A page's share of this is two bytes of its SEASONAL_LINK: 4 bits count its changes, 12 say how far below 1 the
expectation is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from streamsched.numerics.jit import bare_kernel, inlined_kernel

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Floats, Record, Records

__all__ = [
    "HOST_MEMORY",
    "HOST_STRENGTH",
    "PAGE_MEMORY",
    "PAGE_STRENGTH",
    "expected_significance",
    "expected_significances",
    "fill_significance",
    "learn_significance",
    "pack_expected",
    "pack_significance",
    "refresh_significance",
]

PAGE_STRENGTH: Final = 2.0  # changes that the host's mean counts for
HOST_STRENGTH: Final = 8.0  # changes that the mean of all pages counts for in a host's mean
PAGE_MEMORY: Final = 15  # changes of a page, at most: 4 bits
HOST_MEMORY: Final = 1024.0  # changes of a host, and of all pages, after which the oldest fade
_MEAN_BITS: Final = 12
_MOST: Final = (1 << _MEAN_BITS) - 1  # the distance from 1 to 0


@inlined_kernel
def expected_significance(link: Record) -> float:
    """Return the significance that a page's next change is expected to have, from 0 to 1. O(1)."""
    return (_MOST - (np.int64(link.significance) & _MOST)) / _MOST


@bare_kernel
def fill_significance(links: Records, out: Floats) -> None:
    """Write the expected significance of m pages to `out`: float64[m]; ``links``: SEASONAL_LINK[m]. O(m)."""
    for i in range(out.size):
        out[i] = expected_significance(links[i])


def expected_significances(links: Records) -> Floats:
    """Return the expected significance of m pages: float64[m]; ``links``: SEASONAL_LINK[m]. O(m)."""
    out = np.empty(links.size)
    fill_significance(links, out)
    return out


def pack_expected(expected: Floats) -> npt.NDArray[np.uint16]:
    """Return SEASONAL_LINK.significance of pages without changes that expect these: uint16[m] of float64[m]. O(m)."""
    return (_MOST - np.rint(expected * _MOST)).astype(np.uint16)


@inlined_kernel
def pack_significance(changes: int, expected: float) -> int:
    """Return SEASONAL_LINK.significance of a page with that many changes of known significance. O(1)."""
    return (min(changes, PAGE_MEMORY) << _MEAN_BITS) | (_MOST - int(expected * _MOST + 0.5))


@inlined_kernel
def refresh_significance(link: Record, corpus: Record, host: Record) -> None:
    """Let a page without changes of known significance expect the mean of its `host`, a GROUP. O(1)."""
    if corpus.significant > 0.0 and link.significance <= _MOST:
        link.significance = pack_significance(0, _host_mean(corpus, host))


@bare_kernel
def learn_significance(link: Record, corpus: Record, host: Record, significance: float) -> None:
    """Learn from a change of a page, 0 to 1. O(1)."""
    corpus.significant = min(corpus.significant + 1.0, HOST_MEMORY)
    corpus.significance += (significance - corpus.significance) / corpus.significant
    host.significant = min(host.significant + 1.0, HOST_MEMORY)
    host.significance += (significance - host.significance) / host.significant
    changes = np.int64(link.significance) >> _MEAN_BITS
    expected = expected_significance(link) if changes else _host_mean(corpus, host)
    expected += (significance - expected) / (PAGE_STRENGTH + changes + 1.0)
    link.significance = pack_significance(changes + 1, expected)


@inlined_kernel
def _host_mean(corpus: Record, host: Record) -> float:
    """Return the mean significance of the changes of a host's pages, shrunk towards that of all pages."""
    known = HOST_STRENGTH + host.significant
    changed = HOST_STRENGTH * corpus.significance + host.significant * host.significance
    return float(min(changed / known, 1.0))
