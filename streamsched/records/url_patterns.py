"""Groups of pages that may change alike: hosts, and URL patterns, which are path prefixes that enough pages share.

A group is named by its host and path prefix, ``example.org/docs/``. Every host is a group. A longer prefix becomes one
once `GROUP_PAGES` new pages of its parent have it, so groups are large enough to estimate a rate; pages assigned before
that are moved down by the prior sweep.

Linked lists hold the pages of each group, to find all pages that a group update affects: a page is in the list of its
deepest group. They follow from the page records; they are not saved but rebuilt after loading.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.numerics.arrays import Bytes, Ints, Record, Records, frozen
from streamsched.numerics.hash_slots import place_slot
from streamsched.numerics.jit import bare_kernel, inlined_kernel, kernel, mix
from streamsched.numerics.keyed_hash import keyed_hash
from streamsched.numerics.packed_urls import PackedUrls
from streamsched.numerics.url_bytes import decode_spans, hash_bytes, same_bytes
from streamsched.numerics.url_syntax import default_port, find_authority
from streamsched.records.dirty_tracking import mark_dirty_group
from streamsched.records.group_schema import BY_SETTINGS, GroupArrays
from streamsched.records.page_schema import FORGOTTEN, PageArrays
from streamsched.records.schema import DirtyArrays
from streamsched.records.url_store import keep_url, kept_bytes, read_url, shared_bytes

GROUP_PAGES: Final = 16  # pages; fewer say less of a rate than the parent's prior does
MAX_DEPTH: Final = 8  # path segments; deeper prefixes hardly ever have enough pages
_FEWEST_CANDIDATES: Final = 1 << 16

_SLASH, _QUERY, _HASH = ord("/"), ord("?"), ord("#")


def group_name(groups: GroupArrays, group: int) -> str:
    """Return the name of `group`: its host, and for a URL pattern the path prefix with its last slash. O(length)."""
    name = group_names(groups, np.array([group]))[0]
    return f"{name}/" if groups.records["depth"][group] else name


def group_names(groups: GroupArrays, numbers: Ints) -> list[str]:
    """Return the names of the groups `numbers`: int64[m], prefixes without their last slash. O(total length)."""
    return decode_spans(groups.names, groups.records["name_span"][numbers])


def find_host(groups: GroupArrays, name: str) -> int:
    """Return the group of the host `name`, -1 if no page of it is known. O(length)."""
    raw = name.encode("utf-8", "replace")
    if not 0 < len(raw) <= groups.scratch.size or b"/" in raw:
        return -1
    groups.scratch[: len(raw)] = np.frombuffer(raw, np.uint8)
    return _find(groups, len(raw))


def host_names(groups: GroupArrays, pages: Records, rows: Ints) -> list[str]:
    """Return the hosts of the pages of `rows`: int64[m]. O(m log m)."""
    hosts, place = np.unique(groups.records["host"][pages["group"][rows]], return_inverse=True)
    names = group_names(groups, hosts)
    return [names[i] for i in place.tolist()]


def hosts_of(urls: PackedUrls) -> list[str]:
    """Return the hosts of `urls`, as those of pages, whether or not they are known. O(bytes).

    >>> hosts_of(PackedUrls.pack(["https://A.example:443/b", "http://a.example:8080/"]))
    ['a.example', 'a.example:8080']
    """
    names, offsets = np.empty(urls.blob.size, np.uint8), np.zeros(len(urls) + 1, np.int64)
    _write_hosts(frozen(urls.blob), frozen(urls.offsets), names, offsets)
    return list(PackedUrls(names, offsets))


@kernel
def _write_hosts(text: Bytes, ends: Ints, names: Bytes, offsets: Ints) -> None:
    """Write the hosts of the URLs ``text[ends[i]:ends[i + 1]]`` into `names`, where they end into `offsets`."""
    for i in range(ends.size - 1):
        at = offsets[i]
        offsets[i + 1] = at + _write_host(text, names[at:], ends[i], ends[i + 1])[1]


class HostPlace(NamedTuple):
    """Where the host of a URL ends, and its group.

    ``group``: -1 if no page of the host is known; ``rest``: bytes of the URL before what follows the host; ``size``:
    bytes of the host's name, which the scratch holds.
    """

    group: int
    rest: int
    size: int


@inlined_kernel
def locate_host(groups: GroupArrays, text: Bytes, start: int, stop: int) -> HostPlace:
    """Return the place of the host of the URL ``text[start:stop]``, and write its name into the scratch. O(URL)."""
    rest, size = _write_host(text, groups.scratch, start, stop)
    return HostPlace(_find(groups, size), rest - start, size)


@bare_kernel
def assign_group(  # noqa: PLR0913, PLR0917  a kernel
    groups: GroupArrays,
    pages: PageArrays,
    corpus: Record,
    dirty: DirtyArrays,
    row: int,
    text: Bytes,
    first: int,
    stop: int,
    place: HostPlace,
    most_patterns: int,
) -> None:
    """Assign a new page to the deepest group of its URL, adding its host and a prefix if due. O(URL).

    The URL is ``text[first:stop]``. `place`: what `locate_host` has just returned for it; `most_patterns`: of a host.
    At most one prefix is added, even if the sketch says that several are due: the caller has made room for two groups a
    page.
    """
    start, end = first + place.rest, place.size
    host = place.group if place.group >= 0 else _open(groups, corpus, dirty, end, -1, 0)
    group = host
    opened = False
    for depth in range(1, MAX_DEPTH + 1):
        start, end = _write_segment(text, groups.scratch, start, stop, end)
        if start < 0:
            break
        child = _find(groups, end)
        if child < 0:
            if not _is_due(groups.candidates, groups.scratch, corpus.pages, end) or opened:
                break
            if groups.records[host].host_patterns >= most_patterns:
                corpus.refused_patterns += 1
                break
            child = _open(groups, corpus, dirty, end, group, depth)
            opened = True
        group = child
    mark_dirty_group(dirty, groups.records, group)
    mark_dirty_group(dirty, groups.records, host)
    pages.records[row].group = group
    groups.records[group].pages += 1
    groups.records[host].host_pages += 1
    add_member(groups, group, row)


@inlined_kernel
def keep_text(  # noqa: PLR0913, PLR0917  a kernel
    pages: PageArrays, groups: GroupArrays, corpus: Record, row: int, blob: Bytes, start: int, stop: int
) -> None:
    """Keep the URL ``blob[start:stop]`` of the new page of `row`, which is in a group. O(URL)."""
    group = np.int64(pages.records[row].group)
    end = np.int64(corpus.text_end)
    span = keep_url(pages.text, end, np.int64(groups.anchors[group]) - 1, blob, start, stop)
    pages.traces[row].url_span = span
    corpus.text_end = end + kept_bytes(span)
    if shared_bytes(span) == 0:
        groups.anchors[group] = end + 1


@bare_kernel
def keep_texts(pages: PageArrays, groups: GroupArrays, corpus: Records, first: int, blob: Bytes, offsets: Ints) -> None:
    """Keep the URLs ``blob[offsets[i]:offsets[i + 1]]`` of the pages from row `first` on, in their groups. O(URLs)."""
    for i in range(offsets.size - 1):
        keep_text(pages, groups, corpus[0], first + i, blob, offsets[i], offsets[i + 1])


@bare_kernel
def assign_deeper_group(groups: GroupArrays, pages: PageArrays, dirty: DirtyArrays, row: int) -> None:
    """Move a page down to the deepest group that its URL has by now. O(URL)."""
    stop = read_url(pages, row)
    start, end = _write_host(pages.url, groups.scratch, 0, stop)
    before = group = int(np.int64(pages.records[row].group))
    for depth in range(1, MAX_DEPTH + 1):
        start, end = _write_segment(pages.url, groups.scratch, start, stop, end)
        if start < 0:
            break
        if depth <= groups.records[group].depth:
            continue
        child = _find(groups, end)
        if child < 0:
            break
        mark_dirty_group(dirty, groups.records, group)
        mark_dirty_group(dirty, groups.records, child)
        groups.records[group].pages -= 1
        groups.records[child].pages += 1
        group = child
    if group != before:
        remove_member(groups, before, row)
        pages.records[row].group = group
        add_member(groups, group, row)


@bare_kernel
def _write_host(text: Bytes, name: Bytes, start: int, stop: int) -> tuple[int, int]:
    """Write the host of the URL ``text[start:stop]`` into `name`; return where the rest of the URL begins, and the
    host's size.
    """
    first, last, scheme = find_authority(text, start, stop)
    size = 0
    for i in range(first, last):
        byte = text[i]
        name[size] = byte + 32 if 65 <= byte <= 90 else byte  # host names ignore case
        size += 1
    return last, size - default_port(name, size, scheme)


@bare_kernel
def _write_segment(text: Bytes, name: Bytes, start: int, stop: int, size: int) -> tuple[int, int]:
    """Append the next directory, from the slash at `start` to the slash after it, to `name`, which holds `size` bytes.

    Returns where the one after it starts, and the new size; -1 for the start if the path has no further directory.
    """
    for i in range(start, stop):
        if text[i] == _QUERY or text[i] == _HASH:
            return -1, size
        name[size + i - start] = text[i]
        if text[i] == _SLASH and i > start:
            return i, size + i - start
    return -1, size


@bare_kernel
def _find(groups: GroupArrays, size: int) -> int:
    """Return the group whose name is the scratch's first `size` bytes, -1 if there is none. O(size)."""
    slots = groups.slots
    mask = np.uint64(slots.size - 1)
    tag = keyed_hash(groups.key, groups.scratch, 0, size) >> np.uint64(32)
    position = tag & mask
    while slots[position] != 0:
        if slots[position] >> np.uint64(32) == tag:
            group = int(np.int64(slots[position] & np.uint64(0xFFFFFFFF))) - 1
            if _is_named(groups, group, size):
                return group
        position = (position + np.uint64(1)) & mask
    return -1


@bare_kernel
def _is_named(groups: GroupArrays, group: int, size: int) -> bool:
    span = groups.records[group].name_span
    if np.int64(span & np.uint64(0xFFFF)) != size:
        return False
    return same_bytes(groups.names, np.int64(span >> np.uint64(16)), groups.scratch, 0, size)


@bare_kernel
def _open(groups: GroupArrays, corpus: Record, dirty: DirtyArrays, size: int, parent: int, depth: int) -> int:
    """Add the group named by the scratch's first `size` bytes under `parent`, -1 for a host; return it."""
    group = int(corpus.groups)
    record = groups.records[group]
    record.name_span = (np.uint64(corpus.names_end) << np.uint64(16)) | np.uint64(size)
    for i in range(size):
        groups.names[corpus.names_end + i] = groups.scratch[i]
    corpus.names_end += size
    record.depth = depth
    record.ready_s = -np.inf
    record.delay_s = np.nan
    record.max_out = record.max_batch = BY_SETTINGS
    record.open_s = record.kept_s = -np.inf
    if parent < 0:
        record.parent = group
        record.host = group
        record.mean = record.own_mean = corpus.mean
    else:
        record.parent = parent
        record.host = groups.records[parent].host
        record.mean = record.own_mean = groups.records[parent].mean
        mark_dirty_group(dirty, groups.records, parent)
        groups.records[parent].recheck_before = corpus.sweep + 2
        groups.records[parent].recheck_rows = corpus.pages
        mark_dirty_group(dirty, groups.records, np.int64(record.host))
        host: Record = groups.records[record.host]
        host.host_patterns += 1
    place_slot(groups.slots, keyed_hash(groups.key, groups.scratch, 0, size) >> np.uint64(32), group)
    corpus.groups = group + 1
    return group


@bare_kernel
def place_groups(groups: GroupArrays, count: int) -> None:
    """Enter the first `count` groups into an empty index. O(their names)."""
    for group in range(count):
        span = groups.records[group].name_span
        start = np.int64(span >> np.uint64(16))
        hash_ = keyed_hash(groups.key, groups.names, start, start + np.int64(span & np.uint64(0xFFFF)))
        place_slot(groups.slots, hash_ >> np.uint64(32), group)


@bare_kernel
def _is_due(candidates: Bytes, name: Bytes, pages: int, size: int) -> bool:
    """Count one more page with this prefix; return whether `GROUP_PAGES` have had it.

    A count-min sketch of two rows in one array: collisions can make a group early, but never lose one. Its hash has no
    key, because its collisions are part of the results; the bound on a host's URL patterns limits what they can do.
    """
    key = hash_bytes(name, 0, size)
    mask = np.uint64(candidate_space(pages) - 1)
    first, second = np.int64(key & mask), np.int64(mix(key) & mask)
    candidates[first] = min(candidates[first] + 1, 255)
    if second != first:
        candidates[second] = min(candidates[second] + 1, 255)
    return bool(min(candidates[first], candidates[second]) >= GROUP_PAGES)


@bare_kernel
def candidate_space(pages: int) -> int:
    """Return the number of counters of the sketch at `pages` pages: a power of two, at least half of them."""
    space = _FEWEST_CANDIDATES
    while space < pages // 2:
        space *= 2
    return space


@bare_kernel
def renew_candidates(candidates: Bytes, pages: int) -> None:
    """Reset the counters if page number `pages` makes the sketch grow. O(1) amortised."""
    if pages > 2 * _FEWEST_CANDIDATES and candidate_space(pages) != candidate_space(pages - 1):
        candidates[: candidate_space(pages)] = 0


@inlined_kernel
def add_member(groups: GroupArrays, group: int, row: int) -> None:
    """Insert the page of `row` at the head of the list of `group`. O(1)."""
    after = np.int64(groups.first_members[group])
    link: Record = groups.member_links[row]
    link.before = 0
    link.after = after
    if after:
        groups.member_links[after - 1].before = row + 1
    groups.first_members[group] = row + 1


@inlined_kernel
def remove_member(groups: GroupArrays, group: int, row: int) -> None:
    """Remove the page of `row` from the list of `group`. O(1)."""
    link: Record = groups.member_links[row]
    if link.before:
        groups.member_links[np.int64(link.before) - 1].after = link.after
    else:
        groups.first_members[group] = link.after
    if link.after:
        groups.member_links[np.int64(link.after) - 1].before = link.before


@bare_kernel
def rebuild_members(groups: GroupArrays, pages: Records, corpus: Records) -> None:
    """Rebuild all lists. O(pages + groups)."""
    for group in range(corpus[0].groups):
        groups.first_members[group] = 0
    for row in range(corpus[0].pages):
        page: Record = pages[row]
        if page.rule != FORGOTTEN:
            add_member(groups, np.int64(page.group), row)


def find_host_pages(groups: GroupArrays, corpus: Records, hosts: Ints) -> Ints:
    """Return the rows of all pages of ``hosts``: int64[m], their groups, as int64[n], ascending.

    O(groups + n log n).
    """
    wanted = np.zeros(int(corpus["groups"][0]), np.uint8)
    wanted[hosts] = 1
    rows = np.empty(int(groups.records["host_pages"][hosts].sum(dtype=np.int64)), np.int64)
    return np.sort(rows[: _list_host_pages(groups, corpus, wanted, rows)]) if hosts.size else rows


@bare_kernel
def list_members(  # noqa: PLR0913, PLR0917  a kernel
    groups: GroupArrays, pages: Records, group: int, since_s: float, known: int, out: Ints, count: int
) -> int:
    """Append to `out`, from position `count` on, the group's rows below `known` last visited before `since_s`.

    Returns the number of rows in `out`, or ``out.size + 1`` if there are more than fit. O(pages of the group).
    """
    row = np.int64(groups.first_members[group])
    while row and count <= out.size:
        if row - 1 < known and pages[row - 1].last_visit_s < since_s:
            if count < out.size:
                out[count] = row - 1
            count += 1
        row = np.int64(groups.member_links[row - 1].after)
    return count


@bare_kernel
def _list_host_pages(groups: GroupArrays, corpus: Records, wanted: Bytes, out: Ints) -> int:
    """Write the rows of the pages of the hosts that are `wanted`: uint8[groups] to `out`; return their number."""
    count = 0
    for group in range(corpus[0].groups):
        if wanted[np.int64(groups.records[group].host)]:
            row = np.int64(groups.first_members[group])
            while row:
                out[count] = row - 1
                count += 1
                row = np.int64(groups.member_links[row - 1].after)
    return count
