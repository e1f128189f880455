"""New pages: a row, a host and a URL pattern for each URL that is not known yet, within the bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from streamsched.estimation.forgetting import narrow_shadows
from streamsched.estimation.hierarchical_prior import refresh_prior
from streamsched.estimation.seasonality.group_profiles import refresh_link, store_utc_offset
from streamsched.estimation.seasonality.profile_assignment import inherit_profile
from streamsched.numerics.jit import bare_kernel
from streamsched.records.dirty_tracking import mark_dirty_row
from streamsched.records.url_index import LOOKUP_CHUNK, NOT_FOUND, IndexArrays, append_page, find_row, resolve
from streamsched.records.url_patterns import assign_group, locate_host, renew_candidates
from streamsched.records.visit_journal import narrow_sample

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes, Ints, Record
    from streamsched.records.page_bounds import BoundLimits
    from streamsched.records.schema import ShardArrays

__all__ = ["NewUrl", "add_page", "add_pages"]


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
    assign_group(groups, shard.pages, corpus, shard.dirty, row, place, bounds.host_patterns)
    for group in range(known_groups, corpus.groups):
        inherit_profile(shard.seasonality, groups, group)
    refresh_prior(page, corpus, groups.records)
    refresh_link(shard.seasonality, row, page, corpus.sweep)
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
