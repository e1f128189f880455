"""Members of keys: which pages have a key in common.

A page joins its keys after it is added. The first page of a key is only remembered in a table of sightings, one place
for all keys with the same part of their hash; the newest stays. When a second page has the key, and the place still
holds the first, the key gets a record and both are its members. A key of more than `MOST_MEMBERS` pages has no members;
if it was a name, the name is common, and its pages join by a longer name.

The rows of members are packed: rows next to each other take one byte each, others up to five. A key's record holds its
newest members: the first of them, and the steps from each to the next. A step is the difference of two rows, its sign
in the lowest bit, in bytes of 7 bits, the lowest first; bit 7 is set if another byte follows. No step is 0, so a 0 ends
them. When the steps have no room for another, the rows move to a record of their own, which follows the key's.

All of it follows from the URLs in the order of their rows. It is not saved but rebuilt after loading. A key is known by
the upper half of its hash: in a shard of five million pages about one in a thousand joins a key that is not its own.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from streamsched.numerics.arrays import Ints, Record
from streamsched.numerics.compilation.machine_operations import prefetch, trailing_zeros
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.url_syntax import find_authority
from streamsched.records.dirty_tracking import mark_adjusted_row
from streamsched.records.related_schema import (
    AS_KIND,
    KEY_BITS,
    MOST_MEMBERS,
    ROW_STEPS,
    SAME_DIRECTORY,
    SAME_NAME,
    SAME_TOKEN,
    SHARE_BITS,
    KeyHashes,
    NamePlace,
    RelatedArrays,
    find_name,
    hash_directory,
    hash_names,
)
from streamsched.records.schema import ShardArrays
from streamsched.records.seasonality_schema import KEY_KINDS
from streamsched.records.url_store import read_url

_BITS: Final = 7  # of a step in a byte
_MORE: Final = 1 << _BITS
AT_ONCE: Final = 32  # pages whose keys are prefetched together
_FEWEST_SIGHTINGS: Final = 1 << 16
_SIGHTING_BITS: Final = 32


@bare_kernel
def list_rows(related: RelatedArrays, key: int, out: Ints) -> int:
    """Write the rows of a key's members to ``out``: int64[MOST_MEMBERS], the newest first; return their number.

    O(members).
    """
    record: Record = related.keys[key]
    count = _unpack(record, out, 0)
    after = np.int64(record.after)
    while after:
        rows: Record = related.lists[after - 1]
        count = _unpack(rows, out, count)
        after = np.int64(rows.after)
    return count


@bare_kernel
def append_row(related: RelatedArrays, key: int, row: int) -> None:
    """Add a row to the members of a key. O(1). There must be room for one more record of rows."""
    record: Record = related.keys[key]
    last = np.int64(record.row)
    if last == 0:
        record.row = row + 1
        return
    at = 0
    while at < ROW_STEPS and record.steps[at] != 0:
        step, at = _read_step(record, at)
        last += step
    difference = row + 1 - last
    left = 2 * abs(difference) + (difference < 0)
    if at + _step_size(left) > ROW_STEPS:
        _move_rows(related, record)
        record.row = row + 1
        return
    while left >= _MORE:
        record.steps[at] = _MORE | (left & (_MORE - 1))
        left >>= _BITS
        at += 1
    record.steps[at] = left


@bare_kernel
def remove_row(related: RelatedArrays, key: int, row: int) -> None:
    """Remove a row from the members of a key. O(members)."""
    rows = related.work[MOST_MEMBERS:]
    count = list_rows(related, key, rows)
    clear_rows(related, key)
    for i in range(count - 1, -1, -1):
        if rows[i] != row:
            append_row(related, key, rows[i])


@bare_kernel
def clear_rows(related: RelatedArrays, key: int) -> None:
    """Remove all rows from the members of a key. O(members)."""
    state, record = related.state[0], related.keys[key]
    after = np.int64(record.after)
    while after:
        rows: Record = related.lists[after - 1]
        following = np.int64(rows.after)
        rows.after = state.free
        state.free = after
        after = following
    record.row = record.after = 0
    for i in range(ROW_STEPS):
        record.steps[i] = 0


@inlined_kernel
def _unpack(rows: Record, out: Ints, count: int) -> int:
    """Write the rows of one record to `out` from `count` on, the last one first; return their end. O(rows)."""
    row = np.int64(rows.row)
    if row == 0:
        return count
    out[count] = row - 1
    end = count + 1
    at = 0
    while at < ROW_STEPS and rows.steps[at] != 0:
        step, at = _read_step(rows, at)
        row += step
        out[end] = row - 1
        end += 1
    for i in range((end - count) // 2):
        out[count + i], out[end - 1 - i] = out[end - 1 - i], out[count + i]
    return end


@inlined_kernel
def _read_step(rows: Record, at: int) -> tuple[int, int]:
    """Return the step that begins at byte `at`, and where the next begins. O(1)."""
    value = shift = 0
    more = True
    while more:
        byte = int(np.int64(rows.steps[at]))
        value |= (byte & (_MORE - 1)) << shift
        shift += _BITS
        more = byte >= _MORE
        at += 1
    return -(value >> 1) if value & 1 else value >> 1, at


@inlined_kernel
def _step_size(value: int) -> int:
    """Return the bytes of a step. O(1)."""
    size = 1
    while value >= _MORE:
        value >>= _BITS
        size += 1
    return size


@inlined_kernel
def _move_rows(related: RelatedArrays, record: Record) -> None:
    """Move the rows in a key's record to a record of their own. O(1)."""
    state = related.state[0]
    number = np.int64(state.free)
    if number:
        state.free = related.lists[number - 1].after
    else:
        state.lists += 1
        number = np.int64(state.lists)
    rows: Record = related.lists[number - 1]
    rows.row = record.row
    rows.after = record.after
    for i in range(ROW_STEPS):
        rows.steps[i] = record.steps[i]
        record.steps[i] = 0
    record.after = number


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

    The index must have room: see `state.state_memory`.
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
def carry_evidence(before: ShardArrays, after: ShardArrays, rows: Ints) -> None:
    """Give keys of `after` the evidence that they have in `before`: the keys of the same pages. O(URLs).

    ``rows``: int64[pages of `after`], their rows in `before`. Keys that `before` has not begin without evidence.
    """
    for row in range(rows.size):
        old: Record = before.seasonality.links[rows[row]]
        new: Record = after.seasonality.links[row]
        kinds = 0
        for kind in range(KEY_KINDS):
            if old.related[kind] & KEY_BITS and new.related[kind] & KEY_BITS:
                kinds |= 1 << kind
        if kinds:
            find_keys(before, rows[row], kinds)
            find_keys(after, row, kinds)
            for kind in range(KEY_KINDS):
                source, key = before.related.found[kind], after.related.found[kind]
                if source >= 0 and key >= 0:
                    own: Record = after.related.chances[key]
                    known: Record = before.related.chances[source]
                    own.followed, own.failed = known.followed, known.failed


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
    """Return the place of the name of the page of `row` in its URL, which is written to ``pages.url``. O(URL)."""
    stop = read_url(shard.pages, row)
    _, path, _ = find_authority(shard.pages.url, 0, stop)
    return find_name(shard.pages.url, path, stop)


@inlined_kernel
def _host_of(shard: ShardArrays, row: int) -> Any:
    """Return the group of the host of the page of `row`, which is in a group. O(1)."""
    page: Record = shard.pages.records[row]
    group: Record = shard.groups.records[page.group]
    return np.int64(group.host)


@inlined_kernel
def _hash_page(shard: ShardArrays, row: int, is_common: bool) -> KeyHashes:
    """Return the hashes of the keys of the page of `row`; `is_common`: whether its name is. O(URL)."""
    return hash_names(shard.pages.url, _name_of(shard, row), _host_of(shard, row), is_common)


@inlined_kernel
def _hash_page_directory(shard: ShardArrays, row: int) -> KeyHashes:
    """Return the hash of the key of the directory of the page of `row`, which has a name, and 0 for the others."""
    none: Any = np.uint64(0)
    return none, none, hash_directory(shard.pages.url, _name_of(shard, row), _host_of(shard, row))


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
    mark_adjusted_row(shard.dirty, shard.pages, shard.seasonality, row)
    shard.seasonality.links[row].related[kind] |= AS_KIND


@inlined_kernel
def _clear_member(shard: ShardArrays, kind: int, row: int) -> None:
    """Let a page be a member of no key of a kind; a claim on it stays until its next visit. O(1)."""
    mark_adjusted_row(shard.dirty, shard.pages, shard.seasonality, row)
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
