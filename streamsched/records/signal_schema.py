"""Records of change signals: of pages (`SIGNAL`, 28 bytes), and of their sources.

A source is a kind, such as ``"sitemap"``, on one host. Pages have records only once a shard has taken a signal, and all
zeros mean that no source has ever said anything of a page.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Records

MOST_KINDS: Final = 8  # of sources in a shard: SIGNAL has a bit for each

SIGNAL: Final = np.dtype(
    [
        (
            "echoes",
            "<f4",
        ),  # announcements expected of changes that the last visit has seen, of each kind not in `kinds`
        ("first_after_s", "<f4"),  # seconds from the last visit to the first signal since; 0 before it
        ("last_after_s", "<f4"),  # ... to the latest signal since; 0 before the first
        ("signalled", "<u2"),  # probability that a signal since the last visit is true, see `page_signals`
        ("quiet", "u1"),  # share of changes that the best source leaves out, see `page_signals`; 0: no source
        ("lateness", "u1"),  # mean lateness of that source, see `page_signals`
        ("covered", "u1"),  # bits of the kinds that had announced a change of the page by its last visit
        ("kinds", "u1"),  # bits of the kinds that have since
        ("lead", "u1"),  # the kind whose signals say most of them
        ("latest", "u1"),  # bits of the kinds whose signals are as new as the latest one
        ("counts", "u1", MOST_KINDS),  # signals of each kind since the last visit, at most 255
    ]
)

# Positions in the evidence of a source, which fades, and of a kind: the sum over its sources.
RESOLVED: Final = 0  # signals whose pages were visited after them
TRUE: Final = 1  # ... those of them that were true
DAYS: Final = 2  # days of pages in which these signals could come
ANNOUNCED: Final = 3  # changes seen that a signal announced, before the visit or after it
CHANGES: Final = 4  # changes seen of pages that the source covers
LATENESS: Final = 5  # sum of delays in days, see `belief.promptness`
LATE: Final = 6  # weights in that sum
NOTED: Final = 7  # signals, as they arrive
PAGE_DAYS: Final = 8  # days of all pages of the host since the first signal
EVIDENCE: Final = 9

SIGNAL_SOURCE: Final = np.dtype(
    [
        ("host", "<u4"),  # number of its group
        ("next", "<u4"),  # number plus 1 of another source of the host; 0: none
        ("pages", "<u4"),  # pages that it has announced changes of
        ("kind", "u1"),
        ("spare", "u1", 3),
        ("signals", "<i8"),  # applied
        ("seen_s", "<f8"),  # up to when PAGE_DAYS are counted
        ("evidence", "<f8", EVIDENCE),
    ]
)
SIGNAL_KIND: Final = np.dtype([("evidence", "<f8", EVIDENCE)])
SIGNAL_STATE: Final = np.dtype(
    [
        ("kinds", "<i8"),  # kinds in use
        ("sources", "<i8"),  # sources in use
    ]
)


class SignalArrays(NamedTuple):
    """The arrays of sources; ``state[0]`` counts what is in use. What signals say of pages is in `PageArrays`."""

    sources: Records  # SIGNAL_SOURCE[m]; the first of a host is in GROUP.source
    kinds: Records  # SIGNAL_KIND[MOST_KINDS]
    state: Records  # SIGNAL_STATE[1]
