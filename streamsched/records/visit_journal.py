"""The visit journal: the visits of a uniform sample of pages, newest last, as training data for evolution.

Which pages are sampled depends on their rows alone, that is on the order in which they were first seen: those whose
row's hash is small. A hash of URLs would let anybody who chooses URLs fill the sample. The share is halved each time
the shard's pages double beyond `SAMPLE_PAGES`, so a larger shard has a sample of about `SAMPLE_PAGES` / 2 to
`SAMPLE_PAGES` pages; a page that leaves the sample never returns. The visits are kept in a ring buffer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.records.schema import ShardArrays

JOURNAL_VISITS: Final = 1 << 20  # a power of two; 16 MB, three weeks of daily visits to the whole sample
SAMPLE_PAGES: Final = 50_000  # enough to detect differences of 1 % between score functions; more slow evolution

# Bits of VISIT.flags.
SAW_CHANGE: Final = 1
WAS_FIRST: Final = 2  # the page's first visit, with nothing to compare with
NO_EVIDENCE: Final = 4  # nothing is known of a change since the visit before

_SAMPLE_SALT: Final = np.uint64(0x2545F4914F6CDD1D)  # arbitrary, but different from the salts of ties and slots
_ROWS_AT_ONCE: Final = 1 << 16  # rows hashed together
_WHOLE: Final = np.uint64((1 << 64) - 1)


@inlined_kernel
def narrow_sample(corpus: Record, pages: int) -> None:
    """Halve the sample if `pages` pages would make it too large. O(1)."""
    if pages > np.int64(SAMPLE_PAGES) << corpus.halvings:
        corpus.halvings += 1


@inlined_kernel
def record_visit(journal: Records, corpus: Record, row: int, at_s: float, flags: int) -> None:
    """Append a visit of the page of `row`, if it is sampled; it overwrites the oldest. O(1)."""
    if _hash_row(row) <= _WHOLE >> np.uint64(corpus.halvings):
        visit: Record = journal[corpus.journaled & (journal.size - 1)]
        visit.at_s = at_s
        visit.row = row
        visit.flags = flags
        corpus.journaled += 1


def sample_bar(corpus: Records) -> int:
    """Return the greatest sample hash that is in the sample. O(1)."""
    return int(_WHOLE) >> int(corpus["halvings"][0])


def sample_hashes(rows: Ints) -> Hashes:
    """Return the hashes by which the pages of `rows`: int64[m] are sampled: uint64[m]. O(m)."""
    hashes = np.empty(rows.size, np.uint64)
    _hash_rows(rows, hashes)
    return hashes


def find_sampled(start: int, stop: int, bar: int) -> Ints:
    """Return the rows from `start` up to `stop` with a sample hash of at most `bar`, ascending. O(rows)."""
    found = [np.empty(0, np.int64)]
    for first in range(start, stop, _ROWS_AT_ONCE):
        rows = np.arange(first, min(first + _ROWS_AT_ONCE, stop))
        found.append(rows[sample_hashes(rows) <= np.uint64(bar)])
    return np.concatenate(found)


def copy_sample(shard: ShardArrays, rows: Ints) -> ShardArrays:
    """Return a copy of the pages of ``rows``: int64[m] alone, with the journal, the priors and the profiles.

    O(m + v); milliseconds, because the lock is held meanwhile. The journal still has the rows of `shard`: see
    `number_sample`.
    """
    groups = shard.groups.records[: int(shard.corpus["groups"][0])].copy()
    corpus = shard.corpus.copy()
    corpus["pages"] = rows.size
    written = min(int(corpus["journaled"][0]), shard.journal.size)
    journal = shard.journal[:written].copy()
    seasonality = shard.seasonality
    seasonality = seasonality._replace(
        state=seasonality.state.copy(),
        profiles=seasonality.profiles[: int(seasonality.state["profiles"][0])].copy(),
        of_group=seasonality.of_group[: groups.size].copy(),
    )
    return shard._replace(
        pages=shard.pages._replace(records=shard.pages.records[rows]),
        groups=shard.groups._replace(records=groups),
        journal=journal,
        corpus=corpus,
        seasonality=seasonality,
    )


def number_sample(copied: ShardArrays, rows: Ints) -> ShardArrays:
    """Return what `copy_sample` returned for ``rows``: int64[m], ascending, with the copy's own rows in its journal.

    Visits to other pages are left out, and all pages of the copy are in its sample. O(v log m).
    """
    ring, journaled = copied.journal, int(copied.corpus["journaled"][0])
    if journaled > ring.size:
        ring = np.roll(ring, -(journaled % ring.size))  # the oldest first
    places = np.searchsorted(rows, ring["row"])
    known = places < rows.size
    known[known] = rows[places[known]] == ring["row"][known]
    ring = ring[known]
    ring["row"] = places[known]
    corpus = copied.corpus.copy()
    corpus["journaled"] = ring.size
    corpus["halvings"] = 0
    return copied._replace(journal=ring, corpus=corpus)


class Visits(NamedTuple):
    """Visits to sampled pages, sorted by page, then in their order, as columns of length v."""

    rows: Ints  # int64[v], ascending
    at_s: Floats  # UTC epoch seconds
    changed: Bools
    first: Bools
    unproven: Bools  # without evidence of a change or of none

    def proven(self) -> Visits:
        """Return the others: the interval before one without evidence is joined to the next. O(v)."""
        rows, at_s, changed, first, unproven = self
        told = ~unproven
        return Visits(rows[told], at_s[told], changed[told], first[told], unproven[told])


def read_visits(journal: Records, corpus: Records) -> Visits:
    """Return the journal's visits to pages that are still in the sample. O(pages + v log v)."""
    journaled = int(corpus["journaled"][0])
    ring = journal[:journaled]
    if journaled > ring.size:
        ring = np.roll(ring, -(journaled % ring.size))  # the oldest first
    sampled = np.zeros(int(corpus["pages"][0]), np.bool_)
    sampled[find_sampled(0, sampled.size, sample_bar(corpus))] = True
    ring = ring[sampled[ring["row"]]]
    ring = ring[np.argsort(ring["row"], kind="stable")]
    flags = ring["flags"]
    said = [(flags & bit) != 0 for bit in (SAW_CHANGE, WAS_FIRST, NO_EVIDENCE)]
    return Visits(ring["row"].astype(np.int64), ring["at_s"].copy(), *said)


@bare_kernel
def _hash_rows(rows: Ints, out: Hashes) -> None:
    for i in range(rows.size):
        out[i] = _hash_row(rows[i])


@inlined_kernel
def _hash_row(row: int) -> np.uint64:
    """Return the hash by which the page of `row` is sampled. O(1)."""
    return mix(mix(np.uint64(row) ^ _SAMPLE_SALT))  # twice: rows are small numbers
