"""Groups of pages that may change alike: hosts, and below them the leading path segments that enough pages share.

A group is named by its host and path prefix, ``example.org/docs/``. Every host is a group. A longer prefix becomes
one once `GROUP_PAGES` new pages below its parent have met it, so groups stay large enough to say something; pages
sorted before that are moved down by the sweep (`priors`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.numerics.arrays import Hashes, Ints, Records
from streamsched.numerics.hash_slots import place_slot
from streamsched.numerics.jit import bare_kernel, mix
from streamsched.numerics.packed_urls import decode_spans, hash_bytes, same_bytes
from streamsched.numerics.url_syntax import default_port, find_authority
from streamsched.records.dirty_tracking import mark_dirty_group
from streamsched.records.pattern_members import add_member, remove_member
from streamsched.records.schema import BY_SETTINGS, ShardArrays

__all__ = [
    "GROUP_PAGES",
    "MAX_DEPTH",
    "assign_deeper_group",
    "assign_group",
    "candidate_space",
    "find_host",
    "group_name",
    "group_names",
    "host_names",
    "place_groups",
    "renew_candidates",
]

GROUP_PAGES: Final = 16  # pages; fewer say less of a rate than the prior of the group above them
MAX_DEPTH: Final = 8  # path segments; deeper prefixes hardly ever hold enough pages
_FEWEST_CANDIDATES: Final = 1 << 16

_SLASH, _QUERY, _HASH = ord("/"), ord("?"), ord("#")


def group_name(shard: ShardArrays, group: int) -> str:
    """Return the name of `group`: its host, and for a URL pattern the path prefix up to its slash. O(length)."""
    name = group_names(shard, np.array([group]))[0]
    return f"{name}/" if shard.groups.records["depth"][group] else name


def group_names(shard: ShardArrays, groups: Ints) -> list[str]:
    """Return the names of `groups`: int64[m], prefixes without their last slash. O(total length)."""
    return decode_spans(shard.groups.names, shard.groups.records["name_span"][groups])


def find_host(shard: ShardArrays, name: str) -> int:
    """Return the group of the host called `name`, as groups are, -1 where no page of it is known. O(length)."""
    raw = name.encode("utf-8", "replace")
    if not 0 < len(raw) <= shard.groups.scratch.size or b"/" in raw:
        return -1
    shard.groups.scratch[: len(raw)] = np.frombuffer(raw, np.uint8)
    return _find(shard, len(raw))


def host_names(shard: ShardArrays, rows: Ints) -> list[str]:
    """Return the hosts of the pages of `rows`: int64[m]. O(m log m)."""
    hosts, place = np.unique(shard.groups.records["host"][shard.pages.records["group"][rows]], return_inverse=True)
    names = group_names(shard, hosts)
    return [names[i] for i in place.tolist()]


@bare_kernel
def assign_group(shard: ShardArrays, row: int) -> None:
    """Sort a new page into the deepest group of its URL, opening its host and a prefix where due. O(URL).

    One prefix at the most, however many the sketch takes for due: the caller has made room for two groups a page.
    """
    start, stop, end = _spell_host(shard, row)
    group = _find(shard, end)
    if group < 0:
        group = _open(shard, end, -1, 0)
    opened = False
    for depth in range(1, MAX_DEPTH + 1):
        start, end = _spell_segment(shard, start, stop, end)
        if start < 0:
            break
        child = _find(shard, end)
        if child < 0:
            if not _is_due(shard, end) or opened:
                break
            child = _open(shard, end, group, depth)
            opened = True
        group = child
    mark_dirty_group(shard, group)
    shard.pages.records[row].group = group
    shard.groups.records[group].pages += 1
    add_member(shard, row)


@bare_kernel
def assign_deeper_group(shard: ShardArrays, row: int) -> None:
    """Move a page down to the deepest group its URL has by now. O(URL)."""
    start, stop, end = _spell_host(shard, row)
    first = group = int(np.int64(shard.pages.records[row].group))
    for depth in range(1, MAX_DEPTH + 1):
        start, end = _spell_segment(shard, start, stop, end)
        if start < 0:
            break
        if depth <= shard.groups.records[group].depth:
            continue
        child = _find(shard, end)
        if child < 0:
            break
        mark_dirty_group(shard, group)
        mark_dirty_group(shard, child)
        shard.groups.records[group].pages -= 1
        shard.groups.records[child].pages += 1
        group = child
    if group != first:
        remove_member(shard, row)
        shard.pages.records[row].group = group
        add_member(shard, row)


@bare_kernel
def _spell_host(shard: ShardArrays, row: int) -> tuple[int, int, int]:
    """Write the page's host into the scratch; return where the rest of the URL begins and ends, and the host's size."""
    text, name = shard.pages.text, shard.groups.scratch
    span = shard.pages.traces[row].url_span
    # In a kernel int() leaves a uint64 unsigned, and unsigned with signed makes a float.
    start = int(np.int64(span >> np.uint64(16)))
    stop = start + int(np.int64(span & np.uint64(0xFFFF)))
    first, last, scheme = find_authority(text, start, stop)
    size = 0
    for i in range(first, last):
        byte = text[i]
        name[size] = byte + 32 if 65 <= byte <= 90 else byte  # host names ignore case
        size += 1
    return last, stop, size - default_port(name, size, scheme)


@bare_kernel
def _spell_segment(shard: ShardArrays, start: int, stop: int, size: int) -> tuple[int, int]:
    """Add the next directory, from the slash at `start` to the slash after it, to the scratch that holds `size` bytes.

    Returns where the one after it starts, and the scratch's new size; -1 where the path holds no further directory.
    """
    text = shard.pages.text
    for i in range(start, stop):
        if text[i] == _QUERY or text[i] == _HASH:
            return -1, size
        shard.groups.scratch[size + i - start] = text[i]
        if text[i] == _SLASH and i > start:
            return i, size + i - start
    return -1, size


@bare_kernel
def _find(shard: ShardArrays, size: int) -> int:
    """Return the group whose name is the scratch's first `size` bytes, -1 where there is none. O(size)."""
    key = hash_bytes(shard.groups.scratch, 0, size)
    slots = shard.groups.slots
    mask = np.uint64(slots.size - 1)
    tag = key >> np.uint64(32)
    position = tag & mask
    while slots[position] != 0:
        if slots[position] >> np.uint64(32) == tag:
            group = int(np.int64(slots[position] & np.uint64(0xFFFFFFFF))) - 1
            if shard.groups.records[group].key == key and _is_named(shard, group, size):
                return group
        position = (position + np.uint64(1)) & mask
    return -1


@bare_kernel
def _is_named(shard: ShardArrays, group: int, size: int) -> bool:
    span = shard.groups.records[group].name_span
    if np.int64(span & np.uint64(0xFFFF)) != size:
        return False
    return same_bytes(shard.groups.names, np.int64(span >> np.uint64(16)), shard.groups.scratch, 0, size)


@bare_kernel
def _open(shard: ShardArrays, size: int, parent: int, depth: int) -> int:
    """Open the group named by the scratch's first `size` bytes under `parent`, -1 for a host; return it."""
    corpus = shard.corpus[0]
    group = int(corpus.groups)
    key = hash_bytes(shard.groups.scratch, 0, size)
    record = shard.groups.records[group]
    record.key = key
    record.name_span = (np.uint64(corpus.names_end) << np.uint64(16)) | np.uint64(size)
    for i in range(size):
        shard.groups.names[corpus.names_end + i] = shard.groups.scratch[i]
    corpus.names_end += size
    record.depth = depth
    record.ready_s = -np.inf
    record.delay_s = np.nan
    record.most_out = record.most_batch = BY_SETTINGS
    record.open_s = record.kept_s = -np.inf
    if parent < 0:
        record.parent = group
        record.host = group
        record.mean = record.learned = corpus.mean
    else:
        record.parent = parent
        record.host = shard.groups.records[parent].host
        record.mean = record.learned = shard.groups.records[parent].mean
        mark_dirty_group(shard, parent)
        shard.groups.records[parent].recheck_until = corpus.sweep + 1
    place_slot(shard.groups.slots, key >> np.uint64(32), group)
    corpus.groups = group + 1
    return group


@bare_kernel
def place_groups(slots: Hashes, groups: Records, count: int) -> None:
    """Enter the first `count` groups into an empty index. O(count)."""
    for group in range(count):
        place_slot(slots, groups[group].key >> np.uint64(32), group)


@bare_kernel
def _is_due(shard: ShardArrays, size: int) -> bool:
    """Count one more page with this prefix; return whether `GROUP_PAGES` have met it.

    A count-min sketch of two rows in one array: prefixes that collide can only make a group early, never lose one.
    """
    key = hash_bytes(shard.groups.scratch, 0, size)
    mask = np.uint64(candidate_space(shard.corpus[0].sorted) - 1)
    first, second = np.int64(key & mask), np.int64(mix(key) & mask)
    shard.groups.candidates[first] = min(shard.groups.candidates[first] + 1, 255)
    if second != first:
        shard.groups.candidates[second] = min(shard.groups.candidates[second] + 1, 255)
    return bool(min(shard.groups.candidates[first], shard.groups.candidates[second]) >= GROUP_PAGES)


@bare_kernel
def candidate_space(pages: int) -> int:
    """Return how many counters of the sketch are in use at `pages` pages: a power of two, half of them or more."""
    space = _FEWEST_CANDIDATES
    while space < pages // 2:
        space *= 2
    return space


@bare_kernel
def renew_candidates(shard: ShardArrays, pages: int) -> None:
    """Forget the counts where the coming of page number `pages` makes the sketch grow. O(1) amortised."""
    if pages > 2 * _FEWEST_CANDIDATES and candidate_space(pages) != candidate_space(pages - 1):
        shard.groups.candidates[: candidate_space(pages)] = 0
