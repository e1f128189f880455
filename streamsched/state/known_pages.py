"""How pages become known and are forgotten.

A URL that is not known gets a row, a host and a URL pattern, within the bounds. The row of a page that is forgotten
stays, empty, and nothing finds, ranks or counts it any more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.estimation.content import refresh_significance
from streamsched.estimation.forgetting import narrow_shadows
from streamsched.estimation.hierarchical_prior import refresh_prior
from streamsched.estimation.seasonality.group_profiles import inherit_profile, refresh_link, store_utc_offset
from streamsched.formula.terminal_table import OWN
from streamsched.numerics.arrays import Bytes, Ints, Record, Records
from streamsched.numerics.jit import bare_kernel
from streamsched.records.dirty_tracking import mark_dirty_group, mark_dirty_row, mark_dirty_rows
from streamsched.records.group_schema import GroupArrays
from streamsched.records.page_schema import FORGOTTEN, VISITED, BoundLimits
from streamsched.records.registrable_domains import count_pages
from streamsched.records.related_schema import KEY_BITS
from streamsched.records.schema import DirtyArrays, ShardArrays
from streamsched.records.url_index import LOOKUP_CHUNK, NOT_FOUND, IndexArrays, append_page, find_row, resolve
from streamsched.records.url_patterns import assign_group, keep_text, locate_host, remove_member, renew_candidates
from streamsched.records.validators import drop_validators
from streamsched.records.visit_journal import narrow_sample

_EMPTY_PAGE: Final = {
    "last_visit_s": 0.0,
    "own_shape": 0.0,
    "own_exposure": 0.0,
    "visits": 0,
    "changes": 0,
    "failures": 0,
    "gone": 0,
    "flags": VISITED,  # or quotas would look for it among the pages never visited
    "rule": FORGOTTEN,
    **{name: own.default for name, own in OWN.items() if own.records == "pages"},
}
_EMPTY_TRACE: Final = {
    "last_outcome_s": 0.0,
    "last_attempt_s": 0.0,
    "fingerprint": 0,
    "history": 0,
    "weighted_changes": 0.0,
    **{name: own.default for name, own in OWN.items() if own.records == "traces"},
}


class NewUrl(NamedTuple):
    """A URL as bytes ``blob[start:stop]`` with its keyed hash."""

    blob: Bytes
    start: int
    stop: int
    hash_: int


@bare_kernel
def add_page(shard: ShardArrays, index: IndexArrays, url: NewUrl, known_since_s: float, bounds: BoundLimits) -> int:
    """Return the row of a URL: a new one, known since `known_since_s`, unless it was added since it was looked up.

    NOT_FOUND if it is unknown and a bound refuses it; refusals are counted. The arrays must have room. The page is a
    member of its keys after `join_pages`. O(URL).
    """
    row = find_row(shard.pages, index, url.hash_, url.blob, url.start, url.stop)
    if row >= 0:
        return row
    corpus: Record = shard.corpus[0]
    groups = shard.groups
    place = locate_host(groups, url.blob, url.start, url.stop)
    if corpus.pages >= bounds.pages or (
        place.group >= 0 and groups.records[place.group].host_pages >= bounds.host_pages
    ):
        corpus.refused_pages += 1
        return NOT_FOUND
    row = append_page(shard.pages, corpus, index, url.hash_, url.blob, url.start, url.stop)
    page: Record = shard.pages.records[row]
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    page.last_visit_s = known_since_s
    renew_candidates(groups.candidates, row + 1)
    narrow_sample(corpus, row + 1)
    narrow_shadows(shard.shadows, corpus, row + 1)
    known_groups = int(corpus.groups)
    blob, start, stop = url.blob, url.start, url.stop
    assign_group(groups, shard.pages, corpus, shard.dirty, row, blob, start, stop, place, bounds.host_patterns)
    keep_text(shard.pages, groups, corpus, row, blob, start, stop)
    for group in range(known_groups, corpus.groups):
        inherit_profile(shard.seasonality, groups, group)
    refresh_prior(page, corpus, groups.records)
    refresh_link(shard.seasonality, row, page, corpus.sweep)
    deepest: Record = groups.records[page.group]
    refresh_significance(shard.seasonality.links[row], corpus, groups.records[deepest.host])
    store_utc_offset(shard.seasonality, row, known_since_s)
    return row


@bare_kernel
def add_pages(
    shard: ShardArrays, index: IndexArrays, blob: Bytes, offsets: Ints, known_since_s: float, bounds: BoundLimits
) -> None:
    """Add the unknown ones of the URLs, in order, as known since `known_since_s`. O(URL) each."""
    for start in range(0, offsets.size - 1, LOOKUP_CHUNK):
        rows = index.rows[: min(LOOKUP_CHUNK, offsets.size - 1 - start)]
        ends = offsets[start : start + rows.size + 1]
        resolve(shard.pages, index, blob, ends, rows)
        for i in range(rows.size):
            if rows[i] < 0:
                url = NewUrl(blob, ends[i], ends[i + 1], index.hashes[i])
                add_page(shard, index, url, known_since_s, bounds)


def forget_rows(shard: ShardArrays, rows: Ints) -> None:
    """Erase the pages of ``rows``: int64[m], known ones without leases, each once. O(m).

    What stays is the text of the URL, which other URLs may share and by which keys of related pages are rebuilt after
    loading, the visits in the journal until they are overwritten, and what the pages taught about their groups.
    """
    mark_dirty_rows(shard.dirty, shard.pages, shard.seasonality, rows)
    _leave_groups(shard.pages.records, shard.groups, shard.dirty, rows)
    count_pages(shard.groups, shard.corpus, shard.pages.records["group"][rows].astype(np.int64), -1)
    for name, value in _EMPTY_PAGE.items():
        shard.pages.records[name][rows] = value
    for name, value in _EMPTY_TRACE.items():
        shard.pages.traces[name][rows] = value
    shard.pages.lease_until_s[rows] = -np.inf
    if shard.pages.signals.size:
        shard.pages.signals[rows] = np.zeros((), shard.pages.signals.dtype)
    shard.pages.contents[rows[rows < shard.pages.contents.size]] = 0
    if shard.validators.state["pages"][0]:
        drop_validators(shard.pages.validators, shard.pages.validator_texts, shard.validators, rows)
    links, schedules = shard.seasonality.links, shard.seasonality.schedules
    links["related"][rows] &= KEY_BITS
    own = links["schedule"][rows]
    schedules[own[own > 0]] = np.zeros((), schedules.dtype)
    stride = int(shard.corpus["shadow_stride"][0])
    shard.shadows[rows[rows % stride == 0] // stride] = np.zeros((), shard.shadows.dtype)


@bare_kernel
def _leave_groups(pages: Records, groups: GroupArrays, dirty: DirtyArrays, rows: Ints) -> None:
    """Remove pages from the lists and the counts of their groups and hosts."""
    for i in range(rows.size):
        page: Record = pages[rows[i]]
        number = np.int64(page.group)
        group: Record = groups.records[number]
        mark_dirty_group(dirty, groups.records, number)
        mark_dirty_group(dirty, groups.records, np.int64(group.host))
        remove_member(groups, number, rows[i])
        group.pages -= np.uint32(1)
        host: Record = groups.records[group.host]
        host.host_pages -= np.uint32(1)
        if page.last_visit_s < group.open_s:
            group.open_unvisited -= min(group.open_unvisited, np.uint32(1))
        if page.last_visit_s < group.kept_s:
            group.kept_unvisited -= min(group.kept_unvisited, np.uint32(1))
