"""The page table: every page of a shard, and the one kernel that applies a batch of outcomes in stream order."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from streamsched.arrays import Floats, Ints, frozen
from streamsched.change import CHANGE, FAILURE, FIRST, is_success, judge, shows_content
from streamsched.groups import candidate_space, place_groups, renew_candidates, sort_page
from streamsched.jit import bare_kernel, inlined, prefetch
from streamsched.memory import Region
from streamsched.outcomes import CHANGED, COST, FINGERPRINT, IMPORTANCE, STATUS, OutcomeBatch
from streamsched.packed import MAX_URL_BYTES, PackedUrls
from streamsched.posterior import after_change
from streamsched.priors import advance_sweep, begin_corpus
from streamsched.tables import (
    CORPUS,
    GROUP,
    LEASED,
    LONGEST_INTERVAL,
    PAGE,
    SHORTEST_INTERVAL,
    SUCCEEDED,
    TRACE,
    VISITED,
    WITH_FINGERPRINT,
    Tables,
)
from streamsched.urls import MAX_PAGES, UrlIndex, url_texts

__all__ = ["PageTable"]

_RESERVED_PAGES: Final = 1 << 27  # address space only; 134 M pages of 104 bytes would be 14 GB of memory
_RESERVED_TEXT: Final = 1 << 33
_CHUNK: Final = 1 << 16  # outcomes resolved to rows at a time: room is made for as many new pages
_GROUPS_PER_PAGE: Final = 2  # a page opens its host and one prefix at the most; neither's name is longer than its URL
_MOST_VISITS: Final = (1 << 32) - 1  # what the count of a page's visits holds
_FEWEST_GROUP_SLOTS: Final = 1 << 10
_AHEAD: Final = 12  # outcomes between asking the memory for a page and using it

# Positions in the counts that the kernel returns.
APPLIED, CHANGES, FIRST_VISITS, FAILURES, DUPLICATES, LATE = range(6)


class _Columns(NamedTuple):
    """The columns of a batch as the kernel takes them; an absent one has length 0."""

    fetched_at: Floats
    given: np.ndarray[tuple[int], np.dtype[np.uint8]]
    status: np.ndarray[tuple[int], np.dtype[np.int32]]
    fingerprint: np.ndarray[tuple[int], np.dtype[np.uint64]]
    changed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    importance: Floats
    cost: Floats


class PageTable:
    """All pages of one shard: records, URL texts, groups and the learned prior.

    Grows without moving a row; 104 bytes a page in `PAGE`, `TRACE` and the lease column, 11 to 21 in the URL index,
    about one in the groups' sketch, and the URL's own text. Not safe to use from several threads at once.
    """

    def __init__(self, cycle_s: float, change_bits: int) -> None:
        self.cycle_s = cycle_s
        self.change_bits = change_bits
        self._pages = Region(PAGE, _RESERVED_PAGES)
        self._traces = Region(TRACE, _RESERVED_PAGES)
        self._leases = Region(np.float64, _RESERVED_PAGES)
        self._text = Region(np.uint8, _RESERVED_TEXT)
        self._groups = Region(GROUP, _RESERVED_PAGES // 8)
        self._names = Region(np.uint8, _RESERVED_TEXT // 8)
        self._candidates = Region(np.uint8, max(_RESERVED_PAGES, candidate_space(0)))
        self._group_slots = np.zeros(_FEWEST_GROUP_SLOTS, np.uint64)
        self._scratch = np.zeros(MAX_URL_BYTES, np.uint8)
        self._corpus = np.zeros(1, CORPUS)
        self._index = UrlIndex()
        begin_corpus(self._corpus, cycle_s)

    def __len__(self) -> int:
        return int(self._corpus["pages"][0])

    @property
    def tables(self) -> Tables:
        """The arrays as kernels take them, valid until the next call that adds pages."""
        return Tables(
            self._pages.array,
            self._traces.array,
            self._text.array,
            self._leases.array,
            self._groups.array,
            self._names.array,
            self._group_slots,
            self._candidates.array,
            self._scratch,
            self._corpus,
        )

    def find(self, urls: PackedUrls) -> Ints:
        """Return the rows of `urls`: int64[n], -1 for pages never seen. O(1) a URL."""
        return self._index.find(self.tables, urls)

    def observe(self, batch: OutcomeBatch) -> Ints:
        """Apply a valid batch in stream order; return int64[6]: applied, changes, first visits, failures, duplicates, late.

        O(1) an outcome, amortised: 96 bytes of the page's record, its group's mean, and four rows of the prior's sweep.
        """
        counts = np.zeros(7, np.int64)
        columns = _Columns(*(frozen(getattr(batch, field)) for field in _Columns._fields))
        rows = np.empty(min(_CHUNK, len(batch)), np.int64)
        for start in range(0, len(batch), _CHUNK):
            chunk = rows[: min(_CHUNK, len(batch) - start)]
            self._enter(batch.urls, start, chunk)
            _apply(self.tables, chunk, start, columns, self.cycle_s, self.change_bits, counts)
        return counts

    def discover(self, urls: PackedUrls, now: float) -> int:
        """Add those of `urls` that are unknown as pages never visited, known since `now`; return how many. O(1) a URL."""
        before = len(self)
        rows = np.empty(min(_CHUNK, len(urls)), np.int64)
        for start in range(0, len(urls), _CHUNK):
            chunk = rows[: min(_CHUNK, len(urls) - start)]
            self._enter(urls, start, chunk)
            _sort_new(self.tables, now)
        return len(self) - before

    def weigh(self, urls: PackedUrls, importance: Floats) -> None:
        """Set the importance of known pages: float64[n], one for each of `urls`. O(1) a URL."""
        self._pages.array["importance"][self.find(urls)] = importance

    def rebuild_index(self) -> None:
        """Enter all pages and groups into the hash indexes anew, after the records were loaded. O(pages)."""
        self._index.rebuild(self.tables)
        self._place_groups(int(self._corpus["groups"][0]))

    def state_bytes(self) -> dict[str, int]:
        """Return the bytes of memory in use for each part of the state."""
        corpus = self._corpus[0]
        pages, groups = int(corpus["pages"]), int(corpus["groups"])
        return {
            "pages": pages * (PAGE.itemsize + TRACE.itemsize),
            "leases": pages * 8,
            "url_index": self._index.nbytes(),
            "groups": groups * GROUP.itemsize + int(corpus["names_end"]) + self._group_slots.nbytes,
            "sketch": max(1 << 16, pages // 2),
            "url_text": int(corpus["text_end"]),
        }

    def reserve(self, pages: int, text: int, groups: int, names: int) -> None:
        """Make room for as much in all."""
        if pages > MAX_PAGES:
            raise MemoryError(f"a shard holds at most {MAX_PAGES} pages, {pages} were asked for: use more shards")
        for region in (self._pages, self._traces, self._leases):
            region.ensure(pages)
        self._candidates.ensure(candidate_space(pages))
        self._text.ensure(text)
        self._groups.ensure(groups)
        self._names.ensure(names)

    def faults(self) -> list[str]:
        """Return which invariants of the table do not hold, none where it is sound. O(pages).

        For tests, after each step, and for tools that verify a saved state.
        """
        tables, corpus = self.tables, self._corpus[0]
        count, groups = len(self), int(corpus["groups"])
        pages, traces = tables.pages[:count], tables.traces[:count]
        starts, lengths = traces["url_span"] >> np.uint64(16), traces["url_span"] & np.uint64(0xFFFF)
        visited = (pages["flags"] & VISITED) != 0
        members = np.bincount(pages["group"], minlength=groups) if count else np.zeros(groups, np.int64)
        hosts = tables.groups["host"][:groups]
        urls = PackedUrls.pack(url_texts(tables, np.arange(count)))
        holds = {
            "URLs fill the text, one after another": bool(np.all(np.cumsum(lengths) == starts + lengths))
            and int(lengths.sum()) == int(corpus["text_end"]),
            "the index finds every URL": bool(np.array_equal(self.find(urls), np.arange(count))),
            "every page is in a group": count == int(corpus["sorted"])
            and bool(np.array_equal(members[:groups], tables.groups["pages"][:groups]))
            and members.size == groups,
            "a group's host is a host": bool(np.all(tables.groups["depth"][hosts] == 0)),
            "a group stands after its parent": bool(np.all(tables.groups["parent"][:groups] <= np.arange(groups))),
            "pages changed at most as often as visited": bool(np.all(pages["changes"] <= pages["visits"])),
            "only visited pages have visits": not np.any(pages["visits"][~visited]),
            "visits never take evidence away": bool(
                np.all(pages["own_shape"] >= 0) and np.all(pages["own_exposure"] >= 0)
            ),
            "no visit is newer than its page's last outcome": bool(
                np.all(pages["last_visit_s"][visited] <= pages["last_outcome_s"][visited])
            ),
            "priors are finite and above 0": bool(
                np.all(np.isfinite(tables.groups["mean"][:groups]) & (tables.groups["mean"][:groups] > 0))
            ),
        }
        return [name for name, fits in holds.items() if not fits]

    def _enter(self, urls: PackedUrls, start: int, rows: Ints) -> None:
        corpus = self._corpus[0]
        pages = int(corpus["pages"]) + rows.size
        text = int(urls.offsets[start + rows.size] - urls.offsets[start])
        groups = int(corpus["groups"]) + _GROUPS_PER_PAGE * rows.size
        self.reserve(pages, int(corpus["text_end"]) + text, groups, int(corpus["names_end"]) + _GROUPS_PER_PAGE * text)
        if 2 * groups > self._group_slots.size:
            self._place_groups(groups)
        self._index.ensure(pages)
        self._index.enter(self.tables, urls, start, rows)

    def _place_groups(self, groups: int) -> None:
        """Make the groups' index anew with room for `groups` at half its slots or fewer. O(groups)."""
        size = max(_FEWEST_GROUP_SLOTS, 1 << (2 * groups - 1).bit_length())
        self._group_slots = np.zeros(size, np.uint64)
        place_groups(self._group_slots, self._groups.array, int(self._corpus["groups"][0]))


@bare_kernel
def _sort_new(tables: Tables, known_since_s: float) -> None:
    """Sort into groups all pages entered since, as known since then."""
    for row in range(tables.corpus[0].sorted, tables.corpus[0].pages):
        _begin_page(tables, row, known_since_s)


@bare_kernel
def _begin_page(tables: Tables, row: int, known_since_s: float) -> None:
    tables.pages[row].last_visit_s = known_since_s
    renew_candidates(tables, row + 1)
    tables.corpus[0].sorted = row + 1
    sort_page(tables, row)


@bare_kernel
def _apply(
    tables: Tables,
    rows: Ints,
    start: int,
    columns: _Columns,
    cycle_s: float,
    change_bits: int,
    counts: Ints,
) -> None:
    """Apply outcomes ``start + i`` to ``rows[i]``, in order, and add to `counts`."""
    for i in range(rows.size):
        if i + _AHEAD < rows.size:
            prefetch(tables.pages, rows[i + _AHEAD])
            prefetch(tables.traces, rows[i + _AHEAD])
            prefetch(tables.groups, np.int64(tables.pages[rows[i + _AHEAD // 2]].group))
        at = start + i
        fetched_at = columns.fetched_at[at]
        for row in range(tables.corpus[0].sorted, rows[i] + 1):  # more than one only after an interrupt
            _begin_page(tables, row, fetched_at)
        page = tables.pages[rows[i]]
        if fetched_at <= page.last_outcome_s:
            counts[DUPLICATES if fetched_at == page.last_outcome_s else LATE] += 1
            continue
        counts[APPLIED] += 1
        counts[_apply_one(tables, rows[i], at, columns, cycle_s, change_bits)] += 1


@inlined
def _apply_one(tables: Tables, row: int, at: int, columns: _Columns, cycle_s: float, change_bits: int) -> int:
    """Apply one outcome that is newer than all of its page; return the count it belongs to besides APPLIED."""
    page = tables.pages[row]
    trace = tables.traces[row]
    given = columns.given[at]
    page.last_outcome_s = columns.fetched_at[at]
    page.flags &= ~np.uint8(LEASED)
    tables.corpus[0].applied += 1
    if given & IMPORTANCE:
        page.importance = columns.importance[at]
    if given & COST:
        page.cost = columns.cost[at]
    status = columns.status[at] if given & STATUS else np.int32(200)
    fingerprint = columns.fingerprint[at] if given & FINGERPRINT else np.uint64(0)
    verdict = judge(
        given,
        status,
        fingerprint,
        columns.changed[at] if given & CHANGED else False,
        (page.flags & VISITED) != 0,
        (page.flags & SUCCEEDED) != 0,
        (page.flags & WITH_FINGERPRINT) != 0,
        trace.fingerprint,
        change_bits,
    )
    if verdict == FAILURE:
        tables.corpus[0].failures += 1
        if page.failures < 0xFFFF:
            page.failures += 1
        return FAILURES
    if verdict != FIRST:
        _learn(tables, row, (columns.fetched_at[at] - page.last_visit_s) / cycle_s, verdict == CHANGE)
    _remember(tables, row, status, verdict == CHANGE, shows_content(given, status), fingerprint)
    page.last_visit_s = columns.fetched_at[at]
    if verdict == FIRST:
        return FIRST_VISITS
    advance_sweep(tables)
    return CHANGES if verdict == CHANGE else _NOTHING


_NOTHING: Final = 6


@inlined
def _learn(tables: Tables, row: int, interval: float, changed: bool) -> None:
    """Update the page's estimators with one observed interval, in cycles."""
    page = tables.pages[row]
    trace = tables.traces[row]
    group = tables.groups[page.group]
    interval = min(max(interval, SHORTEST_INTERVAL), LONGEST_INTERVAL)
    if page.visits < _MOST_VISITS:
        page.visits += 1
        page.changes += changed
    group.visits += 1
    trace.history = (trace.history << np.uint64(1)) | np.uint64(changed)
    if not changed:
        page.own_exposure += interval
        return
    group.changes += 1
    trace.weighted_changes += page.visits
    shape = tables.corpus[0].shape
    shape_before = shape + page.own_shape
    exposure_before = shape / group.mean + page.own_exposure
    shape_after, exposure_after = after_change(shape_before, exposure_before, interval)
    page.own_shape += shape_after - shape_before
    page.own_exposure += exposure_after - exposure_before


@inlined
def _remember(tables: Tables, row: int, status: int, changed: bool, shows: bool, fingerprint: int) -> None:
    """Keep what the next visit is to be compared with."""
    page = tables.pages[row]
    page.failures = 0
    page.flags |= np.uint8(VISITED)
    if is_success(status):
        page.flags |= np.uint8(SUCCEEDED)
        if changed:
            page.flags &= ~np.uint8(WITH_FINGERPRINT)  # of a content that is gone, unless renewed below
    else:
        page.flags &= ~np.uint8(SUCCEEDED)
    if shows:
        page.flags |= np.uint8(WITH_FINGERPRINT)
        tables.traces[row].fingerprint = fingerprint
