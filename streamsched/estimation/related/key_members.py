"""Members of keys: which pages have a key in common.

A page joins its keys after it is added. The first page of a key is only remembered in a table of sightings, one place
for all keys with the same part of their hash; the newest stays. When a second page has the key, and the place still
holds the first, the key gets a record and both are its members. A key of more than `MOST_MEMBERS` pages has no members;
if it was a name, the name is common, and its pages join by a longer name.

All of it follows from the URLs in the order of their rows. It is not saved but rebuilt after loading. A key is known by
the upper half of its hash: in a shard of five million pages about one in a thousand joins a key that is not its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from streamsched.estimation.related.member_lists import append_row, clear_rows, list_rows, remove_row
from streamsched.numerics.compilation.machine_operations import prefetch, trailing_zeros
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.url_syntax import find_authority
from streamsched.records.dirty_tracking import mark_dirty_row
from streamsched.records.related.name_keys import (
    SAME_DIRECTORY,
    SAME_NAME,
    SAME_TOKEN,
    KeyHashes,
    NamePlace,
    find_name,
    hash_directory,
    hash_names,
)
from streamsched.records.related.related_schema import AS_KIND, KEY_BITS, MOST_MEMBERS, SHARE_BITS, RelatedArrays
from streamsched.records.seasonality_schema import KEY_KINDS

if TYPE_CHECKING:
    from streamsched.numerics.arrays import Record
    from streamsched.records.schema import ShardArrays

__all__ = ["AT_ONCE", "find_keys", "join_pages", "place_keys", "sighting_space"]

AT_ONCE: Final = 32  # pages whose keys are prefetched together
_FEWEST_SIGHTINGS: Final = 1 << 16
_SIGHTING_BITS: Final = 32


@bare_kernel
def sighting_space(pages: int) -> int:
    """Return the number of places for sightings at `pages` pages: a power of two, at least half of them. O(1)."""
    space = _FEWEST_SIGHTINGS
    while space < pages // 2:
        space *= 2
    return space


@bare_kernel
def join_pages(shard: ShardArrays, end: int) -> None:
    """Make the pages of the rows below `end` members of their keys, in order, but those that are. O(their URLs).

    `RelatedTables.make_room` must have made room.
    """
    state = shard.related.state[0]
    for first in range(state.joined, end, AT_ONCE):
        stop = min(first + AT_ONCE, end)
        _prefetch_keys(shard, first, stop)
        for row in range(first, stop):
            _join_page(shard, row, (row - first) * KEY_KINDS)
    state.joined = end


@inlined_kernel
def find_keys(shard: ShardArrays, row: int, kinds: int) -> None:
    """Write the numbers of the keys of the page of `row` to ``related.found``, -1 for those without a record. O(URL).

    `kinds`: 1 << kind for each kind wanted, not 0; the others are -1.
    """
    related = shard.related
    hashes = _key_hashes(shard, row) if kinds != 1 << SAME_DIRECTORY else _hash_page_directory(shard, row)
    for kind in range(KEY_KINDS):
        key = find_key(related, hashes[kind]) if kinds >> kind & 1 else -1
        related.found[kind] = key
        if key >= 0:
            prefetch(related.chances, key)


@bare_kernel
def place_keys(related: RelatedArrays) -> None:
    """Enter all keys into an empty index, `AT_ONCE` at a time, for their slots to be prefetched. O(keys)."""
    keys = int(related.state[0].keys)
    for first in range(0, keys, AT_ONCE):
        stop = min(first + AT_ONCE, keys)
        for key in range(first, stop):
            prefetch(related.slots, _slot_of(related, related.keys[key].tag))
        for key in range(first, stop):
            _place(related, key)


@inlined_kernel
def _slot_of(related: RelatedArrays, tag: int) -> int:
    """Return the slot from which a key is looked for. O(1)."""
    hash_ = mix(np.uint64(tag) ^ related.key[0])
    return int(np.int64(((hash_ >> np.uint64(32)) * np.uint64(related.slots.size)) >> np.uint64(32)))


@inlined_kernel
def find_key(related: RelatedArrays, hash_: int) -> int:
    """Return the number of the key with that hash, -1 if it has no record. O(1)."""
    slots = related.slots
    tag = np.uint32(hash_ >> np.uint64(32))
    at = _slot_of(related, tag)
    while slots[at] != 0:
        key = np.int64(slots[at]) - 1
        if related.keys[key].tag == tag:
            return int(key)
        at += 1
        if at == slots.size:
            at = 0
    return -1


@inlined_kernel
def _name_of(shard: ShardArrays, row: int) -> NamePlace:
    """Return the place of the name of the page of `row`. O(URL)."""
    span = shard.pages.traces[row].url_span
    start = np.int64(span >> np.uint64(16))
    stop = start + np.int64(span & np.uint64(0xFFFF))
    _, path, _ = find_authority(shard.pages.text, start, stop)
    return find_name(shard.pages.text, path, stop)


@inlined_kernel
def _host_of(shard: ShardArrays, row: int) -> Any:
    """Return the group of the host of the page of `row`, which is in a group. O(1)."""
    page: Record = shard.pages.records[row]
    group: Record = shard.groups.records[page.group]
    return np.int64(group.host)


@inlined_kernel
def _hash_page(shard: ShardArrays, row: int, is_common: bool) -> KeyHashes:
    """Return the hashes of the keys of the page of `row`; `is_common`: whether its name is. O(URL)."""
    return hash_names(shard.pages.text, _name_of(shard, row), _host_of(shard, row), is_common)


@inlined_kernel
def _hash_page_directory(shard: ShardArrays, row: int) -> KeyHashes:
    """Return the hash of the key of the directory of the page of `row`, which has a name, and 0 for the others."""
    none: Any = np.uint64(0)
    return none, none, hash_directory(shard.pages.text, _name_of(shard, row), _host_of(shard, row))


@bare_kernel
def _key_hashes(shard: ShardArrays, row: int) -> KeyHashes:
    """Return the hashes of the keys of the page of `row`, which is in a group. O(URL)."""
    related = shard.related
    hashes = _hash_page(shard, row, False)
    for kind in range(KEY_KINDS):
        prefetch(related.slots, _slot_of(related, hashes[kind] >> np.uint64(32)))
    key = find_key(related, hashes[SAME_NAME]) if hashes[SAME_NAME] != 0 else -1
    if key >= 0 and related.keys[key].members > MOST_MEMBERS:
        hashes = _hash_page(shard, row, True)
    return hashes


@bare_kernel
def _prefetch_keys(shard: ShardArrays, first: int, stop: int) -> None:
    """Write the hashes of the keys of new pages, by their last segments, to ``related.hashes``, and prefetch them."""
    related = shard.related
    for row in range(first, stop):
        hashes = _hash_page(shard, row, False)
        for kind in range(KEY_KINDS):
            related.hashes[(row - first) * KEY_KINDS + kind] = hashes[kind]
            prefetch(related.slots, _slot_of(related, hashes[kind] >> np.uint64(32)))
            prefetch(related.sightings, _sighting_place(related, hashes[kind]))
    rows = (np.int64(1) << _row_bits(related)) - 1
    for i in range((stop - first) * KEY_KINDS):
        hash_ = related.hashes[i]
        key = np.int64(related.slots[_slot_of(related, hash_ >> np.uint64(32))]) - 1
        if key >= 0:
            prefetch(related.keys, key)
        seen = np.int64(related.sightings[_sighting_place(related, hash_)])
        if seen and (seen ^ np.int64(hash_ & np.uint64(0xFFFFFFFF))) & ~rows == 0:
            prefetch(shard.pages.records, (seen & rows) - 1)
            prefetch(shard.pages.traces, (seen & rows) - 1)


@inlined_kernel
def _join_page(shard: ShardArrays, row: int, at: int) -> None:
    """Make the page of `row`, whose hashes begin at `at`, a member of its keys.

    O(1), O(members) if a key has too many.
    """
    related = shard.related
    if row > 2 * related.state[0].places:
        _grow_sightings(related)
    name = related.hashes[at + SAME_NAME]
    key = find_key(related, name) if name != 0 else -1
    if key >= 0 and related.keys[key].members >= MOST_MEMBERS:
        if related.keys[key].members == MOST_MEMBERS:
            _lengthen_names(shard, key)
        hashes = _hash_page(shard, row, True)
        for kind in range(KEY_KINDS):
            related.hashes[at + kind] = hashes[kind]
    for kind in range(KEY_KINDS):
        if related.hashes[at + kind] != 0:
            _join(shard, kind, related.hashes[at + kind], row)


@bare_kernel
def _lengthen_names(shard: ShardArrays, key: int) -> None:
    """Let the members of a name that becomes common join by their longer names. O(members)."""
    related = shard.related
    rows = related.work
    count = list_rows(related, key, rows)
    for i in range(count):
        link: Record = shard.seasonality.links[rows[i]]
        if link.related[SAME_TOKEN] & KEY_BITS:
            token = find_key(related, _hash_page(shard, rows[i], False)[SAME_TOKEN])
            related.keys[token].members -= 1
            remove_row(related, token, rows[i])
            _clear_member(shard, SAME_TOKEN, rows[i])
    _dissolve(shard, SAME_NAME, key)
    for i in range(count):
        hashes = _hash_page(shard, rows[i], True)
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
    if other < 0 or other == row or seen & ~rows != tag or not _open_shared(shard, kind, hash_, other, row):
        places[place] = tag | (row + 1)


@bare_kernel
def _open_shared(shard: ShardArrays, kind: int, hash_: int, other: int, row: int) -> bool:
    """Add a key of the pages of two rows, unless the `other` one does not have it; return whether it does. O(URL)."""
    if _key_hashes(shard, other)[kind] != hash_:
        return False
    related = shard.related
    state = related.state[0]
    key = int(state.keys)
    record: Record = related.keys[key]
    record.tag = hash_ >> np.uint64(32)
    _place(related, key)
    state.keys = key + 1
    _add_member(shard, kind, key, other)
    _add_member(shard, kind, key, row)
    return True


@inlined_kernel
def _place(related: RelatedArrays, key: int) -> None:
    """Enter a key into the index. O(1)."""
    slots = related.slots
    at = _slot_of(related, related.keys[key].tag)
    while slots[at] != 0:
        at += 1
        if at == slots.size:
            at = 0
    slots[at] = key + 1


@bare_kernel
def _add_member(shard: ShardArrays, kind: int, key: int, row: int) -> None:
    """Add a page to the members of a key. O(1)."""
    related = shard.related
    record: Record = related.keys[key]
    append_row(related, key, row)
    record.members += 1
    if kind == SAME_NAME and record.members == MOST_MEMBERS:
        related.state[0].full += 1
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    shard.seasonality.links[row].related[kind] |= AS_KIND


@inlined_kernel
def _clear_member(shard: ShardArrays, kind: int, row: int) -> None:
    """Let a page be a member of no key of a kind; a claim on it stays until its next visit. O(1)."""
    mark_dirty_row(shard.dirty, shard.pages, shard.seasonality, row)
    shard.seasonality.links[row].related[kind] &= SHARE_BITS


@bare_kernel
def _dissolve(shard: ShardArrays, kind: int, key: int) -> None:
    """Release the members of a key that has too many. O(members)."""
    related = shard.related
    rows = related.work[MOST_MEMBERS:]
    for i in range(list_rows(related, key, rows)):
        _clear_member(shard, kind, rows[i])
    clear_rows(related, key)
    related.keys[key].members = MOST_MEMBERS + 1
    if kind == SAME_NAME:
        related.state[0].full -= 1


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
