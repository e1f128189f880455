"""Pages that are alike in all that is scored, as those that were discovered at one time: only the first is ranked.

The pages of a class have equal records, apart from their names. So their scores are equal at any time, and the salted
hash alone orders them. The first is ranked; the others follow it, unscored, as long as it and they do not change. When
it is leased, or comes before the last page of a batch, the next ones are released. They are ranked from then on, and
the others follow the last of them. Members are in buckets by their hash; a bucket is sorted when it is reached.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streamsched.numerics.arrays import Bools, Floats, Hashes, Ints, Record, field_offset
from streamsched.numerics.jit import bare_kernel, inlined_kernel, mix
from streamsched.numerics.topk_order import tie_keys
from streamsched.politeness.eligibility import page_not_before
from streamsched.politeness.limits import Limits
from streamsched.ranking.certificates import FOLLOWING, Certificates
from streamsched.ranking.line_control import Line, draw_rows
from streamsched.ranking.page_examination import Found
from streamsched.records.page_schema import LEASED, PAGE, TRACE
from streamsched.records.schema import ShardArrays
from streamsched.records.signal_schema import SIGNAL

_SAMPLE: Final = 1 << 16  # pages that are drawn to find the classes
_FEWEST_DRAWN: Final = 4  # of them are of a class: smaller ones are not worth it
_MOST_CLASSES: Final = 1 << 12  # the largest ones
_BUCKET: Final = 512  # members of a bucket, about
_LARGE_HOST: Final = 256  # a host with more than 1/256 of the pages has classes of its own: it may be full
_FEWEST_RELEASED: Final = 16

_PAGE_WORDS: Final = PAGE.itemsize // 8
_TRACE_WORDS: Final = TRACE.itemsize // 8
_SIGNAL_WORDS: Final = SIGNAL.itemsize // 4
_HASH_WORD: Final = field_offset(PAGE, "url_hash") // 8
_GROUP_WORD: Final = field_offset(PAGE, "group") // 8  # the group is its lower half
_NAME_WORD: Final = field_offset(TRACE, "url_span") // 8
_UPPER: Final = np.uint64(0xFFFFFFFF00000000)
_OWN: Final = np.uint64(1)  # as bit of a key: the class of one large host
_KEYED: Final = np.uint64(2)


class _Words(NamedTuple):
    """The records of a shard's pages as words, for `_key_of`."""

    shard: ShardArrays
    pages: Hashes  # uint64[rows, words of PAGE]
    traces: Hashes
    links: Hashes
    signals: npt.NDArray[np.uint32]  # uint32[rows or 0, words of SIGNAL]
    limits: Limits
    now: float
    large: int  # pages of a host that has classes of its own
    mask: int
    want: int


class Bar(NamedTuple):
    """The last page of a batch: a page with a lower level, or the same and a greater tie, is not in it."""

    level: float  # -inf if the batch has room
    tie: int


class TieClasses:
    """The classes of one ranking's pages: 4 bytes a page while there are any."""

    def __init__(self) -> None:
        """Begin without classes."""
        self.clear(np.uint64(0))

    def clear(self, salt: np.uint64) -> None:
        """Forget all classes. O(1)."""
        self.salt = salt
        self.is_own: Bools = np.empty(0, np.bool_)  # bool[classes]: of one large host
        self._order: npt.NDArray[np.int32] = np.empty(0, np.int32)  # the members by class, then bucket
        self._starts: Ints = np.zeros(1, np.int64)  # int64[buckets + 1], in `_order`
        self._first: Ints = np.zeros(1, np.int64)  # int64[classes + 1]: first bucket
        self._bucket: Ints = np.empty(0, np.int64)  # int64[classes]: the next bucket to sort
        self._next: Ints = np.empty(0, np.int64)  # int64[classes]: the next member in `_order`
        self._leader_rows: Ints = np.empty(0, np.int64)  # int64[classes]: the page that the others follow
        self._pending: set[int] = set()  # classes whose page has changed

    @property
    def size(self) -> int:
        """How many classes there are."""
        return self.is_own.size

    def build(self, shard: ShardArrays, certificates: Certificates, line: Line, random: np.random.Generator) -> None:
        """Find the classes; their members follow from now on, until they are released. O(pages)."""
        self.clear(line.salt)
        pages = certificates.tick.size
        words = _read_words(shard, certificates, line)
        drawn = draw_rows(random, pages, _SAMPLE)
        keys = np.empty(drawn.size, np.uint64)
        _write_keys(words, drawn, keys)
        found, counts = np.unique(keys[keys != 0], return_counts=True)
        best = np.sort(np.argsort(counts)[-_MOST_CLASSES:])
        best = best[counts[best] >= _FEWEST_DRAWN]
        found, sizes = found[best], counts[best] * (pages / drawn.size)
        if not found.size:
            certificates.tick[certificates.tick == FOLLOWING] = 0
            return
        bits = np.ceil(np.log2(np.maximum(sizes / _BUCKET, 1.0))).astype(np.int64)
        self._first = np.concatenate([[0], np.cumsum(1 << bits)])
        bucket_of, fill = np.empty(pages, np.uint32), np.zeros(self._first[-1] + 1, np.int64)
        _divide(words, found, self._first, bits, line.salt, bucket_of, fill, certificates)
        self._starts = np.concatenate([[0], np.cumsum(fill[1:])])
        self._order = np.empty(self._starts[-1], np.int32)
        _collect(bucket_of, self._starts[:-1].copy(), self._order)
        self.is_own = (found & _OWN) != 0
        self._bucket, self._next = self._first[:-1].copy(), self._starts[self._first[:-1]].copy()
        self._leader_rows = np.full(found.size, -1)
        self._pending = set(range(found.size))

    def note_changed(self, rows: Ints) -> None:
        """Note that pages of ``rows``: int64[m] have changed: no others follow them any longer. O(m log m)."""
        if self.size:
            self._pending.update(np.flatnonzero(np.isin(self._leader_rows, rows)).tolist())

    def release_pending(self, shard: ShardArrays, certificates: Certificates, k: int) -> Ints:
        """Release members, for a batch of `k` pages, of classes whose page has changed: int64[m]. O(m log m)."""
        pending, self._pending = sorted(self._pending), set[int]()
        return self._release(shard, certificates, np.array(pending, np.int64), max(k // max(len(pending), 1), 1))

    def release_reached(
        self,
        shard: ShardArrays,
        certificates: Certificates,
        found: Found,
        batch: Ints,
        bar: Bar,
        turn: int,
    ) -> Ints:
        """Release members of classes that the batch reaches: int64[m]. O(pages found + classes + m log m).

        ``batch``: int64[n], its rows; `turn`: how often this was called in this query: each turn releases more. A class
        of one host waits until its page is in the batch: if the host is full, it is full for all of them. No
        page follows one that cannot be given any more: leases that begin are not reported.
        """
        members = np.flatnonzero(self._next < self._starts[self._first[1:]])
        if not members.size:
            return np.empty(0, np.int64)
        rows = self._leader_rows[members]
        places = _places_of(found.rows, rows)
        pooled = places >= 0
        levels, ties = certificates.bound[rows].astype(np.float64), np.zeros(rows.size, np.uint64)
        levels[pooled], ties[pooled] = found.levels[places[pooled]], found.ties[places[pooled]]
        reached = (levels > bar.level) | ((levels == bar.level) & (ties <= np.uint64(bar.tie)))
        reached = np.where(self.is_own[members], np.isin(rows, batch), reached)
        chosen = members[reached | np.isnan(levels)]  # the page has no level while it is leased or waits
        return self._release(shard, certificates, chosen, max(batch.size // max(chosen.size, 1), 1) << min(turn, 20))

    def hidden_levels(self, found: Found, most: int) -> Floats:
        """Return the levels of members that follow a page of `found`: float64[m], m about `most`. O(classes)."""
        places = _places_of(found.rows, self._leader_rows)
        left = (self._starts[self._first[1:]] - self._next)[places >= 0]
        levels: Floats = np.repeat(found.levels[places[places >= 0]], np.minimum(left, most // max(left.size, 1) + 1))
        return levels

    def find_false(self, shard: ShardArrays, certificates: Certificates, scores: Floats) -> list[str]:
        """Return what is wrong, given ``scores``: float64[pages]; empty if the classes are sound. O(pages)."""
        following = certificates.tick == FOLLOWING
        faults = []
        for number, row in enumerate(self._leader_rows.tolist()):
            members = self._order[self._next[number] : self._starts[self._first[number + 1]]]
            members = members[following[members]]
            following[members] = False
            if number in self._pending or not members.size:
                continue
            ties = tie_keys(shard.pages.records["url_hash"][[row, *members.tolist()]], int(self.salt))
            if not np.array_equal(scores[members], np.full(members.size, scores[row]), equal_nan=True):
                faults.append(f"pages that follow page {row} have other scores")
            if not (ties[1:] >= ties[0]).all():
                faults.append(f"pages that follow page {row} come before it")
        return [*faults, *(["pages follow that belong to no class"] if following.any() else [])]

    def nbytes(self) -> int:
        """Return the bytes of memory in use."""
        return self._order.nbytes + self._starts.nbytes

    def _release(self, shard: ShardArrays, certificates: Certificates, classes: Ints, count: int) -> Ints:
        """Release the next `count` or more members of each of `classes` that follow still: int64[m]."""
        released = [np.empty(0, np.int64)]
        for number in classes.tolist():
            missing = max(count, _FEWEST_RELEASED)
            while missing > 0 and (begin := int(self._next[number])) < self._starts[self._first[number + 1]]:
                if begin == self._starts[self._bucket[number]]:
                    self._sort_bucket(shard, number)
                end = min(int(self._starts[self._bucket[number]]), begin + missing)
                rows = self._order[begin:end].astype(np.int64)
                rows, self._next[number] = rows[certificates.tick[rows] == FOLLOWING], end
                missing -= rows.size
                if rows.size:
                    released.append(rows)
                    self._leader_rows[number] = rows[-1]
        return np.concatenate(released)

    def _sort_bucket(self, shard: ShardArrays, number: int) -> None:
        """Sort the next bucket of a class that has members."""
        while True:
            begin, end = self._starts[self._bucket[number] : self._bucket[number] + 2]
            self._bucket[number] += 1
            if begin < end:
                break
        rows = self._order[begin:end]
        ties = tie_keys(shard.pages.records["url_hash"][rows], int(self.salt))
        self._order[begin:end] = rows[np.lexsort((rows, ties))]


def _places_of(rows: Ints, wanted: Ints) -> Ints:
    """Return where each of ``wanted``: int64[m] is in ``rows``: int64[n]: int64[m], -1 for none. O((m + n) log m)."""
    places, order = np.full(wanted.size, -1), np.argsort(wanted)
    if wanted.size:
        nearest = order[np.minimum(np.searchsorted(wanted, rows, sorter=order), wanted.size - 1)]
        found = np.flatnonzero(wanted[nearest] == rows)
        places[nearest[found]] = found
    return places


def _read_words(shard: ShardArrays, certificates: Certificates, line: Line) -> _Words:
    pages, count = shard.pages, certificates.tick.size
    return _Words(
        shard,
        pages.records[:count].view(np.uint64).reshape(-1, _PAGE_WORDS),
        pages.traces[:count].view(np.uint64).reshape(-1, _TRACE_WORDS),
        shard.seasonality.links[:count].view(np.uint64).reshape(count, -1),
        pages.signals[:count].view(np.uint32).reshape(-1, _SIGNAL_WORDS),
        line.limits,
        line.now,
        count // _LARGE_HOST,
        certificates.mask,
        certificates.want,
    )


@bare_kernel
def _write_keys(words: _Words, rows: Ints, out: Hashes) -> None:
    for i in range(rows.size):
        out[i] = _key_of(words, rows[i])


@inlined_kernel
def _key_of(words: _Words, row: int) -> np.uint64:
    """Return a hash of all that a page's score depends on, 0 if the page cannot be given now. O(1).

    What scores read of a group is the hazard of its surges and the two that are published.
    """
    page: Record = words.shard.pages.records[row]
    if (np.int64(page.flags) & words.mask) != words.want or page.flags & LEASED or page.failures:
        return np.uint64(0)
    if page_not_before(words.shard.pages, row, words.limits, words.now) > words.now:
        return np.uint64(0)
    group: Record = words.shard.groups.records[page.group]
    host: Record = words.shard.groups.records[group.host]
    own = host.host_pages > words.large
    key = mix(np.uint64(group.host) if own else _UPPER)
    for i in range(words.pages.shape[1]):
        if i == _GROUP_WORD:
            key = mix(key ^ (words.pages[row, i] & _UPPER))
        elif i != _HASH_WORD:
            key = mix(key ^ words.pages[row, i])
    for i in range(words.traces.shape[1]):
        if i != _NAME_WORD:
            key = mix(key ^ words.traces[row, i])
    for i in range(words.links.shape[1]):
        key = mix(key ^ words.links[row, i])
    if words.signals.shape[0]:
        for i in range(words.signals.shape[1]):
            key = mix(key ^ np.uint64(words.signals[row, i]))
    key = mix(key ^ np.uint64(np.float32(group.hazard).view(np.uint32)))
    key = _mix_surge(key, group.open_share, group.open_s)
    key = _mix_surge(key, group.kept_share, group.kept_s)
    return (key & ~_OWN) | _KEYED | (_OWN if own else np.uint64(0))


@inlined_kernel
def _mix_surge(key: np.uint64, share: float, begin_s: float) -> np.uint64:
    if not share > 0.0:
        return mix(key)
    return mix(mix(key ^ np.float64(share).view(np.uint64)) ^ np.float64(begin_s).view(np.uint64))


@bare_kernel
def _divide(  # noqa: PLR0913, PLR0917  a kernel
    words: _Words,
    keys: Hashes,
    first: Ints,
    bits: Ints,
    salt: np.uint64,
    bucket_of: npt.NDArray[np.uint32],
    fill: Ints,
    certificates: Certificates,
) -> None:
    """Let the pages of ``keys``: uint64[classes], ascending, follow; write the bucket plus 1 of each page, 0 for none.

    ``fill``: int64[buckets + 1] counts the pages by that number.
    """
    for row in range(bucket_of.size):
        bucket_of[row] = 0
        key = _key_of(words, row)
        number = np.searchsorted(keys, key)
        if number < keys.size and keys[number] == key:
            tie = mix(words.shard.pages.records[row].url_hash ^ salt)
            part = tie >> np.uint64(64 - bits[number]) if bits[number] else np.uint64(0)
            bucket_of[row] = first[number] + np.int64(part) + 1
            certificates.bound[row] = np.float32(np.nan)
        certificates.tick[row] = FOLLOWING if bucket_of[row] else 0
        fill[bucket_of[row]] += 1


@bare_kernel
def _collect(bucket_of: npt.NDArray[np.uint32], begins: Ints, order: npt.NDArray[np.int32]) -> None:
    """Write the rows of each bucket to `order`, from where it begins in ``begins``: int64[buckets], which moves on."""
    for row in range(bucket_of.size):
        if bucket_of[row]:
            bucket = bucket_of[row] - 1
            order[begins[bucket]] = row
            begins[bucket] += 1
