"""Members of keys: which pages have a key in common.

A page joins its keys when it is added. The first page of a key is only remembered in a table of sightings, one place
for all keys with the same part of their hash; the newest stays. When a second page has the key, and the place still
holds the first, the key gets a record and both are its members. A key of more than `MOST_MEMBERS` pages has no members;
if it was a name, the name is common, and its pages join by a longer name.

All of it follows from the URLs in the order of their rows. It is not saved but rebuilt after loading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.records.dirty_tracking import mark_dirty_row
from streamsched.records.related.name_keys import SAME_NAME, SAME_TOKEN, KeyHashes, page_names
from streamsched.records.related.related_schema import MEMBER_BIT, MOST_MEMBERS, SHARE_BITS, RelatedArrays
from streamsched.records.seasonality_schema import KEY_KINDS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record
    from streamsched.records.schema import ShardArrays

__all__ = ["find_key", "join_keys", "key_hashes", "place_keys", "rejoin_keys", "sighting_space"]

_FEWEST_SIGHTINGS: Final = 1 << 16
_ROW_BITS: Final = 27  # of a sighting; the others hold a part of the hash, so that few pages are compared in vain
_ROWS: Final = (1 << _ROW_BITS) - 1


@bare_kernel
def sighting_space(pages: int) -> int:
    """Return the number of places for sightings at `pages` pages: a power of two, at least half of them. O(1)."""
    space = _FEWEST_SIGHTINGS
    while space < pages // 2:
        space *= 2
    return space


@bare_kernel
def join_keys(shard: ShardArrays, row: int) -> None:
    """Make the new page of `row`, the last one, a member of its keys. O(URL), O(members) if a key has too many.

    There must be room for three more nodes and keys.
    """
    related, last = shard.related, row
    _grow_sightings(related, row + 1)
    hashes = key_hashes(shard, row)
    key = find_key(related, hashes[SAME_NAME])
    if key >= 0 and related.keys[key].members == MOST_MEMBERS:
        _lengthen_names(shard, key, last)
        hashes = key_hashes(shard, row)
    for kind in range(KEY_KINDS):
        if hashes[kind] != 0:
            _join(shard, kind, hashes[kind], row, last)


@bare_kernel
def key_hashes(shard: ShardArrays, row: int) -> KeyHashes:
    """Return the hashes of the keys of the page of `row`, which is in a group. O(URL)."""
    pages, groups, related = shard.pages, shard.groups.records, shard.related
    hashes = page_names(pages, groups, row, False)
    key = find_key(related, hashes[SAME_NAME])
    if key >= 0 and related.keys[key].members > MOST_MEMBERS:
        return page_names(pages, groups, row, True)
    return hashes


@bare_kernel
def rejoin_keys(shard: ShardArrays, start: int, stop: int) -> None:
    """Make the pages of the rows from `start` up to `stop` members of their keys again. O(their URLs).

    Call it for all rows, in their order, on tables without members; the chances of keys are kept.
    """
    for row in range(start, stop):
        join_keys(shard, row)


@bare_kernel
def place_keys(related: RelatedArrays) -> None:
    """Enter all keys into an empty index. O(keys)."""
    for key in range(related.state[0].keys):
        _place(related, key)


@bare_kernel
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


@bare_kernel
def _lengthen_names(shard: ShardArrays, key: int, last: int) -> None:
    """Let the members of a name that becomes common join by their longer names. O(members). `last`: the last row."""
    related = shard.related
    rows = related.work
    at = np.int64(related.keys[key].first)
    for i in range(MOST_MEMBERS):
        rows[i] = related.nodes[at - 1].row
        at = np.int64(related.nodes[at - 1].after)
    for i in range(MOST_MEMBERS):
        if shard.seasonality.links[rows[i]].related[SAME_TOKEN] & MEMBER_BIT:
            _leave(shard, SAME_TOKEN, find_key(related, key_hashes(shard, rows[i])[SAME_TOKEN]), rows[i])
    _dissolve(shard, SAME_NAME, key)
    for i in range(MOST_MEMBERS):
        hashes = key_hashes(shard, rows[i])
        for kind in (SAME_NAME, SAME_TOKEN):
            if hashes[kind] != 0:
                _join(shard, kind, hashes[kind], rows[i], last)


@bare_kernel
def _join(shard: ShardArrays, kind: int, hash_: int, row: int, last: int) -> None:
    """Make a page a member of its key of one kind, or remember it as the key's newest page; `last`: the last row."""
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
    space = np.uint64(sighting_space(last + 1))
    place = np.int64(((hash_ >> np.uint64(32)) * space) >> np.uint64(32))
    tag = np.int64(hash_ & np.uint64(31)) << _ROW_BITS
    seen = np.int64(places[place])
    other = (seen & _ROWS) - 1
    if other >= 0 and seen - other - 1 == tag and other != row and key_hashes(shard, other)[kind] == hash_:
        key = _open_key(related, hash_)
        _add_member(shard, kind, key, other)
        _add_member(shard, kind, key, row)
    elif row < _ROWS:
        places[place] = tag + row + 1


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


@inlined_kernel
def _add_member(shard: ShardArrays, kind: int, key: int, row: int) -> None:
    related = shard.related
    state = related.state[0]
    if state.free:
        node = np.int64(state.free) - 1
        state.free = related.nodes[node].after
    else:
        node = np.int64(state.nodes)
        state.nodes = node + 1
    record: Record = related.keys[key]
    related.nodes[node].row = row
    related.nodes[node].after = record.first
    record.first = node + 1
    record.members += 1
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    shard.seasonality.links[row].related[kind] |= MEMBER_BIT


@bare_kernel
def _leave(shard: ShardArrays, kind: int, key: int, row: int) -> None:
    """Let a member leave a key. O(members)."""
    related = shard.related
    record: Record = related.keys[key]
    before, at = np.int64(0), np.int64(record.first)
    while np.int64(related.nodes[at - 1].row) != row:
        before, at = at, np.int64(related.nodes[at - 1].after)
    if before:
        related.nodes[before - 1].after = related.nodes[at - 1].after
    else:
        record.first = related.nodes[at - 1].after
    record.members -= 1
    _release(related, at, at)
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    shard.seasonality.links[row].related[kind] &= SHARE_BITS


@inlined_kernel
def _release(related: RelatedArrays, first: int, last: int) -> None:
    """Add the nodes of a list to the free ones. O(1)."""
    state = related.state[0]
    related.nodes[last - 1].after = state.free
    state.free = first


@bare_kernel
def _dissolve(shard: ShardArrays, kind: int, key: int) -> None:
    """Release the members of a key that has too many; claims on them stay until their next visits. O(members)."""
    related = shard.related
    record: Record = related.keys[key]
    at, last = np.int64(record.first), np.int64(0)
    while at:
        node: Record = related.nodes[at - 1]
        row = np.int64(node.row)
        mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
        shard.seasonality.links[row].related[kind] &= SHARE_BITS
        at, last = np.int64(node.after), at
    _release(related, np.int64(record.first), last)
    record.first = 0
    record.members = MOST_MEMBERS + 1


@inlined_kernel
def _grow_sightings(related: RelatedArrays, pages: int) -> None:
    """Give each place two, if page number `pages` makes the table grow: a page stays where its keys are looked for."""
    before = sighting_space(pages - 1)
    if sighting_space(pages) > before:
        places = related.sightings
        for place in range(before - 1, -1, -1):
            places[2 * place + 1] = places[place]
            places[2 * place] = places[place]
