"""Members of keys: which pages have a key in common.

A page joins its keys when it is added. The first page of a key is only remembered in a table of sightings, one place
for all keys with the same part of their hash; the newest stays. When a second page has the key, and the place still
holds the first, the key gets a record and both are its members. A key of more than `MOST_MEMBERS` pages has no members;
if it was a name, the name is common, and its pages join by a longer name.

All of it follows from the URLs in the order of their rows. It is not saved but rebuilt after loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from streamsched.numerics.compilation.machine_operations import prefetch, trailing_zeros
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.url_syntax import find_authority
from streamsched.records.dirty_tracking import mark_dirty_row
from streamsched.records.related.name_keys import SAME_NAME, SAME_TOKEN, KeyHashes, find_name, hash_name, hash_names
from streamsched.records.related.related_schema import MEMBER_BIT, MOST_MEMBERS, SHARE_BITS, RelatedArrays
from streamsched.records.seasonality_schema import KEY_KINDS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Bytes, Record
    from streamsched.records.schema import ShardArrays

__all__ = ["NewKeys", "find_key", "join_keys", "place_keys", "prepare_keys", "rejoin_keys", "sighting_space"]

_FEWEST_SIGHTINGS: Final = 1 << 16
_SIGHTING_BITS: Final = 32


class NewKeys(NamedTuple):
    """The keys of a page that is being added: their hashes, and the name that has too many pages with it, -1: none."""

    hashes: KeyHashes
    filled: int


@bare_kernel
def sighting_space(pages: int) -> int:
    """Return the number of places for sightings at `pages` pages: a power of two, at least half of them. O(1)."""
    space = _FEWEST_SIGHTINGS
    while space < pages // 2:
        space *= 2
    return space


@inlined_kernel
def prepare_keys(related: RelatedArrays, text: Bytes, path: int, stop: int, host: int) -> NewKeys:
    """Return the keys of a URL that `join_keys` is called for next, and prefetch what it needs. O(path).

    `path`, `stop`: where the URL's host and the URL end; `host`: the host's group.
    """
    place = find_name(text, path, stop)
    is_common, filled = False, -1
    if place.name < place.end:
        key = find_key(related, hash_name(text, place, host))
        is_common = key >= 0 and related.keys[key].members >= MOST_MEMBERS
        if is_common and related.keys[key].members == MOST_MEMBERS:
            filled = key
    hashes = hash_names(text, place, host, is_common)
    mask = np.uint64(related.slots.size - 1)
    for kind in range(KEY_KINDS):
        if hashes[kind] != 0:
            prefetch(related.slots, np.int64(mix(hashes[kind] ^ related.key[0]) & mask))
            prefetch(related.sightings, _sighting_place(related, hashes[kind]))
    return NewKeys(hashes, filled)


@inlined_kernel
def join_keys(shard: ShardArrays, row: int, new: NewKeys) -> None:
    """Make the new page of `row`, the last one, a member of its keys. O(1), O(members) if a key has too many.

    There must be room for three more keys.
    """
    # What every page does is inlined: a call copies the addresses of all arrays, as much as it has to do.
    if row > 2 * shard.related.state[0].places:
        _grow_sightings(shard.related)
    if new.filled >= 0:
        _lengthen_names(shard, new.filled)
    for kind in range(KEY_KINDS):
        if new.hashes[kind] != 0:
            _join(shard, kind, new.hashes[kind], row)


@bare_kernel
def rejoin_keys(shard: ShardArrays, start: int, stop: int) -> None:
    """Make the pages of the rows from `start` up to `stop` members of their keys again. O(their URLs).

    Call it for all rows, in their order, on tables without members; the chances of keys are kept.
    """
    for row in range(start, stop):
        path, end, host = _path_of(shard, row)
        join_keys(shard, row, prepare_keys(shard.related, shard.pages.text, path, end, host))


@bare_kernel
def place_keys(related: RelatedArrays) -> None:
    """Enter all keys into an empty index. O(keys)."""
    for key in range(related.state[0].keys):
        _place(related, key)


@inlined_kernel
def find_key(related: RelatedArrays, hash_: int) -> int:
    """Return the number of the key with that hash, -1 if it has no record. O(1)."""
    slots = related.slots
    mask = np.uint64(slots.size - 1)
    position = mix(hash_ ^ related.key[0]) & mask
    while slots[position] != 0:
        key = np.int64(slots[position]) - 1
        if related.keys[key].hash == hash_:
            return int(key)
        position = (position + np.uint64(1)) & mask
    return -1


@inlined_kernel
def _path_of(shard: ShardArrays, row: int) -> tuple[int, Any, Any]:
    """Return where the path of the page of `row` begins and its URL ends, and its host's group. O(URL)."""
    page: Record = shard.pages.records[row]
    group: Record = shard.groups.records[page.group]
    span = shard.pages.traces[row].url_span
    start = np.int64(span >> np.uint64(16))
    stop = start + np.int64(span & np.uint64(0xFFFF))
    _, path, _ = find_authority(shard.pages.text, start, stop)
    return path, stop, np.int64(group.host)


@bare_kernel
def _key_hashes(shard: ShardArrays, row: int) -> KeyHashes:
    """Return the hashes of the keys of the page of `row`, which is in a group. O(URL)."""
    text, related = shard.pages.text, shard.related
    path, stop, host = _path_of(shard, row)
    place = find_name(text, path, stop)
    is_common = False
    if place.name < place.end:
        key = find_key(related, hash_name(text, place, host))
        is_common = key >= 0 and related.keys[key].members > MOST_MEMBERS
    return hash_names(text, place, host, is_common)


@bare_kernel
def _lengthen_names(shard: ShardArrays, key: int) -> None:
    """Let the members of a name that becomes common join by their longer names. O(members)."""
    related = shard.related
    rows = related.work
    at: Any = np.int64(related.keys[key].first)
    for i in range(MOST_MEMBERS):
        rows[i] = at - 1
        at = np.int64(related.members[at - 1].after[SAME_NAME])
    for i in range(MOST_MEMBERS):
        if shard.seasonality.links[rows[i]].related[SAME_TOKEN] & MEMBER_BIT:
            _leave(shard, SAME_TOKEN, rows[i])
    _dissolve(shard, SAME_NAME, key)
    for i in range(MOST_MEMBERS):
        hashes = _key_hashes(shard, rows[i])
        for kind in (SAME_NAME, SAME_TOKEN):
            if hashes[kind] != 0:
                _join(shard, kind, hashes[kind], rows[i])


@inlined_kernel
def _sighting_place(related: RelatedArrays, hash_: int) -> int:
    """Return the place where the newest page with a key of that hash is remembered. O(1)."""
    return int(((hash_ >> np.uint64(32)) * np.uint64(related.state[0].places)) >> np.uint64(32))


@inlined_kernel
def _row_bits(related: RelatedArrays) -> int:
    """Return the bits of a sighting that hold the row plus 1; the others are those of the key's hash. O(1)."""
    return min(trailing_zeros(np.uint64(related.state[0].places)) + 2, _SIGHTING_BITS)


@inlined_kernel
def _join(shard: ShardArrays, kind: int, hash_: int, row: int) -> None:
    """Make a page a member of its key of one kind, or remember it as the key's newest page."""
    related = shard.related
    key = find_key(related, hash_)
    if key >= 0:
        record: Record = related.keys[key]
        if record.members < MOST_MEMBERS:
            _add_member(shard, kind, key, row)
        elif record.members == MOST_MEMBERS:
            _dissolve(shard, kind, key)
        return
    places = related.sightings
    place = _sighting_place(related, hash_)
    rows = (np.int64(1) << _row_bits(related)) - 1
    tag = np.int64(hash_ & np.uint64(0xFFFFFFFF)) & ~rows
    seen = np.int64(places[place])
    other = (seen & rows) - 1
    may_share = other >= 0 and seen & ~rows == tag and other != row
    if not (may_share and _open_shared(shard, kind, hash_, other, row)):
        places[place] = tag | (row + 1)


@bare_kernel
def _open_shared(shard: ShardArrays, kind: int, hash_: int, other: int, row: int) -> bool:
    """Add a key of the pages of two rows, unless the `other` one does not have it; return whether it does. O(URL)."""
    if _key_hashes(shard, other)[kind] != hash_:
        return False
    key = _open_key(shard.related, hash_)
    _add_member(shard, kind, key, other)
    _add_member(shard, kind, key, row)
    return True


@inlined_kernel
def _open_key(related: RelatedArrays, hash_: int) -> int:
    """Add a key without members; return its number."""
    state = related.state[0]
    key = int(state.keys)
    record: Record = related.keys[key]
    record.hash = hash_
    record.first = record.members = 0
    _place(related, key)
    state.keys = key + 1
    return key


@inlined_kernel
def _place(related: RelatedArrays, key: int) -> None:
    """Enter a key into the index. O(1)."""
    slots = related.slots
    mask = np.uint64(slots.size - 1)
    position = mix(related.keys[key].hash ^ related.key[0]) & mask
    while slots[position] != 0:
        position = (position + np.uint64(1)) & mask
    slots[position] = key + 1


@bare_kernel
def _add_member(shard: ShardArrays, kind: int, key: int, row: int) -> None:
    """Add a page to the members of a key. O(1)."""
    related = shard.related
    record: Record = related.keys[key]
    member: Record = related.members[row]
    member.key[kind] = key + 1
    member.after[kind] = record.first
    record.first = row + 1
    record.members += 1
    related.state[0].linked = max(related.state[0].linked, row + 1)
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    shard.seasonality.links[row].related[kind] |= MEMBER_BIT


@bare_kernel
def _leave(shard: ShardArrays, kind: int, row: int) -> None:
    """Let a member leave its key of one kind. O(members)."""
    members = shard.related.members
    record: Record = shard.related.keys[np.int64(members[row].key[kind]) - 1]
    before, at = np.int64(0), np.int64(record.first)
    while at != row + 1:
        before, at = at, np.int64(members[at - 1].after[kind])
    if before:
        members[before - 1].after[kind] = members[row].after[kind]
    else:
        record.first = members[row].after[kind]
    record.members -= 1
    members[row].key[kind] = members[row].after[kind] = 0
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    shard.seasonality.links[row].related[kind] &= SHARE_BITS


@bare_kernel
def _dissolve(shard: ShardArrays, kind: int, key: int) -> None:
    """Release the members of a key that has too many; claims on them stay until their next visits. O(members)."""
    related = shard.related
    record: Record = related.keys[key]
    at = np.int64(record.first)
    while at:
        row = at - 1
        mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
        shard.seasonality.links[row].related[kind] &= SHARE_BITS
        at = np.int64(related.members[row].after[kind])
        related.members[row].after[kind] = 0
    record.first = 0
    record.members = MOST_MEMBERS + 1


@bare_kernel
def _grow_sightings(related: RelatedArrays) -> None:
    """Give each place two: a page stays where its keys are looked for. O(table)."""
    before = related.state[0].places
    places = related.sightings
    row_bits = _row_bits(related)
    related.state[0].places = 2 * before
    freed = (np.int64(1) << _row_bits(related)) - (np.int64(1) << row_bits)  # of the hash, for larger rows
    for place in range(before - 1, -1, -1):
        seen = np.int64(places[place]) & ~freed
        places[2 * place + 1] = seen
        places[2 * place] = seen
